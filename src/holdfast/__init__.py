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
    from holdfast.aio import AsyncDocument, AsyncHeldLease, AsyncSession, AsyncStore, aopen
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.history.keep import Keep
    from holdfast.history.lineage import Tree
    from holdfast.history.times import parse_time
    from holdfast.objects.diffing.change import Change, Excerpt, PathStep
    from holdfast.objects.diffing.diff import Diff, DiffStat
    from holdfast.objects.merging.conflict import ABSENT, MergeConflict, MergeResolution
    from holdfast.objects.opaque import Opaque
    from holdfast.objects.registry import register
    from holdfast.recording.async_recorder import AsyncRecorder
    from holdfast.recording.bridging import Bridge, bridge
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
    from holdfast.recording.report import ResumeReport
    from holdfast.recording.sources import attributes, functions
    from holdfast.recording.stopping import Interrupted
    from holdfast.recording.triggers import every, manual, on, when
    from holdfast.settings.loaded import Settings
    from holdfast.store import Session, SessionInfo, Store
    from holdfast.store import open_store as open  # noqa: A004 - the name is part of the contract
    from holdfast.store.archives.limits import ArchiveLimits
    from holdfast.store.archives.report import BranchAdvance, ExportReport, ImportReport, SessionImport
    from holdfast.store.branching import BranchInfo
    from holdfast.store.collecting import GcReport
    from holdfast.store.copying import CopyReport, SessionCopy
    from holdfast.store.document import Document
    from holdfast.store.figures import HistogramSnapshot, MetricsSnapshot
    from holdfast.store.forgetting import ForgetReport
    from holdfast.store.leases import HeldLease
    from holdfast.store.looking import Around
    from holdfast.store.merging import MergeReport
    from holdfast.store.migrating import MigrateReport, migrate
    from holdfast.store.pruning import PruneReport
    from holdfast.store.recovering import Recovered
    from holdfast.store.repairing import RepairReport
    from holdfast.store.searching.findings import Findings
    from holdfast.store.searching.reports import BisectReport, Blame, GrepMatch, PathChange, Skip
    from holdfast.store.undoing import OperationInfo, Undone
    from holdfast.store.verifying import VerifyReport

__version__ = "0.1.0.dev0"

__all__ = [
    "ABSENT",
    "ArchiveLimits",
    "Around",
    "AsyncDocument",
    "AsyncHeldLease",
    "AsyncRecorder",
    "AsyncSession",
    "AsyncStore",
    "BackendError",
    "BisectReport",
    "Blame",
    "BranchAdvance",
    "BranchInfo",
    "Bridge",
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
    "Excerpt",
    "ExportReport",
    "Findings",
    "ForgetReport",
    "GcReport",
    "GrepMatch",
    "HeldLease",
    "HistogramSnapshot",
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
    "Opaque",
    "OperationInfo",
    "PathChange",
    "PathStep",
    "PruneReport",
    "Recorder",
    "RecorderForked",
    "Recovered",
    "RecoveryWarning",
    "RepairReport",
    "ResumeReport",
    "Session",
    "SessionCopy",
    "SessionImport",
    "SessionInfo",
    "Settings",
    "Skip",
    "SourceFailed",
    "StateError",
    "Store",
    "Subscription",
    "Tree",
    "Undone",
    "UnsupportedError",
    "VerifyReport",
    "__version__",
    "aopen",
    "attributes",
    "bridge",
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
    "AsyncDocument": "holdfast.aio:AsyncDocument",
    "AsyncHeldLease": "holdfast.aio:AsyncHeldLease",
    "AsyncSession": "holdfast.aio:AsyncSession",
    "AsyncStore": "holdfast.aio:AsyncStore",
    "aopen": "holdfast.aio:aopen",
    "Checkpoint": "holdfast.history.checkpoint:Checkpoint",
    "Keep": "holdfast.history.keep:Keep",
    "parse_time": "holdfast.history.times:parse_time",
    "ArchiveLimits": "holdfast.store.archives.limits:ArchiveLimits",
    "BranchAdvance": "holdfast.store.archives.report:BranchAdvance",
    "ExportReport": "holdfast.store.archives.report:ExportReport",
    "ImportReport": "holdfast.store.archives.report:ImportReport",
    "SessionImport": "holdfast.store.archives.report:SessionImport",
    "Change": "holdfast.objects.diffing.change:Change",
    "Excerpt": "holdfast.objects.diffing.change:Excerpt",
    "PathStep": "holdfast.objects.diffing.change:PathStep",
    "Diff": "holdfast.objects.diffing.diff:Diff",
    "DiffStat": "holdfast.objects.diffing.diff:DiffStat",
    "ABSENT": "holdfast.objects.merging.conflict:ABSENT",
    "MergeConflict": "holdfast.objects.merging.conflict:MergeConflict",
    "MergeReport": "holdfast.store.merging:MergeReport",
    "MergeResolution": "holdfast.objects.merging.conflict:MergeResolution",
    "Opaque": "holdfast.objects.opaque:Opaque",
    "register": "holdfast.objects.registry:register",
    "Tree": "holdfast.history.lineage:Tree",
    "BranchInfo": "holdfast.store.branching:BranchInfo",
    "Document": "holdfast.store.document:Document",
    "OperationInfo": "holdfast.store.undoing:OperationInfo",
    "Undone": "holdfast.store.undoing:Undone",
    "Around": "holdfast.store.looking:Around",
    "MigrateReport": "holdfast.store.migrating:MigrateReport",
    "migrate": "holdfast.store.migrating:migrate",
    "PruneReport": "holdfast.store.pruning:PruneReport",
    "CopyReport": "holdfast.store.copying:CopyReport",
    "SessionCopy": "holdfast.store.copying:SessionCopy",
    "GcReport": "holdfast.store.collecting:GcReport",
    "ForgetReport": "holdfast.store.forgetting:ForgetReport",
    "HeldLease": "holdfast.store.leases:HeldLease",
    "VerifyReport": "holdfast.store.verifying:VerifyReport",
    "BisectReport": "holdfast.store.searching.reports:BisectReport",
    "Blame": "holdfast.store.searching.reports:Blame",
    "GrepMatch": "holdfast.store.searching.reports:GrepMatch",
    "Findings": "holdfast.store.searching.findings:Findings",
    "PathChange": "holdfast.store.searching.reports:PathChange",
    "Skip": "holdfast.store.searching.reports:Skip",
    "RepairReport": "holdfast.store.repairing:RepairReport",
    "Recovered": "holdfast.store.recovering:Recovered",
    "AsyncRecorder": "holdfast.recording.async_recorder:AsyncRecorder",
    "Recorder": "holdfast.recording.recorder:Recorder",
    "ResumeReport": "holdfast.recording.report:ResumeReport",
    "attributes": "holdfast.recording.sources:attributes",
    "functions": "holdfast.recording.sources:functions",
    "Interrupted": "holdfast.recording.stopping:Interrupted",
    "every": "holdfast.recording.triggers:every",
    "manual": "holdfast.recording.triggers:manual",
    "on": "holdfast.recording.triggers:on",
    "when": "holdfast.recording.triggers:when",
    "Settings": "holdfast.settings.loaded:Settings",
    "Bridge": "holdfast.recording.bridging:Bridge",
    "bridge": "holdfast.recording.bridging:bridge",
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
    "HistogramSnapshot": "holdfast.store.figures:HistogramSnapshot",
    "MetricsSnapshot": "holdfast.store.figures:MetricsSnapshot",
    "Session": "holdfast.store:Session",
    "SessionInfo": "holdfast.store:SessionInfo",
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
