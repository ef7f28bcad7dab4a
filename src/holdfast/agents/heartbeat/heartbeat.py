"""Heartbeat: the one owner of an agent's life, from waking up to going to sleep.

    await Heartbeat(Scout(), "scout.db", session="scout").run()

A life begins with a lease, so that a session never has two heartbeats; then what the last life saved is restored; then
comes beat after beat. At the end of a beat, when enough of them have passed, the agent is saved, and again before it
goes to sleep. Whatever ends the process, the next life goes on from the last checkpoint. A damaged store ends nothing:
it is repaired or made anew (see `rescue`), and the life goes on from the newest checkpoint that is whole.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

import holdfast
from holdfast import AsyncRecorder, EventBus, Interrupted, Keep, ResumeReport, Store
from holdfast.agents.heartbeat.agent import RUNTIME, Beat, HeartbeatAgent, called, checked_agent, parts_of
from holdfast.agents.heartbeat.rescue import Rescue, Step, checked, repaired, rescued
from holdfast.agents.heartbeat.state import (
    BEAT,
    Interval,
    LifeReport,
    Phase,
    Runtime,
    WakeReport,
    as_text,
    count_of_beats,
    named,
)
from holdfast.agents.heartbeat.subsystems import Identity
from holdfast.agents.live import listening
from holdfast.aio import AsyncSession, AsyncStore, in_thread
from holdfast.errors import (
    ErrorCode,
    HoldfastError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    StateError,
    bad_argument,
)
from holdfast.history.names import check_label
from holdfast.recording.resume import SourceOutcome, unencodable
from holdfast.recording.sources import source_of
from holdfast.recording.triggers import AnyOf, Beats, Trigger, every, manual
from holdfast.settings.settings import Settings

if TYPE_CHECKING:
    from holdfast import Checkpoint
    from holdfast.aio import AsyncHeldLease

LOG = logging.getLogger("holdfast.heartbeat")

_SESSION = "heartbeat"
"""Where nobody names one: not the session that everybody is in, because a heartbeat removes older checkpoints."""

_RESCUES = 2
"""Times that one run makes a damaged store anew."""


class _FoundDamageError(Exception):
    """A checkpoint was passed over as damaged, and nobody has tried to repair the store yet."""

    def __init__(self, damage: HoldfastError) -> None:
        super().__init__(str(damage))
        self.damage = damage


@dataclass
class _Life:
    """What one life has come to so far."""

    recorder: AsyncRecorder
    lease: AsyncHeldLease
    woke: WakeReport
    first: int
    """The beat that it began with."""
    saved: int = 0
    failures: int = 0
    in_a_row: int = 0
    """How many of the last beats ended in an error, without one in between that did not."""
    error: BaseException | None = None
    status: str = "failed"
    reason: str = "it ended in an error"
    last: Checkpoint | None = None


class Heartbeat:
    """Runs one agent in one session.

    Args:
        agent: Who lives.
        store: Where it is saved: a path or URL as `holdfast.open` takes it (None: the usual one), or a store that is
            open. With a path, a store that is damaged so that it cannot be opened is made anew, and the old file kept.
        session: Under which id; what the settings say without one.
        trigger: When it is saved by itself; `every(beats=50)` unless it or the settings say otherwise.
        keep: Which checkpoints stay; the newest 10 unless it or the settings say otherwise.
        interval: The pause between two beats: seconds, or an `Interval` with bounds.
        enabled: Whether checkpoints are made and restored at all.
        export_dir: A folder that gets a portable file for each checkpoint, pruned with it; False: none.
        settings: Where all of these come from that are not given; `Settings.load()` by default.
        events: The bus to tell what happens; one of its own by default.
        types: Classes whose instances may be part of the state, where the heartbeat opens the store.
        max_failures: After so many beats in a row that ended in an error, it goes to sleep with status `failed`.
        lease_seconds: For how long the session stays taken after a machine was lost.
        deadline: Seconds from a signal to the end, the last save included; see `Recorder.interrupts`.
        resume: The checkpoint to wake up from, if not the newest.
    """

    def __init__(  # noqa: PLR0913, PLR0915 - each is a keyword of the public contract
        self,
        agent: HeartbeatAgent,
        store: AsyncStore | Store | str | Path | None = None,
        *,
        session: str | None = None,
        trigger: Trigger | None = None,
        keep: Keep | None = None,
        interval: Interval | float | None = None,
        enabled: bool | None = None,
        export_dir: str | Path | bool | None = None,
        settings: Settings | None = None,
        events: EventBus | None = None,
        types: tuple[type, ...] = (),
        max_failures: int = 5,
        lease_seconds: float = 30.0,
        deadline: float = 5.0,
        resume: str = "@",
    ) -> None:
        self.agent = checked_agent(agent)
        if not isinstance(store, AsyncStore | Store | str | Path | None):
            raise bad_argument(
                f"a heartbeat cannot save to a {type(store).__name__}",
                "pass a path, or what holdfast.aopen() or holdfast.open() gave",
            )
        self._given = store
        path = store if isinstance(store, str | Path) else None
        wanted = Settings.load(store=path) if settings is None else settings
        self._settings = wanted
        by_default = _SESSION if wanted.origin("session") == "default" else wanted.session
        self.session = session or wanted.heartbeat.session or by_default
        self._trigger = _trigger(wanted) if trigger is None else trigger
        self._keep = _keep(wanted) if keep is None else keep
        self._enabled = wanted.checkpoint.enabled if enabled is None else enabled
        self._export_dir = wanted.checkpoint.export_dir if export_dir is None else export_dir
        if interval is None:
            interval = Interval(wanted.heartbeat.min_interval, wanted.heartbeat.max_interval)
        elif not isinstance(interval, Interval):
            interval = Interval(interval, interval)
        self.events = EventBus() if events is None else events
        between = _beats_between(self._trigger) if self._enabled else None
        self.runtime = Runtime(interval, every=between, app_version=agent.version)
        self._types = types
        self._max_failures = _at_least_one(max_failures, "max_failures")
        self._lease_seconds = lease_seconds
        self._deadline = deadline
        self._ref = resume
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._now: _Life | None = None
        self._resting: anyio.CancelScope | None = None
        self._asked: str | None = None
        self._rescues: list[Rescue] = []
        self._saved_at_wake = 0
        self._tries = 0
        """How often it was repaired or made anew."""
        self._is_mended = False
        """Whether a repair of what was found damaged was tried."""
        self._wanted: list[tuple[str, asyncio.Future[ResumeReport]]] = []
        """Restores that somebody asked for; they are done between two beats."""
        self._told: set[object] = set()
        self.woke: WakeReport | None = None
        """How this life began; None before."""
        self.life: LifeReport | None = None
        """How this life went; None before its end."""

    @property
    def beat(self) -> int:
        """The last beat, over all lives."""
        return self.runtime.beat

    async def run(self, *, max_beats: int | None = None) -> LifeReport:
        """Live: wake up, beat after beat, go to sleep.

        It ends when the agent or `sleep()` asks for it, after `max_beats`, after too many failures, or with a signal.

        Returns:
            How the life went, in whatever way it ended in order; `life` has that also where an exception is raised.

        Raises:
            Interrupted: SIGTERM or SIGINT came, and the agent was saved with status `interrupted`.
            ConflictError: Another heartbeat has the session (`lease-held`), or took it over (`lease-lost`).
            StateError: It could not wake up: a hook failed (`hook-failed`), or the session is not that of an agent.
            IntegrityError: The store is damaged, and of a kind that cannot be made anew from here.
        """
        if max_beats is not None:
            _at_least_one(max_beats, "max_beats")
        if self._loop is not None:
            raise StateError(
                f"this heartbeat of session {self.session!r} has run already",
                code=ErrorCode.NOT_AWAKE,
                hint="make a new Heartbeat for the next life",
            )
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        while True:
            try:
                return await self._run(max_beats)
            except _FoundDamageError as found:
                # Before anything is saved over it. What cannot be repaired is used as it is.
                self._is_mended = True
                await in_thread(partial(self._rescue, found.damage, only_repair=True))
            except (IntegrityError, InvalidInputError) as damage:
                if self._tries >= _RESCUES or not await in_thread(partial(self._rescue, damage)):
                    raise
                LOG.warning("session %s: the store was damaged, and is made anew: %s", self.session, damage)
                if max_beats is not None and self.life is not None:
                    max_beats = max(1, max_beats - self.life.beats)
            finally:
                self._now = None
                for _, waiting in self._wanted:
                    if not waiting.done():
                        waiting.set_exception(_not_awake("restore"))
                self._wanted.clear()

    def sleep(self, reason: str = "somebody asked for it") -> None:
        """Let the beat that is under way be the last one, and cut a pause short. For use on the event loop."""
        self._asked = reason
        self.nudge()

    def nudge(self) -> None:
        """Let the next beat begin now, if a pause is under way: something happened. For use on the event loop."""
        if self._resting is not None:
            self._resting.cancel()

    async def save(self, message: str = "", **given: Any) -> Checkpoint:
        """Save the live agent now, whatever the interval says. The arguments are those of `Recorder.save`."""
        if self._now is None:
            raise _not_awake("save")
        life = self._now
        saved = await life.recorder.save(message, **given)
        life.saved += 1
        return saved

    async def restore(self, ref: str) -> ResumeReport:
        """Give the live agent an older state back, between two beats, and save that. The order is that of waking up.

        Raises:
            NotFoundError: `ref` names nothing; nothing has changed.
            StateError: The agent is not awake, or this is called from one of its hooks, which the restore waits for.
        """
        if self._now is None or asyncio.current_task() is self._task:
            raise _not_awake("restore")
        waiting: asyncio.Future[ResumeReport] = asyncio.get_running_loop().create_future()
        self._wanted.append((ref, waiting))
        self.nudge()
        return await waiting

    def save_now(self, message: str = "", *, timeout: float = 30.0) -> Checkpoint:
        """`save` from another thread than the heartbeat's: waits until it is saved."""
        saved: Checkpoint = self._from_elsewhere(lambda: self.save(message), timeout, "save")
        return saved

    def restore_now(self, ref: str, *, timeout: float = 30.0) -> ResumeReport:
        """`restore` from another thread than the heartbeat's: waits until it is done, between two beats."""
        report: ResumeReport = self._from_elsewhere(lambda: self.restore(ref), timeout, "restore")
        return report

    def _from_elsewhere(self, call: Callable[[], Any], timeout: float, what: str) -> Any:
        with suppress(RuntimeError):
            if asyncio.get_running_loop() is self._loop:
                raise StateError(
                    f"{what}_now() would wait for the event loop that it holds up",
                    code=ErrorCode.NOT_AWAKE,
                    hint=f"on the heartbeat's own loop, await {what}()",
                )
        if self._loop is None or self._now is None or self._loop.is_closed():
            raise _not_awake(what)
        future = asyncio.run_coroutine_threadsafe(call(), self._loop)
        try:
            return future.result(timeout)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise StateError(
                f"the agent did not come to {what} within {timeout:g} s",
                code=ErrorCode.NOT_AWAKE,
                hint="a hook takes long; try again, or give it a longer timeout",
            ) from None

    # One life

    async def _run(self, max_beats: int | None) -> LifeReport:
        async with AsyncExitStack() as stack:
            if isinstance(self._given, AsyncStore):
                store = self._given
            elif isinstance(self._given, Store):
                store = AsyncStore._around(self._given)  # noqa: SLF001 - its operations in a worker thread
            else:
                if not self._rescues and (rescue := await in_thread(partial(checked, self._given))):
                    self._rescues.append(rescue)
                store = AsyncStore._around(await in_thread(partial(self._opened, self._given)))  # noqa: SLF001 - the same
                await stack.enter_async_context(store)
            lease = await stack.enter_async_context(
                store.lease(f"heartbeat:{self.session}", seconds=self._lease_seconds, on_lost=self._waker())
            )
            # Where people are, too: `holdfast switch` and `holdfast restore` say where the next life goes on.
            branch = await store.current_branch(self.session)
            looking = store.session(self.session, branch=branch, export_dir=False)
            recorder = AsyncRecorder(
                store.session(
                    self.session,
                    branch=branch,
                    lease=lease,
                    agent=await self._name_to_list(looking),
                    export_dir=self._export_dir,
                ),
                trigger=self._trigger,
                keep=self._keep,
                events=self.events,
                enabled=self._enabled,
            )
            woke = self.woke = await self._wake_up(recorder, looking)
            life = self._now = _Life(recorder, lease, woke, self.runtime.beat, self._saved_at_wake)
            plain = store._store  # noqa: SLF001 - the same store, for a thread of its own
            with listening(plain, self.session, self, kind="heartbeat"):
                return await self._live(life, max_beats)

    def _opened(self, target: str | Path | None) -> Store:
        return holdfast.open(
            target,
            types=self._types,
            durability=self._settings.durability,
            compress=self._settings.checkpoint.compress,
            app_version=self.agent.version,
        )

    def _rescue(self, damage: HoldfastError, *, only_repair: bool = False) -> bool:
        """Make the store one that can be used again; whether that was done. In a worker thread."""
        given = self._given
        if isinstance(given, AsyncStore | Store):
            plain = given._store if isinstance(given, AsyncStore) else given  # noqa: SLF001 - the same store
            rescue = repaired(plain) if isinstance(damage, IntegrityError) else None
        else:
            step: Step = "repair" if only_repair else "anew" if self._tries else "either"
            rescue = rescued(given, self.session, damage, self._opened, step)
        if rescue is None:
            return False
        self._tries += 1
        self._rescues.append(rescue)
        return True

    async def _live(self, life: _Life, max_beats: int | None) -> LifeReport:
        try:
            # Only now that it is awake: a signal while half of the agent is restored must not save that half.
            async with life.recorder.interrupts(self._deadline):
                life.status, life.reason = await self._beats(life, max_beats)
                life.last = await self._go_to_sleep(life)
        except Interrupted as stopped:
            life.status, life.reason, life.last = (
                "interrupted",
                f"signal {stopped.signal}",
                stopped.checkpoint,
            )
            life.saved += stopped.checkpoint is not None
            raise
        except asyncio.CancelledError:
            life.status, life.reason, life.last = "interrupted", "the task was cancelled", life.recorder.last
            life.saved += 1
            raise
        except Exception as error:
            life.status, life.reason, life.error = (
                "failed",
                f"{type(error).__name__}: {as_text(error)}",
                error,
            )
            raise
        finally:
            self.life = LifeReport(
                self.session,
                life.status,
                life.reason,
                self.runtime.beat,
                self.runtime.beat - life.first,
                life.saved,
                life.failures,
                life.woke,
                life.last,
                life.error if life.status == "failed" else None,
            )
            self.runtime.phase = Phase.ASLEEP
            LOG.info("session %s: %s", self.session, self.life)
            # How it woke up has been told already, and may be long.
            told = {name: said for name, said in self.life.to_dict().items() if name != "woke"}
            self.events.emit("heartbeat.slept", **told)
        return self.life

    async def _beats(self, life: _Life, max_beats: int | None) -> tuple[str, str]:
        """Beat until there is a reason to stop; return the status to sleep with, and the reason."""
        left = max_beats
        while True:
            if life.lease.lost:
                # Raises, with who has it now.
                _ = life.lease.fence
            await self._restore_wanted(life)
            beat = await self._one_beat(life)
            await self._integrated(life, beat)
            if life.in_a_row >= self._max_failures:
                return self._failed(life, f"{count_of_beats(life.in_a_row)} in a row")
            if beat.sleeps is not None:
                return "paused", as_text(beat.sleeps)
            left = None if left is None else left - 1
            asked = f"{count_of_beats(max_beats)} asked for" if max_beats and left == 0 else self._asked
            if asked is not None:
                # One that never worked did not end in order, however short it was.
                worked = life.in_a_row < self.runtime.beat - life.first
                return ("paused", as_text(asked)) if worked else self._failed(life, "every beat")
            await self._pause(life.recorder, self.runtime.interval.after(worked=beat.worked))

    async def _one_beat(self, life: _Life) -> Beat:
        """Run the hooks of the next beat. One that fails ends the beat, is reported, and ends nothing else."""
        runtime = self.runtime
        runtime.beat += 1
        beat = Beat(runtime.beat, runtime)
        try:
            for phase in BEAT:
                beat.phase = phase
                if await called(getattr(self.agent, phase.value), beat):
                    beat.worked = True
                runtime.phase = phase
                self.events.emit("heartbeat.phase", session=self.session, phase=phase.value, beat=beat.number)
        except Exception as error:  # noqa: BLE001 - the application's own code: reported, and the agent lives on
            self._beat_failed(life, beat, error)
        # Time passes for all parts, also in a beat that failed.
        for part in parts_of(self.agent).values():
            try:
                if isinstance(part, Identity):
                    part.count("total_heartbeats")
                if callable(settle := getattr(part, "settle", None)):
                    settle()
            except Exception as error:  # noqa: BLE001 - likewise: a part of the application's own
                self._beat_failed(life, beat, error)
        return beat

    async def _integrated(self, life: _Life, beat: Beat) -> None:
        """The end of a beat: count it, and save if it is time."""
        self.runtime.lived = beat.number
        try:
            # The checkpoint has the beat as its step too, so that it is listed, and found, by that.
            saved = await life.recorder.beat(beat.number, step=beat.number)
            if saved is None and beat.saves and self._enabled:
                saved = await life.recorder.save("the agent asked for it", trigger="auto:agent")
            life.saved += saved is not None
        except HoldfastError as error:
            if isinstance(error, IntegrityError) or error.code is ErrorCode.LEASE_LOST:
                raise
            # A full disk or a server that is away passes: what was due stays due, and the next beat tries again.
            self._beat_failed(life, beat, error)
        if not beat.failed:
            life.in_a_row = 0
        self.events.emit("heartbeat.beat", session=self.session, beat=beat.number, worked=beat.worked)

    async def _restore_wanted(self, life: _Life) -> None:
        while self._wanted:
            ref, waiting = self._wanted.pop(0)
            try:
                report = await life.recorder.resume(ref)
                if report is None or report.checkpoint is None:
                    raise NotFoundError(
                        f"{ref!r} cannot be restored: {report.reason if report else 'nothing is saved yet'}",
                        code=ErrorCode.CHECKPOINT_MISSING,
                        hint="holdfast list shows what there is",
                    )
                self._count_from_runtime(life.recorder, report)
                await life.recorder.save(f"restored #{report.checkpoint.seq}", trigger="restore")
                life.saved += 1
            except HoldfastError as error:
                if not waiting.done():
                    waiting.set_exception(error)
                if isinstance(error, IntegrityError) or error.code is ErrorCode.LEASE_LOST:
                    raise
            else:
                if not waiting.done():
                    waiting.set_result(report)

    async def _pause(self, recorder: AsyncRecorder, seconds: float) -> None:
        if seconds <= 0:
            # Others on the loop get their turn, however fast it beats.
            await asyncio.sleep(0)
            return
        if self._wanted:
            return
        # Cancelled by `nudge`; the recorder wakes up by itself when it is asked to stop.
        with anyio.CancelScope() as self._resting:
            await recorder.sleep(seconds)
        self._resting = None

    async def _go_to_sleep(self, life: _Life) -> Checkpoint | None:
        self.runtime.phase = Phase.SLEEP
        try:
            await called(self.agent.sleep, life.reason)
        except Exception as error:  # noqa: BLE001 - the application's own code: it ends anyway
            self._tell_failure(error)
        if not self._enabled:
            return None
        try:
            saved = await life.recorder.save(life.reason, status=life.status, trigger="auto:sleep")
        except HoldfastError as error:
            # Where it failed because it could not be saved, that error is the news, and this one the same again.
            if life.status != "failed" or life.error is None:
                raise
            LOG.warning("session %s: the last checkpoint failed", self.session, exc_info=error)
            return None
        life.saved += 1
        return saved

    # Waking up

    async def _wake_up(self, recorder: AsyncRecorder, looking: AsyncSession) -> WakeReport:
        self.runtime.phase = Phase.WAKE_UP
        self._saved_at_wake = 0
        parts = parts_of(self.agent)
        if self._enabled:
            report = await self._restored(recorder, looking, parts | {RUNTIME: self.runtime})
            _check_savable(parts, recorder)
        else:
            # The recorder checks that they can be sources, and saves none of them.
            for name, part in parts.items():
                recorder.connect(name, part)
            report = WakeReport(self.session, 0, "disabled")
        kept = tuple(each.kept_aside for each in self._rescues)
        lost = tuple(said for each in self._rescues for said in each.lost)
        report = report._replace(kept_aside=kept, passed_over=(*report.passed_over, *lost))
        if kept or report.passed_over:
            report = report._replace(at_most_lost=None)
        if kept and report.reason == "first":
            report = report._replace(reason="damaged")
        LOG.info("session %s: %s", self.session, report)
        if self._enabled and report.passed_over:
            # What damaged a checkpoint may stop the next one too, and that is to be known now.
            try:
                await recorder.save("woke up from before a damaged checkpoint", trigger="auto:wake")
                self._saved_at_wake = 1
            except HoldfastError as error:
                if isinstance(error, IntegrityError) or error.code is ErrorCode.LEASE_LOST:
                    raise
                # A full disk passes: the next one that is due is tried like any other.
                self._tell_failure(error)
        identity = parts.get("identity")
        if isinstance(identity, Identity):
            identity.count("total_awakenings")
        if report.handed_over is not None:
            await self._woken("reevaluate", report.handed_over)
        await self._woken("wake", report)
        self.events.emit("heartbeat.woke", **report.to_dict())
        return report

    async def _restored(
        self, recorder: AsyncRecorder, looking: AsyncSession, parts: Mapping[str, Any]
    ) -> WakeReport:
        """Connect all parts and give back what is stored of them; nothing is written.

        A part whose own database is newer than the checkpoint is connected only after that: it keeps what it has.
        """
        runtime = self.runtime
        newer = await self._newer_parts(parts, looking, self._ref)
        for name, part in parts.items():
            if name not in newer:
                recorder.connect(name, part)
        resumed = await recorder.resume(self._ref)
        if (
            resumed is not None
            and (resumed.passed_over or resumed.checkpoint is None)
            and not self._is_mended
        ):
            raise _FoundDamageError(
                IntegrityError(
                    f"checkpoints are damaged: {resumed}",
                    code=ErrorCode.STORE_DAMAGED,
                    hint="holdfast repair",
                )
            )
        foreign: tuple[str, ...] = ()
        if resumed is not None and resumed.checkpoint is not None and _is_foreign(resumed):
            own, foreign = await _own_checkpoint(looking, resumed.checkpoint, parts)
            newer = await self._newer_parts(parts, looking, own.id)
            for name in newer:
                if name in recorder.sources:
                    recorder.disconnect(name)
            resumed = await recorder.resume(own.id)
        for name in newer:
            recorder.connect(name, parts[name])
        self._count_from_runtime(recorder, resumed)
        if resumed is None:
            return WakeReport(looking.id, runtime.beat, "first")
        report = WakeReport(
            looking.id,
            runtime.beat,
            "damaged",
            passed_over=tuple(f"#{each.seq or '?'} ({each.why})" for each in resumed.passed_over),
        )
        if resumed.checkpoint is None:
            return report if report.passed_over else report._replace(passed_over=(resumed.reason,))
        # A life that ended in order has saved its last beat; another one may have lived until right before a save.
        between = max(runtime.last_every or 1, runtime.every or 1)
        return report._replace(
            # Everything but the runtime was newer in the database.
            reason="database" if newer and len(newer) >= len(parts) - 1 else "restored",
            checkpoint=resumed.checkpoint,
            age_seconds=resumed.age_seconds,
            order=resumed.named("restored"),
            sources={name: _said(each) for name, each in resumed.sources.items()},
            newer=newer,
            foreign=foreign,
            handed_over=runtime.hand_over(),
            at_most_lost=0 if resumed.checkpoint.status != "running" else between - 1,
        )

    def _count_from_runtime(self, recorder: AsyncRecorder, resumed: ResumeReport | None) -> None:
        """Count beats from where the state is. A person's checkpoint has them in its state alone."""
        runtime = self.runtime
        if resumed is None or RUNTIME not in resumed.named("restored"):
            # What the recorder says onto its own checkpoints is all that is known.
            runtime.beat = runtime.lived = recorder.beats
        recorder._count_from(beats=runtime.lived, step=runtime.lived)  # noqa: SLF001 - of one piece with it

    async def _newer_parts(
        self, parts: Mapping[str, Any], looking: AsyncSession, ref: str
    ) -> tuple[str, ...]:
        """The parts that the agent's own database has at the checkpoint's time or later."""
        try:
            told = await called(self.agent.database_time)
        except Exception as error:
            # Without its answer nobody knows what to restore: either way could lose something.
            raise _hook_failed(self.agent, "database_time", error) from error
        if told is None:
            return ()
        try:
            # By way of recovery: what counts is the checkpoint that will be served, not a damaged one before it.
            served = (await looking.recover(ref)).checkpoint
        except (NotFoundError, IntegrityError):
            # The restore will say so.
            return ()
        if not isinstance(told, Mapping):
            # The beat is the heartbeat's own; no database of the agent's knows it.
            told = {name: told for name in parts if name != RUNTIME}
        for name, moment in told.items():
            if name not in parts or not isinstance(moment, datetime):
                raise InvalidInputError(
                    f"database_time() gave {moment!r:.60} for part {name!r:.40}",
                    code=ErrorCode.BAD_TIME,
                    hint=f"return a datetime, a dict of them by part, or None; the parts are: {', '.join(parts)}",
                )
        # Without a zone it is local time, as everywhere in holdfast.
        return tuple(
            name for name in parts if name in told and told[name].astimezone(UTC) >= served.created_at
        )

    async def _woken(self, hook: str, argument: Any) -> None:
        """Call a hook of waking up. One that fails ends the life before it has begun, and the next one has it again."""
        try:
            await called(getattr(self.agent, hook), argument)
        except Exception as error:
            self._tell_failure(error)
            raise _hook_failed(self.agent, hook, error) from error

    async def _name_to_list(self, looking: AsyncSession) -> str | None:
        """What lists of sessions are to call the agent; None where they call it something already."""
        identity = parts_of(self.agent).get("identity")
        try:
            name = check_label(identity.name, "agent") if isinstance(identity, Identity) else None
            # A session belongs to one agent for good, by name, and this one may have been renamed.
            return name if not (log := await looking.log(limit=1)) or log[0].agent is None else None
        except (InvalidInputError, IntegrityError):
            # The agent may be called anything; only what can be in a list is in one.
            return None

    def _waker(self) -> Callable[[Any], None]:
        """What cuts a pause short from another thread."""
        loop = asyncio.get_running_loop()

        def wake(_: Any) -> None:
            # A loop that is closed has nobody left to wake.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self.nudge)

        return wake

    # Failures

    def _beat_failed(self, life: _Life, beat: Beat, error: Exception) -> None:
        """Report that a beat ended in an error; one beat counts once."""
        if not beat.failed:
            beat.failed = True
            life.failures += 1
            life.in_a_row += 1
        life.error = error
        self._tell_failure(error, beat.phase)

    def _failed(self, life: _Life, which: str) -> tuple[str, str]:
        assert life.error is not None
        return "failed", f"{which} ended in an error, the last in {named(life.error)}"

    def _tell_failure(self, error: Exception, phase: Phase | None = None) -> None:
        """Say that a hook or a save failed: in the log, with its traceback the first time, and on the bus."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        # The same for errors of one type from one line of code, whatever they say.
        kind = type(error), trace and (trace.tb_frame.f_code, trace.tb_lineno)
        beat, where = self.runtime.beat, (phase or self.runtime.phase).value
        if kind in self._told:
            LOG.error("beat %d of %s failed in phase %s again: %s", beat, self.session, where, named(error))
        else:
            LOG.error("beat %d of %s failed in phase %s", beat, self.session, where, exc_info=error)
        self._told.add(kind)
        self.events.emit(
            "heartbeat.failed",
            session=self.session,
            beat=beat,
            phase=where,
            error=type(error).__name__,
            message=as_text(error),
        )


def _trigger(settings: Settings) -> Trigger:
    """Steps are no matter of a heartbeat: it counts beats."""
    wanted = settings.checkpoint
    given: dict[str, Any] = {"beats": wanted.interval_beats, "seconds": wanted.interval_seconds}
    given = {name: value for name, value in given.items() if value is not None}
    return every(**given) if given and wanted.auto else manual


def _keep(settings: Settings) -> Keep | None:
    wanted = settings.checkpoint
    if wanted.max_count is None and wanted.prune_after_days is None:
        return None
    return Keep(at_most=wanted.max_count, max_age_days=wanted.prune_after_days)


def _beats_between(trigger: Trigger) -> int | None:
    parts = trigger.parts if isinstance(trigger, AnyOf) else (trigger,)
    return min((part.count for part in parts if isinstance(part, Beats)), default=None)


def _check_savable(parts: Mapping[str, Any], recorder: AsyncRecorder) -> None:
    """Encode each part once, and keep nothing of it: one that cannot be stored would fail at every checkpoint.

    Raises:
        InvalidInputError: The value of a part cannot be stored; the message has its name, and where in it.
    """
    state = {}
    for name, part in parts.items():
        # What fails here is the application's own code: the first save says it, and goes on.
        with suppress(Exception):
            state[name] = source_of(part, can_await=True).snapshot()
    refused = unencodable(recorder._saver, state)  # noqa: SLF001 - of one piece with it
    for name, why in refused.items():
        raise InvalidInputError(
            f"part {name!r} of the agent cannot be saved: {why}",
            code=ErrorCode.VALUE_UNSUPPORTED,
            hint="give it snapshot() and restore() with plain values, or leave it out of parts()",
            part=name,
            parts=list(refused),
        )


def _said(each: SourceOutcome) -> str:
    return f"{each.outcome}: {as_text(each.message)}" if each.message else each.outcome


def _is_foreign(resumed: ResumeReport) -> bool:
    """Whether a checkpoint has nothing at all for the agent: neither one of its parts, nor the heartbeat's own."""
    told = resumed.sources.values()
    return bool(told) and all(each.outcome == "missing" for each in told)


