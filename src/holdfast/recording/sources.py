"""Sources: the live parts of an agent, each of which can be captured and restored.

A source is anything with `snapshot()`, which gives a value that can be saved, and `restore(value)`, which takes it
back. For things that have neither there are adapters: the fields of a dataclass or a pydantic model, some attributes of
any object, or a pair of functions. An adapter checks all of a value before it touches anything, in `prepare`, so that
what does not fit changes nothing.

`Sources` has those of one recorder, in order. All snapshots are taken one right after the other, and become bytes
before anybody else gets to run. A source that cannot be captured, or whose value cannot be encoded, does not stop the
save: what was stored of it last goes into the new checkpoint again. So does what is stored of one that could not take
its state back, or that is declared but not there, until a resume gives it back.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from typing import Any, Protocol, runtime_checkable

from holdfast.errors import ErrorCode, InvalidInputError, StateError, bad_argument
from holdfast.history.names import check_label
from holdfast.objects.codec.pydantic_models import is_model
from holdfast.record import Record


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
        raise bad_argument(
            "attributes() needs the names of attributes", 'write attributes(agent, "goals", "mood")'
        )
    for name in names:
        if type(name) is not str or not hasattr(target, name):
            raise bad_argument(
                f"{type(target).__name__} has no attribute {name!r:.60}", "name attributes that it has"
            )
    return Adapter(target, tuple(dict.fromkeys(names)))


def functions(capture: Callable[[], Any], apply: Callable[[Any], Any]) -> Source:
    """A source made of two functions: one that gives the state, one that takes it back.

    Raises:
        InvalidInputError: One of them cannot be called.
    """
    if not all(map(callable, (capture, apply))):
        raise bad_argument("functions() needs two functions", "pass capture() and apply(value)")
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
        raise bad_argument(
            f"snapshot of {type(thing).__name__} is a coroutine function",
            "make it a plain function: all sources are captured at one moment, with no await between them",
        )
    if not can_await and inspect.iscoroutinefunction(source.restore):
        raise bad_argument(
            f"restore of {type(thing).__name__} is a coroutine function",
            "connect it to an AsyncRecorder, or make it a plain function",
        )
    return source


def _adapted(thing: Any) -> Source:
    if isinstance(thing, type):
        raise bad_argument(f"{thing.__name__} is a class", "connect an instance of it")
    if callable(getattr(thing, "snapshot", None)) and callable(getattr(thing, "restore", None)):
        source: Source = thing
        return source
    if is_dataclass(thing):
        parameters: Any = getattr(thing, "__dataclass_params__", None)
        if parameters.frozen:
            raise bad_argument(
                f"{type(thing).__name__} is a frozen dataclass: nothing can be restored into it",
                "keep it in an attribute of another object, and connect attributes(that, name)",
            )
        return Adapter(thing, tuple(each.name for each in dataclass_fields(thing)))
    if is_model(type(thing)):
        if type(thing).model_config.get("frozen"):
            raise bad_argument(
                f"{type(thing).__name__} is a frozen pydantic model: nothing can be restored into it",
                "keep it in an attribute of another object, and connect attributes(that, name)",
            )
        return _Model(thing, tuple(type(thing).__pydantic_fields__))
    raise bad_argument(
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


class Captured(Record):
    """The state of all sources at one moment."""

    state: dict[str, Any]
    failures: dict[str, str]
    """Sources that could not be captured now, and why."""
    uncaptured: tuple[str, ...]
    """Those, and the ones that could not be restored: what is in the state for them is older."""


class Sources:
    """The connected sources of one recorder.

    Args:
        can_await: Whether `restore` of a source may be a coroutine function.
        stored: Reads what was saved last, by source, each time anew.
    """

    def __init__(self, *, can_await: bool, stored: Callable[[], Mapping[str, Any]]) -> None:
        self._can_await = can_await
        self._stored = stored
        self._sources: dict[str, Source | None] = {}
        self._fields: dict[str, Callable[[], Mapping[str, Any]] | None] = {}
        self._carried: dict[str, Any] = {}
        """Stored values of sources that are absent, or did not take them; without types."""
        self._waiting: set[str] = set()
        """Those that did not take their state: their own snapshots do not count yet."""
        self._fallback: dict[str, Any] = {}
        """Stored values of sources that could not be captured last time."""
        self._looked_up: set[str] = set()

    def connect(self, name: str, source: Any, *, optional: bool) -> None:
        """Add a source behind the others; one that was absent takes its place again."""
        check_label(name, "source")
        if self._sources.get(name) is not None:
            raise InvalidInputError(
                f"there is a source {name!r} already",
                code=ErrorCode.BAD_NAME,
                hint="give each source a name of its own, or disconnect() the other one first",
                name=name,
            )
        if source is None and not optional:
            raise bad_argument(
                f"source {name!r} is None",
                "connect an object, or say optional=True: then what was stored of it is carried forward",
                name=name,
            )
        self._sources[name] = None if source is None else source_of(source, can_await=self._can_await)
        self._fields[name] = getattr(source, "checkpoint_fields", None)
        if source is not None and name in self._carried:
            # It was absent, and has not got what is stored of it: until it resumes, that goes first.
            self._waiting.add(name)

    def disconnect(self, name: str) -> None:
        """Remove a source; what is carried for it goes as well."""
        if name not in self._sources:
            raise InvalidInputError(
                f"there is no source {name!r}",
                code=ErrorCode.BAD_NAME,
                hint=f"connected are: {', '.join(self._sources) or 'none'}",
                name=name,
            )
        for each in (self._sources, self._fields, self._fallback, self._carried):
            each.pop(name, None)
        self._waiting.discard(name)
        self._looked_up.discard(name)

    def carry(self, values: Mapping[str, Any], failed: frozenset[str]) -> None:
        """After a resume: carry exactly these. Those that failed have live sources, whose snapshots do not count."""
        self._carried = dict(values)
        self._waiting = set(failed)
        self._fallback.clear()
        self._looked_up = set(self._sources)

    def items(self) -> Iterator[tuple[str, Source | None]]:
        """All of them, in order."""
        return iter(tuple(self._sources.items()))

    def names(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(self._sources)

    def capture(self) -> Captured:
        """Take all snapshots, with nothing in between.

        Raises:
            InvalidInputError: There is no source.
            StateError: All of them failed (`sources-failed`).
        """
        if not self._sources:
            raise bad_argument(
                "there is nothing to save: no source is connected",
                'connect one: recorder.connect("agent", agent)',
            )
        state: dict[str, Any] = {}
        failures: dict[str, str] = {}
        for name, source in self._sources.items():
            if name in self._carried:
                state[name] = self._carried[name]
            elif source is not None:
                try:
                    state[name] = source.snapshot()
                    self._fallback.pop(name, None)
                except Exception as error:  # noqa: BLE001 - the application's own code: the save goes on without it
                    failures[name] = f"{type(error).__name__}: {error}"
        return self._completed(state, failures)

    def without(self, captured: Captured, refused: Mapping[str, str]) -> Captured:
        """The same moment, where some of the snapshots turned out to be of no use.

        Raises:
            StateError: No other was captured (`sources-failed`).
        """
        failures = {**captured.failures, **refused}
        return self._completed(
            {name: value for name, value in captured.state.items() if name not in failures}, failures
        )

    def described(self) -> dict[str, Any]:
        """What sources with `checkpoint_fields` say of themselves: step, status, cost and metadata."""
        found: dict[str, Any] = {"metadata": {}}
        for fields in self._fields.values():
            if callable(fields):
                said = dict(fields())
                found["metadata"].update(said.pop("metadata", None) or {})
                found.update(said)
        return found

    def view(self) -> Mapping[str, Any]:
        """The state as a mapping that captures only what is looked at."""
        return _View(self._sources, self._carried)

    def _completed(self, state: dict[str, Any], failures: dict[str, str]) -> Captured:
        """The same with what was stored last of those that are missing, in the order of the sources."""
        if failures and not state:
            said = "; ".join(f"{name}: {why}" for name, why in failures.items())
            raise StateError(
                f"no source could be captured: {said}",
                code=ErrorCode.SOURCES_FAILED,
                hint="nothing was saved; see what their snapshot() raises",
                sources=list(failures),
            )
        absent = {name for name, source in self._sources.items() if source is None and name not in state}
        if (failures.keys() - self._fallback.keys()) | (absent - self._looked_up):
            found = self._stored()
            self._looked_up |= absent
            self._fallback |= {name: found[name] for name in failures if name in found}
            self._carried |= {name: found[name] for name in absent if name in found}
        known = {name: self._fallback[name] for name in failures if name in self._fallback}
        whole = {**self._carried, **known, **state}
        ordered = {name: whole[name] for name in self._sources if name in whole}
        waiting = (name for name in self._sources if name in failures or name in self._waiting)
        return Captured(ordered, failures, tuple(waiting))


class _View(Mapping[str, Any]):
    """What a predicate sees: each source is captured when it is first looked at."""

    __slots__ = ("_carried", "_seen", "_sources")

    def __init__(self, sources: Mapping[str, Source | None], carried: Mapping[str, Any]) -> None:
        self._sources = sources
        self._carried = carried
        self._seen: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name in self._carried:
            return self._carried[name]
        if name not in self._seen:
            source = self._sources[name]
            if source is None:
                raise KeyError(name)
            self._seen[name] = source.snapshot()
        return self._seen[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name, source in self._sources.items() if source is not None or name in self._carried)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def restore_now(source: Source, value: Any) -> None:
    """Restore a source where nothing can be awaited.

    Raises:
        InvalidInputError: It has to be awaited.
    """
    came = source.restore(value)
    if isinstance(came, Coroutine):
        # Closed, so that nobody is warned of a coroutine that was never awaited: the error says it.
        came.close()
    if isinstance(came, Awaitable):
        raise bad_argument("its restore has to be awaited", "use an AsyncRecorder")
