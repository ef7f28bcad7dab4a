"""The two ports: a `Backend` commits batches, a `Reader` answers questions about one moment.

All writing is `commit`, all reading goes through a `Reader`, which sees the store as it was when it was opened: what a
load reads fits together, whoever writes meanwhile. Sentences in these docstrings are the contract, and each has a test
in `holdfast.testing.conformance`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from holdfast.storage.records import (
    Batch,
    BranchRow,
    CheckpointId,
    CheckpointRow,
    ChunkHash,
    Operation,
    Query,
    Receipt,
    SessionRow,
    StoreStats,
)


class Reader(Protocol):
    """One consistent view of a store.

    Everything it returns belongs to the same moment. A row that does not match its checksum raises `IntegrityError`;
    it is never returned and never skipped. A reader belongs to the thread that opened it.
    """

    def session(self, session: str) -> SessionRow | None:
        """The session of that id, or None."""
        ...

    def sessions(self, *, agent: str | None = None, project: str | None = None) -> Sequence[SessionRow]:
        """All sessions, oldest first."""
        ...

    def branch(self, session: str, name: str) -> BranchRow | None:
        """The branch of that name, or None."""
        ...

    def branches(self, session: str) -> Sequence[BranchRow]:
        """The branches of a session, by name; none where there is no such session."""
        ...

    def checkpoint(self, checkpoint: CheckpointId) -> CheckpointRow | None:
        """The checkpoint of that id, removed or not, or None."""
        ...

    def checkpoints(self, query: Query) -> Sequence[CheckpointRow]:
        """The checkpoints that match, newest first: by seq within a session, by position across sessions."""
        ...

    def operations(self, session: str, *, after: int = 0) -> Sequence[Operation]:
        """The operation log of a session, oldest first, from the entry after number `after`."""
        ...

    def chunks(self, hashes: Iterable[ChunkHash]) -> Mapping[ChunkHash, bytes]:
        """The plain bytes of those chunks; a chunk that is not there is left out. The caller checks the hashes."""
        ...

    def stats(self) -> StoreStats:
        """How much is in the store."""
        ...


class Backend(Protocol):
    """A place where checkpoints live.

    Safe to use from several threads at once. A process that forks may go on using its backend on both sides.
    After `close`, every method but `close` raises `StateError` with code `store-closed`.
    """

    @property
    def url(self) -> str:
        """Where this is, as text for people: no password in it."""
        ...

    def commit(self, batch: Batch) -> Receipt:
        """Write the batch, all or nothing, durably before returning.

        Checks, in this order, before anything is visible: the claim fits the session; the guard holds; what it relies
        on is there; every move's expected head is the head; every key is free. `seq` continues the session's, one by
        one, in batch order. A chunk that is already there is not stored again; what the new ones take counts for the
        first checkpoint of the batch. Operations follow on from the tip of the log. A batch whose checkpoints are all
        there already, whatever else it says, changes nothing and returns their rows: a lost reply is settled by
        committing again.

        Raises:
            ConflictError: The guard (`session-changed`), what it relies on (`chunks-gone`), a move (`branch-moved`) or
                a key (`key-taken`) does not hold.
            InvalidInputError: The session belongs to another agent or project (`session-mismatch`).
            BackendError: The write failed; what it would have written is absent or, rarely, whole.
        """
        ...

    def reader(self) -> AbstractContextManager[Reader]:
        """Open a view of the store as it is now. Leave it before opening another in the same thread."""
        ...

    def backup(self, target: Path) -> None:
        """Write a consistent copy of the whole store to a new file, beside running writers.

        Raises:
            InvalidInputError: Something is there already (`path-exists`).
            UnsupportedError: This backend cannot be copied as a file (`not-supported`).
        """
        ...

    def close(self) -> None:
        """Let go of every resource. Closing twice is fine."""
        ...
