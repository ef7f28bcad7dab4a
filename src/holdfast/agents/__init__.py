"""Agents: programs that save themselves, and go on where they were.

`AgentState` is a ready-made record for a loop of your own, and `StateManager` saves it. `Heartbeat` is a daemon that
lives in beats, with `HeartbeatAgent` as what you write for it. `Run` is a run of thoughts and tool calls. `Notebook` is
the memory of a debugging session, with `Workspace` for its code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.agents.executor.action import action
    from holdfast.agents.executor.context import StepContext
    from holdfast.agents.executor.executor import Executor
    from holdfast.agents.executor.plan import Plan
    from holdfast.agents.executor.state import ExecutionResult, PlanState
    from holdfast.agents.executor.step import PlanStep
    from holdfast.agents.heartbeat.agent import Beat, HeartbeatAgent
    from holdfast.agents.heartbeat.heartbeat import Heartbeat
    from holdfast.agents.heartbeat.state import HandedOver, Interval, LifeReport, WakeReport
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
    from holdfast.agents.live import LiveAgent, LiveList, Reachable, listening, live_agents
    from holdfast.agents.notebook.beliefs import BeliefGraph
    from holdfast.agents.notebook.board import HypothesisBoard
    from holdfast.agents.notebook.experiments import ExperimentManager
    from holdfast.agents.notebook.gaps import GapAnalyzer
    from holdfast.agents.notebook.notebook import Notebook
    from holdfast.agents.notebook.verifications import VerificationRunner
    from holdfast.agents.run.async_run import AsyncRun
    from holdfast.agents.run.call import ToolCall
    from holdfast.agents.run.diff import RunDiff, diff_checkpoints
    from holdfast.agents.run.questions import Questions
    from holdfast.agents.run.run import Run
    from holdfast.agents.run.tables import reindex
    from holdfast.agents.run.tool import current_run, tool
    from holdfast.agents.run.why import Why, why
    from holdfast.agents.state.manager import StateManager
    from holdfast.agents.state.record import AgentState
    from holdfast.agents.state.storage import (
        CheckpointMetadata,
        FilesystemStorage,
        StorageBackend,
        StoreStorage,
    )
    from holdfast.workspace.code import Workspace

__all__ = [
    "Affect",
    "AgentState",
    "AsyncRun",
    "Beat",
    "BeliefGraph",
    "CheckpointMetadata",
    "Ethics",
    "ExecutionResult",
    "Executor",
    "ExperimentManager",
    "FilesystemStorage",
    "GapAnalyzer",
    "Goals",
    "HandedOver",
    "Heartbeat",
    "HeartbeatAgent",
    "HypothesisBoard",
    "Identity",
    "InnerLife",
    "InterAgent",
    "Interval",
    "LifeReport",
    "LiveAgent",
    "LiveList",
    "Metacognition",
    "Notebook",
    "Plan",
    "PlanState",
    "PlanStep",
    "Questions",
    "Reachable",
    "Run",
    "RunDiff",
    "Sensory",
    "StateManager",
    "StepContext",
    "StorageBackend",
    "StoreStorage",
    "TheoryOfMind",
    "ToolCall",
    "VerificationRunner",
    "WakeReport",
    "Why",
    "WorkingMemory",
    "Workspace",
    "action",
    "current_run",
    "diff_checkpoints",
    "listening",
    "live_agents",
    "reindex",
    "tool",
    "why",
]

# Loaded when asked for: a program that wants the record needs no event loop.
_HOMES = {
    "LiveAgent": "holdfast.agents.live",
    "LiveList": "holdfast.agents.live",
    "Reachable": "holdfast.agents.live",
    "listening": "holdfast.agents.live",
    "live_agents": "holdfast.agents.live",
    "Why": "holdfast.agents.run.why",
    "why": "holdfast.agents.run.why",
    "Questions": "holdfast.agents.run.questions",
    "reindex": "holdfast.agents.run.tables",
    "AsyncRun": "holdfast.agents.run.async_run",
    "Run": "holdfast.agents.run.run",
    "RunDiff": "holdfast.agents.run.diff",
    "ToolCall": "holdfast.agents.run.call",
    "current_run": "holdfast.agents.run.tool",
    "diff_checkpoints": "holdfast.agents.run.diff",
    "tool": "holdfast.agents.run.tool",
    "Executor": "holdfast.agents.executor.executor",
    "Plan": "holdfast.agents.executor.plan",
    "PlanStep": "holdfast.agents.executor.step",
    "action": "holdfast.agents.executor.action",
    "StepContext": "holdfast.agents.executor.context",
    "PlanState": "holdfast.agents.executor.state",
    "ExecutionResult": "holdfast.agents.executor.state",
    "AgentState": "holdfast.agents.state.record",
    "CheckpointMetadata": "holdfast.agents.state.storage",
    "FilesystemStorage": "holdfast.agents.state.storage",
    "StateManager": "holdfast.agents.state.manager",
    "StorageBackend": "holdfast.agents.state.storage",
    "StoreStorage": "holdfast.agents.state.storage",
    "Beat": "holdfast.agents.heartbeat.agent",
    "HandedOver": "holdfast.agents.heartbeat.state",
    "Heartbeat": "holdfast.agents.heartbeat.heartbeat",
    "HeartbeatAgent": "holdfast.agents.heartbeat.agent",
    "Interval": "holdfast.agents.heartbeat.state",
    "LifeReport": "holdfast.agents.heartbeat.state",
    "WakeReport": "holdfast.agents.heartbeat.state",
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
    "BeliefGraph": "holdfast.agents.notebook.beliefs",
    "ExperimentManager": "holdfast.agents.notebook.experiments",
    "GapAnalyzer": "holdfast.agents.notebook.gaps",
    "HypothesisBoard": "holdfast.agents.notebook.board",
    "Notebook": "holdfast.agents.notebook.notebook",
    "VerificationRunner": "holdfast.agents.notebook.verifications",
    "Workspace": "holdfast.workspace.code",
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
