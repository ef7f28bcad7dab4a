"""holdfast keeps the state of AI agents: cheap checkpoints that survive crashes, and a history to travel through.

    import holdfast

    with holdfast.open() as store:
        s = store.session("research-42", agent="scout")
        s.save({"step": 1, "notes": ["found it"]}, "first finding")
        state = s.load()

This module is the whole public API; everything below it is private. AsyncStore and what belongs to it are loaded when
they are first asked for, because an event loop costs more to import than everything else together.
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
    from holdfast.agents.executor.state import ExecutionResult, PlanState
    from holdfast.agents.executor.step import PlanStep
    from holdfast.agents.notebook.notebook import Notebook
    from holdfast.agents.run.async_run import AsyncRun
    from holdfast.agents.run.run import Run
    from holdfast.agents.state.manager import StateManager
    from holdfast.agents.state.record import AgentState
    from holdfast.aio import AsyncDocument, AsyncHeldLease, AsyncSession, AsyncStore, aopen
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.history.keep import Keep
    from holdfast.history.times import parse_time
    from holdfast.history.tree import Tree
    from holdfast.objects.codec.opaque import Opaque
    from holdfast.objects.codec.registry import register
    from holdfast.objects.codec.state_path import PathStep
    from holdfast.objects.diff.change import Change
    from holdfast.objects.diff.diff import Diff, DiffStat
    from holdfast.objects.merge.conflict import ABSENT, MergeConflict, MergeResolution
    from holdfast.recording.async_recorder import AsyncRecorder
    from holdfast.recording.bus import EventBus, EventStream, Subscription
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
    from holdfast.reports.changes import MergeReport, Undone
    from holdfast.reports.listings import BranchInfo, OperationInfo, SessionInfo
    from holdfast.reports.search import Around, BisectReport, Blame, GrepMatch, PathChange
    from holdfast.reports.transfer import (
        BranchAdvance,
        CopyReport,
        ExportReport,
        ImportReport,
        SessionCopy,
        SessionImport,
    )
    from holdfast.reports.upkeep import (
        ForgetReport,
        GcReport,
        MigrateReport,
        PruneReport,
        Recovered,
        RepairReport,
        VerifyReport,
    )
    from holdfast.settings.settings import Settings
    from holdfast.storage.tables import RowChange, Table
    from holdfast.store import Session, Store
    from holdfast.store import open_store as open  # noqa: A004 - the name is part of the contract
    from holdfast.store.archive.envelope import ArchiveLimits
    from holdfast.store.document import Document
    from holdfast.store.lease import HeldLease
    from holdfast.store.metrics import MetricsSnapshot
    from holdfast.store.open import migrate
    from holdfast.store.search.bisect import Skip
    from holdfast.store.search.line import Findings
    from holdfast.workspace.code import Workspace

__version__ = "0.1.0.dev0"

__all__ = [
    "ABSENT",
    "AgentState",
    "ArchiveLimits",
    "Around",
    "AsyncDocument",
    "AsyncHeldLease",
    "AsyncRecorder",
    "AsyncRun",
    "AsyncSession",
    "AsyncStore",
    "BackendError",
    "BisectReport",
    "Blame",
    "BranchAdvance",
    "BranchInfo",
    "Change",
    "Checkpoint",
    "CheckpointCreated",
    "CheckpointFailed",
    "CheckpointPruned",
    "CheckpointRestored",
    "ConflictError",
    "CopyReport",
    "Diff",
    "DiffStat",
    "Document",
    "ErrorCode",
    "Event",
    "EventBus",
    "EventStream",
    "ExecutionResult",
    "Executor",
    "ExportReport",
    "Findings",
    "ForgetReport",
    "GcReport",
    "GrepMatch",
    "HeldLease",
    "HoldfastError",
    "HoldfastWarning",
    "ImportReport",
    "IntegrityError",
    "Interrupted",
    "InvalidInputError",
    "Keep",
    "MergeConflict",
    "MergeReport",
    "MergeResolution",
    "MetricsSnapshot",
    "MigrateReport",
    "NotFoundError",
    "Notebook",
    "Opaque",
    "OperationInfo",
    "PathChange",
    "PathStep",
    "Plan",
    "PlanState",
    "PlanStep",
    "PruneReport",
    "Recorder",
    "RecorderForked",
    "Recovered",
    "RecoveryWarning",
    "RepairReport",
    "ResumeReport",
    "RowChange",
    "Run",
    "Session",
    "SessionCopy",
    "SessionImport",
    "SessionInfo",
    "Settings",
    "Skip",
    "SourceFailed",
    "StateError",
    "StateManager",
    "StepContext",
    "Store",
    "Subscription",
    "Table",
    "Tree",
    "Undone",
    "UnsupportedError",
    "VerifyReport",
    "Workspace",
    "__version__",
    "action",
    "aopen",
    "attributes",
    "every",
    "functions",
    "manual",
    "migrate",
    "occurred",
    "on",
    "open",
    "parse_time",
    "register",
    "when",
]


_HOMES = {
    "AgentState": "holdfast.agents.state.record:AgentState",
    "AsyncRun": "holdfast.agents.run.async_run:AsyncRun",
    "Notebook": "holdfast.agents.notebook.notebook:Notebook",
    "Run": "holdfast.agents.run.run:Run",
    "Workspace": "holdfast.workspace.code:Workspace",
    "StateManager": "holdfast.agents.state.manager:StateManager",
    "Executor": "holdfast.agents.executor.executor:Executor",
    "Plan": "holdfast.agents.executor.plan:Plan",
    "PlanStep": "holdfast.agents.executor.step:PlanStep",
    "action": "holdfast.agents.executor.action:action",
    "StepContext": "holdfast.agents.executor.context:StepContext",
    "PlanState": "holdfast.agents.executor.state:PlanState",
    "ExecutionResult": "holdfast.agents.executor.state:ExecutionResult",
    "AsyncDocument": "holdfast.aio:AsyncDocument",
    "AsyncHeldLease": "holdfast.aio:AsyncHeldLease",
    "AsyncSession": "holdfast.aio:AsyncSession",
    "AsyncStore": "holdfast.aio:AsyncStore",
    "aopen": "holdfast.aio:aopen",
    "Checkpoint": "holdfast.history.checkpoint:Checkpoint",
    "Keep": "holdfast.history.keep:Keep",
    "parse_time": "holdfast.history.times:parse_time",
    "ArchiveLimits": "holdfast.store.archive.envelope:ArchiveLimits",
    "BranchAdvance": "holdfast.reports.transfer:BranchAdvance",
    "ExportReport": "holdfast.reports.transfer:ExportReport",
    "ImportReport": "holdfast.reports.transfer:ImportReport",
    "SessionImport": "holdfast.reports.transfer:SessionImport",
    "Change": "holdfast.objects.diff.change:Change",
    "PathStep": "holdfast.objects.codec.state_path:PathStep",
    "Diff": "holdfast.objects.diff.diff:Diff",
    "DiffStat": "holdfast.objects.diff.diff:DiffStat",
    "ABSENT": "holdfast.objects.merge.conflict:ABSENT",
    "MergeConflict": "holdfast.objects.merge.conflict:MergeConflict",
    "MergeReport": "holdfast.reports.changes:MergeReport",
    "MergeResolution": "holdfast.objects.merge.conflict:MergeResolution",
    "Opaque": "holdfast.objects.codec.opaque:Opaque",
    "register": "holdfast.objects.codec.registry:register",
    "Tree": "holdfast.history.tree:Tree",
    "BranchInfo": "holdfast.reports.listings:BranchInfo",
    "Document": "holdfast.store.document:Document",
    "OperationInfo": "holdfast.reports.listings:OperationInfo",
    "Undone": "holdfast.reports.changes:Undone",
    "Around": "holdfast.reports.search:Around",
    "MigrateReport": "holdfast.reports.upkeep:MigrateReport",
    "migrate": "holdfast.store.open:migrate",
    "PruneReport": "holdfast.reports.upkeep:PruneReport",
    "CopyReport": "holdfast.reports.transfer:CopyReport",
    "SessionCopy": "holdfast.reports.transfer:SessionCopy",
    "GcReport": "holdfast.reports.upkeep:GcReport",
    "ForgetReport": "holdfast.reports.upkeep:ForgetReport",
    "HeldLease": "holdfast.store.lease:HeldLease",
    "VerifyReport": "holdfast.reports.upkeep:VerifyReport",
    "BisectReport": "holdfast.reports.search:BisectReport",
    "Blame": "holdfast.reports.search:Blame",
    "GrepMatch": "holdfast.reports.search:GrepMatch",
    "Findings": "holdfast.store.search.line:Findings",
    "PathChange": "holdfast.reports.search:PathChange",
    "Skip": "holdfast.store.search.bisect:Skip",
    "RepairReport": "holdfast.reports.upkeep:RepairReport",
    "Recovered": "holdfast.reports.upkeep:Recovered",
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
    "Event": "holdfast.recording.events:Event",
    "RecorderForked": "holdfast.recording.events:RecorderForked",
    "SourceFailed": "holdfast.recording.events:SourceFailed",
    "occurred": "holdfast.recording.events:occurred",
    "EventBus": "holdfast.recording.bus:EventBus",
    "EventStream": "holdfast.recording.bus:EventStream",
    "Subscription": "holdfast.recording.bus:Subscription",
    "MetricsSnapshot": "holdfast.store.metrics:MetricsSnapshot",
    "RowChange": "holdfast.storage.tables:RowChange",
    "Table": "holdfast.storage.tables:Table",
    "Session": "holdfast.store:Session",
    "SessionInfo": "holdfast.reports.listings:SessionInfo",
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
