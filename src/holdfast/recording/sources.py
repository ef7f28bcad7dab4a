"""Sources: the live parts of an agent, each of which can be captured and restored.

A source is anything with `snapshot()`, which gives a value that can be saved, and `restore(value)`, which takes it
back. For things that have neither there are adapters: the fields of a dataclass or a pydantic model, some attributes of
any object, or a pair of functions. An adapter checks all of a value before it touches anything, in `prepare`, so that
what does not fit changes nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from typing import Any, Protocol, runtime_checkable

from holdfast.errors import ErrorCode, InvalidInputError, StateError
from holdfast.objects.codec.pydantic_models import is_model


@runtime_checkable
class Source(Protocol):
    """A live part of an agent."""

    def snapshot(self) -> Any:
        """Give its state as a value that can be saved. It is encoded at once: nothing has to be copied."""

    def restore(self, value: Any) -> Any:
        """Take back what `snapshot` gave once. It may be a coroutine function where an AsyncRecorder restores."""


class Adapter:
    """A source that other things are made into: some attributes of an object, as a dict by name."""

    def __init__(self, target: Any, names: tuple[str, ...]) -> None:
        self._target = target
        self._names = names

    def snapshot(self) -> dict[str, Any]:
        """All of them as they are now."""
        target = self._target
        return {name: getattr(target, name) for name in self._names}

    def prepare(self, value: Any) -> Any:
        """What to set each attribute to; nothing is touched.

        Raises:
            StateError: The value does not fit.
        """
        if not isinstance(value, Mapping):
            raise _does_not_fit(self._target, f"it was saved as {type(value).__name__}, not as attributes")
        # What is not in the value was added since, and keeps what it is; what nobody can take would be lost.
        unknown = [name for name in value if name not in self._names]
        if unknown:
            raise _does_not_fit(self._target, f"nothing takes {', '.join(map(repr, unknown))}")
        return value

    def restore(self, value: Any) -> None:
        """Set them."""
        for name, content in self.prepare(value).items():
            setattr(self._target, name, content)


class _Model(Adapter):
    """A pydantic model: restored with the validation of its class."""

    def prepare(self, value: Any) -> Any:
        value = super().prepare(value)
        cls = type(self._target)
        try:
            # Validated as a whole, together with what has been added since: only then is the model touched.
            whole = cls.model_validate({**self.snapshot(), **value})
        except ValueError as error:
            raise _does_not_fit(self._target, str(error)) from error
        return {name: getattr(whole, name) for name in value}

    def restore(self, value: Any) -> None:
        for name, content in self.prepare(value).items():
            # Not by assignment: that validates one field at a time, against others that are not restored yet.
            self._target.__dict__[name] = content
            self._target.__pydantic_fields_set__.add(name)


class _Functions:
    """A function that gives the state, and one that takes it back."""

    def __init__(self, capture: Callable[[], Any], apply: Callable[[Any], Any]) -> None:
        self.snapshot = capture
        self.restore = apply


def attributes(target: Any, *names: str) -> Source:
    """A source made of some attributes of an object: `attributes(agent, "goals", "mood")`.

    Raises:
        InvalidInputError: No name is given, or the object has no such attribute.
    """
    if not names:
        raise _bad("attributes() needs the names of attributes", 'write attributes(agent, "goals", "mood")')
    for name in names:
        if type(name) is not str or not hasattr(target, name):
            raise _bad(
                f"{type(target).__name__} has no attribute {name!r:.60}", "name attributes that it has"
            )
    return Adapter(target, tuple(dict.fromkeys(names)))


def functions(capture: Callable[[], Any], apply: Callable[[Any], Any]) -> Source:
    """A source made of two functions: one that gives the state, one that takes it back.

    Raises:
        InvalidInputError: One of them cannot be called.
    """
    if not all(map(callable, (capture, apply))):
        raise _bad("functions() needs two functions", "pass capture() and apply(value)")
    return _Functions(capture, apply)


def source_of(thing: Any, *, can_await: bool = False) -> Source:
    """The source that a thing is, or the adapter that makes it one.

    Args:
        thing: Something with snapshot and restore, an instance of a dataclass or of a pydantic model.
        can_await: Whether restore may be a coroutine function.

    Raises:
        InvalidInputError: It is nothing of the kind.
    """
    source = _adapted(thing)
    if inspect.iscoroutinefunction(source.snapshot):
        raise _bad(
            f"snapshot of {type(thing).__name__} is a coroutine function",
            "make it a plain function: all sources are captured at one moment, with no await between them",
        )
    if not can_await and inspect.iscoroutinefunction(source.restore):
        raise _bad(
            f"restore of {type(thing).__name__} is a coroutine function",
            "connect it to an AsyncRecorder, or make it a plain function",
        )
    return source


def _adapted(thing: Any) -> Source:
    if isinstance(thing, type):
        raise _bad(f"{thing.__name__} is a class", "connect an instance of it")
    if callable(getattr(thing, "snapshot", None)) and callable(getattr(thing, "restore", None)):
        source: Source = thing
        return source
    if is_dataclass(thing):
        parameters: Any = getattr(thing, "__dataclass_params__", None)
        if parameters.frozen:
            raise _bad(
                f"{type(thing).__name__} is a frozen dataclass: nothing can be restored into it",
                "keep it in an attribute of another object, and connect attributes(that, name)",
            )
        return Adapter(thing, tuple(each.name for each in dataclass_fields(thing)))
    if is_model(type(thing)):
        if type(thing).model_config.get("frozen"):
            raise _bad(
                f"{type(thing).__name__} is a frozen pydantic model: nothing can be restored into it",
                "keep it in an attribute of another object, and connect attributes(that, name)",
            )
        return _Model(thing, tuple(type(thing).__pydantic_fields__))
    raise _bad(
        f"{type(thing).__name__} cannot be a source",
        "connect something with snapshot() and restore(value), an instance of a dataclass or of a pydantic model, "
        "attributes(object, 'a', 'b'), or functions(capture, apply)",
    )


def _does_not_fit(target: Any, why: str) -> StateError:
    return StateError(
        f"what was saved does not fit {type(target).__name__}: {why}",
        code=ErrorCode.TYPE_MISMATCH,
        hint="give the source a snapshot() and restore(value) of its own that knows older states",
    )


def _bad(message: str, hint: str) -> InvalidInputError:
    return InvalidInputError(message, code=ErrorCode.BAD_ARGUMENT, hint=hint)
