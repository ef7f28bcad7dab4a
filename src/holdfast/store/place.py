"""Where an operation happens, whose a row is, and how to read once more: what reading and changing have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from itertools import count
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from holdfast.errors import BackendError, HoldfastError, IntegrityError
from holdfast.history.checkpoint import Checkpoint
from holdfast.history.refs import resolve
from holdfast.record import Record
from holdfast.storage.ports import Backend, Reader
from holdfast.storage.records import CheckpointId, CheckpointRow, Claim, SessionRow

if TYPE_CHECKING:
    from holdfast.store.lease import HeldLease


_T = TypeVar("_T")

ATTEMPTS: Final = 1000
"""A writer without expectation loses a round only when another one wins it, so this many losses in a row mean that
something other than contention is wrong."""


class Unset:
    """The type of `UNSET`, which stands for an argument that was not given where None means something."""

    def __repr__(self) -> str:
        return "<not given>"


UNSET: Final = Unset()

Ref = str | Checkpoint
OnConflict = Literal["raise", "fork"]
Expectation = CheckpointId | None | Unset
"""The head a writer builds on: an id, None for "no checkpoint yet", or UNSET for "whatever is there"."""


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

    def find_any(self, reader: Reader, ref: str | Checkpoint) -> CheckpointRow:
        """The same, where a Checkpoint may be of any session of the store."""
        if isinstance(ref, Checkpoint):
            return resolve(reader, ref.session, ref.branch, ref, now=self.clock())
        return self.find(reader, ref)


def session_of(reader: Reader, row: CheckpointRow) -> SessionRow:
    """The session a checkpoint belongs to."""
    session = reader.session(row.session)
    if session is None:
        raise IntegrityError.row_damaged(
            f"checkpoint {row.id.hex()}", why=f"its session {row.session!r} is not in the store"
        )
    return session


def records(reader: Reader, rows: Iterable[CheckpointRow]) -> list[Checkpoint]:
    """Rows of any sessions as what callers get."""
    owners: dict[str, SessionRow] = {}
    found = []
    for row in rows:
        if row.session not in owners:
            owners[row.session] = session_of(reader, row)
        found.append(Checkpoint(row, owners[row.session]))
    return found


def read_again(work: Callable[[], _T]) -> _T:
    """What `work` returns, which only reads; it is called a second time where the connection to a server was lost.

    Another view is another moment, so this is for those who plan everything from one view.
    """
    try:
        return work()
    except BackendError as failure:
        # A server that cannot be reached at all has been waited for already.
        if failure.details.get("outcome") != "unknown":
            raise
        return work()


def settle(backend: Backend, failure: BackendError, find: Callable[[Reader], _T | None]) -> _T | None:
    """What `find` says of a commit whose reply was an error: whether it took place after all.

    Raises:
        BackendError: The store cannot be read either: the first failure is the one to report.
    """
    try:
        with backend.reader() as reader:
            return find(reader)
    except HoldfastError:
        raise failure from None


def is_expected(reader: Reader, expected: Expectation, head: CheckpointRow | None) -> bool:
    """Whether an implicit expectation holds: the head is what the writer saw, or has the same state."""
    if isinstance(expected, Unset) or expected == (None if head is None else head.id):
        return True
    seen = None if expected is None or head is None else reader.checkpoint(expected)
    return seen is not None and head is not None and (seen.root, seen.session) == (head.root, head.session)


def free_branch(name: str, taken: Iterable[str]) -> str:
    """The first of `main-1`, `main-2` ... that no branch is called."""
    taken = set(taken)
    return next(each for n in count(1) if (each := f"{name}-{n}") not in taken)


Progress = Callable[[str, int], None]
"""Told what is being done and how many of it are done so far."""


def silent(_what: str, _done: int) -> None:
    """Tell nobody."""


def callers_level() -> int:
    """How many frames up the one is that called `save`, of a Session or of a Document."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001 - documented, and what warnings itself uses
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("holdfast."):
        level, frame = level + 1, frame.f_back
    return level
