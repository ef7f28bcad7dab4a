"""HeldLease: a lease that this process holds, renewed by a thread of its own for as long as it is held.

The thread renews at a third of the time. An error of the store is no loss: it tries again until the time is over. When
the store says that somebody else has the lease, or when the time is over, it is lost, for good. The time is counted
here, from before the last renewal that came through, by the machine's clock that nobody sets: `lost` is right even
while a renewal hangs. The thread holds no reference to the object: one that nobody has any more is not renewed, and its
lease runs out.
"""

from __future__ import annotations

import math
import os
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from holdfast.backends.lease_rules import boot_ticks, check_free, lease_lost, microseconds, this_process
from holdfast.errors import ConflictError, ErrorCode, HoldfastError, InvalidInputError
from holdfast.history.names import check_lease

if TYPE_CHECKING:
    from holdfast.storage.leases import Fence
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
        self._length = length
        self._seconds = length / 1_000_000
        self._on_lost = on_lost
        self._process = os.getpid()
        # Before the claim: counted from there, the lease never seems to last longer than it does.
        ticks = boot_ticks()
        self._over_at = ticks + length
        self._lease = self._backend.claim(
            name, this_process(os.urandom(16).hex()), self._seconds, at=self._clock(), ticks=ticks
        )
        # A renewal that comes through must not undo a loss that somebody has seen. Reentrant, for handlers of signals.
        self._changing = threading.RLock()
        self._reason: ConflictError | None = None
        self._released = False
        self._told = False
        self._wake = threading.Event()
        threading.Thread(
            target=_renew_until_it_ends,
            args=(weakref.ref(self), self._wake, self._until_renewal()),
            name=f"holdfast lease {name}",
            # A program that ends without giving it up is not kept from ending: its lease can be taken over then.
            daemon=True,
        ).start()

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
        if self._process != os.getpid() or self._reason is not None:
            return True
        if not self._released and boot_ticks() >= self._over_at:
            self._run_out()
        return self._reason is not None

    @property
    def held(self) -> bool:
        """Whether it is neither lost nor given up, as far as this process knows."""
        return self._is_held()

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
        end = math.inf if timeout is None else time.monotonic() + timeout
        while self.held and (left := end - time.monotonic()) > 0:
            # Until the time of the lease is over at most: a renewal may hang for longer.
            self._wake.wait(min(left, self._seconds_left() + 0.001))
        return self.lost

    def release(self) -> None:
        """Give it up, so that others can have it at once. Where it is lost, and a second time, nothing happens.

        Raises:
            BackendError: The store cannot be reached; then it runs out by itself.
        """
        if not self.held:
            return
        with self._changing:
            if not self._is_held():
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

    def _is_held(self) -> bool:
        # Type checkers take a property for something that stays as it was.
        return not self.lost and not self._released

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
            with self._changing:
                if self._reason is None and not self._released:
                    self._reason = reason
            self._wake.set()

    def _run_out(self) -> None:
        """Lose it if its time is over."""
        with self._changing:
            if self._reason is None and not self._released and boot_ticks() >= self._over_at:
                self._reason = lease_lost(self._lease.fence, None, "it could not be renewed in time")

    def _seconds_left(self) -> float:
        return max(0, self._over_at - boot_ticks()) / 1_000_000

    def _until_renewal(self) -> float:
        # Counted like the time itself: a claim that took long is renewed all the sooner.
        return max(0.0, self._seconds_left() - self._seconds * (1 - 1 / _RENEWALS))

    def _renew(self) -> float:
        """Renew it once, if it is not lost; in how many seconds to do so again. Afterwards it may be lost."""
        if not self.held:
            return 0.0
        # A renewal may hang for longer than the lease lasts: who waits for the loss is told by another thread then.
        alarm = threading.Timer(self._seconds_left() + 0.01, self._tell)
        alarm.daemon = True
        if self._on_lost is not None:
            alarm.start()
        ticks = boot_ticks()
        try:
            renewed = self._backend.renew(self._lease, self._seconds, at=self._clock(), ticks=ticks)
        except Exception as error:  # noqa: BLE001 - whatever a backend raises: without this thread it would run out
            if isinstance(error, ConflictError) and error.code is ErrorCode.LEASE_LOST:
                self._lose(error)
            return min(self._seconds_left(), self._seconds / _RETRIES)
        finally:
            alarm.cancel()
        with self._changing:
            if self._is_held():
                self._lease, self._over_at = renewed, ticks + self._length
                return self._until_renewal()
        # It came through after the loss: others would wait for a lease that nobody counts on.
        with suppress(Exception):
            self._backend.release(renewed)
        return 0.0

    def _tell(self) -> None:
        """Tell of a loss, once."""
        if not self.lost or self._on_lost is None:
            return
        with self._changing:
            told, self._told = self._told, True
        if not told:
            self._on_lost(self)


def _renew_until_it_ends(held: weakref.ref[HeldLease], wake: threading.Event, pause: float) -> None:
    """Renew it until it is lost or given up; tell of a loss, once."""
    while True:
        ended = wake.wait(pause)
        lease = held()
        if lease is None:
            return
        if not ended:
            pause = lease._renew()  # noqa: SLF001 - the thread of this object
        if not lease.held:
            wake.set()
            lease._tell()  # noqa: SLF001 - as above
            return
        # While it waits it keeps nothing alive.
        del lease


def is_leased(backend: Backend, clock: Callable[[], int], name: str) -> bool:
    """Whether a claim of this process would be refused now."""
    check_lease(name)
    try:
        check_free(backend.lease(name), this_process(""), at=clock(), ticks=boot_ticks())
    except ConflictError:
        return True
    return False


def check_held(lease: object) -> HeldLease | None:
    """Return what can be the lease of a Session."""
    if lease is None or isinstance(lease, HeldLease):
        return lease
    raise InvalidInputError(
        f"lease cannot be a {type(lease).__name__}",
        code=ErrorCode.BAD_ARGUMENT,
        hint="pass what store.lease(...) gave",
    )
