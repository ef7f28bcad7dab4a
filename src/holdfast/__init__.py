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
    StateError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from holdfast.aio import AsyncDocument, AsyncSession, AsyncStore, aopen
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.objects.opaque import Opaque
    from holdfast.objects.registry import register
    from holdfast.store import Session, SessionInfo, Store
    from holdfast.store import open_store as open  # noqa: A004 - the name is part of the contract
    from holdfast.store.document import Document

__version__ = "0.1.0.dev0"

__all__ = [
    "AsyncDocument",
    "AsyncSession",
    "AsyncStore",
    "BackendError",
    "Checkpoint",
    "ConflictError",
    "Document",
    "ErrorCode",
    "HoldfastError",
    "HoldfastWarning",
    "IntegrityError",
    "InvalidInputError",
    "NotFoundError",
    "Opaque",
    "Session",
    "SessionInfo",
    "StateError",
    "Store",
    "UnsupportedError",
    "__version__",
    "aopen",
    "open",
    "register",
]


_HOMES = {
    "AsyncDocument": "holdfast.aio:AsyncDocument",
    "AsyncSession": "holdfast.aio:AsyncSession",
    "AsyncStore": "holdfast.aio:AsyncStore",
    "aopen": "holdfast.aio:aopen",
    "Checkpoint": "holdfast.history.checkpoint:Checkpoint",
    "Opaque": "holdfast.objects.opaque:Opaque",
    "register": "holdfast.objects.registry:register",
    "Document": "holdfast.store.document:Document",
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
