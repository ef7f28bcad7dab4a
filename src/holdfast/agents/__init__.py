"""Agents: programs that save themselves, and go on where they were.

`AgentState` is a ready-made record for a loop of your own. `Heartbeat` is a daemon that lives in beats, with
`HeartbeatAgent` as what you write for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.agents.heartbeat.agent import Beat, HeartbeatAgent
    from holdfast.agents.heartbeat.daemon import Heartbeat
    from holdfast.agents.heartbeat.interval import Interval
    from holdfast.agents.heartbeat.report import LifeReport, WakeReport
    from holdfast.agents.heartbeat.runtime import HandedOver
    from holdfast.agents.heartbeat.subsystems import (
        Affect,
        Ethics,
        Goals,
        Identity,
        InnerLife,
        InterAgent,
        Metacognition,
        Sensory,
        TheoryOfMind,
        WorkingMemory,
    )
    from holdfast.agents.state import AgentState

__all__ = [
    "Affect",
    "AgentState",
    "Beat",
    "Ethics",
    "Goals",
    "HandedOver",
    "Heartbeat",
    "HeartbeatAgent",
    "Identity",
    "InnerLife",
    "InterAgent",
    "Interval",
    "LifeReport",
    "Metacognition",
    "Sensory",
    "TheoryOfMind",
    "WakeReport",
    "WorkingMemory",
]

# Loaded when asked for: a program that wants the record needs no event loop.
_HOMES = {
    "AgentState": "holdfast.agents.state",
    "Beat": "holdfast.agents.heartbeat.agent",
    "HandedOver": "holdfast.agents.heartbeat.runtime",
    "Heartbeat": "holdfast.agents.heartbeat.daemon",
    "HeartbeatAgent": "holdfast.agents.heartbeat.agent",
    "Interval": "holdfast.agents.heartbeat.interval",
    "LifeReport": "holdfast.agents.heartbeat.report",
    "WakeReport": "holdfast.agents.heartbeat.report",
    "Affect": "holdfast.agents.heartbeat.subsystems",
    "Ethics": "holdfast.agents.heartbeat.subsystems",
    "Goals": "holdfast.agents.heartbeat.subsystems",
    "Identity": "holdfast.agents.heartbeat.subsystems",
    "InnerLife": "holdfast.agents.heartbeat.subsystems",
    "InterAgent": "holdfast.agents.heartbeat.subsystems",
    "Metacognition": "holdfast.agents.heartbeat.subsystems",
    "Sensory": "holdfast.agents.heartbeat.subsystems",
    "TheoryOfMind": "holdfast.agents.heartbeat.subsystems",
    "WorkingMemory": "holdfast.agents.heartbeat.subsystems",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'holdfast.agents' has no attribute {name!r}")
    value = getattr(__import__(home, fromlist=[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
