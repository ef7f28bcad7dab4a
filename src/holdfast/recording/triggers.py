"""Triggers: the rules that say when to save, as values that can be combined.

    every(steps=10) | every(seconds=300)
    on("hypothesis.confirmed") | every(seconds=300) & when(has_changed)
    on("code.modified").throttle(300)

A trigger is a value without any state: it may serve many recorders at once. A recorder makes a `Rule` of it, which is a
latch: once due it stays due until something is saved, so that `&` may wait for its other half, a throttle may hold
back, and a save that failed is tried again at the next check.

All rules see one `Moment`, whose time never goes back: when the clock does, the moment stands still and goes on with it
from there. So no rule is silent for longer than it should be, and a clock that jumps ahead makes one save and no storm.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import ErrorCode, InvalidInputError, bad_argument
from holdfast.recording.events import check_pattern, matches

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.history.keep import Keep
    from holdfast.settings.settings import Settings

Predicate = Callable[[Mapping[str, Any], "Checkpoint | None"], Any]
"""What `when` takes: whether to save, given the state by source and the last checkpoint."""


class Trigger:
    """When to save. Made by `every`, `on`, `when` and `manual`; combined with `|`, `&` and `throttle`."""

    __slots__ = ()
    _form = ""
    """How it is written, by its own fields."""

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

    def __repr__(self) -> str:
        return self._form.format(self, getattr(getattr(self, "predicate", None), "__name__", "predicate"))


@dataclass(frozen=True, slots=True, repr=False)
class Manual(Trigger):
    """Never due."""

    _form = "manual"


@dataclass(frozen=True, slots=True, repr=False)
class Steps(Trigger):
    """Due when a multiple of a number is reached or crossed."""

    count: int
    _form = "every(steps={0.count})"


@dataclass(frozen=True, slots=True, repr=False)
class Beats(Trigger):
    """Due when so many beats have passed since the last save."""

    count: int
    _form = "every(beats={0.count})"


@dataclass(frozen=True, slots=True, repr=False)
class Seconds(Trigger):
    """Due when so much time has passed since the last save."""

    seconds: float
    _form = "every(seconds={0.seconds:g})"


@dataclass(frozen=True, slots=True, repr=False)
class On(Trigger):
    """Due when an event that fits a pattern was emitted."""

    pattern: str
    _form = "on({0.pattern!r})"


@dataclass(frozen=True, slots=True, repr=False)
class When(Trigger):
    """Due when a predicate says so."""

    predicate: Predicate
    _form = "when({1})"


@dataclass(frozen=True, slots=True, repr=False)
class Throttled(Trigger):
    """Another trigger, due at most once in so many seconds."""

    trigger: Trigger
    seconds: float
    _form = "({0.trigger!r}).throttle({0.seconds:g})"


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
        raise bad_argument(
            "every() needs to know how often",
            "pass steps=10, seconds=300 or beats=50; for saves by hand only, use manual",
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
        raise bad_argument(
            f"when() needs a plain function, and {predicate!r:.60} is a coroutine function",
            "make it a plain function: it is asked between two steps, with no await in between",
        )
    if not callable(predicate):
        raise bad_argument(
            f"when() needs a function, not {predicate!r:.60}",
            "pass a function of (state, last checkpoint) that says whether to save",
        )
    return When(predicate)


def check_trigger_value(trigger: Trigger | None) -> Trigger:
    """Return `trigger` if it is one; None is `manual`."""
    if trigger is None:
        return manual
    if isinstance(trigger, Trigger):
        return trigger
    raise bad_argument(
        f"a trigger cannot be {trigger!r:.60}",
        "use every(steps=10), on('tool.completed'), when(function) or manual",
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
    raise bad_argument(
        f"{name} must be a whole number above 0, not {value!r:.60}",
        f"pass {name}=10, say, or leave it out",
        argument=name,
    )


def _seconds(value: object, what: str) -> float:
    if isinstance(value, timedelta):
        value = value.total_seconds()
    # NaN is not above 0 either; infinity would be a way to say never.
    if type(value) in (int, float) and 0 < value < float("inf"):  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    raise bad_argument(
        f"the seconds of {what} must be a number above 0, not {value!r:.60}",
        "pass 300 for five minutes, say",
        argument="seconds",
    )


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


Memento = tuple[str | None, float, list[Any]]
"""What `Rule.clear` took away; of use to its `put_back` alone."""


class Rule:
    """A part of a trigger with what one recorder has seen of it.

    Args:
        look: Says why it is due now, given the rule and the moment; None where it is not.
        parts: The rules that it is made of.
        count: What has to have grown since the last save, where it waits for that.
        moment: Where that counts from.

    Attributes:
        reason: Why it is due, and since it was cleared last; None where it is not.
    """

    __slots__ = ("_count", "_look", "base", "parts", "reason")

    def __init__(
        self,
        look: Callable[[Rule, Moment], str | None],
        parts: tuple[Rule, ...] = (),
        count: Callable[[Moment], float] = lambda _: 0,
        moment: Moment | None = None,
    ) -> None:
        self.reason: str | None = None
        self.parts = parts
        self.base = 0.0 if moment is None else count(moment)
        self._look = look
        self._count = count

    def check(self, moment: Moment) -> str | None:
        """Look, and say why it is due."""
        if self.reason is None:
            self.reason = self._look(self, moment)
        return self.reason

    def clear(self, moment: Moment) -> Memento:
        """Begin anew: what was due is being saved."""
        memento = self.reason, self.base, [part.clear(moment) for part in self.parts]
        self.reason, self.base = None, self._count(moment)
        return memento

    def put_back(self, memento: Memento) -> None:
        """Be as before: what was due could not be saved. What became due meanwhile is as good a reason."""
        reason, base, parts = memento
        self.reason, self.base = self.reason or reason, min(base, self.base)
        for part, of_part in zip(self.parts, parts, strict=True):
            part.put_back(of_part)


class _AnyOf(Rule):
    """Due as soon as one is. Predicates come last, and are asked only where nothing else is due."""

    __slots__ = ("_asking",)

    def __init__(self, cheap: tuple[Rule, ...], asking: tuple[Rule, ...]) -> None:
        super().__init__(_never, cheap + asking)
        self._asking = asking

    def check(self, moment: Moment) -> str | None:
        due = self.reason
        for rule in self.parts:
            # All of them look, also when one is due: if that save fails, none has missed anything.
            if due is None or rule not in self._asking:
                reason = rule.check(moment)
                due = due or reason
        self.reason = due
        return due


def compile_trigger(trigger: Trigger, moment: Moment) -> Rule:  # noqa: PLR0911 - one for each kind
    """The rules for one recorder, which see nothing of what came before."""
    match trigger:
        case Steps(count):
            return Rule(lambda _, now: "auto:step" if _has_crossed(now, count) else None)
        case Seconds(span):
            return _since(span, lambda now: now.now, "scheduled", moment)
        case Beats(count):
            return _since(count, lambda now: now.beats, "auto:beat", moment)
        case On(pattern):
            return Rule(
                lambda _, now: f"auto:{now.event}" if now.event and matches(pattern, now.event) else None
            )
        case When(predicate):
            return Rule(lambda _, now: "auto:condition" if _ask(predicate, now) else None)
        case Throttled(inner, seconds):
            return _throttled(compile_trigger(inner, moment), seconds)
        case AllOf(parts):
            return Rule(_all_due, tuple(compile_trigger(part, moment) for part in parts))
        case AnyOf(parts):
            # A predicate inside of another trigger is asked with it: that must not miss an event.
            rules = [(isinstance(part, When), compile_trigger(part, moment)) for part in parts]
            return _AnyOf(
                tuple(rule for asks, rule in rules if not asks), tuple(rule for asks, rule in rules if asks)
            )
    return Rule(_never)


def _never(_rule: Rule, _moment: Moment) -> None:
    """A rule that is never due by itself."""


def _has_crossed(moment: Moment, every: int) -> bool:
    step, before = moment.step, moment.before
    if step is None:
        return False
    return step % every == 0 if before is None else step // every > before // every


def _since(span: float, count: Callable[[Moment], float], said: str, moment: Moment) -> Rule:
    """Due when the beats or the time have grown by so much since the last save."""
    return Rule(
        lambda rule, now: said if count(now) - rule.base >= span else None, count=count, moment=moment
    )


def _throttled(held: Rule, seconds: float) -> Rule:
    """Lets the reason of another rule through, at most once in so many seconds."""
    free_at = float("-inf")

    def look(_: Rule, moment: Moment) -> str | None:
        nonlocal free_at
        reason = held.check(moment)
        if reason is None or moment.now < free_at:
            return None
        free_at = moment.now + seconds
        return reason

    return Rule(look, (held,))


def _all_due(rule: Rule, moment: Moment) -> str | None:
    """Due when all are. The reason is that of the one that came last."""
    known = [part.reason for part in rule.parts]
    # All of them look, also when one is not due: none may miss an event.
    reasons = [part.check(moment) for part in rule.parts]
    if None in reasons:
        return None
    return next((now for before, now in zip(known, reasons, strict=True) if before is None), reasons[0])


def _ask(predicate: Predicate, moment: Moment) -> bool:
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


def _failed(predicate: Predicate, what: str, hint: str) -> InvalidInputError:
    name = getattr(predicate, "__name__", repr(predicate))
    return InvalidInputError(
        f"the predicate {name} of when() {what}", code=ErrorCode.PREDICATE_FAILED, hint=hint, predicate=name
    )


def trigger_from(settings: Settings) -> Trigger | None:
    """When the settings want a save: whichever interval comes first; None where `checkpoint.auto` is off.

    Where nobody set an interval, that is every step and every 50 beats: "auto" alone has to save something.
    """
    wanted = settings.checkpoint
    keys = ("steps", "seconds", "beats")
    values = (wanted.interval_steps, wanted.interval_seconds, wanted.interval_beats)
    given: dict[str, Any] = {
        name: value for name, value in zip(keys, values, strict=True) if value is not None
    }
    if all(settings.origin(f"checkpoint.interval_{name}") == "default" for name in keys):
        given["steps"] = 1
    return every(**given) if wanted.auto and given else None


def keep_from(settings: Settings) -> Keep | None:
    """What the settings want to keep: `keep.*`, with `checkpoint.max_count` and `prune_after_days` as caps.

    Where a rule is set, a cap that nobody set does not count: who says that a hundred are kept does not mean ten.
    """
    from holdfast.history.keep import Keep

    rules = {name: value for name, value in settings.keep._asdict().items() if value is not None}
    caps = {
        "at_most": ("checkpoint.max_count", settings.checkpoint.max_count),
        "max_age_days": ("checkpoint.prune_after_days", settings.checkpoint.prune_after_days),
    }
    has_rules = bool(rules.keys() - {"per"})
    fields: dict[str, Any] = {
        name: value
        for name, (key, value) in caps.items()
        if value is not None and not (has_rules and settings.origin(key) == "default")
    }
    # A cap that is set under its own name says more than one of `checkpoint`.
    fields |= rules
    return Keep(**fields) if fields.keys() - {"per"} else None
