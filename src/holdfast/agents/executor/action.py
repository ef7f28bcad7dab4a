"""Actions: the ordinary functions that do the steps of a plan.

`@action` notes how a function is to be run and gives it back unchanged, so that it stays typed and testable. An action
is found by its name: a decorated function, one of a mapping that the Executor is given, `module:function`, or `shell`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Final, Literal, TypeVar, overload

from holdfast.agents.executor.context import StepContext
from holdfast.agents.executor.shell import shell
from holdfast.errors import ErrorCode, InvalidInputError, shown

F = TypeVar("F", bound=Callable[..., Any])

Effect = Literal["at_least_once", "at_most_once"]
OnFailure = Literal["stop", "skip", "continue"]

EFFECTS: Final = ("at_least_once", "at_most_once")
FAILURE_POLICIES: Final = ("stop", "skip", "continue")
_MARK: Final = "__holdfast_action__"
_MAX_RETRIES: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How an action is run; a step of a plan may say otherwise for itself.

    Attributes:
        retries: How often it is tried again after it failed.
        backoff: Seconds before the first retry; twice as long before each further one, less a random part.
        max_backoff: The longest wait.
        timeout: Seconds that one attempt may take.
        effect: What it does to the world outside: `at_least_once` may happen again after a crash, `at_most_once` never
            does: a person is asked. None: nothing that anybody would have to know about.
        idempotent: Running it twice does no harm: its start is not written down, which is faster.
        approve: A person has to agree before it runs.
        expires: Seconds for which a request for approval can be answered.
        on_failure: `stop` ends the execution, `skip` leaves out the dependents and fails at the end, `continue` leaves
            them out and does not count as a failure. None: as the Executor says.
        version: Raise it when the function does something else: results of other versions are not taken for its own.
    """

    retries: int = 0
    backoff: float = 1.0
    max_backoff: float = 60.0
    timeout: float | None = None
    effect: Effect | None = None
    idempotent: bool = False
    approve: bool = False
    expires: float | None = None
    on_failure: OnFailure | None = None
    version: int = 1

    def problems(self) -> list[str]:
        """What is wrong with them, each in a few words."""
        found = []
        if type(self.retries) is not int or not 0 <= self.retries <= _MAX_RETRIES:
            found.append(f"retries must be a whole number from 0, not {shown(self.retries)}")
        found += [
            f"{name} must be a number of seconds from 0, not {shown(value)}"
            for name, value in (("backoff", self.backoff), ("max_backoff", self.max_backoff))
            if not _is_seconds(value, zero=True)
        ]
        found += [
            f"{name} must be a number of seconds above 0, not {shown(value)}"
            for name, value in (("timeout", self.timeout), ("expires", self.expires))
            if value is not None and not _is_seconds(value, zero=False)
        ]
        if self.effect not in (None, *EFFECTS):
            found.append(f"effect must be one of {', '.join(EFFECTS)}, not {shown(self.effect)}")
        if self.on_failure not in (None, *FAILURE_POLICIES):
            found.append(
                f"on_failure must be one of {', '.join(FAILURE_POLICIES)}, not {shown(self.on_failure)}"
            )
        found += [
            f"{name} must be true or false, not {shown(value)}"
            for name in ("idempotent", "approve")
            for value in [getattr(self, name)]
            if type(value) is not bool
        ]
        if self.idempotent and self.effect == "at_most_once":
            found.append("what is idempotent may run twice: it cannot be at_most_once")
        if type(self.version) is not int:
            found.append(f"version must be a whole number, not {shown(self.version)}")
        return found


OPTION_NAMES: Final = tuple(each.name for each in fields(Options))


@dataclass(frozen=True, slots=True)
class Action:
    """A function with its name, its options, and the errors after which it is not tried again."""

    name: str
    function: Callable[..., Any]
    options: Options
    give_up_on: tuple[type[BaseException], ...] = ()

    @property
    def reference(self) -> str:
        """Where the function is: `module:function`."""
        return reference(self.function)


