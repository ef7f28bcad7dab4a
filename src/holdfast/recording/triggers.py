"""Triggers: the rules that say when to save, as values that can be combined.

    every(steps=10) | every(seconds=300)
    on("hypothesis.confirmed") | every(seconds=300) & when(has_changed)
    on("code.modified").throttle(300)

A trigger is a value without any state: it may serve many recorders at once. What a recorder has seen is in the rules
that it makes of its trigger (`rules.py`), and what becomes due stays due until something is saved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.recording.events import check_pattern

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint

Predicate = Callable[[Mapping[str, Any], "Checkpoint | None"], Any]
"""What `when` takes: whether to save, given the state by source and the last checkpoint."""


class Trigger:
    """When to save. Made by `every`, `on`, `when` and `manual`; combined with `|`, `&` and `throttle`."""

    __slots__ = ()

    def __or__(self, other: Trigger) -> Trigger:
        """Due as soon as one of them is."""
        return _combined(AnyOf, self, other)

    def __and__(self, other: Trigger) -> Trigger:
        """Due when both have become due since the last save, in whatever order."""
        return _combined(AllOf, self, other)

    def throttle(self, seconds: float | timedelta) -> Trigger:
        """Due at most once in so many seconds. What comes sooner is held back until then, and not lost.

        Args:
            seconds: How many, or a timedelta.
        """
        return Throttled(self, _seconds(seconds, "throttle"))


@dataclass(frozen=True, slots=True, repr=False)
class Manual(Trigger):
    """Never due."""

    def __repr__(self) -> str:
        return "manual"


@dataclass(frozen=True, slots=True, repr=False)
class Steps(Trigger):
    """Due when a multiple of a number is reached or crossed."""

    count: int

    def __repr__(self) -> str:
        return f"every(steps={self.count})"


@dataclass(frozen=True, slots=True, repr=False)
class Beats(Trigger):
    """Due when so many beats have passed since the last save."""

    count: int

    def __repr__(self) -> str:
        return f"every(beats={self.count})"


@dataclass(frozen=True, slots=True, repr=False)
class Seconds(Trigger):
    """Due when so much time has passed since the last save."""

    seconds: float

    def __repr__(self) -> str:
        return f"every(seconds={self.seconds:g})"


@dataclass(frozen=True, slots=True, repr=False)
class On(Trigger):
    """Due when an event that fits a pattern was emitted."""

    pattern: str

    def __repr__(self) -> str:
        return f"on({self.pattern!r})"


@dataclass(frozen=True, slots=True, repr=False)
class When(Trigger):
    """Due when a predicate says so."""

    predicate: Predicate

    def __repr__(self) -> str:
        return f"when({getattr(self.predicate, '__name__', 'predicate')})"


@dataclass(frozen=True, slots=True, repr=False)
class Throttled(Trigger):
    """Another trigger, due at most once in so many seconds."""

    trigger: Trigger
    seconds: float

    def __repr__(self) -> str:
        return f"({self.trigger!r}).throttle({self.seconds:g})"


@dataclass(frozen=True, slots=True, repr=False)
class AnyOf(Trigger):
    """Due as soon as one of them is."""

    parts: tuple[Trigger, ...]

    def __repr__(self) -> str:
        return "(" + " | ".join(map(repr, self.parts)) + ")"


@dataclass(frozen=True, slots=True, repr=False)
class AllOf(Trigger):
    """Due when all have become due since the last save."""

    parts: tuple[Trigger, ...]

    def __repr__(self) -> str:
        return "(" + " & ".join(map(repr, self.parts)) + ")"


manual: Final = Manual()
"""Never by itself: only `save()` saves."""


def every(
    *, steps: int | None = None, seconds: float | timedelta | None = None, beats: int | None = None
) -> Trigger:
    """Save again and again. With more than one of them, whichever comes first.

    Args:
        steps: When a multiple of this is reached or crossed since the last check; 0 is one too.
        seconds: When so much time has passed since the last save, or since the recorder was made; also a timedelta.
        beats: When so many beats have passed since the last save.

    Raises:
        InvalidInputError: None is given, or one is not above 0.
    """
    parts: list[Trigger] = []
    if steps is not None:
        parts.append(Steps(_whole(steps, "steps")))
    if seconds is not None:
        parts.append(Seconds(_seconds(seconds, "every")))
    if beats is not None:
        parts.append(Beats(_whole(beats, "beats")))
    if not parts:
        raise InvalidInputError(
            "every() needs to know how often",
            code=ErrorCode.BAD_ARGUMENT,
            hint="pass steps=10, seconds=300 or beats=50; for saves by hand only, use manual",
        )
    return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))


def on(pattern: str) -> Trigger:
    """Save when an event is emitted through the recorder: `tool.completed`, all of `tool.*`, or `*`.

    That is `recorder.emit`. What is emitted on the bus itself, `recorder.events.emit`, is for subscribers alone: it may
    come from any thread, at a moment at which nothing can be captured.

    Raises:
        InvalidInputError: The pattern is none.
    """
    return On(check_pattern(pattern))


def when(predicate: Predicate) -> Trigger:
    """Save when `predicate(state, last)` is true; it is asked at every step, beat, tick and event.

    `state` is a mapping of the connected sources by name; only those that are looked at are captured. `last` is the
    last checkpoint, or None. While the answer stays true, each check saves: compare with `last`, or throttle it. An
    exception in it reaches the caller of the check as InvalidInputError (`predicate-failed`), with its cause.

    Raises:
        InvalidInputError: It cannot be called, or would have to be awaited.
    """
    from inspect import iscoroutinefunction

    if iscoroutinefunction(predicate) or iscoroutinefunction(getattr(predicate, "__call__", None)):  # noqa: B004
        raise InvalidInputError(
            f"when() needs a plain function, and {predicate!r:.60} is a coroutine function",
            code=ErrorCode.BAD_ARGUMENT,
            hint="make it a plain function: it is asked between two steps, with no await in between",
        )
    if not callable(predicate):
        raise InvalidInputError(
            f"when() needs a function, not {predicate!r:.60}",
            code=ErrorCode.BAD_ARGUMENT,
            hint="pass a function of (state, last checkpoint) that says whether to save",
        )
    return When(predicate)


def check_trigger_value(trigger: Trigger | None) -> Trigger:
    """Return `trigger` if it is one; None is `manual`."""
    if trigger is None:
        return manual
    if isinstance(trigger, Trigger):
        return trigger
    raise InvalidInputError(
        f"a trigger cannot be {trigger!r:.60}",
        code=ErrorCode.BAD_ARGUMENT,
        hint="use every(steps=10), on('tool.completed'), when(function) or manual",
    )


def _combined(kind: type[AnyOf | AllOf], one: Trigger, other: Trigger) -> Trigger:
    if not isinstance(other, Trigger):
        return NotImplemented
    parts: list[Trigger] = []
    for each in (one, other):
        parts += each.parts if isinstance(each, kind) else (each,)
    return kind(tuple(parts))


def _whole(value: object, name: str) -> int:
    # A bool is an int to Python, and a mistake here.
    if type(value) is int and value > 0:
        return value
    raise InvalidInputError(
        f"{name} must be a whole number above 0, not {value!r:.60}",
        code=ErrorCode.BAD_ARGUMENT,
        hint=f"pass {name}=10, say, or leave it out",
        argument=name,
    )


def _seconds(value: object, what: str) -> float:
    if isinstance(value, timedelta):
        value = value.total_seconds()
    # NaN is not above 0 either; infinity would be a way to say never.
    if type(value) in (int, float) and 0 < value < float("inf"):  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    raise InvalidInputError(
        f"the seconds of {what} must be a number above 0, not {value!r:.60}",
        code=ErrorCode.BAD_ARGUMENT,
        hint="pass 300 for five minutes, say",
        argument="seconds",
    )
