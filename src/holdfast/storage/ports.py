"""The two ports: a `Backend` commits batches, a `Reader` answers questions about one moment.

All writing is `commit`, or `adopt` for rows that another store made; leases, which say who may write, are beside it.
All reading goes through a `Reader`, which sees the store as it was when it was opened: what a load reads fits together,
whoever writes meanwhile. Sentences in these docstrings are the contract, and each has a test in
`holdfast.testing.kit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

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
    Swept,
)

if TYPE_CHECKING:
    from holdfast.storage.copy_rows import Adopted, Adoption
    from holdfast.storage.inspection import Flaw, LostRow, Rebuilt
    from holdfast.storage.leases import Fence, Holder, Lease
    from holdfast.storage.tables import Row, RowChange, RowQuery, Table


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
        """The checkpoints that match: by seq within a session, by position across sessions, or by key if it says so."""
        ...

    def operations(self, session: str, *, after: int = 0) -> Sequence[Operation]:
        """The operation log of a session, oldest first, from the entry after number `after`."""
        ...

    def chunks(self, hashes: Iterable[ChunkHash]) -> Mapping[ChunkHash, bytes]:
        """The plain bytes of those chunks; a chunk that is not there is left out. The caller checks the hashes.

        They may be fetched and expanded no sooner than they are looked at, and each time anew; damage that the backend
        finds is raised then. They can be looked at after the view has ended, too.
        """
        ...

    def present(self, hashes: Iterable[ChunkHash]) -> AbstractSet[ChunkHash]:
        """Those of the chunks that are there, without reading them."""
        ...

    def adopted(self, session: SessionRow) -> Adopted | None:
        """How the last `adopt` of that session left it, if it left it with exactly this row; None otherwise."""
        ...

    def tables(self) -> Sequence[Table]:
        """The extension tables that something was ever written to, each after those that it refers to."""
        ...

    def find_rows(self, table: Table, query: RowQuery) -> Sequence[Row]:
        """The rows of an extension table that match, with the columns it declares; none where there is no such table.

        Raises:
            UnsupportedError: The store has the table with other types or another key (`table-mismatch`).
        """
        ...

    def count_rows(self, table: Table, query: RowQuery) -> int:
        """How many rows match, whatever the limit of the query."""
        ...

    def stats(self) -> StoreStats:
        """How much is in the store."""
        ...


class Collection(Protocol):
    """The removal of chunks that no checkpoint needs, beside running writers.

    It opens a new epoch first, and each commit stamps the chunks it writes, finds or builds on with the epoch it sees.
    Then the caller marks what every row of the store needs, the hidden ones too, in order of `position`, until there
    are no more; and only then sweeps. A chunk goes if it is not marked and its stamp is older than the epoch. A row
    that is committed meanwhile has stamped chunks, or relies on a row that is marked or stamped in its turn.

    A collection may be left at any point: whatever was removed until then was not needed. Where a newer one has begun,
    an older one sweeps nothing more and says so: what the newer one marked must stay as it found it.

    It shows in the store that it is under way: when it begins, with each sweep, and every few seconds while it marks.
    Leaving it takes that back, unless a newer one has begun.
    """

    def mark(self, names: Iterable[ChunkHash]) -> Sequence[ChunkHash]:
        """Count these chunks as needed; return those that were not marked before and may refer to others.

        Raises:
            IntegrityError: One of them is not there (`chunk-missing`). Nothing may be swept then.
        """
        ...

    def unneeded(self) -> Swept:
        """How many chunks a sweep would remove now, and what they take."""
        ...

    def sweep(self, limit: int) -> Swept:
        """Remove at most `limit` chunks in one short transaction; a needed one that stood on them stands alone then."""
        ...


class Inspection(Protocol):
    """Everything that is left in a store that may be damaged, at one moment; no damage ends it.

    What it gives out matches its checksum. What does not is left out there, and named by `flaws` and `lost`.
    """

    def flaws(self) -> Sequence[Flaw]:
        """What is wrong below the level of history: pages, headers, rows that do not match their checksum."""
        ...

    def lost(self) -> Sequence[LostRow]:
        """The checkpoints whose rows cannot be read, each with what is known of it."""
        ...

    def sessions(self) -> Sequence[SessionRow]:
        """The sessions, oldest first; one whose row is damaged as far as it can be told from other rows."""
        ...

    def branches(self) -> Sequence[BranchRow]:
        """The branches of all sessions."""
        ...

    def checkpoints(self) -> Iterator[CheckpointRow]:
        """The checkpoints, removed ones too, in order of position."""
        ...

    def operations(self, session: str) -> Sequence[Operation]:
        """What is readable of the operation log of a session, oldest first."""
        ...

    def chunk_names(self) -> Iterator[ChunkHash]:
        """The chunks that there are, needed or not."""
        ...

    def chunks(self, hashes: Iterable[ChunkHash]) -> Mapping[ChunkHash, bytes]:
        """As `Reader.chunks`, but a chunk that cannot be put together is left out. The caller checks the hashes."""
        ...


class Backend(Protocol):
    """A place where checkpoints live.

    Safe to use from several threads at once. A process that forks while its other threads are quiet may go on using its
    backend on both sides.
    After `close`, every method but `close` raises `StateError` with code `store-closed`.
    """

    @property
    def url(self) -> str:
        """Where this is, as text for people: no password in it."""
        ...

    def commit(self, batch: Batch) -> Receipt:
        """Write the batch, all or nothing, durably before returning.

        Checks, in this order, before anything is visible: the fence holds, and will until the commit is done; the claim
        fits the session; the guard holds; what it relies on is there; every move's expected head is the head; every
        key is free. `seq` continues the session's, one by
        one, in batch order. A chunk that is already there is not stored again; what the new ones take counts for the
        first checkpoint of the batch. Operations follow on from the tip of the log. A batch whose checkpoints are all
        there already, whatever else it says, changes nothing and returns their rows: a lost reply is settled by
        committing again. What is removed is gone with its tags and its key; its chunks wait for a `Collection`.
        `position` and `seq` are never given twice, whatever was removed. Changes of extension tables come last, in
        their order, and go by the rules of `write_rows`.

        Raises:
            ConflictError: The fence (`lease-lost`), the guard (`session-changed`), what it relies on (`chunks-gone`), a
                move (`branch-moved`), a key (`key-taken`) or a row (`row-conflict`) does not hold.
            InvalidInputError: The session belongs to another agent or project (`session-mismatch`).
            UnsupportedError: An extension table is there with other types or another key (`table-mismatch`).
            BackendError: The write failed; what it would have written is absent or, rarely, whole.
        """
        ...

    def write_rows(self, changes: Sequence[RowChange], fence: Fence | None = None) -> None:
        """Change rows of extension tables without a checkpoint, all or nothing, durably before returning.

        A table that is not there is made, and gets the columns and indexes that it lacks. An insert of a key that is
        there, an update of a row that is not there or not as expected, and a row that refers to one that is not there
        are conflicts. A delete of a row that is not there is none; it takes the rows along that refer to it.

        Raises:
            ConflictError: The fence (`lease-lost`) or a row (`row-conflict`) does not hold.
            UnsupportedError: A table is there with other types or another key (`table-mismatch`).
            BackendError: The write failed. Where its details say `outcome: unknown` it may have taken place: read back.
        """
        ...

    def adopt(self, batch: Adoption) -> None:
        """Take over rows of another store as they are, all or nothing, durably before returning.

        Checks two things: the session is as expected, and the chunks that it says to have found are there. What it
        brings and what it found is stamped with the current epoch, as in a commit. Nothing else is checked: rows,
        branches and log come out as they were put in, but for `position`, which goes on as in a commit. What is
        removed is gone with its tags and its key. `erase_session` forgets that a session was adopted.

        Raises:
            ConflictError: The session is not as expected (`session-changed`), or a chunk is not there (`chunks-gone`).
            InvalidInputError: A row belongs to another session (`bad-argument`).
            BackendError: The write failed; what it would have written is absent or, rarely, whole.
        """
        ...

    def reader(self) -> AbstractContextManager[Reader]:
        """Open a view of the store as it is now. Leave it before opening another in the same thread.

        Backends for which each question is a trip can open one for a load, too: see `ReadsAhead`.
        """
        ...

    def turn(self, session: str) -> AbstractContextManager[object]:
        """A block that only one at a time is in, of all who ask for a turn of that session, in any process.

        A courtesy among writers that would otherwise lose round after round to each other. Nothing depends on it: a
        commit inside is checked like any other, commits outside go on, and where no turn can be had it goes on without.
        """
        ...

    def claim(self, name: str, holder: Holder, seconds: float, *, at: int, ticks: int) -> Lease:
        """Take a lease for so many seconds, in one step, if nobody has it; of many who try at once one gets it.

        It can be had where nobody holds it, where its time is over, and where its holder is known to be gone: a process
        of this machine that has ended. For who is in the place of its holder (all of `host` but the name is equal, and
        there is such a part) it is over when `ticks` is `length` past those of the lease, and no other clock counts;
        unless they are more than `length` ahead, which no claim of the same boot can be. For everybody else it is over
        when `until` has passed, and also when `until` is further away than twice its length: then the clock was set
        back. Who has it already (the same `holder.id`) gets it anew. Its epoch is higher than any that was ever given
        in this store.

        Args:
            name: The lease.
            holder: Who wants it.
            seconds: For how long.
            at: The time now, for a store that has no clock of its own; one that has goes by that.
            ticks: The boot clock of the claimant's machine now, in microseconds; it is kept with the lease.

        Raises:
            ConflictError: Somebody holds it (`lease-held`).
        """
        ...

    def renew(self, lease: Lease, seconds: float, *, at: int, ticks: int) -> Lease:
        """Hold a lease for so many seconds from now on, over or not, if nobody has taken it since; as it is then.

        It is kept with the `ticks` of this renewal.

        Raises:
            ConflictError: Somebody has, or it was given up (`lease-lost`).
        """
        ...

    def release(self, lease: Lease) -> None:
        """Give a lease up: it is free at once. Where that claim does not hold it any more, nothing changes."""
        ...

    def lease(self, name: str) -> Lease | None:
        """The lease of that name as it is, though its time may be over; None where nobody holds it."""
        ...

    def collection(
        self, *, dry_run: bool = False, stale_after: float | None = None
    ) -> AbstractContextManager[Collection]:
        """Begin to collect chunks that no checkpoint needs. With `dry_run` nothing is written, and nothing swept.

        With `stale_after` it begins only where no other one has shown itself within so many seconds, in any process;
        otherwise nothing changes. Without, it begins whoever else is at work. A dry run takes no notice of others.

        Raises:
            ConflictError: Another one is under way (`collection-running`).
        """
        ...

    def erase_session(self, session: str) -> None:
        """Remove a session with its branches, checkpoints and log, for good; its chunks wait for a `Collection`.

        Leases that are named after it (`prefix:session`) go too: whoever held one writes nothing more under it.
        """
        ...

    def scrub(self, *, dry_run: bool = False) -> None:
        """Make sure that nothing which was removed can still be found in the files of the store.

        With `dry_run` nothing is changed: it only raises where this can never be done here.

        Raises:
            BackendError: Somebody still reads an older moment (`store-locked`); call it again later. Or the rights for
                it are missing (`permission-denied`).
        """
        ...

    def inspect(self) -> AbstractContextManager[Inspection]:
        """Look at all that is there, damaged or not. Like a view, it is one moment, and belongs to its thread."""
        ...

    def rebuild(self, plan: Callable[[Inspection], Rebuilt | None]) -> str | None:
        """Put what `plan` makes of an inspection in the place of all that is there, in one step.

        No writer comes in between. What was there is kept aside first, as it is; the answer says where. Where `plan`
        returns None nothing is changed, and the answer is None.

        Raises:
            IntegrityError: The damage is such that nothing can be put in its place (`store-damaged`).
            UnsupportedError: This backend cannot be rebuilt (`not-supported`).
        """
        ...

    def wait_for_checkpoint(self, after: int, timeout: float) -> int:
        """Wait until there is a checkpoint with a position higher than `after`, whoever committed it.

        Returns the highest position that was given and has arrived: no checkpoint with that one or a lower one becomes
        visible any more. After `timeout` seconds it does so even if that is not higher.
        """
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


class ReadsAhead(Backend, Protocol):
    """A backend that can open a view for a load: what that asks first comes with the view, in one trip.

    No backend has to have it. Where its class has a method of that name, loads call that and not `reader`.
    """

    def reader_for(
        self, session: str, name: str, known: ChunkHash | None = None
    ) -> AbstractContextManager[Reader]:
        """What `Backend.reader` gives; the first questions are about a branch of that name, or a checkpoint of that id.

        They are its row, that of the checkpoint, and the root of its state, unless that is `known`. Whatever else is
        asked is answered as well.
        """
        ...
