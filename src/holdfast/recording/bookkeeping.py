"""What Recorder and AsyncRecorder share: capturing, writing, and keeping the books of both and of a resume.

A save has two halves. `_capture` runs on the caller's thread with nothing in between: snapshots, then bytes. `_write`
may run on any thread: it commits, in order, and keeps the books of what came of it, so that a task that is cancelled
while it waits loses nothing. Neither class has a save of its own; they differ in where the second half runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from holdfast.errors import ConflictError, ErrorCode, HoldfastError, IntegrityError, NotFoundError, StateError
from holdfast.objects.state import EncodedState
from holdfast.recording.capturing import Captured
from holdfast.recording.deciding import Deciding
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
from holdfast.recording.stored import Stored, is_empty, writer_of
from holdfast.store.verifying import DamagedCheckpoint

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.store.session import Ref, Session

OnDamage = Literal["report", "raise"]


class Order(NamedTuple):
    """What is to be said about a checkpoint."""

    trigger: str
    message: str = ""
    status: str = "running"
    tags: Iterable[str] = ()
    metadata: Mapping[str, Any] | None = None


class Capture:
    """One moment of all sources as bytes, on its way into the store."""

    __slots__ = ("captured", "claimed", "encoded", "fields", "memento", "order")

    def __init__(
        self,
        order: Order,
        captured: Captured,
        encoded: EncodedState,
        fields: dict[str, Any],
        memento: Memento,
    ) -> None:
        self.order = order
        self.captured = captured
        self.encoded = encoded
        self.fields = fields
        self.memento = memento
        self.claimed = False
        """Whether it is being written, or was given up."""


class Bookkeeping(Deciding):
    """How a recorder saves and resumes, but for who waits for what."""

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
            captured = self._sources.capture()
            for name, message in captured.failures.items():
                self._tell(SourceFailed, name=name, phase="snapshot", message=message)
            metadata = dict(order.metadata or {})
            if self._has_beats:
                metadata["beats"] = self._beats
            if captured.uncaptured:
                metadata["failed_sources"] = list(captured.uncaptured)
            fields = {**self._amounts, "step": self._step, "metadata": metadata or None}
            encoded = self._saver.encode(captured.state)
            # From here on it counts as saved, so that nobody saves the same again meanwhile.
            memento = None
            if self._rule is not None:
                self._moment.pass_time()
                memento = self._rule.clear(self._moment)
            return Capture(order, captured, encoded, fields, memento)
        except BaseException as error:
            with self._books:
                self._saving -= 1
            self._tell_failure(order, error)
            raise

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
        branch, expected = session.branch, session.seen
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
        self._sources.confirm(capture.captured)
        forked = checkpoint.branch != branch
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
            code = str(error.code) if isinstance(error, HoldfastError) else type(error).__name__
            self._tell(CheckpointFailed, code=code, message=str(error), trigger=order.trigger)

    def _check_empty(self, missing: NotFoundError, ref: Ref) -> None:
        """No checkpoint yet is a beginning; a name that is wrong is an error."""
        if ref != "@" or not is_empty(missing):
            raise missing

    def _nothing_whole(self, damage: IntegrityError, on_damage: OnDamage) -> ResumeReport:
        """All is damaged: a cold start, unless the caller wants to be stopped."""
        if on_damage == "raise" or damage.code is not ErrorCode.NOTHING_INTACT:
            raise damage
        lost = tuple(
            DamagedCheckpoint(each, self._saver.id, None, str(damage), lost=True)
            for each in damage.details.get("damaged", ())
        )
        outcomes = {
            name: SourceOutcome("missing" if source else "absent") for name, source in self._sources.items()
        }
        return ResumeReport(checkpoint=None, sources=outcomes, passed_over=lost, reason=str(damage))

    def _resumed(self, plan: Plan, stored: Stored, left: Mapping[str, Any]) -> ResumeReport:
        """Keep the books of a resume: counters, what is carried forward, and that all triggers begin anew."""
        failures = plan.failures
        self._is_halfway = False
        self._sources.carry({name: left[name] for name in plan.left if name in left}, frozenset(failures))
        parts = writer_of(self._saver).parts
        report = plan.report(now=parts.clock())
        parts.metrics.resumed(report.steps_recovered)
        checkpoint = stored.checkpoint
        self._step = checkpoint.step
        if report.beats_recovered is not None:
            self._beats = self._moment.beats = report.beats_recovered
            self._has_beats = True
        self._amounts.clear()
        self._count(
            tokens=checkpoint.tokens, cost_usd=checkpoint.cost_usd, duration_ms=checkpoint.duration_ms
        )
        self._moment.last = checkpoint
        self._moment.pass_time()
        if self._rule is not None:
            self._rule.clear(self._moment)
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


def _head_of(session: Session, branch: str) -> str | None:
    try:
        return next((each.head.id for each in session.branches() if each.name == branch), None)
    except HoldfastError:
        # It is saved; that the other head could not be looked up must not look as if it were not.
        return None
