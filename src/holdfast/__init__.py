"""holdfast keeps the state of AI agents: cheap checkpoints that survive crashes, and a history to travel through.

    import holdfast

    with holdfast.open() as store:
        s = store.session("research-42", agent="scout")
        s.save({"step": 1, "notes": ["found it"]}, "first finding")
        state = s.load()

This module has what programs call and pass. What calls give back is in holdfast.reports, agents are in holdfast.agents;
everything else is private. Most names are loaded when they are first asked for: an event loop alone costs more to
import than everything else together.
"""

from typing import TYPE_CHECKING, Any

from holdfast.errors import (
    BackendError,
    ConflictError,
    ErrorCode,
    HoldfastError,
    HoldfastWarning,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    RecoveryWarning,
    StateError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from holdfast.agents.executor.action import action
    from holdfast.agents.executor.context import StepContext
    from holdfast.agents.executor.executor import Executor
    from holdfast.agents.executor.plan import Plan
    from holdfast.agents.executor.step import PlanStep
    from holdfast.agents.notebook.notebook import Notebook
    from holdfast.agents.run.run import Run
    from holdfast.agents.state.manager import StateManager
    from holdfast.agents.state.record import AgentState
    from holdfast.aio import AsyncStore, aopen
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.history.keep import Keep
    from holdfast.history.times import parse_time
    from holdfast.objects.codec.opaque import Opaque
    from holdfast.objects.codec.registry import register
    from holdfast.objects.merge.conflict import ABSENT, MergeConflict
    from holdfast.recording.async_recorder import AsyncRecorder
    from holdfast.recording.bus import EventBus
    from holdfast.recording.events import (
        CheckpointCreated,
        CheckpointFailed,
        CheckpointPruned,
        CheckpointRestored,
        Event,
        RecorderForked,
        SourceFailed,
        occurred,
    )
    from holdfast.recording.recorder import Recorder
    from holdfast.recording.resume import ResumeReport
    from holdfast.recording.signals import Interrupted
    from holdfast.recording.sources import attributes, functions
    from holdfast.recording.triggers import every, manual, on, when
    from holdfast.settings.settings import Settings
    from holdfast.storage.tables import Table
    from holdfast.store import Session, Store
    from holdfast.store import open_store as open  # noqa: A004 - the name is part of the contract
    from holdfast.store.archive.envelope import ArchiveLimits
    from holdfast.store.document import Document
    from holdfast.store.lease import HeldLease
    from holdfast.store.metrics import MetricsSnapshot
    from holdfast.store.search.bisect import Skip
    from holdfast.store.search.line import Findings
    from holdfast.workspace.code import Workspace

__version__ = "0.1.0.dev0"

__all__ = [
    "ABSENT",
    "AgentState",
    "ArchiveLimits",
    "AsyncRecorder",
    "AsyncStore",
    "BackendError",
    "Checkpoint",
    "CheckpointCreated",
    "CheckpointFailed",
    "CheckpointPruned",
    "CheckpointRestored",
    "ConflictError",
    "Document",
    "ErrorCode",
    "Event",
    "EventBus",
    "Executor",
    "Findings",
    "HeldLease",
    "HoldfastError",
    "HoldfastWarning",
    "IntegrityError",
    "Interrupted",
    "InvalidInputError",
    "Keep",
    "MergeConflict",
    "MetricsSnapshot",
    "NotFoundError",
    "Notebook",
    "Opaque",
    "Plan",
    "PlanStep",
    "Recorder",
    "RecorderForked",
    "RecoveryWarning",
    "ResumeReport",
    "Run",
    "Session",
    "Settings",
    "Skip",
    "SourceFailed",
    "StateError",
    "StateManager",
    "StepContext",
    "Store",
    "Table",
    "UnsupportedError",
    "Workspace",
    "__version__",
    "action",
    "aopen",
    "attributes",
    "every",
    "functions",
    "manual",
    "occurred",
    "on",
    "open",
    "parse_time",
    "register",
    "when",
]


_HOMES = {
    "AgentState": "holdfast.agents.state.record:AgentState",
    "Notebook": "holdfast.agents.notebook.notebook:Notebook",
    "Run": "holdfast.agents.run.run:Run",
    "Workspace": "holdfast.workspace.code:Workspace",
    "StateManager": "holdfast.agents.state.manager:StateManager",
    "Executor": "holdfast.agents.executor.executor:Executor",
    "Plan": "holdfast.agents.executor.plan:Plan",
    "PlanStep": "holdfast.agents.executor.step:PlanStep",
    "action": "holdfast.agents.executor.action:action",
    "StepContext": "holdfast.agents.executor.context:StepContext",
    "AsyncStore": "holdfast.aio:AsyncStore",
    "aopen": "holdfast.aio:aopen",
    "Checkpoint": "holdfast.history.checkpoint:Checkpoint",
    "Keep": "holdfast.history.keep:Keep",
    "parse_time": "holdfast.history.times:parse_time",
    "ArchiveLimits": "holdfast.store.archive.envelope:ArchiveLimits",
    "ABSENT": "holdfast.objects.merge.conflict:ABSENT",
    "MergeConflict": "holdfast.objects.merge.conflict:MergeConflict",
    "Opaque": "holdfast.objects.codec.opaque:Opaque",
    "register": "holdfast.objects.codec.registry:register",
    "Document": "holdfast.store.document:Document",
    "HeldLease": "holdfast.store.lease:HeldLease",
    "Findings": "holdfast.store.search.line:Findings",
    "Skip": "holdfast.store.search.bisect:Skip",
    "AsyncRecorder": "holdfast.recording.async_recorder:AsyncRecorder",
    "Recorder": "holdfast.recording.recorder:Recorder",
    "ResumeReport": "holdfast.recording.resume:ResumeReport",
    "attributes": "holdfast.recording.sources:attributes",
    "functions": "holdfast.recording.sources:functions",
    "Interrupted": "holdfast.recording.signals:Interrupted",
    "every": "holdfast.recording.triggers:every",
    "manual": "holdfast.recording.triggers:manual",
    "on": "holdfast.recording.triggers:on",
    "when": "holdfast.recording.triggers:when",
    "Settings": "holdfast.settings.settings:Settings",
    "CheckpointCreated": "holdfast.recording.events:CheckpointCreated",
    "CheckpointFailed": "holdfast.recording.events:CheckpointFailed",
    "CheckpointPruned": "holdfast.recording.events:CheckpointPruned",
    "CheckpointRestored": "holdfast.recording.events:CheckpointRestored",
    "RecorderForked": "holdfast.recording.events:RecorderForked",
    "SourceFailed": "holdfast.recording.events:SourceFailed",
    "Event": "holdfast.recording.events:Event",
    "occurred": "holdfast.recording.events:occurred",
    "EventBus": "holdfast.recording.bus:EventBus",
    "MetricsSnapshot": "holdfast.store.metrics:MetricsSnapshot",
    "Table": "holdfast.storage.tables:Table",
    "Session": "holdfast.store:Session",
    "Store": "holdfast.store:Store",
    "open": "holdfast.store:open_store",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    module, _, attribute = home.partition(":")
    value = getattr(__import__(module, fromlist=[attribute]), attribute)
    # Found once, found for good: the next access does not come here.
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
