"""What calls give back: typed records, each with `to_dict()` for its JSON form.

The command line prints them with `--json`, and servers return them; docs/spec/json has their schemas. The modules
are loaded when a name is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.history.tree import Tree
    from holdfast.objects.codec.state_path import PathStep
    from holdfast.objects.diff.change import Change
    from holdfast.objects.diff.diff import Diff, DiffStat
    from holdfast.objects.merge.conflict import MergeResolution
    from holdfast.reports.changes import (
        AnnotatePlan,
        BranchPlace,
        ChangeReport,
        CheckpointChange,
        ClearPlan,
        DeletePlan,
        ForkPlan,
        MergeReport,
        PinPlan,
        RestorePlan,
        SavePlan,
        SaveReport,
        StateSource,
        SwitchPlan,
        TagPlan,
        Undone,
        UndoPlan,
        UndoReport,
    )
    from holdfast.reports.listings import (
        AtReport,
        BackupReport,
        BranchInfo,
        BranchList,
        BranchPlan,
        CheckpointList,
        ConfigStore,
        InitReport,
        Moment,
        OperationInfo,
        OperationList,
        PinList,
        SessionInfo,
        SessionList,
        SessionStats,
        StatsReport,
        StoreTotals,
        TagInfo,
        TagList,
        Timeline,
    )
    from holdfast.reports.report import Report
    from holdfast.reports.search import (
        Around,
        BisectReport,
        Blame,
        Divergence,
        GrepMatch,
        GrepReport,
        HistoryReport,
        PathChange,
    )
    from holdfast.reports.transfer import (
        BranchAdvance,
        CopyReport,
        ExportReport,
        ImportReport,
        SessionCopy,
        SessionImport,
    )
    from holdfast.reports.upkeep import (
        DamagedCheckpoint,
        ForgetReport,
        GcReport,
        MovedHead,
        Problem,
        PruneDecision,
        PruneReport,
        Recovered,
        RepairReport,
        VerifyReport,
    )

__all__ = [
    "AnnotatePlan",
    "Around",
    "AtReport",
    "BackupReport",
    "BisectReport",
    "Blame",
    "BranchAdvance",
    "BranchInfo",
    "BranchList",
    "BranchPlace",
    "BranchPlan",
    "Change",
    "ChangeReport",
    "CheckpointChange",
    "CheckpointList",
    "ClearPlan",
    "ConfigStore",
    "CopyReport",
    "DamagedCheckpoint",
    "DeletePlan",
    "Diff",
    "DiffStat",
    "Divergence",
    "ExportReport",
    "ForgetReport",
    "ForkPlan",
    "GcReport",
    "GrepMatch",
    "GrepReport",
    "HistoryReport",
    "ImportReport",
    "InitReport",
    "MergeReport",
    "MergeResolution",
    "Moment",
    "MovedHead",
    "OperationInfo",
    "OperationList",
    "PathChange",
    "PathStep",
    "PinList",
    "PinPlan",
    "Problem",
    "PruneDecision",
    "PruneReport",
    "Recovered",
    "RepairReport",
    "Report",
    "RestorePlan",
    "SavePlan",
    "SaveReport",
    "SessionCopy",
    "SessionImport",
    "SessionInfo",
    "SessionList",
    "SessionStats",
    "StateSource",
    "StatsReport",
    "StoreTotals",
    "SwitchPlan",
    "TagInfo",
    "TagList",
    "TagPlan",
    "Timeline",
    "Tree",
    "UndoPlan",
    "UndoReport",
    "Undone",
    "VerifyReport",
]

_MODULES = (
    *("changes", "listings", "report", "search", "transfer", "upkeep"),
    *("history.tree", "objects.diff.diff", "objects.diff.change"),
    *("objects.codec.state_path", "objects.merge.conflict"),
)


def __getattr__(name: str) -> Any:
    if name in __all__:
        for each in _MODULES:
            home = f"holdfast.{each}" if "." in each else f"holdfast.reports.{each}"
            value = getattr(import_module(home), name, None)
            if value is not None:
                globals()[name] = value
                return value
    raise AttributeError(f"module 'holdfast.reports' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
