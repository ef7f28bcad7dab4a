"""HeldLease: a lease that this process holds, renewed by a thread of its own for as long as it is held.

The thread renews at a third of the time. An error of the store is no loss: it tries again until the time is over. Only
when the store says that somebody else has the lease, or when the time is over and the store still cannot be asked, is
it lost, for good. The thread holds no reference to the object: one that nobody has any more is not renewed, and its
lease runs out.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from holdfast.backends.leasing import lease_lost, microseconds
from holdfast.backends.processes import this_process
from holdfast.errors import ConflictError, ErrorCode, HoldfastError, InvalidInputError
from holdfast.history.names import check_lease

if TYPE_CHECKING:
    from holdfast.storage.leasing import Fence, Lease
    from holdfast.storage.ports import Backend

_RENEWALS: Final = 3
"""How often it is renewed in the time for which it is held: two may fail."""
_RETRIES: Final = 20
"""After an error of the store it is tried again, as often as this in the same time."""

OnLost = Callable[["HeldLease"], object]


class HeldLease:
    """A lease that this process holds, and renews; made by `store.lease(...)`.

    Use it in a `with` block, which gives it up at the end, or call `release`. A process that forks keeps it; its child
    does not have it.
    """

    def __init__(
        self,
        backend: Backend,
        clock: Callable[[], int],
        name: str,
        *,
        seconds: float,
        on_lost: OnLost | None = None,
    ) -> None:
        check_lease(name)
        length = microseconds(seconds)
        if on_lost is not None and not callable(on_lost):
            raise InvalidInputError(
                f"on_lost cannot be a {type(on_lost).__name__}",
                code=ErrorCode.BAD_ARGUMENT,
                hint="pass a function that takes the lease, or leave it out",
            )
        self._backend = backend
        self._clock = clock
        self._seconds = length / 1_000_000
        self._on_lost = on_lost
        self._process = os.getpid()
        # Before the claim: counted from there, the lease never seems to last longer than it does.
        self._counted_from = time.monotonic()
        self._lease = self._backend.claim(
            name, this_process(os.urandom(16).hex()), self._seconds, at=self._clock()
        )
        self._lost = threading.Event()
        self._reason: ConflictError | None = None
        self._released = False
        self._wake = threading.Event()
        thread = threading.Thread(
            target=_renew_until_it_ends,
            args=(weakref.ref(self), self._wake, self._seconds),
            name=f"holdfast lease {name}",
            # A program that ends without giving it up is not kept from ending: its lease can be taken over then.
            daemon=True,
        )
        thread.start()

    @property
    def name(self) -> str:
        """What it is called."""
        return self._lease.name

    @property
    def seconds(self) -> float:
        """For how long it is held after each renewal."""
        return self._seconds

    @property
    def epoch(self) -> int:
        """The number of this claim: higher than that of any claim before."""
        return self._lease.epoch

    @property
    def lost(self) -> bool:
        """Whether somebody else may have it by now; it does not come back. False after `release`."""
        # In a child the locks may be those of threads that it does not have: nothing but the number is looked at.
        return self._process != os.getpid() or self._lost.is_set()

    @property
    def held(self) -> bool:
        """Whether it is neither lost nor given up, as far as this process knows."""
        return not self.lost and not self._released

    @property
    def fence(self) -> Fence:
        """What a save carries, so that the store refuses it once somebody else has the lease.

        Raises:
            ConflictError: It is lost or given up already (`lease-lost`).
        """
        if self.held:
            return self._lease.fence
        if self._process != os.getpid():
            # The parent has it, and this is its child.
            raise lease_lost(self._lease.fence, self._lease)
        # A copy each time: what is raised collects the places it passed.
        raise lease_lost(self._lease.fence, None) if self._reason is None else copy(self._reason)

    def wait_lost(self, timeout: float | None = None) -> bool:
        """Wait until it is lost or given up, or the time is over; whether it is lost."""
        if self.held:
            self._wake.wait(timeout)
        return self.lost

    def release(self) -> None:
        """Give it up, so that others can have it at once. Where it is lost, and a second time, nothing happens.

        Raises:
            BackendError: The store cannot be reached; then it runs out by itself.
        """
        if not self.held:
            return
        self._released = True
        self._wake.set()
        self._backend.release(self._lease)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A store that is gone or closed cannot be told; the lease runs out, and the error of the block is what counts.
        with suppress(HoldfastError):
            self.release()

    def __repr__(self) -> str:
        how = "lost" if self.lost else "held" if self.held else "released"
        return f"<HeldLease {self.name!r} epoch {self.epoch} {how}>"

    def _noted(self, conflict: ConflictError) -> ConflictError:
        """What a writer under this lease is told about a conflict: if the lease is lost, nothing else matters."""
        if self.held and conflict.code is not ErrorCode.LEASE_LOST:
            # Whoever took it moved the branch: what was found first is not what matters.
            with suppress(HoldfastError):
                current = self._backend.lease(self.name)
                if current is None or current.epoch != self.epoch:
                    conflict = lease_lost(self._lease.fence, current)
        if conflict.code is ErrorCode.LEASE_LOST:
            self._lose(conflict)
        return conflict

    def _lose(self, reason: ConflictError) -> None:
        if self.held:
            self._reason = reason
            self._lost.set()
            self._wake.set()

    def _renew(self) -> float:
        """Renew it once; in how many seconds to do so again. Afterwards it may be lost."""
        began = time.monotonic()
        renewed: Lease | None = None
        try:
            renewed = self._backend.renew(self._lease, self._seconds, at=self._clock())
        except ConflictError as conflict:
            if conflict.code is ErrorCode.LEASE_LOST:
                self._lose(conflict)
                return 0.0
        except Exception:  # noqa: BLE001 - whatever a backend raises: a thread that died would let the lease run out
            renewed = None
        if renewed is not None:
            self._lease, self._counted_from = renewed, began
            return self._seconds / _RENEWALS
        left = self._counted_from + self._seconds - time.monotonic()
        if left <= 0:
            self._lose(lease_lost(self._lease.fence, None, "it could not be renewed in time"))
        return max(0.0, min(left, self._seconds / _RETRIES))

    def _tell(self) -> None:
        if self._lost.is_set() and self._on_lost is not None:
            self._on_lost(self)


def _renew_until_it_ends(held: weakref.ref[HeldLease], wake: threading.Event, seconds: float) -> None:
    pause = seconds / _RENEWALS
    while True:
        ended = wake.wait(pause)
        lease = held()
        if lease is None:
            return
        if not ended:
            pause = lease._renew()  # noqa: SLF001 - the thread of this object
            ended = wake.is_set()
        if ended:
            lease._tell()  # noqa: SLF001 - as above
            return
        # While it waits it keeps nothing alive.
        del lease


def check_held(lease: object) -> HeldLease | None:
    """Return what can be the lease of a Session."""
    if lease is None or isinstance(lease, HeldLease):
        return lease
    raise InvalidInputError(
        f"lease cannot be a {type(lease).__name__}",
        code=ErrorCode.BAD_ARGUMENT,
        hint="pass what store.lease(...) gave",
    )
