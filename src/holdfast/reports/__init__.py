"""What calls give back: typed records, each with `to_dict()` for its JSON form.

The command line prints them with `--json`, and servers return them; docs/spec/json has their schemas. Each module is
loaded when one of its names is first asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.history.tree import (
        Tree,
    )
    from holdfast.objects.diff.diff import (
        Diff,
        DiffStat,
    )
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
    from holdfast.reports.report import (
        Report,
    )
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
        MigrateReport,
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
    "MigrateReport",
    "Moment",
    "MovedHead",
    "OperationInfo",
    "OperationList",
    "PathChange",
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

_MODULES = {
    "holdfast.history.tree": ("Tree",),
    "holdfast.objects.diff.diff": (
        "Diff",
        "DiffStat",
    ),
    "holdfast.reports.changes": (
        "AnnotatePlan",
        "BranchPlace",
        "ChangeReport",
        "CheckpointChange",
        "ClearPlan",
        "DeletePlan",
        "ForkPlan",
        "MergeReport",
        "PinPlan",
        "RestorePlan",
        "SavePlan",
        "SaveReport",
        "StateSource",
        "SwitchPlan",
        "TagPlan",
        "UndoPlan",
        "UndoReport",
        "Undone",
    ),
    "holdfast.reports.listings": (
        "AtReport",
        "BackupReport",
        "BranchInfo",
        "BranchList",
        "BranchPlan",
        "CheckpointList",
        "ConfigStore",
        "InitReport",
        "Moment",
        "OperationInfo",
        "OperationList",
        "PinList",
        "SessionInfo",
        "SessionList",
        "SessionStats",
        "StatsReport",
        "StoreTotals",
        "TagInfo",
        "TagList",
        "Timeline",
    ),
    "holdfast.reports.report": ("Report",),
    "holdfast.reports.search": (
        "Around",
        "BisectReport",
        "Divergence",
        "Blame",
        "GrepMatch",
        "GrepReport",
        "HistoryReport",
        "PathChange",
    ),
    "holdfast.reports.transfer": (
        "BranchAdvance",
        "CopyReport",
        "ExportReport",
        "ImportReport",
        "SessionCopy",
        "SessionImport",
    ),
    "holdfast.reports.upkeep": (
        "DamagedCheckpoint",
        "ForgetReport",
        "GcReport",
        "MigrateReport",
        "MovedHead",
        "Problem",
        "PruneDecision",
        "PruneReport",
        "Recovered",
        "RepairReport",
        "VerifyReport",
    ),
}
"""The names of each module."""
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'holdfast.reports' has no attribute {name!r}")
    value = getattr(__import__(_HOMES[name], fromlist=[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
