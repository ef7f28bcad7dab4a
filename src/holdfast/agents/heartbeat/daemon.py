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
from typing import TYPE_CHECKING, Any

import anyio

from holdfast.agents.heartbeat.agent import Beat, HeartbeatAgent
from holdfast.agents.heartbeat.beating import LOG, Beating, tell_failure
from holdfast.agents.heartbeat.configured import Configured
from holdfast.agents.heartbeat.interval import Interval
from holdfast.agents.heartbeat.report import LifeReport, WakeReport, as_text, count_of_beats
from holdfast.agents.heartbeat.runtime import Phase, Runtime
from holdfast.agents.heartbeat.stored import at_least_one
from holdfast.agents.heartbeat.subsystems.identity import Identity
from holdfast.agents.heartbeat.waking import called, parts_of, wake_up
from holdfast.aio import AsyncStore
from holdfast.aio.lease import AsyncHeldLease
from holdfast.errors import ConflictError, ErrorCode, HoldfastError, InvalidInputError, StateError
from holdfast.record import Record
from holdfast.recording.async_recorder import AsyncRecorder
from holdfast.recording.bus import EventBus
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
        deadline: Seconds from a signal until it is saved wherever it is.
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
        self.agent = _checked(agent)
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
                self._store.session(self.session, branch=self._branch, lease=lease),
                trigger=chosen.trigger,
                keep=chosen.keep,
                events=self.events,
                enabled=chosen.enabled,
            )
            self._recorder = recorder
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
        await self._stay_on(saved)
        return saved

    async def _wake_up(self, recorder: AsyncRecorder) -> WakeReport:
        self.runtime.phase = Phase.WAKE_UP
        if self._chosen.enabled:
            looking = self._store.session(self.session, branch=self._branch)
            report = await wake_up(self.agent, recorder, self.runtime, looking=looking, ref=self._ref)
        else:
            # The recorder checks that they can be sources, and saves none of them.
            for name, part in parts_of(self.agent).items():
                recorder.connect(name, part)
            report = WakeReport(self.session, 0, "disabled")
        LOG.info("session %s: %s", self.session, report)
        identity = parts_of(self.agent).get("identity")
        if isinstance(identity, Identity):
            identity.count("total_awakenings")
        if report.handed_over is not None:
            await self._tried(self.agent.reevaluate, report.handed_over)
        await self._tried(self.agent.wake, report)
        self.events.emit("heartbeat.woke", **report.to_dict())
        return report

    async def _live(
        self, recorder: AsyncRecorder, woke: WakeReport, lease: AsyncHeldLease, max_beats: int | None
    ) -> LifeReport:
        beating = Beating(self.agent, parts_of(self.agent), self.runtime, self.events, self.session)
        first = self.runtime.beat
        end = End("failed", "it ended in an error")
        try:
            # Only now that it is awake: a signal while half of the agent is restored must not save that half.
            async with recorder.interrupts(self._deadline):
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
                # Saved by the block that ended; a task that is cancelled does this all the same.
                with anyio.CancelScope(shield=True):
                    await self._stay_on(end.last)
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
        while True:
            if lease.lost:
                # Raises, with who has it now.
                _ = lease.fence
            beat = await beating.beat()
            await self._integrated(recorder, beating, beat)
            if beating.in_a_row >= self._max_failures:
                return End("failed", f"{beating.in_a_row} beats in a row ended in an error")
            asked = beat.sleeps or self._asked
            if asked is not None:
                return End("paused", as_text(asked))
            left = None if left is None else left - 1
            if max_beats is not None and left == 0:
                return End("paused", f"{count_of_beats(max_beats)} asked for")
            await self._pause(recorder, self.runtime.interval.after(worked=beat.worked))

    async def _integrated(self, recorder: AsyncRecorder, beating: Beating, beat: Beat) -> None:
        """The end of a beat: count it, and save if it is time."""
        try:
            saved = await recorder.beat()
            if saved is None and beat.saves and self._chosen.enabled:
                saved = await recorder.save("the agent asked for it", trigger="auto:agent")
            if saved is not None:
                await self._stay_on(saved)
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

    async def _stay_on(self, saved: Checkpoint) -> None:
        """Count a checkpoint; where somebody else had moved the branch, make the new one the one in use.

        Otherwise the next life, and people who look, would go on from what is beside this one.
        """
        self._saved += 1
        if saved.branch != self._branch:
            self._branch = saved.branch
            await self._store.session(self.session).switch(saved.branch, remember=True)

    async def _tried(self, hook: Any, *arguments: Any) -> None:
        """Call a hook outside of a beat. One that fails is reported, and ends nothing."""
        try:
            await called(hook, *arguments)
        except Exception as error:  # noqa: BLE001 - the application's own code
            tell_failure(self.events, self.session, self.beat, self.runtime.phase, error)

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
        await self._stay_on(saved)
        return saved


def _checked(agent: Any) -> HeartbeatAgent:
    if isinstance(agent, HeartbeatAgent):
        return agent
    given = f"the class {agent.__name__}" if isinstance(agent, type) else f"a {type(agent).__name__}"
    raise InvalidInputError(
        f"a heartbeat cannot run {given}",
        code=ErrorCode.BAD_ARGUMENT,
        hint="pass an instance of a class that is built on HeartbeatAgent",
    )


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
