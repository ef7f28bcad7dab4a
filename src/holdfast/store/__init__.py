"""Store, Session and Document: the synchronous API, and the one place that joins history, objects and a backend."""

from holdfast.store.locate import open_store
from holdfast.store.session import Session
from holdfast.store.store import SessionInfo, Store

__all__ = ["Session", "SessionInfo", "Store", "open_store"]
