"""Rules: what a recorder makes of its trigger, and what each part of it has seen.

A rule is a latch. Once due it stays due, with its reason, until something is saved: so `&` may wait for its other half,
a throttle may hold back, and a save that failed is tried again at the next check. `clear` says that a checkpoint is on
its way, and gives out what has to be put back if it does not arrive.

All rules see one `Moment`, whose time never goes back: when the clock does, the moment stands still and goes on with it
from there. So no rule is silent for longer than it should be, and a clock that jumps ahead makes one save and no storm.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.recording import triggers
from holdfast.recording.events import matches
from holdfast.recording.triggers import Trigger

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint

Memento = Any
"""What `clear` took from a rule; of use to its `put_back` alone."""


class Moment:
    """What there is to see at one check."""

    __slots__ = ("_clock", "_raw", "beats", "before", "event", "last", "now", "state", "step")

    def __init__(self, clock: Callable[[], float], state: Callable[[], Mapping[str, Any]]) -> None:
        self._clock = clock
        self._raw = self.now = clock()
        self.state = state
        """Makes the mapping that predicates look into."""
        self.step: int | None = None
        """The step that is being checked; None where something else is."""
        self.before: int | None = None
        """The step that was checked before it; None where there was none, or steps began anew."""
        self.beats = 0
        self.event: str | None = None
        self.last: Checkpoint | None = None

    def pass_time(self) -> None:
        """Look at the clock."""
        raw = self._clock()
        # By how much it went back nobody can know: the time since the last look is left out.
        if raw > self._raw:
            self.now += raw - self._raw
        self._raw = raw


class Rule(Protocol):
    """One part of a trigger, with what it has seen."""

    reason: str | None
    """Why it is due; None where it is not."""

    def check(self, moment: Moment) -> str | None:
        """Look, and say why it is due."""

    def clear(self, moment: Moment) -> Memento:
        """Begin anew: what was due is being saved."""

    def put_back(self, memento: Memento) -> None:
        """Be as before: what was due could not be saved."""


class _Latch:
    """A rule whose reason is all that it remembers."""

    __slots__ = ("reason",)

    def __init__(self) -> None:
        self.reason: str | None = None

    def clear(self, moment: Moment) -> Memento:  # noqa: ARG002 - others need it
        reason, self.reason = self.reason, None
        return reason

    def put_back(self, memento: Memento) -> None:
        # What became due meanwhile is as good a reason.
        self.reason = self.reason or memento


class _Never(_Latch):
    __slots__ = ()

    def check(self, moment: Moment) -> str | None:  # noqa: ARG002 - as all rules are called
        return None


class _Steps(_Latch):
    __slots__ = ("_count",)

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count

    def check(self, moment: Moment) -> str | None:
        step = moment.step
        if step is not None:
            before = moment.before
            count = self._count
            if step % count == 0 if before is None else step // count > before // count:
                self.reason = "auto:step"
        return self.reason


class _Since(_Latch):
    """Due when something has grown by so much since the last save."""

    __slots__ = ("_base", "_span")

    def __init__(self, span: float, base: float) -> None:
        super().__init__()
        self._span = span
        self._base = base

    def put_back(self, memento: Memento) -> None:
        self.reason, self._base = self.reason or memento[0], min(memento[1], self._base)


class _Seconds(_Since):
    __slots__ = ()

    def check(self, moment: Moment) -> str | None:
        if moment.now - self._base >= self._span:
            self.reason = "scheduled"
        return self.reason

    def clear(self, moment: Moment) -> Memento:
        memento = self.reason, self._base
        self.reason, self._base = None, moment.now
        return memento


class _Beats(_Since):
    __slots__ = ()

    def check(self, moment: Moment) -> str | None:
        if moment.beats - self._base >= self._span:
            self.reason = "auto:beat"
        return self.reason

    def clear(self, moment: Moment) -> Memento:
        memento = self.reason, self._base
        self.reason, self._base = None, moment.beats
        return memento


class _On(_Latch):
    __slots__ = ("_pattern",)

    def __init__(self, pattern: str) -> None:
        super().__init__()
        self._pattern = pattern

    def check(self, moment: Moment) -> str | None:
        event = moment.event
        if event is not None and self.reason is None and matches(self._pattern, event):
            self.reason = f"auto:{event}"
        return self.reason


class _When(_Latch):
    __slots__ = ("_predicate",)

    def __init__(self, predicate: triggers.Predicate) -> None:
        super().__init__()
        self._predicate = predicate

    def check(self, moment: Moment) -> str | None:
        if self.reason is None and _ask(self._predicate, moment):
            self.reason = "auto:condition"
        return self.reason


class _Throttled:
    """Lets the reason of another rule through, at most once in so many seconds."""

    __slots__ = ("_free_at", "_rule", "_seconds", "reason")

    def __init__(self, rule: Rule, seconds: float) -> None:
        self._rule = rule
        self._seconds = seconds
        self._free_at: float | None = None
        self.reason: str | None = None

    def check(self, moment: Moment) -> str | None:
        held = self._rule.check(moment)
        if (
            held is not None
            and self.reason is None
            and (self._free_at is None or moment.now >= self._free_at)
        ):
            self.reason = held
            self._free_at = moment.now + self._seconds
        return self.reason

    def clear(self, moment: Moment) -> Memento:
        reason, self.reason = self.reason, None
        return reason, self._rule.clear(moment)

    def put_back(self, memento: Memento) -> None:
        self.reason = self.reason or memento[0]
        self._rule.put_back(memento[1])


class _Combined:
    """Several rules."""

    __slots__ = ("_rules", "reason")

    def __init__(self, rules: list[Rule]) -> None:
        self._rules = rules
        self.reason: str | None = None

    def clear(self, moment: Moment) -> Memento:
        reason, self.reason = self.reason, None
        return reason, [rule.clear(moment) for rule in self._rules]

    def put_back(self, memento: Memento) -> None:
        self.reason = self.reason or memento[0]
        for rule, part in zip(self._rules, memento[1], strict=True):
            rule.put_back(part)


class _AnyOf(_Combined):
    """Due as soon as one is. Predicates come last, and are asked only where nothing else is due."""

    __slots__ = ("_asking", "_cheap")

    def __init__(self, cheap: list[Rule], asking: list[Rule]) -> None:
        super().__init__(cheap + asking)
        self._cheap = cheap
        self._asking = asking

    def check(self, moment: Moment) -> str | None:
        due = self.reason
        for rule in self._cheap:
            # All of them look, also when one is due: if that save fails, none has missed anything.
            reason = rule.check(moment)
            if due is None:
                due = reason
        if due is None:
            for rule in self._asking:
                due = rule.check(moment)
                if due is not None:
                    break
        self.reason = due
        return due


class _AllOf(_Combined):
    """Due when all are. Its reason is that of the one that came last."""

    __slots__ = ()

    def check(self, moment: Moment) -> str | None:
        if self.reason is not None:
            return self.reason
        newest = None
        missing = False
        for rule in self._rules:
            known = rule.reason
            reason = rule.check(moment)
            if reason is None:
                missing = True
            elif known is None or newest is None:
                newest = reason
        if not missing:
            self.reason = newest
        return self.reason


def compile_trigger(trigger: Trigger, moment: Moment) -> Rule:  # noqa: PLR0911 - one for each kind
    """The rules for one recorder, which see nothing of what came before."""
    match trigger:
        case triggers.Steps(count):
            return _Steps(count)
        case triggers.Seconds(seconds):
            return _Seconds(seconds, moment.now)
        case triggers.Beats(count):
            return _Beats(count, moment.beats)
        case triggers.On(pattern):
            return _On(pattern)
        case triggers.When(predicate):
            return _When(predicate)
        case triggers.Throttled(inner, seconds):
            return _Throttled(compile_trigger(inner, moment), seconds)
        case triggers.AllOf(parts):
            return _AllOf([compile_trigger(part, moment) for part in parts])
        case triggers.AnyOf(parts):
            cheap = [compile_trigger(part, moment) for part in parts if not _asks(part)]
            asking = [compile_trigger(part, moment) for part in parts if _asks(part)]
            return _AnyOf(cheap, asking)
    return _Never()


def _asks(trigger: Trigger) -> bool:
    """Whether a predicate is somewhere in it."""
    match trigger:
        case triggers.When():
            return True
        case triggers.Throttled(inner, _):
            return _asks(inner)
        case triggers.AllOf(parts) | triggers.AnyOf(parts):
            return any(map(_asks, parts))
    return False


def _ask(predicate: triggers.Predicate, moment: Moment) -> bool:
    try:
        answer = predicate(moment.state(), moment.last)
        if not isinstance(answer, Awaitable):
            return bool(answer)
    except Exception as error:
        # Whatever it is, whoever asked is told: a trigger that is silent by mistake loses work.
        raise _failed(
            predicate,
            f"failed: {type(error).__name__}: {error}",
            "mend the predicate; it gets (state by source, last checkpoint or None) and says whether to save",
        ) from error
    if isinstance(answer, Coroutine):
        # Closed, so that nobody is warned of a coroutine that was never awaited: the error says it.
        answer.close()
    raise _failed(
        predicate,
        f"gave a {type(answer).__name__}, which has to be awaited, and not an answer",
        "make it a plain function: as an object a coroutine counts as true, and each check would save",
    )


def _failed(predicate: triggers.Predicate, what: str, hint: str) -> InvalidInputError:
    name = getattr(predicate, "__name__", repr(predicate))
    return InvalidInputError(
        f"the predicate {name} of when() {what}", code=ErrorCode.PREDICATE_FAILED, hint=hint, predicate=name
    )
