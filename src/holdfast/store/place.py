"""Where an operation happens, and whose a row is: what reading and changing have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.errors import IntegrityError
from holdfast.history.checkpoint import Checkpoint
from holdfast.history.refs import resolve
from holdfast.record import Record
from holdfast.storage.ports import Backend, Reader
from holdfast.storage.records import CheckpointRow, Claim, SessionRow

if TYPE_CHECKING:
    from holdfast.store.leases import HeldLease


class Place(Record):
    """Where an operation happens: the store, the session, the branch in use, the clock, and the application."""

    backend: Backend
    claim: Claim
    branch: str
    clock: Callable[[], int]
    app_version: str | None
    lease: HeldLease | None = None
    """The lease that has to be held for anything to be written."""

    def find(self, reader: Reader, ref: str | Checkpoint) -> CheckpointRow:
        """The row that a ref names here."""
        return resolve(reader, self.claim.session, self.branch, ref, now=self.clock())


def session_of(reader: Reader, row: CheckpointRow) -> SessionRow:
    """The session a checkpoint belongs to."""
    session = reader.session(row.session)
    if session is None:
        raise IntegrityError.row_damaged(
            f"checkpoint {row.id.hex()}", why=f"its session {row.session!r} is not in the store"
        )
    return session
