"""An agent that lives in beats: it watches a folder, wonders about new files, and remembers them over its lives.

    python heartbeat_agent.py                        # until it has been idle for ten beats, or Ctrl-C
    holdfast heartbeat run heartbeat_agent:Watcher   # the same agent, until you stop it

Run it again and it knows the files of its last life; kill it, and it wakes up from its last checkpoint.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import holdfast
from holdfast.agents import Beat, Heartbeat, HeartbeatAgent, Interval, WakeReport


class Watcher(HeartbeatAgent):
    """Looks at the current folder. `files` is a part of its own, beside the ten that every agent has."""

    version: str | None = "1.0"

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__("watcher")
        self.folder = folder or Path.cwd()
        self.files: dict[str, int] = {}
        self.idle = 0

    def parts(self) -> dict[str, Any]:
        """What is saved and restored: everything that an agent has, and the files."""
        return super().parts() | {"files": holdfast.attributes(self, "files")}

    def wake(self, report: WakeReport) -> None:
        """Say how it woke up; a first life begins with a goal."""
        print(report)
        if report.reason == "first":
            self.goals.add("know every file", priority=0.9)

    async def sense(self, beat: Beat) -> None:
        """What is in the folder is read in a thread: other tasks of the program go on meanwhile."""
        beat.notes["seen"] = await asyncio.to_thread(sizes, self.folder)

    def appraise(self, beat: Beat) -> None:
        """A file that is new or has changed is worth noticing."""
        changed = {name: size for name, size in beat.notes["seen"].items() if self.files.get(name) != size}
        for name in changed:
            percept = self.sensory.sense("folder", name, 0.8)
            self.affect.feel("curiosity", percept["salience"] / 5)
        beat.notes["changed"] = changed

    async def think(self, beat: Beat) -> bool:
        """Wonder about what is new; an agent with a model would ask it here."""
        for name in beat.notes["changed"]:
            self.working_memory.hold({"file": name}, salience=0.6, kind="file")
            self.inner_life.wonder(f"what is {name} for?")
        return bool(beat.notes["changed"])

    def act(self, beat: Beat) -> None:
        """Take note of the files, if nothing speaks against it."""
        if not self.ethics.against("folder.read"):
            self.files.update(beat.notes["changed"])

    def integrate(self, beat: Beat) -> None:
        """After ten beats without anything new it goes to sleep."""
        self.idle = 0 if beat.notes["changed"] else self.idle + 1
        if self.idle == 10:
            beat.sleep("nothing new for ten beats")


def sizes(folder: Path) -> dict[str, int]:
    """The files of a folder and their sizes."""
    return {each.name: each.stat().st_size for each in sorted(folder.iterdir()) if each.is_file()}


async def main() -> None:
    """One life."""
    # In the usual store, which it opens itself: one that is damaged is mended.
    heartbeat = Heartbeat(Watcher(), session="watcher", interval=Interval(0.01, 0.1))
    life = await heartbeat.run()
    print(life)


if __name__ == "__main__":
    asyncio.run(main())