SHELL: Final = Action("shell", shell, Options(effect="at_least_once"))

_DECORATED: dict[str, dict[str, Action]] = {}
"""By name, then by place: two modules may have an action of the same name."""


@overload
def action(function: F, /) -> F: ...
@overload
def action(
    *,
    name: str | None = None,
    retries: int = 0,
    backoff: float = 1.0,
    max_backoff: float = 60.0,
    timeout: float | None = None,
    effect: Effect | None = None,
    idempotent: bool = False,
    approve: bool = False,
    expires: float | None = None,
    on_failure: OnFailure | None = None,
    give_up_on: tuple[type[BaseException], ...] = (),
    version: int = 1,
) -> Callable[[F], F]: ...
def action(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    give_up_on: tuple[type[BaseException], ...] = (),
    **options: Any,
) -> Any:
    """Make a function an action of plans; it stays the function that it is.

        @action(retries=3, timeout=60)
        def search(topic: str) -> list[str]: ...

    A keyword-only parameter `key` is given the idempotency key of the step, the same over all attempts; one that is
    annotated with `StepContext` is given that.

    Args:
        function: The function, where the decorator is used without arguments.
        name: What plans call it; the name of the function otherwise.
        give_up_on: Errors after which it is not tried again.
        options: See `Options`: retries, backoff, max_backoff, timeout, effect, idempotent, approve, expires,
            on_failure, version.

    Raises:
        InvalidInputError: An option cannot be used.
    """

    def mark(decorated: Any) -> Any:
        try:
            chosen = Options(**options)
        except TypeError as error:
            raise _bad_action(decorated, str(error).partition("() ")[2]) from error
        if problems := chosen.problems():
            raise _bad_action(decorated, problems[0])
        made = Action(name or decorated.__name__, decorated, chosen, tuple(give_up_on))
        setattr(decorated, _MARK, made)
        _DECORATED.setdefault(made.name, {})[made.reference] = made
        return decorated

    return mark if function is None else mark(function)


def as_action(function: Callable[..., Any]) -> Action:
    """The action that a function is: as it was decorated, or with the usual options."""
    if not callable(function):
        raise InvalidInputError(
            f"an action cannot be {shown(function)}",
            code=ErrorCode.BAD_PLAN,
            hint="pass a function; holdfast.action says how it is run",
        )
    marked = getattr(function, _MARK, None)
    if isinstance(marked, Action):
        return marked
    place = reference(function)
    importable = "<" not in place and "__main__" not in place
    return Action(place if importable else getattr(function, "__name__", place), function, Options())


def find_action(name: str, own: Mapping[str, Callable[..., Any]]) -> Action:
    """The action that a plan calls by this name.

    Args:
        name: One of `own`, `shell`, the name of a decorated function, or `module:function`.
        own: The mapping that the Executor was given.

    Raises:
        InvalidInputError: There is none (`bad-plan`).
    """
    if name in own:
        found = as_action(own[name])
        return Action(name, found.function, found.options, found.give_up_on)
    if name == "shell":
        return SHELL
    if decorated := _DECORATED.get(name):
        if len(decorated) == 1:
            return next(iter(decorated.values()))
        raise InvalidInputError(
            f"there are {len(decorated)} actions called {name!r}: {', '.join(sorted(decorated))}",
            code=ErrorCode.BAD_PLAN,
            hint="write module:function, or give the Executor actions={name: function}",
        )
    module, colon, attribute = name.partition(":")
    if colon and module and attribute:
        return as_action(_imported(name, module, attribute))
    from holdfast.settings.near import close_names, did_you_mean

    near = close_names(name, [*own, *_DECORATED, "shell"])
    raise InvalidInputError(
        f"there is no action {name!r:.80}",
        code=ErrorCode.BAD_PLAN,
        hint=did_you_mean(near)
        or "decorate a function with @action, write module:function, or pass actions={...}",
        candidates=near,
    )


