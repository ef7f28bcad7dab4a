"""Heartbeat: the one owner of an agent's life, from waking up to going to sleep.

    async with holdfast.aopen() as store:
        await Heartbeat(Scout(), store, session="scout").run()

A life begins with a lease, so that a session never has two heartbeats; then what the last life saved is restored; then
comes beat after beat. At the end of a beat, when enough of them have passed, the agent is saved, and again before it
goes to sleep. Whatever ends the process, the next life goes on from the last checkpoint.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from holdfast.agents.heartbeat.agent import Beat, HeartbeatAgent
from holdfast.agents.heartbeat.alarm import Alarm, Overdue
from holdfast.agents.heartbeat.beating import LOG, Beating, tell_failure
from holdfast.agents.heartbeat.checking import check_savable, checked_agent
from holdfast.agents.heartbeat.configured import Configured
from holdfast.agents.heartbeat.interval import Interval
from holdfast.agents.heartbeat.report import LifeReport, WakeReport, as_text, count_of_beats, named
from holdfast.agents.heartbeat.runtime import Phase, Runtime
from holdfast.agents.heartbeat.stored import at_least_one
from holdfast.agents.heartbeat.subsystems.identity import Identity
from holdfast.agents.heartbeat.waking import called, parts_of, wake_up
from holdfast.aio import AsyncHeldLease, AsyncStore, in_thread
from holdfast.errors import (
    ConflictError,
    ErrorCode,
    HoldfastError,
    IntegrityError,
    InvalidInputError,
    StateError,
)
from holdfast.history.names import check_label
from holdfast.record import Record
from holdfast.recording.async_recorder import AsyncRecorder
from holdfast.recording.bus import EventBus
from holdfast.recording.interrupts import FOR_STEPS
from holdfast.recording.stopping import Interrupted
from holdfast.store import Store

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.history.keep import Keep
    from holdfast.recording.triggers import Trigger
    from holdfast.settings.loaded import Settings


class End(Record):
    """Why a life ends, and what it leaves."""

    status: str
    reason: str
    last: Checkpoint | None = None


class Heartbeat:
    """Runs one agent in one session.

    Args:
        agent: Who lives.
        store: Where it is saved: what `holdfast.aopen` gave, or `holdfast.open`.
        session: Under which id; what the settings say without one.
        trigger: When it is saved by itself; `every(beats=50)` unless it or the settings say otherwise.
        keep: Which checkpoints stay; the newest 10 unless it or the settings say otherwise.
        interval: The pause between two beats: seconds, or an `Interval` with bounds.
        enabled: Whether checkpoints are made and restored at all.
        settings: Where all of these come from that are not given; `Settings.load()` by default.
        events: The bus to tell what happens; one of its own by default.
        max_failures: After so many beats in a row that ended in an error, it goes to sleep with status `failed`.
        lease_seconds: For how long the session stays taken after a machine was lost.
        deadline: Seconds from a signal to the end, the last save included; see `Recorder.interrupts`.
        resume: The checkpoint to wake up from, if not the newest.
    """

    def __init__(  # noqa: PLR0913 - each is a keyword of the public contract
        self,
        agent: HeartbeatAgent,
        store: AsyncStore | Store,
        *,
        session: str | None = None,
        trigger: Trigger | None = None,
        keep: Keep | None = None,
        interval: Interval | float | None = None,
        enabled: bool | None = None,
        settings: Settings | None = None,
        events: EventBus | None = None,
        max_failures: int = 5,
        lease_seconds: float = 30.0,
        deadline: float = 5.0,
        resume: str = "@",
    ) -> None:
        self.agent = checked_agent(agent)
        self._store = _async(store)
        chosen = Configured.of(settings, session, trigger, keep, interval, enabled=enabled)
        self._chosen = chosen
        self.session = chosen.session
        self.events = EventBus() if events is None else events
        self.runtime = Runtime(chosen.interval, app_version=agent.version)
        self.runtime.every = chosen.every if chosen.enabled else None
        self._max_failures = at_least_one(max_failures, "max_failures")
        self._lease_seconds = lease_seconds
        self._deadline = deadline
        self._ref = resume
        self._branch = "main"
        self._recorder: AsyncRecorder | None = None
        self._resting: anyio.CancelScope | None = None
        self._asked: str | None = None
        self._saved = 0
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
            IntegrityError: The store is damaged in a way in which nothing can be saved.
        """
        if max_beats is not None:
            at_least_one(max_beats, "max_beats")
        if self._recorder is not None:
            raise StateError(
                f"this heartbeat of session {self.session!r} has run already",
                code=ErrorCode.NOT_AWAKE,
                hint="make a new Heartbeat for the next life",
            )
        async with self._store.lease(
            f"heartbeat:{self.session}", seconds=self._lease_seconds, on_lost=self._waker()
        ) as lease:
            chosen = self._chosen
            # Where people are, too: `holdfast switch` and `holdfast restore` say where the next life goes on.
            self._branch = await self._store.current_branch(self.session)
            recorder = AsyncRecorder(
                self._store.session(
                    self.session, branch=self._branch, lease=lease, agent=await self._name_to_list()
                ),
                trigger=chosen.trigger,
                keep=chosen.keep,
                events=self.events,
                enabled=chosen.enabled,
            )
            self._recorder = recorder
            self.runtime.epoch = lease.epoch
            self.woke = await self._wake_up(recorder)
            return await self._live(recorder, self.woke, lease, max_beats)

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
        if self._recorder is None or self.woke is None:
            raise StateError(
                "the agent is not awake, so there is nothing to save",
                code=ErrorCode.NOT_AWAKE,
                hint="call save() while run() is under way",
            )
        saved = await self._recorder.save(message, **given)
        self._saved += 1
        return saved

    async def _wake_up(self, recorder: AsyncRecorder) -> WakeReport:
        self.runtime.phase = Phase.WAKE_UP
        if self._chosen.enabled:
            looking = self._store.session(self.session, branch=self._branch)
            report = await wake_up(self.agent, recorder, self.runtime, looking=looking, ref=self._ref)
            check_savable(parts_of(self.agent), recorder)
        else:
            # The recorder checks that they can be sources, and saves none of them.
            for name, part in parts_of(self.agent).items():
                recorder.connect(name, part)
            report = WakeReport(self.session, 0, "disabled")
        LOG.info("session %s: %s", self.session, report)
        for name, why in report.failed.items():
            LOG.warning(
                "session %s: part %r was not restored, and what is stored of it is kept in place of what it is now; "
                "give it a restore() that takes the older form: %s",
                self.session,
                name,
                why,
            )
        if report.passed_over:
            await self._save_at_once(recorder)
        identity = parts_of(self.agent).get("identity")
        if isinstance(identity, Identity):
            identity.count("total_awakenings")
        if report.handed_over is not None:
            await self._woken("reevaluate", report.handed_over)
        await self._woken("wake", report)
        self.events.emit("heartbeat.woke", **report.to_dict())
        return report

    async def _woken(self, hook: str, argument: Any) -> None:
        """Call a hook of waking up. One that fails ends the life before it has begun, and the next one has it again."""
        try:
            await called(getattr(self.agent, hook), argument)
        except Exception as error:
            tell_failure(self.events, self.session, self.beat, self.runtime.phase, error)
            raise StateError(
                f"{hook}() of {type(self.agent).__name__} failed: {named(error)}",
                code=ErrorCode.HOOK_FAILED,
                hint="the agent did not wake up; start it again, and it wakes up from the same state",
            ) from error

    async def _save_at_once(self, recorder: AsyncRecorder) -> None:
        """After a fallback: what damaged a checkpoint may stop the next one too, and that is to be known now."""
        try:
            await recorder.save("woke up from before a damaged checkpoint", trigger="auto:wake")
            self._saved += 1
        except IntegrityError as error:
            raise IntegrityError(
                f"the store is damaged so that nothing can be saved in it: {error}",
                code=error.code,
                hint="holdfast repair makes a store of what is whole; start the agent again after that",
                **error.details,
            ) from error
        except HoldfastError as error:
            if isinstance(error, ConflictError) and error.code is ErrorCode.LEASE_LOST:
                raise
            # A full disk passes: the next one that is due is tried like any other.
            tell_failure(self.events, self.session, self.beat, self.runtime.phase, error)

    async def _live(
        self, recorder: AsyncRecorder, woke: WakeReport, lease: AsyncHeldLease, max_beats: int | None
    ) -> LifeReport:
        alarm = Alarm(self._deadline * FOR_STEPS)
        beating = Beating(self.agent, self.runtime, self.events, self.session, alarm)
        first = self.runtime.beat
        end = End("failed", "it ended in an error")
        try:
            # Only now that it is awake: a signal while half of the agent is restored must not save that half.
            async with recorder.interrupts(self._deadline):
                with alarm, recorder._waking(alarm.start):  # noqa: SLF001 - a friend: it is asked, and tells
                    end = await self._beats(recorder, beating, lease, max_beats)
                end = end._replace(last=await self._go_to_sleep(recorder, beating, end))
        except Interrupted as stopped:
            end = End("interrupted", f"signal {stopped.signal}", stopped.checkpoint)
            raise
        except asyncio.CancelledError:
            end = End("interrupted", "the task was cancelled", recorder.last)
            raise
        except Exception as error:
            beating.error = error
            end = End("failed", f"{type(error).__name__}: {as_text(error)}")
            raise
        finally:
            beats = self.runtime.beat - first
            if end.status == "interrupted" and end.last is not None:
                # Saved by the block that ended.
                self._saved += 1
            counts = (self.runtime.beat, beats, self._saved, beating.failures)
            ended_in = beating.error if end.status == "failed" else None
            self.life = LifeReport(self.session, end.status, end.reason, *counts, woke, end.last, ended_in)
            self.runtime.phase = Phase.ASLEEP
            LOG.info("session %s: %s", self.session, self.life)
            told = self.life.to_dict()
            # It has been told already, and may be long.
            del told["woke"]
            self.events.emit("heartbeat.slept", **told)
        return self.life

    async def _beats(
        self, recorder: AsyncRecorder, beating: Beating, lease: AsyncHeldLease, max_beats: int | None
    ) -> End:
        """Beat until there is a reason to stop; return it, with the status to sleep with."""
        left = max_beats
        first = self.runtime.beat
        while True:
            if lease.lost:
                # Raises, with who has it now.
                _ = lease.fence
            try:
                beat = await beating.beat()
            except Overdue:
                # Saves without the beat that was broken off, and raises.
                await recorder.tick()
                raise
            await self._integrated(recorder, beating, beat)
            if beating.in_a_row >= self._max_failures:
                return _failed(beating, f"{count_of_beats(beating.in_a_row)} in a row")
            if beat.sleeps is not None:
                return End("paused", as_text(beat.sleeps))
            left = None if left is None else left - 1
            asked = f"{count_of_beats(max_beats)} asked for" if max_beats and left == 0 else self._asked
            if asked is not None:
                # One that never worked did not end in order, however short it was.
                worked = beating.in_a_row < self.runtime.beat - first
                return End("paused", as_text(asked)) if worked else _failed(beating, "every beat")
            await self._pause(recorder, self.runtime.interval.after(worked=beat.worked))

    async def _integrated(self, recorder: AsyncRecorder, beating: Beating, beat: Beat) -> None:
        """The end of a beat: count it, and save if it is time."""
        self.runtime.lived = beat.number
        # The next checkpoint has the beat as its step, so that it is listed, and found, by that.
        recorder.count_from(step=beat.number)
        try:
            saved = await recorder.beat()
            if saved is None and beat.saves and self._chosen.enabled:
                saved = await recorder.save("the agent asked for it", trigger="auto:agent")
            if saved is not None:
                self._saved += 1
        except HoldfastError as error:
            if isinstance(error, ConflictError) and error.code is ErrorCode.LEASE_LOST:
                raise
            # A full disk or a server that is away passes: what was due stays due, and the next beat tries again.
            beating.failed(beat, error)
        beating.ended(beat)

    async def _pause(self, recorder: AsyncRecorder, seconds: float) -> None:
        if seconds <= 0:
            # Others on the loop get their turn, however fast it beats.
            await asyncio.sleep(0)
            return
        # Cancelled by `nudge`; the recorder wakes up by itself when it is asked to stop.
        with anyio.CancelScope() as self._resting:
            await recorder.sleep(seconds)
        self._resting = None

    async def _tried(self, hook: Any, *arguments: Any) -> None:
        """Call a hook outside of a beat. One that fails is reported, and ends nothing."""
        try:
            await called(hook, *arguments)
        except Exception as error:  # noqa: BLE001 - the application's own code
            tell_failure(self.events, self.session, self.beat, self.runtime.phase, error)

    async def _name_to_list(self) -> str | None:
        """What lists of sessions are to call the agent; None where they call it something already."""
        identity = parts_of(self.agent).get("identity")
        try:
            name = check_label(identity.name, "agent") if isinstance(identity, Identity) else None
        except InvalidInputError:
            # The agent may be called anything; only what can be in a list is in one.
            return None
        # A session belongs to one agent for good, by name, and this one may have been renamed.
        return None if await in_thread(partial(_has_agent, self._store, self.session)) else name

    def _waker(self) -> Callable[[Any], None]:
        """What cuts a pause short from another thread."""
        loop = asyncio.get_running_loop()

        def wake(_: Any) -> None:
            # A loop that is closed has nobody left to wake.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self.nudge)

        return wake

    async def _go_to_sleep(self, recorder: AsyncRecorder, beating: Beating, end: End) -> Checkpoint | None:
        self.runtime.phase = Phase.SLEEP
        await self._tried(self.agent.sleep, end.reason)
        if not self._chosen.enabled:
            return None
        try:
            saved = await recorder.save(end.reason, status=end.status, trigger="auto:sleep")
        except HoldfastError as error:
            # Where it failed because it could not be saved, that error is the news, and this one the same again.
            if end.status != "failed" or beating.error is None:
                raise
            LOG.error("session %s: the last checkpoint failed", self.session, exc_info=error)
            return None
        self._saved += 1
        return saved


def _failed(beating: Beating, which: str) -> End:
    assert beating.error is not None
    return End("failed", f"{which} ended in an error, the last in {named(beating.error)}")


def _has_agent(store: AsyncStore, session: str) -> bool:
    with store._store._reader() as reader:  # noqa: SLF001 - one row, where the public way lists all sessions
        row = reader.session(session)
    return row is not None and row.agent is not None


def _async(store: Any) -> AsyncStore:
    if isinstance(store, AsyncStore):
        return store
    if isinstance(store, Store):
        return AsyncStore._around(store)  # noqa: SLF001 - the same store, its operations in a worker thread
    raise InvalidInputError(
        f"a heartbeat cannot save to a {type(store).__name__}",
        code=ErrorCode.BAD_ARGUMENT,
        hint="pass what holdfast.aopen() or holdfast.open() gave",
    )
