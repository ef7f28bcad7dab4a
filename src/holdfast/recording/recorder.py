"""Recorder: saves an agent by itself, and brings it back.

    recorder = Recorder(session, trigger=every(steps=10) | every(seconds=300), keep=Keep(last=10))
    recorder.connect("memory", memory).connect("goals", goals)
    report = recorder.resume()
    for step in range(recorder.next_step, 1000):
        ...
        recorder.step(step)

The loop says what happens (`step`, `beat`, `tick`, `emit`), and each of these returns the checkpoint if it was time for
one. One thread at a time uses a Recorder; `interrupt` may be called from any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast.errors import ConflictError, ErrorCode, IntegrityError, NotFoundError
from holdfast.recording.bookkeeping import NOT_BACK, Bookkeeping, OnDamage, Order
from holdfast.recording.events import Event
from holdfast.recording.resuming import Plan, restore_now
from holdfast.recording.stopping import STOP, Interrupted
from holdfast.recording.stored import check_session, read_bare, read_stored
from holdfast.store.place import Ref
from holdfast.store.session import Session

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.history.keep import Keep
    from holdfast.recording.bus import EventBus
    from holdfast.recording.interrupts import Interrupts
    from holdfast.recording.report import ResumeReport
    from holdfast.recording.triggers import Trigger
    from holdfast.settings.loaded import Settings

_LOOK_EVERY: Final = 0.25
"""Seconds that a sleep takes at once. A signal that another thread was given, or that comes right before the wait
begins, does not end that wait: its handler runs when the main thread is back in Python."""


class Recorder(Bookkeeping):
    """A session, sources, a trigger, a retention rule and an event bus, joined.

    Args:
        session: Where it saves. The recorder is its writer from here on.
        trigger: When it saves by itself; without one, never.
        keep: What the session keeps: old checkpoints are removed with each save.
        events: The bus to tell what happens; one of its own by default.
        clock: Seconds that only grow; `time.monotonic` by default.
        enabled: Whether triggers count. Without, only `save()` saves.
    """

    def __init__(
        self,
        session: Session,
        *,
        trigger: Trigger | None = None,
        keep: Keep | None = None,
        events: EventBus | None = None,
        clock: Callable[[], float] | None = None,
        enabled: bool = True,
    ) -> None:
        super().__init__(check_session(session, Session), trigger, keep, events, clock, enabled=enabled)

    @classmethod
    def from_settings(
        cls,
        session: Session,
        settings: Settings,
        *,
        events: EventBus | None = None,
        clock: Callable[[], float] | None = None,
    ) -> Self:
        """A recorder as the settings want it: `checkpoint.*` says when it saves, and with `keep.*` what is kept.

        Compression is a matter of the store: open it with `compress=settings.checkpoint.compress`.
        """
        from holdfast.recording.configured import arguments_from

        return cls(session, events=events, clock=clock, **arguments_from(settings))

    @property
    def session(self) -> Session:
        """Where it saves."""
        return self._saver

    def step(
        self,
        n: int | None = None,
        *,
        tokens: int | None = None,
        cost_usd: float | None = None,
        duration_ms: float | None = None,
    ) -> Checkpoint | None:
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
        return None if due is None else self._automatic(due)

    def beat(self) -> Checkpoint | None:
        """Say that a beat is done, and count it; save if that makes it time. See `step`."""
        due = self._beat_due()
        return None if due is None else self._automatic(due)

    def tick(self) -> Checkpoint | None:
        """Save if it is time: nothing is counted, only the clock and predicates are asked. See `step`."""
        due = self._due()
        return None if due is None else self._automatic(due)

    def emit(self, event: Event | str, /, **data: Any) -> Checkpoint | None:
        """Say that something happened, to all who subscribed; save if the trigger waits for it. See `step`.

        Args:
            event: An event, or the type of one, such as `tool.completed`.
            data: What else there is to say, as plain JSON.
        """
        due = self._event_due(event, data)
        return None if due is None else self._automatic(due)

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
    ) -> Checkpoint:
        """Save now, whatever the trigger says. The arguments are those of `Session.save`.

        Raises:
            StateError: No source could be captured (`sources-failed`).
            InvalidInputError: A state cannot be saved; the message has the path. Nothing is written.
            BackendError: The store could not write; saving again is safe.
        """
        self._say(step, tokens=tokens, cost_usd=cost_usd, duration_ms=duration_ms)
        return self._saved(Order(trigger, message, status, tags, metadata))

    def resume(self, ref: Ref = "@", *, on_damage: OnDamage = "report") -> ResumeReport | None:
        """Go on from a checkpoint: give each source its state back. Nothing is written.

        The first resume of a recorder whose session names no branch (it is on `main`) looks on the branch in use: where
        the last recorder went on, or where somebody switched to with `remember=True`.

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
        self._check_damage_choice(on_damage)
        with self._turn:
            try:
                with self._reading():
                    stored = read_stored(self._saver, ref, follow=self._is_blank)
            except NotFoundError as missing:
                self._nothing_there(missing, ref)
                return None
            except IntegrityError as damage:
                return self._nothing_whole(damage, on_damage)
            plan = Plan(self._sources, stored)
            for name, source, value in plan.ready:
                try:
                    restore_now(source, value)
                except Exception as error:  # noqa: BLE001 - the application's own code: reported, and no other stops
                    plan.failed(name, error)
            # Read again where somebody has to be carried: what a source was given, it may have changed.
            left = read_bare(self._saver, stored.checkpoint) if plan.left else {}
            return self._resumed(plan, stored, left)

    def bring_back(self, name: str) -> bool:
        """Give a source what is carried for it, once more: one that failed, or that was absent.

        Returns:
            Whether it took it. From then on its own snapshots are saved.

        Raises:
            InvalidInputError: It is not connected, or nothing is carried for it.
        """
        return self._bring_back(name)

    def interrupts(self, deadline: float = 5.0) -> Interrupts:
        """Take over SIGTERM and SIGINT for a `with` block: the next step, beat or tick saves, and ends the block.

        Args:
            deadline: Seconds from the signal to the end. Where no step comes, the block is ended when three quarters of
                them have passed, wherever it is; the rest is for the last save.
        """
        from holdfast.recording.interrupts import Interrupts

        return Interrupts(self, deadline, self._last_words)

    def sleep(self, seconds: float) -> None:
        """Sleep, and wake up at once when the recorder is asked to stop.

        Raises:
            Interrupted: It was. What there is is saved, with status `interrupted`.
        """
        # Not an Event: setting one takes a lock, and a signal handler that interrupts who holds it would wait for ever.
        woken: SimpleQueue[None] = SimpleQueue()
        ends = monotonic() + seconds
        with self._waking(lambda: woken.put(None)):
            # Who is woken says so here, and who was asked when time was up too.
            while self._stop is None:
                left = ends - monotonic()
                if left <= 0:
                    return
                with suppress(Empty):
                    woken.get(timeout=min(left, _LOOK_EVERY))
        self._automatic(STOP)

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
        try:
            if isinstance(error, Exception):
                self._save_failure(error)
        finally:
            self.close()

    def _save_failure(self, failure: Exception) -> None:
        """The block ended in an error, which is raised on: what there is is saved if it can be."""
        try:
            with self._turn:
                silent = self._why_silent() or (NOT_BACK if self._would_overwrite() else "")
                if silent:
                    self._failure_unsaved(silent)
                else:
                    self._saved(self._order_of(failure))
        except Exception as error:  # noqa: BLE001 - the one that ended the block is the one to raise
            self._failure_unsaved(error)

    def _automatic(self, due: str) -> Checkpoint:
        if due is STOP:
            raise self._last_words()
        return self._saved(Order(due))

    def _last_words(self) -> Interrupted:
        stop = self._stop
        assert stop is not None
        with self._turn:
            if stop.done:
                return stop.interrupted()
            silent = self._why_silent() or (NOT_BACK if self._would_overwrite() else "")
            saved = None if silent else self._saved(Order(STOP, status="interrupted"))
            return stop.finish(saved, silent)

    def _saved(self, order: Order) -> Checkpoint:
        with self._turn:
            try:
                return self._write(self._capture(order))
            except ConflictError as conflict:
                if conflict.code is not ErrorCode.CHUNKS_GONE:
                    raise
            # What the last save left in the store was removed since; now the whole state is sent.
            return self._write(self._capture(order))
