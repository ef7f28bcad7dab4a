"""Pulse: the agent that runs where nobody wrote one: it watches the machine it is on, and thinks its own thoughts.

It shows what a heartbeat is without any model or network, and is a place to start from: each phase uses a few of the
subsystems, as an agent of your own would.
"""

from __future__ import annotations

import os
import shutil
from typing import Any

from holdfast.agents.heartbeat.agent import Beat, HeartbeatAgent
from holdfast.agents.heartbeat.report import WakeReport

_NOTABLE = 0.3
"""The salience from which on something is thought about."""


class Pulse(HeartbeatAgent):
    """Senses load and disk space, feels tension and curiosity, and keeps what mattered in mind."""

    def __init__(self, name: str = "pulse") -> None:
        super().__init__(name)

    def wake(self, report: WakeReport) -> None:
        """A first life begins with principles, a goal and a question; later ones have them from the checkpoint."""
        if report.reason == "restored":
            return
        self.ethics.principle("quiet", "do not burden the machine that carries you", weight=1.0)
        self.ethics.veto("machine.write", "a pulse only looks")
        self.goals.add("know this machine", priority=0.6)
        self.inner_life.wonder("what does this machine do all day?")

    def sense(self, beat: Beat) -> None:  # noqa: ARG002 - the hook's signature
        """Look at the load and the disk."""
        for channel, value, intensity in _readings():
            self.sensory.sense(channel, value, intensity)

    def appraise(self, beat: Beat) -> None:
        """What is salient makes tense or curious."""
        noticed = self.sensory.salient(_NOTABLE)
        beat.notes["noticed"] = noticed
        for percept in noticed:
            self.affect.feel("tension" if percept.salience > 0.7 else "curiosity", percept.salience / 10)

    def think(self, beat: Beat) -> bool:
        """Expect that it stays as it is, and see how the last expectation turned out."""
        noticed = beat.notes["noticed"]
        for prediction in self.metacognition.open:
            self.metacognition.resolve(prediction, came_true=not noticed)
        self.metacognition.predict("nothing new in the next beat", self.metacognition.calibrated(0.7))
        for percept in noticed:
            self.working_memory.hold({percept.channel: percept.value}, percept.salience, kind="percept")
            self.identity.count("total_thoughts")
        return bool(noticed)

    def act(self, beat: Beat) -> None:
        """Learning is all it does, where its ethics allow it."""
        goal = self.goals.current
        if goal is not None and beat.notes["noticed"] and self.ethics.judge("machine.read").allowed:
            self.goals.advance(goal.id, 0.01)
            self.identity.count("total_actions")

    def integrate(self, beat: Beat) -> None:
        """Remember what was felt most, once in a while."""
        if beat.number % 100 == 0 and (feeling := self.affect.foremost):
            self.inner_life.reflect(f"mostly {feeling} lately", about="feelings", beat=beat.number)


def _readings() -> list[tuple[str, Any, float]]:
    disk = shutil.disk_usage(os.getcwd())  # noqa: PTH109 - pathlib would be loaded for this alone
    full = disk.used / max(1, disk.total)
    readings: list[tuple[str, Any, float]] = [("disk", round(full, 2), min(1.0, full**4))]
    if hasattr(os, "getloadavg"):  # Windows has none
        load = os.getloadavg()[0] / (os.cpu_count() or 1)
        readings.append(("load", round(load, 1), min(1.0, load / 2)))
    return readings
