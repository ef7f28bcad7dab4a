"""AsyncHeldLease: a lease for programs with an event loop; claimed and given up in a worker thread.

It is renewed by the same thread as any other lease, so that a loop that is held up does not lose it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import anyio

from holdfast.aio.thread import in_thread
from holdfast.store.lease import HeldLease

if TYPE_CHECKING:
    from holdfast.storage.leases import Fence

_LOOK_EVERY: Final = 0.1
"""Seconds between two looks at whether it is lost: a waiting thread for each lease would cost more."""


class AsyncHeldLease:
    """`HeldLease`, with a `release` and a `wait_lost` to await; made by `await store.lease(...)`."""

    def __init__(self, lease: HeldLease) -> None:
        self._lease = lease

    @property
    def name(self) -> str:
        """See `HeldLease.name`."""
        return self._lease.name

    @property
    def seconds(self) -> float:
        """See `HeldLease.seconds`."""
        return self._lease.seconds

    @property
    def epoch(self) -> int:
        """See `HeldLease.epoch`."""
        return self._lease.epoch

    @property
    def lost(self) -> bool:
        """See `HeldLease.lost`."""
        return self._lease.lost

    @property
    def held(self) -> bool:
        """See `HeldLease.held`."""
        return self._lease.held

    @property
    def fence(self) -> Fence:
        """See `HeldLease.fence`."""
        return self._lease.fence

    async def wait_lost(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - that of the twin
        """See `HeldLease.wait_lost`."""
        with anyio.move_on_after(timeout):
            while self.held:  # noqa: ASYNC110 - it is another thread that finds out, and it knows of no loop
                await anyio.sleep(_LOOK_EVERY)
        return self.lost

    async def release(self) -> None:
        """See `HeldLease.release`."""
        await in_thread(self._lease.release)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A cancelled task still gives it up.
        with anyio.CancelScope(shield=True):
            await in_thread(lambda: self._lease.__exit__(kind, error, trace))

    def __repr__(self) -> str:
        return f"<Async{repr(self._lease)[1:]}"


class Claiming(Awaitable[AsyncHeldLease]):
    """What `AsyncStore.lease` returns: await it for the lease, or use it in `async with`, which also gives it up."""

    def __init__(self, claim: Callable[[], HeldLease]) -> None:
        self._claim = claim
        self._lease: AsyncHeldLease | None = None

    async def _claimed(self) -> AsyncHeldLease:
        # Shielded: a task that is cancelled while it waits would leave a lease behind that nobody gives up.
        with anyio.CancelScope(shield=True):
            held = AsyncHeldLease(await in_thread(self._claim))
        self._lease = held
        return held

    def __await__(self) -> Generator[Any, Any, AsyncHeldLease]:
        return self._claimed().__await__()

    async def __aenter__(self) -> AsyncHeldLease:
        return await self._claimed()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lease is not None:
            await self._lease.__aexit__(kind, error, trace)
