"""Pulse: the agent that runs where nobody wrote one: it watches the machine it is on, without any model or network."""

from __future__ import annotations

import os
import shutil

from holdfast.agents.heartbeat.agent import Beat, HeartbeatAgent
from holdfast.agents.heartbeat.state import WakeReport


class Pulse(HeartbeatAgent):
    """Senses load and disk space, feels tension and curiosity, and keeps what mattered in mind."""

    def __init__(self, name: str = "pulse") -> None:
        super().__init__(name)

    def wake(self, report: WakeReport) -> None:
        """A first life begins with a principle, a goal and a question; later ones have them from the checkpoint."""
        if report.reason != "restored":
            self.ethics.principle("quiet", "do not burden the machine that carries you")
            self.goals.add("know this machine", priority=0.6)
            self.inner_life.wonder("what does this machine do all day?")

    def sense(self, beat: Beat) -> None:  # noqa: ARG002 - the hook's signature
        """Look at the load and the disk."""
        disk = shutil.disk_usage(os.getcwd())  # noqa: PTH109 - pathlib would be loaded for this alone
        full = disk.used / max(1, disk.total)
        self.sensory.sense("disk", round(full, 2), min(1.0, full**4))
        if hasattr(os, "getloadavg"):  # Windows has none
            load = os.getloadavg()[0] / (os.cpu_count() or 1)
            self.sensory.sense("load", round(load, 1), min(1.0, load / 2))

    def think(self, beat: Beat) -> bool:  # noqa: ARG002 - the same
        """What is salient makes tense or curious, and stays in mind."""
        noticed = self.sensory.salient()
        for percept in noticed:
            self.affect.feel(
                "tension" if percept["salience"] > 0.7 else "curiosity", percept["salience"] / 10
            )
            self.working_memory.hold(
                {percept["channel"]: percept["value"]}, percept["salience"], kind="percept"
            )
            self.identity.count("total_thoughts")
        return bool(noticed)

    def act(self, beat: Beat) -> None:  # noqa: ARG002 - the same
        """Learning is all it does."""
        if self.goals.current is not None:
            self.goals.advance(self.goals.current["id"], 0.01)
            self.identity.count("total_actions")
