"""Short lives for tests: an agent that counts, and a loop to let it live in."""

from __future__ import annotations

import asyncio
from typing import Any

import holdfast
from holdfast.agents import Beat, Heartbeat, HeartbeatAgent
from holdfast.backends.memory import MemoryBackend


class Counting(HeartbeatAgent):
    """Remembers the beats that it has seen, in a part of its own."""

    def __init__(self) -> None:
        super().__init__("counting")
        self.seen: list[int] = []

    def parts(self) -> dict[str, Any]:
        return super().parts() | {"seen": holdfast.attributes(self, "seen")}

    def sense(self, beat: Beat) -> Any:
        self.seen.append(beat.number)


async def beat(agent: HeartbeatAgent, store: Any, beats: int, **given: Any) -> Heartbeat:
    """A life of so many beats; what ran it."""
    heartbeat = Heartbeat(agent, store, **{"interval": 0, **given})
    await heartbeat.run(max_beats=beats)
    return heartbeat


def lives(scenario: Any, backend: Any = None) -> Any:
    """Run a scenario with a store of its own, in memory unless a backend is given."""

    async def run() -> Any:
        async with holdfast.AsyncStore(MemoryBackend() if backend is None else backend) as store:
            return await scenario(store)

    return asyncio.run(run())


async def resting(heartbeat: Heartbeat, beats: int) -> None:
    """Wait until it has lived so many beats, and pauses."""
    while heartbeat.beat < beats or heartbeat._resting is None:  # noqa: ASYNC110 - it tells nobody that it rests
        await asyncio.sleep(0)
