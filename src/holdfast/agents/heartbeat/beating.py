"""One beat: its phases one after the other, and what happens when a hook fails."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from holdfast.agents.heartbeat.agent import Beat, HeartbeatAgent
from holdfast.agents.heartbeat.report import as_text
from holdfast.agents.heartbeat.runtime import BEAT, Phase, Runtime
from holdfast.agents.heartbeat.subsystems.identity import Identity
from holdfast.agents.heartbeat.waking import called
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
        self, agent: HeartbeatAgent, parts: Mapping[str, Any], runtime: Runtime, bus: EventBus, session: str
    ) -> None:
        self._agent = agent
        self._runtime = runtime
        self._bus = bus
        self._session = session
        self._settling = [part.settle for part in parts.values() if callable(getattr(part, "settle", None))]
        identity = parts.get("identity")
        self._identity = identity if isinstance(identity, Identity) else None
        self.failures = 0
        self.in_a_row = 0
        self.error: BaseException | None = None

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
        if await called(getattr(self._agent, phase.value), beat):
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
        tell_failure(self._bus, self._session, beat.number, beat.phase, error)


def tell_failure(bus: EventBus, session: str, beat: int, phase: Phase, error: Exception) -> None:
    """Say that a hook failed: in the log, with its traceback, and on the bus."""
    LOG.error("beat %d of session %s failed in phase %s", beat, session, phase.value, exc_info=error)
    bus.emit(
        "heartbeat.failed",
        session=session,
        beat=beat,
        phase=phase.value,
        error=type(error).__name__,
        message=as_text(error),
    )
