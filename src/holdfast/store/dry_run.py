"""Rehearsals: a backend that reads from the real one and writes nowhere.

An operation that runs on it is checked and worked out as the real one would be, with the same errors and the same
answer, and leaves no trace: a dry run needs no second account of what each operation does. Each operation is tried
alone: the next one sees the store as it is, without the one before.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.errors import ErrorCode, UnsupportedError
from holdfast.storage.ports import Backend
from holdfast.storage.records import Batch, Receipt

_READS: Final = frozenset({"url", "reader", "turn", "lease", "inspect", "wait_for_checkpoint"})


class Rehearsal:
    """Reads from a backend, and forgets what is written. What does nothing but write is refused."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def commit(self, batch: Batch) -> Receipt:
        """The receipt that the real one would give, as far as that can be known."""
        # The plan was made from what is there a moment ago: whether it still holds is for the real one to find out.
        with self._backend.reader() as reader:
            session = reader.session(batch.claim.session)
        last = session.last_seq if session else 0
        rows = batch.checkpoints
        return Receipt(
            tuple(row._replace(seq=last + n, stored_at=batch.at) for n, row in enumerate(rows, start=1))
        )

    def write_rows(self, *_given: Any) -> None:
        """Nothing: who only tries writes no rows."""

    def collection(self, *, dry_run: bool = False, **_given: Any) -> Any:
        """See `Backend.collection`; without `dry_run` it is refused."""
        return self._backend.collection(dry_run=True) if dry_run else _refuse()

    def scrub(self, *, dry_run: bool = False) -> None:
        """See `Backend.scrub`; without `dry_run` it is refused."""
        (self._backend.scrub if dry_run else _refuse)(dry_run=True)

    def close(self) -> None:
        """Nothing: the backend belongs to the real store."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name) if name in _READS else _refuse


def _refuse(*_given: Any, **_more: Any) -> Any:
    raise UnsupportedError(
        "a rehearsal writes nothing, and this is nothing but writing",
        code=ErrorCode.NOT_SUPPORTED,
        hint="gc, forget, repair and copy_to take dry_run=True themselves",
    )
