"""What Recorder and AsyncRecorder share: capturing, writing, and keeping the books of both and of a resume.

A save has two halves. `_capture` runs on the caller's thread with nothing in between: snapshots, then bytes. `_write`
may run on any thread: it commits, in order, and keeps the books of what came of it, so that a task that is cancelled
while it waits loses nothing. Neither class has a save of its own; they differ in where the second half runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from holdfast.errors import (
    ConflictError,
    ErrorCode,
    HoldfastError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    StateError,
)
from holdfast.objects.tree.state import EncodedState
from holdfast.recording.capturing import Captured
from holdfast.recording.deciding import LOG, Deciding, warn_not_back
from holdfast.recording.events import (
    CheckpointCreated,
    CheckpointFailed,
    CheckpointRestored,
    RecorderForked,
    SourceFailed,
)
from holdfast.recording.report import ResumeReport, SourceOutcome
from holdfast.recording.resuming import Plan
from holdfast.recording.rules import Memento
from holdfast.recording.stored import (
    Stored,
    go_on_from,
    has_automatic_checkpoints,
    has_checkpoints,
    is_empty,
    unencodable,
    writer_of,
)
from holdfast.reports.upkeep import DamagedCheckpoint

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.store.place import Ref
    from holdfast.store.session import Session

OnDamage = Literal["report", "raise"]

NOT_BACK: Final = "it has not resumed, and would be saved over what is stored"

_OWN: Final = frozenset({"beats", "failed_sources"})
"""What a recorder puts into the metadata itself, and reads back."""

_MOST_SAID: Final = 1000
"""Characters of an error that go into the message of the last checkpoint."""


class Order(NamedTuple):
    """What is to be said about a checkpoint."""

    trigger: str
    message: str = ""
    status: str = "running"
    tags: Iterable[str] = ()
    metadata: Mapping[str, Any] | None = None


class Capture:
    """One moment of all sources as bytes, on its way into the store."""

    __slots__ = ("claimed", "encoded", "fields", "memento", "order")

    def __init__(
        self,
        order: Order,
        encoded: EncodedState,
        fields: dict[str, Any],
        memento: Memento,
    ) -> None:
        self.order = order
        self.encoded = encoded
        self.fields = fields
        self.memento = memento
        self.claimed = False
        """Whether it is being written, or was given up."""


def _with_status(order: Order, status: str | None) -> Order:
    """What the caller says goes first; "running" is what one says who says nothing."""
    return order._replace(status=status) if status and order.status == "running" else order


class Bookkeeping(Deciding):
    """How a recorder saves and resumes, but for who waits for what."""

    _failing: Mapping[str, str] = MappingProxyType({})
    """The sources that failed at the last capture, and why."""

    def _capture(self, order: Order) -> Capture:
        """The first half of a save: all sources at one moment, as bytes."""
        if self._is_halfway:
            raise StateError(
                "nothing is saved while only some of the sources have their state back",
                code=ErrorCode.RESUME_UNFINISHED,
                hint="wait for resume(), or call it again where it was broken off",
            )
        with self._books:
            self._saving += 1
        try:
            captured, encoded = self._encoded(self._sources.capture())
            self._sources.confirm(captured)
            self._unwritten = encoded
            self._tell_failures(captured.failures)
            described = self._sources.described()
            metadata = self._metadata(order, captured, described.pop("metadata"))
            order = _with_status(order, described.pop("status", None))
            step = described.pop("step", None) if self._step is None else self._step
            fields = {**self._amounts, "step": step, "metadata": metadata or None}
            if fields.get("cost_usd") is None and described.get("cost_usd"):
                fields["cost_usd"] = described["cost_usd"]
            # From here on it counts as saved, so that nobody saves the same again meanwhile.
            memento = None
            if self._rule is not None:
                self._moment.pass_time()
                memento = self._rule.clear(self._moment)
            return Capture(order, encoded, fields, memento)
        except BaseException as error:
            with self._books:
                self._saving -= 1
            if isinstance(error, Exception):
                # The store never hears of it, so that nobody else counts it.
                writer_of(self._saver).parts.metrics.save_failed(_code_of(error), conflict=False)
            self._tell_failure(order, error)
            raise

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

    def _metadata(self, order: Order, captured: Captured, described: Mapping[str, Any]) -> dict[str, Any]:
        metadata = dict(order.metadata or {})
        if taken := _OWN & metadata.keys():
            raise InvalidInputError(
                f"the metadata of a recorder's checkpoint has {min(taken)!r} already",
                code=ErrorCode.BAD_ARGUMENT,
                hint="use another name: what it says there, a resume reads back",
            )
        metadata = {name: each for name, each in described.items() if name not in _OWN} | metadata
        if self._has_beats:
            metadata["beats"] = self._beats
        if captured.uncaptured:
            metadata["failed_sources"] = list(captured.uncaptured)
        return metadata

    def _tell_failures(self, failures: Mapping[str, str]) -> None:
        for name, message in failures.items():
            if self._failing.get(name) != message:
                # Once for each reason, however often it fails: it may be that nobody has subscribed.
                LOG.warning(
                    "source %r could not be captured, and is saved as it was before: %s", name, message
                )
            self._tell(SourceFailed, name=name, phase="snapshot", message=message)
        self._failing = dict(failures)

    def _write(self, capture: Capture) -> Checkpoint:
        """The second half: commit, and keep the books of what came of it."""
        with self._turn:
            if not self._claim(capture):
                # Its task was cancelled in the very moment in which a worker took it up: nobody waits for an answer.
                raise RuntimeError("a save that was given up is not written")
            try:
                with self._announcing():
                    return self._commit(capture)
            except BaseException as error:
                self._put_back(capture)
                if not (isinstance(error, ConflictError) and error.code is ErrorCode.CHUNKS_GONE):
                    self._tell_failure(capture.order, error)
                raise
            finally:
                with self._books:
                    self._saving -= 1

    def _commit(self, capture: Capture) -> Checkpoint:
        session, order = self._saver, capture.order
        if self._is_blank:
            self._warn_of_a_past(order)
        branch, expected, went_back = session.branch, session.seen, writer_of(session).went_back
        checkpoint = session.save(
            capture.encoded,
            order.message,
            status=order.status,
            tags=order.tags,
            trigger=order.trigger,
            on_conflict="fork",
            **capture.fields,
        )
        self._moment.last = checkpoint
        self._is_blank = False
        if self._unwritten is capture.encoded:
            self._unwritten = None
        forked = checkpoint.branch != branch and not went_back
        if self._bus is not None:
            if forked:
                self._tell(
                    RecorderForked,
                    branch=checkpoint.branch,
                    expected=expected,
                    found=_head_of(session, branch),
                )
            self._bus.emit(CheckpointCreated.of(checkpoint, forked=forked))
        return checkpoint

    def _warn_of_a_past(self, order: Order) -> None:
        """Say that a program saves by itself over what another one saved, and has not looked at that."""
        is_automatic = order.trigger == "scheduled" or order.trigger.startswith("auto:")
        if is_automatic and has_automatic_checkpoints(self._saver):
            LOG.warning(
                "session %r has checkpoints of a recorder, and this one saves into it without a resume(): what is "
                "saved now is what the program began with, and not what was stored",
                self._saver.id,
            )

    def _give_up(self, capture: Capture) -> None:
        """Whoever was to write a capture does not: what was due is due again."""
        # Without waiting for whoever is writing: an event loop calls this.
        if self._claim(capture):
            with self._books:
                self._saving -= 1
            self._put_back(capture)

    def _claim(self, capture: Capture) -> bool:
        with self._books:
            is_free, capture.claimed = not capture.claimed, True
        return is_free

    def _put_back(self, capture: Capture) -> None:
        if self._rule is not None:
            self._rule.put_back(capture.memento)

    def _announcing(self) -> AbstractContextManager[None]:
        return nullcontext() if self._bus is None else self._bus.announcing(self._saver.id)

    def _tell_failure(self, order: Order, error: BaseException) -> None:
        if isinstance(error, Exception):
            self._tell(CheckpointFailed, code=_code_of(error), message=str(error), trigger=order.trigger)

    def _would_overwrite(self) -> bool:
        """Whether a last checkpoint would put an agent that has just been made over what is stored of its past."""
        with self._turn:
            return self._is_blank and has_checkpoints(self._saver)

    def _order_of(self, failure: Exception) -> Order:
        """What to say about the last checkpoint of a block that ended in an error."""
        try:
            said = f"{type(failure).__name__}: {failure}"
        except Exception:  # noqa: BLE001 - the application's own `__str__`
            said = type(failure).__name__
        # What cannot be kept in a message must not cost the checkpoint.
        kept = said[:_MOST_SAID].replace("\0", "").encode("utf-8", "replace").decode()
        return Order("error", kept, status="failed")

    def _failure_unsaved(self, why: object) -> None:
        LOG.error("the block ended in an error, and no last checkpoint is saved: %s", why)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """While a resume reads: nobody saves what is about to be replaced. One that fails has changed nothing."""
        before, self._is_halfway = self._is_halfway, True
        try:
            yield
        except BaseException:
            self._is_halfway = before
            raise

    def _check_damage_choice(self, on_damage: str) -> None:
        if on_damage not in ("report", "raise"):
            raise InvalidInputError(
                f"on_damage cannot be {on_damage!r:.60}",
                code=ErrorCode.BAD_ARGUMENT,
                hint='use "report" for a cold start with a report, or "raise" for an error',
                argument="on_damage",
            )

    def _nothing_there(self, missing: NotFoundError, ref: Ref) -> None:
        """No checkpoint yet is a beginning; a name that is wrong is an error."""
        if ref != "@" or not is_empty(missing):
            raise missing
        self._is_halfway = self._is_blank = False

    def _nothing_whole(self, damage: IntegrityError, on_damage: OnDamage) -> ResumeReport:
        """All is damaged: a cold start, unless the caller wants to be stopped."""
        if on_damage == "raise" or damage.code is not ErrorCode.NOTHING_INTACT:
            raise damage
        self._is_halfway = self._is_blank = False
        lost = tuple(
            DamagedCheckpoint(each, self._saver.id, None, str(damage), lost=True)
            for each in damage.details.get("damaged", ())
        )
        outcomes = {
            name: SourceOutcome("missing" if source else "absent") for name, source in self._sources.items()
        }
        return ResumeReport(checkpoint=None, sources=outcomes, passed_over=lost, reason=str(damage))

    def _warn_of_losses(self, report: ResumeReport) -> None:
        for name, each in report.sources.items():
            if each.outcome == "failed":
                warn_not_back(name, each.message)
        if report.unclaimed:
            LOG.warning(
                "the checkpoint has %s, and no source of that name was connected when it was resumed: nothing was "
                "restored of it, and it is not in the next save",
                ", ".join(map(repr, report.unclaimed)),
            )

    def _resumed(self, plan: Plan, stored: Stored, left: Mapping[str, Any]) -> ResumeReport:
        """Keep the books of a resume: counters, what is carried forward, and that all triggers begin anew."""
        failures = plan.failures
        go_on_from(self._saver, stored)
        self._is_halfway = self._is_blank = False
        self._unwritten = None
        self._sources.carry({name: left[name] for name in plan.left if name in left}, frozenset(failures))
        parts = writer_of(self._saver).parts
        report = plan.report(now=parts.clock())
        parts.metrics.resumed(report.steps_recovered)
        checkpoint = stored.checkpoint
        counters = stored.counters
        self._step = counters.step
        self._beats = self._moment.beats = report.beats_recovered or 0
        self._has_beats = report.beats_recovered is not None
        self._amounts.clear()
        self._count(tokens=counters.tokens, cost_usd=counters.cost_usd, duration_ms=counters.duration_ms)
        self._moment.last = checkpoint
        self._moment.pass_time()
        if self._rule is not None:
            self._rule.clear(self._moment)
        self._warn_of_losses(report)
        for name, message in failures.items():
            self._tell(SourceFailed, name=name, phase="restore", message=message)
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


def _code_of(error: Exception) -> str:
    return str(error.code) if isinstance(error, HoldfastError) else type(error).__name__


def _head_of(session: Session, branch: str) -> str | None:
    try:
        return next((each.head.id for each in session.branches() if each.name == branch), None)
    except HoldfastError:
        # It is saved; that the other head could not be looked up must not look as if it were not.
        return None
