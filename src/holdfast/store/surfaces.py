"""What surfaces for people need and programs do not: the branch that people are on, and rehearsals.

A rehearsal is a store that reads from the real one and writes nowhere. An operation that runs on it is checked and
worked out as the real one would be, with the same errors and the same answer, and leaves no trace: a dry run needs no
second account of what each operation does.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import cast

from holdfast.storage.ports import Backend, Reader
from holdfast.storage.records import Batch, Receipt
from holdfast.store.store import Store


def current_branch(store: Store, session: str) -> str:
    """The branch that people are on in a session where they name none; one row is read."""
    with store._backend.reader() as reader:  # noqa: SLF001 - a part of the store in a module of its own
        row = reader.session(session)
    return "main" if row is None else row.current


def rehearsal(store: Store) -> Store:
    """A store like `store`, on which single operations can be tried; it is not closed, and closes nothing."""
    backend, clock = store._backend, store._parts.clock  # noqa: SLF001 - see above
    return Store(cast("Backend", _Rehearsal(backend)), clock=clock)


class _Rehearsal:
    """Reads from a backend, and forgets what is written."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @property
    def url(self) -> str:
        return self._backend.url

    def reader(self) -> AbstractContextManager[Reader]:
        return self._backend.reader()

    def commit(self, batch: Batch) -> Receipt:
        # The plan was made from what is there a moment ago: whether it still holds is for the real one to find out.
        with self.reader() as reader:
            session = reader.session(batch.claim.session)
        last = session.last_seq if session else 0
        rows = (
            row._replace(seq=last + n, stored_at=batch.at) for n, row in enumerate(batch.checkpoints, start=1)
        )
        return Receipt(tuple(rows))
