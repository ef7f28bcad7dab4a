"""AsyncRows: the rows of an extension table, read in a worker thread."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from holdfast.aio.thread import in_thread
from holdfast.store.rows import Rows


class AsyncRows:
    """`Rows`, awaitable: the same methods, arguments and errors."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def get(self, *key: Any) -> dict[str, Any] | None:
        """See `Rows.get`."""
        return await in_thread(partial(self._rows.get, *key))

    async def find(
        self, *, order_by: str | Sequence[str] = (), limit: int | None = None, **where: Any
    ) -> list[dict[str, Any]]:
        """See `Rows.find`."""
        return await in_thread(partial(self._rows.find, order_by=order_by, limit=limit, **where))

    async def count(self, **where: Any) -> int:
        """See `Rows.count`."""
        return await in_thread(partial(self._rows.count, **where))
