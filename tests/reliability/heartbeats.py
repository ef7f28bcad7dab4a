"""An agent whose life depends on nothing but its beats, so that any beat can be lived again and compared."""

from __future__ import annotations

import asyncio
import copy
import os
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.unit.agents.lives import live

import holdfast
from holdfast.agents import Beat, Heartbeat, HeartbeatAgent, LifeReport, WakeReport
from holdfast.recording.sources import source_of

SESSION = "clockwork"


class Clockwork(HeartbeatAgent):
    """Uses all of its ten parts in every beat; what happens in one depends on its number and on what is in mind.

    Args:
        each: Called at the beginning of each beat, with its number.
        told: Called with the report of waking up, before the first beat.
    """

    def __init__(
        self,
        each: Callable[[int], object] = lambda _beat: None,
        told: Callable[[WakeReport], object] = lambda _report: None,
    ) -> None:
        super().__init__("clockwork")
        self._each = each
        self._told = told

    def wake(self, report: WakeReport) -> None:
        self._told(report)

    def sense(self, beat: Beat) -> None:
        self._each(beat.number)

    async def think(self, beat: Beat) -> None:
        live(self.parts(), random.Random(beat.number), beat.number)
        # Somewhere in a beat others get their turn.
        await asyncio.sleep(0)


def snapshots(agent: HeartbeatAgent) -> dict[str, Any]:
    """What would be saved of an agent now."""
    return {name: source_of(part).snapshot() for name, part in agent.parts().items()}


def lived(parts: dict[str, Any]) -> dict[str, Any]:
    """What is to be the same, however many lives it took: everything but the number of lives itself."""
    ten = {name: part for name, part in parts.items() if name != "runtime"}
    counters = {**ten["identity"]["counters"], "total_awakenings": None}
    return {**ten, "identity": {**ten["identity"], "counters": counters}}


def control(beats: Iterable[int]) -> dict[int, dict[str, Any]]:
    """The state after each of these beats, of a life that nothing ever interrupts and that is never saved."""
    wanted = set(beats)
    seen: dict[int, dict[str, Any]] = {}

    def look(beat: int) -> None:
        # At the beginning of a beat the one before is over.
        if beat - 1 in wanted:
            parts = snapshots(agent)
            seen[beat - 1] = lived(copy.deepcopy(parts))

    agent = Clockwork(look)

    async def run() -> None:
        async with holdfast.aopen("memory:") as store:
            await Heartbeat(agent, store, interval=0, enabled=False).run(max_beats=max(wanted) + 1)

    asyncio.run(run())
    return seen


def life(path: Path, agent: HeartbeatAgent, *, every: int, beats: int | None) -> LifeReport:
    """Live in this process until the beats are over, or the process is."""

    async def run() -> LifeReport:
        async with holdfast.aopen(path, durability="process") as store:
            trigger = holdfast.every(beats=every)
            return await Heartbeat(agent, store, session=SESSION, trigger=trigger, interval=0).run(
                max_beats=beats
            )

    return asyncio.run(run())


def in_child(work: Callable[[int], object]) -> tuple[int, int]:
    """A new process that does `work` with the end of a pipe to write to; its number, and the end to read from."""
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        return child, read
    status = 1
    try:
        os.close(read)
        work(write)
        status = 0
    except holdfast.ConflictError as refused:
        os.write(write, f"refused {refused.code}\n".encode())
        status = refused.exit_code
    finally:
        os._exit(status)


def lines(read: int) -> list[list[str]]:
    """Everything that the process wrote, word by word; a last line that the kill cut off does not count."""
    said = b""
    while piece := os.read(read, 65536):
        said += piece
    os.close(read)
    return [line.split() for line in said.decode().split("\n")[:-1]]


def lined_up(read: int, count: int) -> list[list[str]]:
    """The first lines that the process writes, at least so many unless it ends before."""
    said = b""
    # One byte at a time, so that no line of those to come is cut in two.
    while said.count(b"\n") < count and (piece := os.read(read, 1)):
        said += piece
    return [line.split() for line in said.decode().split("\n")[:-1]]
