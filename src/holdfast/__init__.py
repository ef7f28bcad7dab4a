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
    from holdfast.aio import AsyncDocument, AsyncSession, AsyncStore, aopen
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.history.keep import Keep
    from holdfast.history.lineage import Tree
    from holdfast.history.times import parse_time
    from holdfast.objects.opaque import Opaque
    from holdfast.objects.registry import register
    from holdfast.store import Session, SessionInfo, Store
    from holdfast.store import open_store as open  # noqa: A004 - the name is part of the contract
    from holdfast.store.branching import BranchInfo
    from holdfast.store.collecting import GcReport
    from holdfast.store.copying import CopyReport, SessionCopy
    from holdfast.store.document import Document
    from holdfast.store.forgetting import ForgetReport
    from holdfast.store.looking import Around
    from holdfast.store.migrating import MigrateReport, migrate
    from holdfast.store.pruning import PruneReport
    from holdfast.store.recovering import Recovered
    from holdfast.store.repairing import RepairReport
    from holdfast.store.undoing import OperationInfo, Undone
    from holdfast.store.verifying import VerifyReport

__version__ = "0.1.0.dev0"

__all__ = [
    "Around",
    "AsyncDocument",
    "AsyncSession",
    "AsyncStore",
    "BackendError",
    "BranchInfo",
    "Checkpoint",
    "ConflictError",
    "CopyReport",
    "Document",
    "ErrorCode",
    "ForgetReport",
    "GcReport",
    "HoldfastError",
    "HoldfastWarning",
    "IntegrityError",
    "InvalidInputError",
    "Keep",
    "MigrateReport",
    "NotFoundError",
    "Opaque",
    "OperationInfo",
    "PruneReport",
    "Recovered",
    "RecoveryWarning",
    "RepairReport",
    "Session",
    "SessionCopy",
    "SessionInfo",
    "StateError",
    "Store",
    "Tree",
    "Undone",
    "UnsupportedError",
    "VerifyReport",
    "__version__",
    "aopen",
    "migrate",
    "open",
    "parse_time",
    "register",
]


_HOMES = {
    "AsyncDocument": "holdfast.aio:AsyncDocument",
    "AsyncSession": "holdfast.aio:AsyncSession",
    "AsyncStore": "holdfast.aio:AsyncStore",
    "aopen": "holdfast.aio:aopen",
    "Checkpoint": "holdfast.history.checkpoint:Checkpoint",
    "Keep": "holdfast.history.keep:Keep",
    "parse_time": "holdfast.history.times:parse_time",
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
    "VerifyReport": "holdfast.store.verifying:VerifyReport",
    "RepairReport": "holdfast.store.repairing:RepairReport",
    "Recovered": "holdfast.store.recovering:Recovered",
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
