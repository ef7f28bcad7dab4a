"""aopen: a store to await, or to use as a block."""

from __future__ import annotations

from collections.abc import (
    Awaitable,
    Callable,
    Generator,
    Iterable,
)
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from holdfast.aio.store import AsyncStore
from holdfast.aio.thread import in_thread
from holdfast.store.open import open_store
from holdfast.store.store import Store


class Opening(Awaitable[AsyncStore]):
    """What `aopen` returns: await it for the store, or use it in `async with`, which also closes it."""

    def __init__(self, opening: Callable[[], Store]) -> None:
        self._opening = opening
        self._store: AsyncStore | None = None

    async def _open(self) -> AsyncStore:
        self._store = AsyncStore._around(await in_thread(self._opening))
        return self._store

    def __await__(self) -> Generator[Any, Any, AsyncStore]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncStore:
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._store is not None:
            await self._store.__aexit__(kind, error, trace)


def aopen(
    target: str | Path | None = None,
    *,
    types: Iterable[type] = (),
    durability: Literal["power", "process"] = "power",
    create: bool = True,
    timeout: float = 10.0,
    app_version: str | None = None,
    damaged: bool = False,
    compress: bool = True,
) -> Opening:
    """Open a store for asynchronous use: `async with holdfast.aopen() as store`. See `holdfast.open`."""
    return Opening(
        partial(
            open_store,
            target,
            types=types,
            durability=durability,
            create=create,
            timeout=timeout,
            app_version=app_version,
            damaged=damaged,
            compress=compress,
        )
    )