def reference(function: Callable[..., Any]) -> str:
    """Where a function is, as `module:function`."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{getattr(function, '__module__', None) or type(function).__module__}:{name}"


class Parameters:
    """The parameters of a function, and those that the executor fills in."""

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            self._signature: inspect.Signature | None = inspect.signature(function)
        except (TypeError, ValueError):
            # Some functions of C say nothing of their parameters; then everything fits.
            self._signature = None
        known = () if self._signature is None else self._signature.parameters.values()
        self.key = next(
            (each.name for each in known if each.name == "key" and each.kind is each.KEYWORD_ONLY), None
        )
        self.context = next((each.name for each in known if _takes_context(each)), None)

    def named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call, each by the name of its parameter.

        Raises:
            TypeError: The function takes no such arguments.
        """
        if self._signature is None:
            if args:
                raise TypeError("this function does not tell the names of its parameters: pass them by name")
            return dict(kwargs)
        bound = self._signature.bind_partial(*args, **kwargs).arguments
        named: dict[str, Any] = {}
        for name, value in bound.items():
            if self._signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                named.update(value)
            else:
                named[name] = list(value) if self._is_star(name) else value
        return named

    def call(self, named: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments for these parameters."""
        args: list[Any] = []
        rest = dict(named)
        for each in () if self._signature is None else self._signature.parameters.values():
            if each.kind is each.POSITIONAL_ONLY and each.name in rest:
                args.append(rest.pop(each.name))
            elif each.kind is each.VAR_POSITIONAL and rest.get(each.name):
                # What comes before *args has to be given by its place, too.
                before = [name for name in self._positional() if name in rest]
                args += [rest.pop(name) for name in before]
                args += rest.pop(each.name)
            elif each.kind is each.VAR_POSITIONAL:
                rest.pop(each.name, None)
        return args, rest

    def problem(self, named: Mapping[str, Any]) -> str | None:
        """Why these parameters do not fit the function; None if they do."""
        if self._signature is None:
            return None
        given = dict(named)
        for injected in (self.key, self.context):
            if injected is not None:
                given.setdefault(injected, None)
        star = next((name for name in self._signature.parameters if self._is_star(name)), None)
        if star in given and not isinstance(given[star], list | tuple):
            return f"{star} takes a list"
        try:
            args, kwargs = self.call(given)
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            return str(error)
        return None

    def _positional(self) -> list[str]:
        assert self._signature is not None
        known = self._signature.parameters.values()
        return [each.name for each in known if each.kind is each.POSITIONAL_OR_KEYWORD]

    def _is_star(self, name: str) -> bool:
        assert self._signature is not None
        return self._signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL


@lru_cache(maxsize=1024)
def parameters_of(function: Callable[..., Any]) -> Parameters:
    """The parameters of a function; looked at once."""
    return Parameters(function)


def _takes_context(parameter: inspect.Parameter) -> bool:
    annotation = parameter.annotation
    if isinstance(annotation, str):
        # Written out as text where annotations are not evaluated.
        return annotation.rpartition(".")[2].removesuffix(" | None") == "StepContext"
    return annotation is StepContext


def _imported(name: str, module: str, attribute: str) -> Callable[..., Any]:
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise InvalidInputError(
            f"the action {name!r:.80} cannot be imported: {error}",
            code=ErrorCode.BAD_PLAN,
            hint="name a module that Python finds from here, a colon, and a function in it",
        ) from error
    function: Callable[..., Any] = found
    return function


def _is_seconds(value: object, *, zero: bool) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return (value >= 0 if zero else value > 0) and value < 10**9


def _bad_action(function: Any, why: str) -> InvalidInputError:
    return InvalidInputError(
        f"the action {getattr(function, '__name__', function)!s:.80}: {why}",
        code=ErrorCode.BAD_ARGUMENT,
        hint="help(holdfast.action) lists the options",
    )
