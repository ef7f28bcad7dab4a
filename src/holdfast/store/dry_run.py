"""Rehearsals: a store that reads from the real one and writes nowhere.

An operation that runs on it is checked and worked out as the real one would be, with the same errors and the same
answer, and leaves no trace: a dry run needs no second account of what each operation does. Each operation is tried
alone: the next one sees the store as it is, without the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NoReturn

from holdfast.errors import ErrorCode, UnsupportedError
from holdfast.storage.copy_rows import Adoption
from holdfast.storage.inspection import Rebuilt
from holdfast.storage.leases import Fence, Holder, Lease
from holdfast.storage.ports import Backend, Collection, Inspection, Reader
from holdfast.storage.records import Batch, Receipt
from holdfast.storage.tables import RowChange


class Rehearsal:
    """Reads from a backend, and forgets what is written."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @property
    def url(self) -> str:
        """See `Backend.url`."""
        return self._backend.url

    def reader(self) -> AbstractContextManager[Reader]:
        """See `Backend.reader`."""
        return self._backend.reader()

    def commit(self, batch: Batch) -> Receipt:
        """See `Backend.commit`; the receipt is what the real one would give, as far as that can be known."""
        # The plan was made from what is there a moment ago: whether it still holds is for the real one to find out.
        with self.reader() as reader:
            session = reader.session(batch.claim.session)
        last = session.last_seq if session else 0
        rows = (
            row._replace(seq=last + n, stored_at=batch.at) for n, row in enumerate(batch.checkpoints, start=1)
        )
        return Receipt(tuple(rows))

    def write_rows(self, changes: Sequence[RowChange], fence: Fence | None = None) -> None:
        """Nothing: rows without a checkpoint are written by nobody who only tries."""

    def adopt(self, batch: Adoption) -> None:
        """Refused."""
        del batch
        _refuse()

    def turn(self, session: str) -> AbstractContextManager[object]:
        """See `Backend.turn`."""
        return self._backend.turn(session)

    def claim(self, name: str, holder: Holder, seconds: float, *, at: int, ticks: int) -> Lease:
        """Refused."""
        del name, holder, seconds, at, ticks
        _refuse()

    def renew(self, lease: Lease, seconds: float, *, at: int, ticks: int) -> Lease:
        """Refused."""
        del lease, seconds, at, ticks
        _refuse()

    def release(self, lease: Lease) -> None:
        """Refused."""
        del lease
        _refuse()

    def lease(self, name: str) -> Lease | None:
        """See `Backend.lease`."""
        return self._backend.lease(name)

    def inspect(self) -> AbstractContextManager[Inspection]:
        """See `Backend.inspect`."""
        return self._backend.inspect()

    def wait_for_checkpoint(self, after: int, timeout: float) -> int:
        """See `Backend.wait_for_checkpoint`."""
        return self._backend.wait_for_checkpoint(after, timeout)

    def collection(
        self,
        *,
        dry_run: bool = False,
        stale_after: float | None = None,  # noqa: ARG002 - the port's
    ) -> AbstractContextManager[Collection]:
        """See `Backend.collection`; without `dry_run` it is refused."""
        if not dry_run:
            _refuse()
        return self._backend.collection(dry_run=True)

    def erase_session(self, session: str) -> None:
        """Refused."""
        del session
        _refuse()

    def scrub(self, *, dry_run: bool = False) -> None:
        """See `Backend.scrub`; without `dry_run` it is refused."""
        if not dry_run:
            _refuse()
        self._backend.scrub(dry_run=True)

    def rebuild(self, plan: Callable[[Inspection], Rebuilt | None]) -> str | None:
        """Refused."""
        del plan
        _refuse()

    def backup(self, target: Path) -> None:
        """Refused."""
        del target
        _refuse()

    def close(self) -> None:
        """Nothing: the backend belongs to the real store."""


def _refuse() -> NoReturn:
    raise UnsupportedError(
        "a rehearsal writes nothing, and this is nothing but writing",
        code=ErrorCode.NOT_SUPPORTED,
        hint="gc, forget, repair and copy_to take dry_run=True themselves",
    )
