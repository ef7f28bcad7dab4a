"""What stands in the place of the store of a saver that was closed: every use of it says so, in the saver's words."""

from __future__ import annotations

from typing import Any, NoReturn, cast

from holdfast import ErrorCode, StateError, Store


def closed(store: Store) -> Store:
    """The stand-in for a store that its saver has closed; it still has the URL."""
    return cast("Store", _Closed(store.url))


class _Closed:
    def __init__(self, url: str) -> None:
        self.url = url

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            # Copying and the like ask for these, and mean to go without.
            raise AttributeError(name)
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise StateError(
            f"this HoldfastSaver was closed, and its store {self.url} with it",
            code=ErrorCode.STORE_CLOSED,
            hint="make a new HoldfastSaver(...) and compile the graph with it; close one only when the program ends",
            url=self.url,
        )
