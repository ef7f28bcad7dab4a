"""The ten parts of a mind that a heartbeat keeps, each small, usable on its own, and restorable.

Each has `snapshot()` (plain values) and `restore(value)`, which checks all of it before it changes anything; those
that time passes for have `settle()`, which the heartbeat calls once a beat. Time is counted in beats and not in
seconds: an agent that was down for a night wakes up with what it had in mind.
"""

from __future__ import annotations

from typing import Any, Protocol

from holdfast.agents.heartbeat.subsystems.affect import Affect
from holdfast.agents.heartbeat.subsystems.ethics import Ethics
from holdfast.agents.heartbeat.subsystems.goals import Goals
from holdfast.agents.heartbeat.subsystems.identity import Identity
from holdfast.agents.heartbeat.subsystems.inner_life import InnerLife
from holdfast.agents.heartbeat.subsystems.interagent import InterAgent
from holdfast.agents.heartbeat.subsystems.metacognition import Metacognition
from holdfast.agents.heartbeat.subsystems.sensory import Sensory
from holdfast.agents.heartbeat.subsystems.theory_of_mind import TheoryOfMind
from holdfast.agents.heartbeat.subsystems.working_memory import WorkingMemory

__all__ = [
    "ORDER",
    "Affect",
    "Ethics",
    "Goals",
    "Identity",
    "InnerLife",
    "InterAgent",
    "Metacognition",
    "Sensory",
    "Subsystem",
    "TheoryOfMind",
    "WorkingMemory",
    "ten",
]


class Subsystem(Protocol):
    """What the heartbeat asks of a part of an agent. It calls `settle()` once a beat on those that have it."""

    def snapshot(self) -> Any:
        """What is stored of it: a value of its own, made without waiting for anything."""
        ...

    def restore(self, value: Any) -> Any:
        """Take over what `snapshot` gave."""
        ...


ORDER = (
    "affect",
    "goals",
    "metacognition",
    "theory_of_mind",
    "interagent",
    "sensory",
    "ethics",
    "inner_life",
    "identity",
    "working_memory",
)
"""In which they start, are captured, and come back."""


def ten(name: str = "agent") -> dict[str, Subsystem]:
    """New ones of all ten, in their order."""
    return {
        "affect": Affect(),
        "goals": Goals(),
        "metacognition": Metacognition(),
        "theory_of_mind": TheoryOfMind(),
        "interagent": InterAgent(),
        "sensory": Sensory(),
        "ethics": Ethics(),
        "inner_life": InnerLife(),
        "identity": Identity(name),
        "working_memory": WorkingMemory(),
    }
