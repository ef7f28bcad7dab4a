"""Recorder: saves an agent by itself, and brings it back.

    recorder = Recorder(session, trigger=every(steps=10) | every(seconds=300), keep=Keep(last=10))
    recorder.connect("memory", memory).connect("goals", goals)
    report = recorder.resume()
    for step in range(recorder.next_step, 1000):
        ...
        recorder.step(step)

The loop says what happens (`step`, `beat`, `tick`, `emit`), and each of these returns the checkpoint if it was time for
one. One thread at a time uses a Recorder; `interrupt` may be called from any.

A save has three parts, which Recorder and AsyncRecorder share: `_capture` takes all snapshots and makes bytes of them,
with nothing in between; `_commit` writes those, on whatever thread; `_saved` keeps the books of what came of it.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Self, TypeVar

from holdfast.errors import (
    ConflictError,
    ErrorCode,
    HoldfastError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    StateError,
    bad_argument,
)
from holdfast.objects.tree.state import EncodedState
from holdfast.record import Record
from holdfast.recording.events import (
    CheckpointCreated,
    CheckpointFailed,
    CheckpointPruned,
    CheckpointRestored,
    Event,
    RecorderForked,
    SourceFailed,
    of_application,
)
from holdfast.recording.resume import (
    Plan,
    ResumeReport,
    SourceOutcome,
    Stored,
    check_session,
    go_on_from,
    has_checkpoints,
    read_bare,
    read_stored,
    unencodable,
    writer_of,
)
from holdfast.recording.signals import LOG, STOP, Interrupted, Interrupts, Stop
from holdfast.recording.sources import Captured, Sources, restore_now
from holdfast.recording.triggers import (
    Memento,
    Moment,
    Trigger,
    check_trigger_value,
    compile_trigger,
    keep_from,
    trigger_from,
)
from holdfast.reports.upkeep import DamagedCheckpoint
from holdfast.store.draft import check_step
from holdfast.store.place import Ref
from holdfast.store.session import Session

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.history.keep import Keep
    from holdfast.recording.bus import EventBus
    from holdfast.settings.settings import Settings
    from holdfast.store.metrics import Metrics

OnDamage = Literal["report", "raise"]

_LOOK_EVERY: Final = 0.25
"""Seconds that a sleep takes at once. A signal that another thread was given, or that comes right before the wait
begins, does not end that wait: its handler runs when the main thread is back in Python."""

_OWN: Final = frozenset({"beats", "failed_sources"})
"""What a recorder puts into the metadata itself, and reads back."""

_MOST_SAID: Final = 1000
"""Characters of an error that go into the message of the last checkpoint."""


class Order(Record):
    """What is to be said about a checkpoint."""

    trigger: str
    message: str = ""
    status: str = "running"
    tags: Iterable[str] = ()
    metadata: Mapping[str, Any] | None = None


class Capture(Record):
    """One moment of all sources as bytes, on its way into the store."""

    order: Order
    encoded: EncodedState
    fields: dict[str, Any]
    memento: Memento


class Written(Record):
    """What a commit came to."""

    checkpoint: Checkpoint
    forked: RecorderForked | None


S = TypeVar("S")
Due = TypeVar("Due")
Saved = TypeVar("Saved")


class RecorderCore(Generic[S, Due, Saved]):
    """Everything but who waits for what: the kind of session, and what a check and a save answer."""

    _can_await = False

    def __init__(
        self,
        session: S,
        *,
        trigger: Trigger | None = None,
        keep: Keep | None = None,
        events: EventBus | None = None,
        clock: Callable[[], float] | None = None,
        enabled: bool = True,
    ) -> None:
        self._session = session
        self._saver = self._plain(session)
        self._trigger = check_trigger_value(trigger)
        writer = writer_of(self._saver)
        # Where it has to fork, the session's current branch comes along.
        writer.leads = True
        if keep is not None:
            from holdfast.history.keep import check_keep

            writer.keep = check_keep(keep)
        self._bus = events
        self._owns_bus = events is None
        self.enabled = enabled
        """Whether triggers count; without, only `save()` saves."""
        self._sources = Sources(can_await=self._can_await, stored=lambda: read_bare(self._saver))
        self._moment = Moment(clock or time.monotonic, self._sources.view)
        self._rule = compile_trigger(self._trigger, self._moment)
        self._step: int | None = None
        self._has_beats = False
        self._amounts: dict[str, Any] = {}
        self._failing: dict[str, str] = {}
        """The sources that failed at the last capture, and why."""
        self._is_saving = False
        self._is_out_of_time = False
        """Whether the deadline has passed over what is being written: it goes on, and is not waited for again."""
        self._stop: Stop | None = None
        self._is_halfway = False
        """Whether a resume is under way, or was broken off while sources were given their state."""
        self._is_blank = True
        """Whether it has neither resumed nor saved yet: what is stored may be more than what the sources have."""
        self._wakers: tuple[Callable[[], object], ...] = ()
        self._observe_removals(writer.parts.metrics)

    @classmethod
    def from_settings(
        cls,
        session: S,
        settings: Settings,
        *,
        events: EventBus | None = None,
        clock: Callable[[], float] | None = None,
    ) -> Self:
        """A recorder as the settings want it: `checkpoint.*` says when it saves, and with `keep.*` what is kept.

        Where no interval is set, it saves at every step. Compression is a matter of the store: open it with
        `compress=settings.checkpoint.compress`.
        """
        return cls(
            session,
            trigger=trigger_from(settings),
            keep=keep_from(settings),
            enabled=settings.checkpoint.enabled,
            events=events,
            clock=clock,
        )

    def _plain(self, session: S) -> Session:
        raise NotImplementedError

    def _automatic(self, due: str | None) -> Due:
        raise NotImplementedError

    def _save(self, order: Order) -> Saved:
        raise NotImplementedError

    @property
    def session(self) -> S:
        """Where it saves."""
        return self._session

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
        return self._moment.beats

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the sources, in the order in which they are restored."""
        return self._sources.names()

    def connect(self, name: str, source: Any, *, optional: bool = False) -> Self:
        """Add a source: something with snapshot and restore, a dataclass, a pydantic model, or an adapter.

        Sources are captured and restored in the order in which they are connected. Connect them before `resume`: of one
        that was absent then, what is stored goes on being saved until the next `resume` gives it back.

        Args:
            name: What its state is called in the checkpoint.
            source: The live object. None, with `optional`: it is not there now, and what is stored of it is kept.
            optional: Whether it may be absent.

        Raises:
            InvalidInputError: The name is taken, or the object cannot be a source.
        """
        self._sources.connect(name, source, optional=optional)
        return self

    def disconnect(self, name: str) -> Self:
        """Remove a source; the next save is without it."""
        self._sources.disconnect(name)
        return self

    def step(
        self,
        n: int | None = None,
        *,
        tokens: int | None = None,
        cost_usd: float | None = None,
        duration_ms: float | None = None,
    ) -> Due:
        """Say that a step is done; save if that makes it time.

        Args:
            n: The step's number; one more than the last by default, and 0 for the first.
            tokens: Tokens used so far.
            cost_usd: Cost so far.
            duration_ms: Time taken so far.

        Returns:
            The checkpoint, or None where it was not time.

        Raises:
            Interrupted: The recorder was asked to stop. What there is is saved, with status `interrupted`.
            InvalidInputError: A predicate of the trigger failed (`predicate-failed`), or a state cannot be saved.
            BackendError: The store could not write. It stays due, and the next call tries again.
        """
        due = self._step_due(n, tokens, cost_usd, duration_ms)
        return self._automatic(due)

    def beat(self, n: int | None = None, *, step: int | None = None) -> Due:
        """Say that a beat is done; save if that makes it time. See `step`.

        Args:
            n: The beat's number; one more than the last by default.
            step: The step that it is at, which the next checkpoint has.
        """
        due = self._beat_due(n, step)
        return self._automatic(due)

    def tick(self) -> Due:
        """Save if it is time: nothing is counted, only the clock and predicates are asked. See `step`."""
        due = self._due()
        return self._automatic(due)

    def emit(self, event: Event | str, /, **data: Any) -> Due:
        """Say that something happened, to all who subscribed; save if the trigger waits for it. See `step`.

        Args:
            event: An event, or the type of one, such as `tool.completed`.
            data: What else there is to say, as plain JSON.
        """
        due = self._event_due(event, data)
        return self._automatic(due)

    def save(  # noqa: PLR0913 - each is a keyword of the public contract
        self,
        message: str = "",
        *,
        status: str = "running",
        tags: Iterable[str] = (),
        trigger: str = "manual",
        step: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        tokens: int | None = None,
        cost_usd: float | None = None,
        duration_ms: float | None = None,
    ) -> Saved:
        """Save now, whatever the trigger says. The arguments are those of `Session.save`.

        Raises:
            StateError: No source could be captured (`sources-failed`).
            InvalidInputError: A state cannot be saved; the message has the path. Nothing is written.
            BackendError: The store could not write; saving again is safe.
        """
        self._say(step, tokens=tokens, cost_usd=cost_usd, duration_ms=duration_ms)
        return self._save(Order(trigger, message, status, tags, metadata))

    def interrupt(self, signum: int = 15) -> None:
        """Ask for an end: the next step, beat or tick saves with status `interrupted` and raises `Interrupted`.

        It only sets a flag and wakes who sleeps, so that any thread, and a signal handler, may call it.
        """
        if self._stop is None:
            self._stop = Stop(signum)
        for wake in self._wakers:
            wake()

    # When to save

    def _step_due(
        self, step: int | None, tokens: int | None, cost_usd: float | None, duration_ms: float | None
    ) -> str | None:
        before, moment = self._step, self._moment
        if step is None:
            step = self.next_step
        self._say(step, tokens=tokens, cost_usd=cost_usd, duration_ms=duration_ms)
        # A step that went back begins anew.
        moment.step, moment.before = step, before if before is not None and before <= step else None
        try:
            return self._due()
        finally:
            moment.step = None

    def _beat_due(self, beat: int | None, step: int | None) -> str | None:
        if beat is not None:
            _check_number(beat, "beat")
        self._say(step)
        self._moment.beats = self._moment.beats + 1 if beat is None else beat
        self._has_beats = True
        return self._due()

    def _event_due(self, event: Event | str, data: dict[str, Any]) -> str | None:
        if not isinstance(event, Event):
            if "session" in data:
                raise bad_argument(
                    "an event that a recorder emits is about its own session",
                    "leave session= out, or give it another name; recorder.events.emit() takes any session",
                    argument="session",
                )
            event = of_application(event, data, session=self._saver.id)
        elif data:
            raise bad_argument(
                "an event that is made already takes no more data",
                'pass its type and the data: emit("tool.completed", tool="search")',
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
        if not self.enabled:
            return None
        self._moment.pass_time()
        return self._rule.check(self._moment)

    def _say(self, step: int | None, **amounts: Any) -> None:
        if step is not None:
            _check_number(step, "step")
            self._step = step
        self._amounts.update((name, amount) for name, amount in amounts.items() if amount is not None)

    def _count_from(self, *, beats: int, step: int | None) -> None:
        """Go on counting from here; what is due by beats counts from here as well."""
        self._step, self._moment.beats, self._has_beats = step, beats, True
        self._rule.clear(self._moment)

    # Saving

    def _capture(self, order: Order) -> Capture:
        """All sources at one moment, as bytes."""
        if self._is_halfway:
            raise StateError(
                "nothing is saved while only some of the sources have their state back",
                code=ErrorCode.RESUME_UNFINISHED,
                hint="wait for resume(), or call it again where it was broken off",
            )
        try:
            captured, encoded = self._encoded(self._sources.capture())
            self._tell_failures(captured.failures)
            said = self._sources.described()
            metadata = self._metadata(order, captured, said.pop("metadata"))
            if order.status == "running" and said.get("status"):
                order = order._replace(status=said["status"])
            step = said.get("step") if self._step is None else self._step
            fields = {**self._amounts, "step": step, "metadata": metadata or None}
            if fields.get("cost_usd") is None and said.get("cost_usd"):
                fields["cost_usd"] = said["cost_usd"]
        except Exception as error:
            # The store never hears of it, so that nobody else counts it.
            writer_of(self._saver).parts.metrics.save_failed(_code_of(error), conflict=False)
            self._tell_failure(order, error)
            raise
        # From here on it counts as saved, so that nobody saves the same again meanwhile.
        self._moment.pass_time()
        return Capture(order, encoded, fields, self._rule.clear(self._moment))

    def _encoded(self, captured: Captured) -> tuple[Captured, EncodedState]:
        """The bytes of a moment; one source that cannot be encoded is as one that could not be captured."""
        try:
            return captured, self._saver.encode(captured.state)
        except InvalidInputError:
            refused = unencodable(self._saver, captured.state)
            if not refused or not captured.state.keys() - refused.keys() - captured.failures.keys():
                # Nothing is left that would be worth a checkpoint: the error has the path.
                raise
        captured = self._sources.without(captured, refused)
        return captured, self._saver.encode(captured.state)

    def _metadata(self, order: Order, captured: Captured, said: Mapping[str, Any]) -> dict[str, Any]:
        metadata = dict(order.metadata or {})
        if taken := _OWN & metadata.keys():
            raise bad_argument(
                f"the metadata of a recorder's checkpoint has {min(taken)!r} already",
                "use another name: what it says there, a resume reads back",
            )
        metadata = {name: each for name, each in said.items() if name not in _OWN} | metadata
        if self._has_beats:
            metadata["beats"] = self._moment.beats
        if captured.uncaptured:
            metadata["failed_sources"] = list(captured.uncaptured)
        return metadata

    def _commit(self, capture: Capture) -> Written:
        """Write what was captured. Nothing of the recorder is touched: this may be another thread."""
        session, order, writer = self._saver, capture.order, writer_of(self._saver)
        branch, expected, went_back = session.branch, session.seen, writer.went_back
        checkpoint = session.save(
            capture.encoded,
            order.message,
            status=order.status,
            tags=order.tags,
            trigger=order.trigger,
            on_conflict="fork",
            **capture.fields,
        )
        forked = None
        if checkpoint.branch != branch and not went_back:
            found = None
            with suppress(
                HoldfastError
            ):  # it is saved; that the other head cannot be looked up changes nothing
                found = next((each.head.id for each in session.branches() if each.name == branch), None)
            forked = RecorderForked(
                session=session.id, branch=checkpoint.branch, expected=expected, found=found
            )
        return Written(checkpoint, forked)

    def _saved(self, written: Written) -> Checkpoint:
        self._moment.last = written.checkpoint
        self._is_blank = False
        if self._bus is not None:
            if written.forked is not None:
                self._bus.emit(written.forked)
            self._bus.emit(CheckpointCreated.of(written.checkpoint, forked=written.forked is not None))
        return written.checkpoint

    def _unsaved(self, capture: Capture, error: BaseException) -> None:
        """It did not get there: what was due is due again."""
        self._rule.put_back(capture.memento)
        if isinstance(error, Exception) and not must_be_encoded_again(error):
            self._tell_failure(capture.order, error)

    def _why_silent(self) -> str:
        """Why there is to be no last checkpoint; empty where there is."""
        if not self.enabled:
            return "the recorder is not enabled"
        # Of sources of which only some have their state back.
        return "a resume is not finished" if self._is_halfway else ""

    def _would_overwrite(self) -> str:
        """Why a last checkpoint would put an agent that has just been made over what is stored of its past."""
        if self._is_blank and has_checkpoints(self._saver):
            return "it has not resumed, and would be saved over what is stored"
        return ""

    def _order_of(self, failure: Exception) -> Order:
        """What to say about the last checkpoint of a block that ended in an error."""
        try:
            said = f"{type(failure).__name__}: {failure}"
        except Exception:  # noqa: BLE001 - the application's own `__str__`
            said = type(failure).__name__
        # What cannot be kept in a message must not cost the checkpoint.
        kept = said[:_MOST_SAID].replace("\0", "").encode("utf-8", "replace").decode()
        return Order("error", kept, status="failed")

    # Going on

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """While a resume reads: nobody saves what is about to be replaced. One that fails has changed nothing."""
        before, self._is_halfway = self._is_halfway, True
        try:
            yield
        except BaseException:
            self._is_halfway = before
            raise

    def _not_read(self, error: HoldfastError, ref: Ref, on_damage: OnDamage) -> ResumeReport | None:
        """No checkpoint yet is a beginning, and damage a cold start unless the caller wants to be stopped."""
        if isinstance(error, NotFoundError):
            # A name that is wrong is an error.
            if ref != "@" or error.code not in (ErrorCode.SESSION_MISSING, ErrorCode.CHECKPOINT_MISSING):
                raise error
            self._is_halfway = self._is_blank = False
            return None
        if on_damage == "raise" or error.code is not ErrorCode.NOTHING_INTACT:
            raise error
        self._is_halfway = self._is_blank = False
        lost = tuple(
            DamagedCheckpoint(each, self._saver.id, None, str(error), lost=True)
            for each in error.details.get("damaged", ())
        )
        outcomes = {
            name: SourceOutcome("missing" if source else "absent") for name, source in self._sources.items()
        }
        return ResumeReport(checkpoint=None, sources=outcomes, passed_over=lost, reason=str(error))

    def _resumed(self, plan: Plan, stored: Stored, left: Mapping[str, Any]) -> ResumeReport:
        """Keep the books of a resume: counters, what is carried forward, and that all triggers begin anew."""
        failures, checkpoint, counters = plan.failures, stored.checkpoint, stored.counters
        go_on_from(self._saver, stored)
        self._is_halfway = self._is_blank = False
        self._sources.carry({name: left[name] for name in plan.left if name in left}, frozenset(failures))
        parts = writer_of(self._saver).parts
        report = plan.report(now=parts.clock())
        parts.metrics.resumed(report.steps_recovered)
        self._step = counters.step
        self._moment.beats, self._has_beats = counters.beats or 0, counters.beats is not None
        self._amounts.clear()
        self._say(None, tokens=counters.tokens, cost_usd=counters.cost_usd, duration_ms=counters.duration_ms)
        self._moment.last = checkpoint
        self._moment.pass_time()
        self._rule.clear(self._moment)
        for name, message in failures.items():
            LOG.warning("source %r could not be restored, and is saved as it is stored: %s", name, message)
            self._tell(SourceFailed, name=name, phase="restore", message=message)
        if report.unclaimed:
            LOG.warning(
                "the checkpoint has %s, and no source of that name was connected when it was resumed: nothing was "
                "restored of it, and it is not in the next save",
                ", ".join(map(repr, report.unclaimed)),
            )
        self._tell(
            CheckpointRestored,
            checkpoint_id=checkpoint.id,
            beats_recovered=report.beats_recovered,
            steps_recovered=report.steps_recovered,
            age_seconds=report.age_seconds,
            complete=report.complete,
            sources={name: each.outcome for name, each in report.sources.items()},
        )
        return report

    # Telling

    def _observe_removals(self, metrics: Metrics) -> None:
        """Say what is removed from the session through its store, for as long as this recorder is there."""
        weak, session = weakref.ref(self), self._saver.id

        def told(of: str, reason: str, count: int, ids: Sequence[str]) -> None:
            alive = weak()
            if alive is not None and of == session:
                alive._tell(  # noqa: SLF001 - itself
                    CheckpointPruned, count=count, ids=tuple(ids), reason=reason
                )

        weakref.finalize(self, metrics.observe_removals(told))

    def _tell(self, kind: type[Event], **fields: Any) -> None:
        if self._bus is not None:
            self._bus.emit(kind(session=self._saver.id, **fields))

    def _tell_failure(self, order: Order, error: Exception) -> None:
        self._tell(CheckpointFailed, code=_code_of(error), message=str(error), trigger=order.trigger)

    def _tell_failures(self, failures: dict[str, str]) -> None:
        for name, message in failures.items():
            if self._failing.get(name) != message:
                # Once for each reason, however often it fails: it may be that nobody has subscribed.
                LOG.warning(
                    "source %r could not be captured, and is saved as it was before: %s", name, message
                )
            self._tell(SourceFailed, name=name, phase="snapshot", message=message)
        self._failing = dict(failures)

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

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._saver.id!r}, {self._trigger!r}, sources: {', '.join(self.sources)}>"


