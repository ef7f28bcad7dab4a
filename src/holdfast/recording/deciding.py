"""What a recorder has and counts, and how it decides: everything but saving and resuming.

A check looks at the clock, asks the rules of the trigger, and answers with the reason to save, or with None. It is the
path that every step of an agent takes, so it does nothing else.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from holdfast.errors import ErrorCode, InvalidInputError, StateError
from holdfast.recording.capturing import Sources
from holdfast.recording.events import Event, SourceFailed, of_application
from holdfast.recording.resuming import restore_now
from holdfast.recording.rules import Moment, compile_trigger
from holdfast.recording.stopping import STOP, Stop
from holdfast.recording.stored import read_bare, read_captured, revived, take_over
from holdfast.recording.triggers import Manual, Trigger, check_trigger_value
from holdfast.store.draft import check_step

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.history.keep import Keep
    from holdfast.objects.tree.state import EncodedState
    from holdfast.recording.bus import EventBus
    from holdfast.recording.sources import Source
    from holdfast.store.session import Session

LOG = logging.getLogger("holdfast.recorder")


class Deciding:
    """A session, sources, a trigger, a retention rule and a bus, joined; and when to save."""

    _can_await = False

    def __init__(
        self,
        session: Session,
        trigger: Trigger | None,
        keep: Keep | None,
        events: EventBus | None,
        clock: Callable[[], float] | None,
        *,
        enabled: bool,
    ) -> None:
        self._saver = session
        self._trigger = check_trigger_value(trigger)
        take_over(session, keep)
        self._bus = events
        self._owns_bus = events is None
        self.enabled = enabled
        """Whether triggers count; without, only `save()` saves."""
        self._sources = Sources(can_await=self._can_await, stored=self._last_captured)
        self._moment = Moment(clock or time.monotonic, self._sources.view)
        self._rule = (
            None if isinstance(self._trigger, Manual) else compile_trigger(self._trigger, self._moment)
        )
        self._step: int | None = None
        self._beats = 0
        self._has_beats = False
        self._amounts: dict[str, Any] = {}
        # One save after the other, whichever thread it comes from.
        self._turn = threading.RLock()
        # Never held for longer than it takes to count. A signal handler may come while its own thread has it.
        self._books = threading.RLock()
        self._saving = 0
        """Saves that are under way, from the first snapshot to the commit."""
        self._stop: Stop | None = None
        self._is_halfway = False
        """Whether a resume is under way, or was broken off while sources were given their state."""
        self._is_blank = True
        """Whether it has neither resumed nor saved yet: what is stored may be more than what the sources have."""
        self._unwritten: EncodedState | None = None
        """What was captured last, as long as it is not in the store."""
        self._wakers: tuple[Callable[[], object], ...] = ()

    @property
    def trigger(self) -> Trigger:
        """When it saves by itself."""
        return self._trigger

    @property
    def events(self) -> EventBus:
        """The bus that it tells what happens."""
        if self._bus is None:
            from holdfast.recording.bus import EventBus

            self._bus = EventBus()
        return self._bus

    @property
    def last(self) -> Checkpoint | None:
        """The checkpoint that it saved or resumed from last."""
        return self._moment.last

    @property
    def steps(self) -> int | None:
        """The step that it is at; None before the first."""
        return self._step

    @property
    def next_step(self) -> int:
        """The step that comes next: where a loop begins, or goes on after a resume."""
        return 0 if self._step is None else self._step + 1

    @property
    def beats(self) -> int:
        """The beats so far, those before the resume included."""
        return self._beats

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the sources, in the order in which they are restored."""
        return self._sources.names()

    @property
    def carried(self) -> Mapping[str, Any]:
        """What is carried forward from older checkpoints, by source: of those that are absent or failed to restore.

        A copy, as the program knows it; where it does not, as opaque records.
        """
        return {name: self._known(value) for name, value in self._sources.carried.items()}

    def connect(self, name: str, source: Any, *, optional: bool = False) -> Self:
        """Add a source: something with snapshot and restore, a dataclass, a pydantic model, or an adapter.

        Sources are captured and restored in the order in which they are connected. One that was absent takes its place
        again, and is given what was carried for it; where its `restore` has to be awaited, by `bring_back`.

        Args:
            name: What its state is called in the checkpoint.
            source: The live object. None, with `optional`: it is not there now, and what is stored of it is kept.
            optional: Whether it may be absent.

        Raises:
            InvalidInputError: The name is taken, or the object cannot be a source.
        """
        self._sources.connect(name, source, optional=optional)
        if source is not None and name in self._sources.carried:
            self._bring_back(name)
        return self

    def disconnect(self, name: str) -> Self:
        """Remove a source; the next save is without it. What was carried for it waits for it to be connected again."""
        self._sources.disconnect(name)
        return self

    def release(self, name: str) -> Self:
        """Stop carrying what was stored of a source: from here on its own snapshots are saved.

        Raises:
            InvalidInputError: There is no source of that name, and nothing is carried for one.
        """
        if name not in self._sources.carried:
            self._sources.check_known(name)
        self._sources.release(name)
        return self

    def count_from(self, *, beats: int | None = None, step: int | None = None) -> Self:
        """Go on counting from here: after a checkpoint that somebody else made, or work that this program did not see.

        A trigger does not see it as beats or steps that were done: what is due by beats counts from here.

        Args:
            beats: The beats so far.
            step: The step that it is at, which the next checkpoint has.

        Raises:
            InvalidInputError: One of them is negative, or no whole number.
        """
        if beats is not None:
            _check_number(beats, "beats")
        self._say(step)
        if beats is not None:
            self._beats = self._moment.beats = beats
            self._has_beats = True
            if self._rule is not None:
                self._rule.clear(self._moment)
        return self

    def interrupt(self, signum: int = 15) -> None:
        """Ask for an end: the next step, beat or tick saves with status `interrupted` and raises `Interrupted`.

        It only sets a flag and wakes who sleeps, so that any thread, and a signal handler, may call it.
        """
        if self._stop is None:
            self._stop = Stop(signum)
        for wake in self._wakers:
            wake()

    def _step_due(
        self, step: int | None, tokens: int | None, cost_usd: float | None, duration_ms: float | None
    ) -> str | None:
        before = self._step
        if step is None:
            step = 0 if before is None else before + 1
        elif type(step) is not int or step < 0:
            _check_number(step)
        self._step = step
        if tokens is not None or cost_usd is not None or duration_ms is not None:
            self._count(tokens=tokens, cost_usd=cost_usd, duration_ms=duration_ms)
        if self._stop is not None:
            return STOP
        rule = self._rule
        if rule is None or not self.enabled:
            return None
        moment = self._moment
        moment.step = step
        # A step that went back begins anew.
        moment.before = before if before is not None and before <= step else None
        moment.pass_time()
        try:
            return rule.check(moment)
        finally:
            moment.step = None

    def _beat_due(self) -> str | None:
        self._beats += 1
        self._has_beats = True
        self._moment.beats = self._beats
        return self._due()

    def _event_due(self, event: Event | str, data: dict[str, Any]) -> str | None:
        if not isinstance(event, Event):
            if "session" in data:
                raise InvalidInputError(
                    "an event that a recorder emits is about its own session",
                    code=ErrorCode.BAD_ARGUMENT,
                    hint="leave session= out, or give it another name; recorder.events.emit() takes any session",
                    argument="session",
                )
            event = of_application(event, data, session=self._saver.id)
        elif data:
            raise InvalidInputError(
                "an event that is made already takes no more data",
                code=ErrorCode.BAD_ARGUMENT,
                hint='pass its type and the data: emit("tool.completed", tool="search")',
            )
        if self._bus is not None:
            self._bus.emit(event)
        self._moment.event = event.type
        try:
            return self._due()
        finally:
            self._moment.event = None

    def _due(self) -> str | None:
        if self._stop is not None:
            return STOP
        if self._rule is None or not self.enabled:
            return None
        self._moment.pass_time()
        return self._rule.check(self._moment)

    def _count(self, **amounts: Any) -> None:
        self._amounts.update((name, amount) for name, amount in amounts.items() if amount is not None)

    def _say(self, step: int | None, **amounts: Any) -> None:
        """What a forced save says about the step; the trigger has not seen it."""
        if step is not None:
            _check_number(step)
            self._step = step
        self._count(**amounts)

    def _why_silent(self) -> str:
        """Why there is to be no last checkpoint; empty where there is."""
        if not self.enabled:
            return "the recorder is not enabled"
        # Of sources of which only some have their state back.
        return "a resume is not finished" if self._is_halfway else ""

    def _begin_anew(self) -> None:
        """Forget a stop that has been carried out: the recorder is used again."""
        if self._stop is not None and self._stop.done:
            self._stop = None

    @contextmanager
    def _waking(self, wake: Callable[[], object]) -> Iterator[None]:
        """While this lasts, `interrupt` calls that too."""
        self._wakers = (*self._wakers, wake)
        try:
            yield
        finally:
            self._wakers = tuple(each for each in self._wakers if each is not wake)

    def _tell(self, kind: type[Event], **fields: Any) -> None:
        if self._bus is not None:
            self._bus.emit(kind(session=self._saver.id, **fields))

    def _bring_back(self, name: str) -> bool:
        """A source that was absent is there: it gets what was carried for it, and counts if it takes it."""
        source, value = self._to_bring_back(name)
        try:
            restore_now(source, revived(self._saver, value))
        except Exception as error:  # noqa: BLE001 - the application's own code: what is stored stays carried
            return self._not_back(name, error)
        self._sources.release(name)
        return True

    def _to_bring_back(self, name: str) -> tuple[Source, Any]:
        source = dict(self._sources.items()).get(name)
        if source is None or name not in self._sources.carried:
            raise InvalidInputError(
                f"there is nothing to give back to a source {name!r}",
                code=ErrorCode.BAD_NAME,
                hint="name one that is connected, and that `carried` has something for",
                name=name,
            )
        return source, self._sources.carried[name]

    def _not_back(self, name: str, error: Exception) -> bool:
        self._sources.wait_for(name)
        message = f"{type(error).__name__}: {error}"
        warn_not_back(name, message)
        self._tell(SourceFailed, name=name, phase="restore", message=message)
        return False

    def _known(self, value: Any) -> Any:
        try:
            return revived(self._saver, value)
        except StateError:
            return value

    def _last_captured(self) -> Mapping[str, Any]:
        """What to fall back on: what was captured last, also where that is still on its way into the store."""
        unwritten = self._unwritten
        found = {} if unwritten is None else read_captured(self._saver, unwritten)
        return found or read_bare(self._saver)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._saver.id!r}, {self._trigger!r}, sources: {', '.join(self.sources)}>"


def warn_not_back(name: str, message: str) -> None:
    """Say that a source did not take its state: it may be that nobody looks at the report, or has subscribed."""
    LOG.warning("source %r could not be restored, and is saved as it is stored: %s", name, message)


def _check_number(number: int, what: str = "step") -> None:
    check_step(number, what)
    if number < 0:
        raise InvalidInputError(
            f"{what} cannot be {number}",
            code=ErrorCode.BAD_ARGUMENT,
            hint=f"count {what} from 0 on, or leave the number out",
            argument=what,
        )
