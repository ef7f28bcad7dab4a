"""MemoryBackend: one moment of the store after the other.

A reader keeps the moment it was opened at. A commit changes the newest moment in place, unless a reader is looking at
it: then it changes a copy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.backends import rules
from holdfast.backends.forking import watch
from holdfast.backends.intact import ReaderInspection
from holdfast.backends.memory.adopting import adopt, check_adoption
from holdfast.backends.memory.collecting import MemoryCollection, Signs
from holdfast.backends.memory.moment import Moment, apply, check, check_fence, erase
from holdfast.backends.memory.reader import MemoryReader
from holdfast.errors import ConflictError, ErrorCode, UnsupportedError
from holdfast.storage.copy_rows import Adoption
from holdfast.storage.inspection import Rebuilt
from holdfast.storage.ports import Inspection
from holdfast.storage.records import Batch, Receipt

if TYPE_CHECKING:
    from holdfast.storage.leases import Fence, Holder, Lease
    from holdfast.storage.tables import RowChange

_URL = "memory:"


class MemoryBackend:
    """A `Backend` that lasts as long as its process."""

    def __init__(self) -> None:
        self._moment: Moment | None = Moment()
        # Reentrant: a signal handler that forks may run in the thread that holds it.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._signs = Signs()
        watch(self)

    @property
    def url(self) -> str:
        """Always `memory:`."""
        return _URL

    def commit(self, batch: Batch) -> Receipt:
        """See `Backend.commit`."""
        rules.check_batch(batch)
        with self._lock:
            moment = self._open_moment()
            ids = [row.id for row in batch.checkpoints]
            if ids and all(each in moment.checkpoints for each in ids):
                return Receipt(tuple(moment.checkpoints[each] for each in ids))
            session = check(moment, batch)
            changed = moment.tables.changed(batch.rows)
            moment = self._writable()
            receipt = apply(moment, batch, session)
            moment.tables = changed
            self._changed.notify_all()
            return receipt

    def write_rows(self, changes: Sequence[RowChange], fence: Fence | None = None) -> None:
        """See `Backend.write_rows`."""
        with self._lock:
            moment = self._open_moment()
            check_fence(moment, fence)
            changed = moment.tables.changed(changes)
            self._writable().tables = changed

    def adopt(self, batch: Adoption) -> None:
        """See `Backend.adopt`."""
        rules.check_adoption(batch)
        with self._lock:
            check_adoption(self._open_moment(), batch)
            adopt(self._writable(), batch)
            self._changed.notify_all()

    @contextmanager
    def reader(self) -> Iterator[MemoryReader]:
        """See `Backend.reader`."""
        with self._lock:
            moment = self._open_moment()
            moment.readers += 1
        try:
            yield MemoryReader(moment)
        finally:
            with self._lock:
                moment.readers -= 1

    def turn(self, session: str) -> AbstractContextManager[object]:  # noqa: ARG002 - the port's
        """See `Backend.turn`. Commits are short here, and none loses more than a few rounds."""
        return nullcontext()

    def claim(self, name: str, holder: Holder, seconds: float, *, at: int, ticks: int) -> Lease:
        """See `Backend.claim`."""
        # Only who wants a lease needs them; the same below.
        from holdfast.backends.leasing import microseconds, ticking
        from holdfast.backends.memory.leasing import claim

        length, now, ticked = microseconds(seconds), ticking(at), ticking(ticks)
        with self._lock:
            return claim(self._writable(), name, holder, length, at=now(), ticks=ticked())

    def renew(self, lease: Lease, seconds: float, *, at: int, ticks: int) -> Lease:
        """See `Backend.renew`."""
        from holdfast.backends.leasing import microseconds, ticking
        from holdfast.backends.memory.leasing import renew

        length, now, ticked = microseconds(seconds), ticking(at), ticking(ticks)
        with self._lock:
            return renew(self._writable(), lease, length, at=now(), ticks=ticked())

    def release(self, lease: Lease) -> None:
        """See `Backend.release`."""
        from holdfast.backends.memory.leasing import release

        with self._lock:
            release(self._writable(), lease)

    def lease(self, name: str) -> Lease | None:
        """See `Backend.lease`."""
        with self._lock:
            return self._open_moment().leases.get(name)

    @contextmanager
    def collection(
        self, *, dry_run: bool = False, stale_after: float | None = None
    ) -> Iterator[MemoryCollection]:
        """See `Backend.collection`."""
        with self._lock:
            # A dry run opens no epoch, and counts as if it had.
            epoch = self._open_moment().epoch + 1
            if not dry_run:
                if stale_after is not None and self._signs.seen_within(stale_after):
                    raise ConflictError.collection_running()
                self._writable().epoch = epoch
                self._signs.give(epoch)
        writable, signs = (None, None) if dry_run else (self._writable, self._signs)
        try:
            yield MemoryCollection(self._lock, self._open_moment, writable, epoch, signs)
        finally:
            if not dry_run:
                with self._lock:
                    self._signs.end(epoch)

    def erase_session(self, session: str) -> None:
        """See `Backend.erase_session`."""
        with self._lock:
            self._open_moment()
            erase(self._writable(), session)

    def scrub(self, *, dry_run: bool = False) -> None:  # noqa: ARG002 - the port's
        """Nothing is in any file."""
        with self._lock:
            self._open_moment()

    @contextmanager
    def inspect(self) -> Iterator[ReaderInspection]:
        """See `Backend.inspect`. Memory has no damage that could be told from what was meant."""
        with self.reader() as reader:
            yield ReaderInspection(reader, tuple(self._open_moment().chunks))

    def rebuild(self, plan: Callable[[Inspection], Rebuilt | None]) -> str | None:  # noqa: ARG002 - the port's
        """Refused: there is nothing to put in the place of memory."""
        with self._lock:
            self._open_moment()
        raise UnsupportedError(
            "a store in memory cannot be repaired",
            code=ErrorCode.NOT_SUPPORTED,
            hint="begin anew: what is in memory ends with the process",
        )

    def wait_for_checkpoint(self, after: int, timeout: float) -> int:
        """See `Backend.wait_for_checkpoint`."""
        with self._changed:
            self._changed.wait_for(lambda: self._moment is None or self._moment.position > after, timeout)
            return self._open_moment().position

    def _writable(self) -> Moment:
        """The newest moment, as one that no reader looks at."""
        moment = self._open_moment()
        if moment.readers:
            moment = self._moment = moment.copy()
        return moment

    def backup(self, target: Path) -> None:
        """Refused: there is no file to copy."""
        with self._lock:
            self._open_moment()
        raise UnsupportedError(
            f"a store in memory cannot be copied to {target}",
            code=ErrorCode.NOT_SUPPORTED,
            hint="open a store in a file to be able to back it up",
        )

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._moment = None
            self._changed.notify_all()

    def before_fork(self) -> None:
        """Wait for a commit in another thread, so that the child does not get half of it."""
        self._lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Go on with a copy of the store that is the child's own."""
        self._lock.release()

    def _open_moment(self) -> Moment:
        if self._moment is None:
            raise rules.store_closed(_URL)
        return self._moment