async def _own_checkpoint(
    looking: AsyncSession, newest: Checkpoint, parts: Mapping[str, Any]
) -> tuple[Checkpoint, tuple[str, ...]]:
    """The newest checkpoint before `newest` that has something of the agent, and what was passed over for it.

    Raises:
        StateError: There is none: the session is not that of an agent (`type-mismatch`).
    """
    passed: list[str] = []
    for each in await looking.log(newest.id):
        said = f"#{each.seq} ({as_text(each.message)[:60]!r})" if each.message else f"#{each.seq}"
        try:
            state = await looking.load(each)
        except StateError:
            # Of types that this program does not know: the restore looks at each part by itself.
            return each, tuple(passed)
        except IntegrityError:
            state, said = None, f"#{each.seq} (damaged)"
        if isinstance(state, dict) and not parts.keys().isdisjoint(state):
            return each, tuple(passed)
        passed.append(said)
    raise StateError(
        f"session {looking.id!r} is not that of an agent: #{newest.seq} has none of the parts {', '.join(parts)}",
        code=ErrorCode.TYPE_MISMATCH,
        hint="give the agent a session of its own: what is in this one would be removed as it saves",
        session=looking.id,
        checkpoint=newest.id,
    )


def _hook_failed(agent: HeartbeatAgent, hook: str, error: Exception) -> StateError:
    return StateError(
        f"{hook}() of {type(agent).__name__} failed: {named(error)}",
        code=ErrorCode.HOOK_FAILED,
        hint="the agent did not wake up; start it again, and it wakes up from the same state",
    )


def _not_awake(what: str) -> StateError:
    return StateError(
        f"the agent is not awake, so there is nothing to {what}",
        code=ErrorCode.NOT_AWAKE,
        hint=f"call {what}() while run() is under way, and not from a hook",
    )


def _at_least_one(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise bad_argument(f"{name} cannot be {value!r}", "give a whole number above 0")
    return value
