"""One beat: its phases one after the other, and what happens when a hook fails."""

from __future__ import annotations

import inspect
import logging

from holdfast.agents.heartbeat.agent import Beat, HeartbeatAgent
from holdfast.agents.heartbeat.alarm import Alarm
from holdfast.agents.heartbeat.report import as_text, named
from holdfast.agents.heartbeat.runtime import BEAT, Phase, Runtime
from holdfast.agents.heartbeat.subsystems.identity import Identity
from holdfast.agents.heartbeat.waking import parts_of
from holdfast.recording.bus import EventBus

LOG = logging.getLogger("holdfast.heartbeat")


class Beating:
    """Lets an agent live one beat at a time.

    Attributes:
        failures: How many beats ended in an error.
        in_a_row: How many of the last ones, without one in between that did not.
        error: What the last of them ended in.
    """

    def __init__(
        self, agent: HeartbeatAgent, runtime: Runtime, bus: EventBus, session: str, alarm: Alarm
    ) -> None:
        self._agent = agent
        self._alarm = alarm
        parts = parts_of(agent)
        self._runtime = runtime
        self._bus = bus
        self._session = session
        self._settling = [part.settle for part in parts.values() if callable(getattr(part, "settle", None))]
        identity = parts.get("identity")
        self._identity = identity if isinstance(identity, Identity) else None
        self.failures = 0
        self.in_a_row = 0
        self.error: BaseException | None = None
        self._told: set[object] = set()

    async def beat(self) -> Beat:
        """Run the hooks of the next beat. One that fails ends the beat, is reported, and ends nothing else."""
        self._runtime.beat += 1
        beat = Beat(self._runtime.beat, self._runtime)
        try:
            for phase in BEAT:
                await self._phase(beat, phase)
        except Exception as error:  # noqa: BLE001 - the application's own code: reported, and the agent lives on
            self.failed(beat, error)
        self._settle(beat)
        return beat

    async def _phase(self, beat: Beat, phase: Phase) -> None:
        beat.phase = phase
        result = self._alarm.call(getattr(self._agent, phase.value), beat)
        if await result if inspect.isawaitable(result) else result:
            beat.worked = True
        self._runtime.phase = phase
        self._bus.emit("heartbeat.phase", session=self._session, phase=phase.value, beat=beat.number)

    def _settle(self, beat: Beat) -> None:
        """Time passes for all parts, also in a beat that failed."""
        if self._identity is not None:
            self._identity.count("total_heartbeats")
        for settle in self._settling:
            try:
                settle()
            except Exception as error:  # noqa: BLE001 - likewise: a part of the application's own
                self.failed(beat, error)

    def ended(self, beat: Beat) -> None:
        """A beat is over, and its checkpoint with it."""
        if not beat.failed:
            self.in_a_row = 0
        self._bus.emit("heartbeat.beat", session=self._session, beat=beat.number, worked=beat.worked)

    def failed(self, beat: Beat, error: Exception) -> None:
        """Report that a beat ended in an error; one beat counts once."""
        if not beat.failed:
            beat.failed = True
            self.failures += 1
            self.in_a_row += 1
        self.error = error
        kind = _kind_of(error)
        tell_failure(self._bus, self._session, beat.number, beat.phase, error, is_known=kind in self._told)
        self._told.add(kind)


def tell_failure(
    bus: EventBus, session: str, beat: int, phase: Phase, error: Exception, *, is_known: bool = False
) -> None:
    """Say that a hook failed: in the log, with its traceback unless that `is_known`, and on the bus."""
    if is_known:
        LOG.error(
            "beat %d of session %s failed in phase %s again: %s", beat, session, phase.value, named(error)
        )
    else:
        LOG.error("beat %d of session %s failed in phase %s", beat, session, phase.value, exc_info=error)
    bus.emit(
        "heartbeat.failed",
        session=session,
        beat=beat,
        phase=phase.value,
        error=type(error).__name__,
        message=as_text(error),
    )


def _kind_of(error: BaseException) -> object:
    """The same for errors of one type from one line of code, whatever they say."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = None if trace is None else (trace.tb_frame.f_code, trace.tb_lineno)
    return type(error), place
