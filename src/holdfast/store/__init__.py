"""Store, Session and Document: the synchronous API, and the one place that joins history, objects and a backend."""

from holdfast.reports.listings import SessionInfo
from holdfast.store.open import open_store
from holdfast.store.session import Session
from holdfast.store.store import Store

__all__ = ["Session", "SessionInfo", "Store", "open_store"]