class Recorder(RecorderCore[Session, "Checkpoint | None", "Checkpoint"]):
    """A session, sources, a trigger, a retention rule and an event bus, joined.

    Args:
        session: Where it saves. The recorder is its writer from here on.
        trigger: When it saves by itself; without one, never.
        keep: What the session keeps: old checkpoints are removed with each save.
        events: The bus to tell what happens; one of its own by default.
        clock: Seconds that only grow; `time.monotonic` by default.
        enabled: Whether triggers count. Without, only `save()` saves.
    """

    def resume(self, ref: Ref = "@", *, on_damage: OnDamage = "report") -> ResumeReport | None:
        """Go on from a checkpoint: give each source its state back. Nothing is written.

        The first resume of a recorder whose session names no branch looks on the session's current one: where the last
        recorder went on, or where somebody switched to. With `HOLDFAST_RESUME=SESSION@REF` in the environment, a
        resume of that session starts from that checkpoint instead, once.

        A damaged checkpoint is passed over for the newest one before it that is whole, and named in the report. From an
        older checkpoint, asked for by name, the next save goes onto a branch of its own.

        Args:
            ref: Which checkpoint.
            on_damage: Where all that there is is damaged: "report" is a cold start with a report, "raise" an error.

        Returns:
            What was done, source by source. None where there is no checkpoint yet.

        Raises:
            NotFoundError: `ref` names nothing.
            IntegrityError: All is damaged, and `on_damage` is "raise" (`nothing-intact`).
        """
        check_damage_choice(on_damage)
        try:
            with self._reading():
                stored = read_stored(self._saver, ref, follow=self._is_blank)
        except (NotFoundError, IntegrityError) as error:
            return self._not_read(error, ref, on_damage)
        plan = Plan(self._sources, stored)
        for name, source, value in plan.ready:
            try:
                restore_now(source, value)
            except Exception as error:  # noqa: BLE001 - the application's own code: reported, and no other stops
                plan.failed(name, error)
        # Read again where somebody has to be carried: what a source was given, it may have changed.
        left = read_bare(self._saver, stored.checkpoint) if plan.left else {}
        return self._resumed(plan, stored, left)

    def interrupts(self, deadline: float = 5.0) -> Interrupts:
        """Take over SIGTERM and SIGINT for a `with` block: the next step, beat or tick saves, and ends the block.

        Args:
            deadline: Seconds from the signal to the end. Where no step comes, the block is ended when three quarters of
                them have passed, wherever it is; the rest is for the last save.
        """
        return Interrupts(self, deadline)

    def sleep(self, seconds: float) -> None:
        """Sleep, and wake up at once when the recorder is asked to stop.

        Raises:
            Interrupted: It was. What there is is saved, with status `interrupted`.
        """
        # Not an Event: setting one takes a lock, and a signal handler that interrupts who holds it would wait for ever.
        woken: SimpleQueue[None] = SimpleQueue()
        ends = time.monotonic() + seconds
        with self._waking(lambda: woken.put(None)):
            # Who is woken says so here, and who was asked when time was up too.
            while self._stop is None:
                left = ends - time.monotonic()
                if left <= 0:
                    return
                with suppress(Empty):
                    woken.get(timeout=min(left, _LOOK_EVERY))
        raise self._last_words()

    def close(self, timeout: float = 1.0) -> bool:
        """Have what was emitted delivered, and end the subscriptions on a bus of its own. Nothing is saved.

        The last checkpoint is the loop's to say: `recorder.save("done", status="completed")`. A bus that was given to
        the recorder stays open.

        Args:
            timeout: Seconds to wait for subscribers.

        Returns:
            Whether everything was delivered.
        """
        if self._bus is None:
            return True
        return self._bus.close(timeout) if self._owns_bus else self._bus.flush(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            # It is raised on; what there is is saved if it can be.
            try:
                silent = self._why_silent() or self._would_overwrite()
                if not silent:
                    self._save(self._order_of(error))
            except Exception as trouble:  # noqa: BLE001 - the one that ended the block is the one to raise
                silent = str(trouble)
            if silent:
                LOG.error("the block ended in an error, and no last checkpoint is saved: %s", silent)
        self.close()

    def _plain(self, session: Session) -> Session:
        return check_session(session, Session)

    def _automatic(self, due: str | None) -> Checkpoint | None:
        if due is STOP:
            raise self._last_words()
        return None if due is None else self._save(Order(due))

    def _last_words(self) -> Interrupted:
        stop = self._stop
        assert stop is not None
        if stop.done:
            return stop.interrupted()
        silent = self._why_silent() or self._would_overwrite()
        return stop.finish(None if silent else self._save(Order(STOP, status="interrupted")), silent)

    def _save(self, order: Order) -> Checkpoint:
        self._is_saving = True
        try:
            for attempt in (1, 2):
                capture = self._capture(order)
                try:
                    return self._saved(self._commit(capture))
                except BaseException as error:
                    self._unsaved(capture, error)
                    if attempt == 2 or not must_be_encoded_again(error):
                        raise
            raise AssertionError
        finally:
            self._is_saving = False


def check_damage_choice(on_damage: str) -> None:
    """Refuse what is none."""
    if on_damage not in ("report", "raise"):
        raise bad_argument(
            f"on_damage cannot be {on_damage!r:.60}",
            'use "report" for a cold start with a report, or "raise" for an error',
            argument="on_damage",
        )


def must_be_encoded_again(error: BaseException) -> bool:
    """Whether what the last save left in the store was removed since: then the whole state has to be sent."""
    return isinstance(error, ConflictError) and error.code is ErrorCode.CHUNKS_GONE


def _code_of(error: Exception) -> str:
    return str(error.code) if isinstance(error, HoldfastError) else type(error).__name__


def _check_number(number: int, what: str) -> None:
    check_step(number, what)
    if number < 0:
        raise bad_argument(
            f"{what} cannot be {number}", f"count {what} from 0 on, or leave the number out", argument=what
        )
