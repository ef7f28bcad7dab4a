"""The rows a backend keeps, as frozen records.

Ids and hashes are 32 raw bytes here and hex text on every surface. Times are whole microseconds since 1970 UTC:
exact, sortable, and the same in SQLite and PostgreSQL. Structured text (metadata, the data of an operation) is
canonical JSON, written by the layer above; a backend stores it, and looks into metadata only to answer a `Query`.

A checkpoint row has three parts. What the *writer* knows is hashed into the id and never changes. What the *store*
gives (`seq`, `position`, `stored_at`, `stored_bytes`) does not change either, but is outside the id; only an import
that brings an ancestor later than its descendants puts these behind it, with new numbers. What *annotations* and
removals touch may change, and each change goes into the operation log in the same commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NewType, Protocol

import ormsgpack
import xxhash

from holdfast.record import Record

if TYPE_CHECKING:
    from holdfast.storage.leases import Fence
    from holdfast.storage.tables import RowChange

CheckpointId = NewType("CheckpointId", bytes)
"""32 bytes that name a checkpoint: a hash over its parents, its root and everything its writer said."""

ChunkHash = NewType("ChunkHash", bytes)
"""32 bytes that name a chunk: the hash of its plain bytes."""


class NewChunk(Protocol):
    """What a backend is given of a chunk: a `Chunk`, or something that makes its `data` when it is asked for.

    The chunks of a large state are not all held as plain bytes at once. Who goes through them takes the data of one,
    or of a few, and lets go of it before the next.
    """

    @property
    def hash(self) -> ChunkHash:
        """See `Chunk`."""
        ...

    @property
    def data(self) -> bytes:
        """See `Chunk`. It may be made anew each time."""
        ...

    @property
    def base(self) -> ChunkHash | None:
        """See `Chunk`."""
        ...


class Chunk(Record):
    """A piece of encoded state on its way into a store: plain bytes and the hash that names them.

    How a backend keeps it (compressed, or as a difference to another chunk) is its own affair: `Reader.chunks` gives
    back exactly `data`.
    """

    hash: ChunkHash
    data: bytes
    base: ChunkHash | None = None
    """A chunk of an earlier state that is probably much like this one; it need not be there."""


class CheckpointRow(Record):
    """One checkpoint, without its state."""

    # Known to the writer, hashed into `id`.
    id: CheckpointId
    session: str
    branch: str
    """The branch it was born on."""
    parents: tuple[CheckpointId, ...]
    root: ChunkHash
    created_at: int
    """The writer's clock, raised to the parent's plus one where the clock went back."""
    trigger: str
    status: str
    step: int | None
    message: str
    metadata: str
    """A JSON object as canonical text."""
    tokens: int | None
    cost_usd: float | None
    duration_ms: float | None
    app_version: str | None
    nonce: bytes

    # Known to the writer, outside the id.
    key: str | None
    """The caller's own id for this checkpoint, unique in the session."""
    size_bytes: int
    """The encoded state, before chunks are shared and compressed."""

    # Given by the store in `commit`; whatever a batch carries here is ignored.
    seq: int = 0
    """1, 2, 3 ... in the session; never reused. Order is by seq, never by time."""
    position: int = 0
    """The order of arrival in the whole store."""
    stored_at: int = 0
    """The store's clock at commit."""
    stored_bytes: int = 0
    """What this checkpoint's new chunks take in the store."""

    # Changed later by `Edit`s.
    prev: CheckpointId | None = None
    """The nearest ancestor that has not been removed; every walk through history follows it."""
    skipped: int = 0
    """How many removed checkpoints lie between this one and `prev`."""
    hidden: int = 0
    """The number of the operation that removed this checkpoint; 0 while it is there."""
    tags: tuple[str, ...] = ()
    """Sorted, each once."""
    pinned: bool = False
    edited_message: str | None = None
    added_metadata: str | None = None
    """A JSON object as canonical text, laid over `metadata`."""


class SessionRow(Record):
    """One line of work of one agent."""

    id: str
    agent: str | None
    project: str | None
    created_at: int
    last_seq: int = 0
    """The seq of the newest checkpoint ever saved in it."""
    log_count: int = 0
    """How many operations its log ever had: the number of the newest. Some of them may have been cut."""
    log_tip: bytes = b""
    """The hash of the newest operation; empty while there is none."""
    current: str = "main"
    """The branch that people are on where they name none."""


class BranchRow(Record):
    """A movable name in a session."""

    session: str
    name: str
    head: CheckpointId
    moved_at: int


class Operation(Record):
    """One entry of a session's operation log: a link of a hash chain.

    `hash` covers `previous` and everything else here, so that a changed, missing or reordered entry shows.
    """

    session: str
    number: int
    """1, 2, 3 ... in the session; never reused, and gone where the log was cut."""
    kind: str
    at: int
    data: str
    """A JSON object as canonical text."""
    previous: bytes
    hash: bytes


class StoreStats(Record):
    """How much is in a store."""

    sessions: int = 0
    branches: int = 0
    checkpoints: int = 0
    """The ones that have not been removed."""
    hidden: int = 0
    """Removed ones whose rows are still there."""
    chunks: int = 0
    chunk_bytes: int = 0
    """Plain bytes of all chunks."""
    stored_bytes: int = 0
    """What those chunks take after compression."""
    file_bytes: int | None = None
    """What the store takes on disk, indexes included, where that can be said."""


class Query(Record):
    """Which checkpoints to list, newest first unless it says otherwise. A filter that is None does not filter.

    Every value is bound as a parameter, metadata keys included: no text of a query ever becomes SQL.
    """

    session: str | None = None
    branch: str | None = None
    """The branch they were born on."""
    agent: str | None = None
    project: str | None = None
    tag: str | None = None
    status: str | None = None
    trigger: str | None = None
    """Exact; `auto` also matches `auto:<event>`."""
    step: int | None = None
    seq: int | None = None
    key: str | None = None
    key_from: str | None = None
    """A key at or after; keys are compared byte by byte in UTF-8, which is the order of code points."""
    key_below: str | None = None
    """A key before, and not this one itself."""
    prev: CheckpointId | None = None
    """What they follow; empty bytes for those that follow nothing."""
    id_prefix: str | None = None
    """Lower-case hex digits, at most 64."""
    since: int | None = None
    """created_at at or after."""
    until: int | None = None
    """created_at at or before."""
    metadata: tuple[tuple[tuple[str, ...], str], ...] = ()
    """(path of keys, value as canonical JSON) pairs; each must be equal. Added metadata hides the original."""
    before_seq: int | None = None
    after_seq: int | None = None
    before_position: int | None = None
    after_position: int | None = None
    include_hidden: bool = False
    oldest_first: bool = False
    by_key: bool = False
    """Only those that have a key, in the order of their keys: falling, or rising with `oldest_first`. The same key in
    two sessions comes in the order of position."""
    limit: int | None = None


class Claim(Record):
    """The session a batch writes to, made by the commit where it does not exist.

    An agent or project of None asks for nothing; a given one is set where the session has none, and refused with
    `session-mismatch` where it has another.
    """

    session: str
    agent: str | None = None
    project: str | None = None


class Move(Record):
    """A branch head changes from `expected` to `head`, or the whole batch fails with `branch-moved`.

    `expected=None` says that the branch must not exist yet; `head=None` removes it.
    """

    branch: str
    expected: CheckpointId | None
    head: CheckpointId | None


class Edit(Record):
    """The new value of everything about a checkpoint that can change."""

    id: CheckpointId
    prev: CheckpointId | None
    skipped: int
    hidden: int
    tags: tuple[str, ...]
    pinned: bool
    edited_message: str | None
    added_metadata: str | None


class Guard(Record):
    """The session must still be as it was read, or the batch fails with `session-changed`.

    `last_seq=None` leaves new checkpoints out of it, for operations that do not mind them.
    """

    log_count: int
    last_seq: int | None = None


class Batch(Record):
    """Everything one commit writes, computed before the transaction: all of it becomes visible, or nothing.

    The chunks a checkpoint needs are in the batch, or belong to the state of a checkpoint that `relies_on` or
    `also_relies_on` names.
    """

    claim: Claim
    at: int
    """The store's clock for `stored_at`, `moved_at` and `created_at` of a new session."""
    chunks: Sequence[NewChunk] = ()
    checkpoints: tuple[CheckpointRow, ...] = ()
    moves: tuple[Move, ...] = ()
    edits: tuple[Edit, ...] = ()
    operations: tuple[Operation, ...] = ()
    guard: Guard | None = None
    relies_on: CheckpointId | None = None
    """A checkpoint whose state has the chunks that are left out; the batch fails with `chunks-gone` where its row is
    not there. A row keeps all its chunks alive, so that looking for the row is enough."""
    removals: tuple[CheckpointId, ...] = ()
    """Checkpoints whose rows go for good. Each is hidden, by this batch if not before; one that is gone is no error."""
    switch_to: str | None = None
    """The branch that people are on from now on; None leaves it as it is."""
    cuts_log_from: int = 0
    """Operations from this number on, up to those of this batch, go for good; 0 cuts nothing. Numbers and the tip of
    the log go on as if they were there."""
    also_relies_on: tuple[CheckpointId, ...] = ()
    """Further checkpoints whose states have chunks that are left out, likewise; of any session."""
    fence: Fence | None = None
    """The claim of a lease; the batch fails with `lease-lost` where that is no longer the one that holds it. One that
    has run out, and that nobody else has taken, still holds."""
    seen: tuple[CheckpointRow, ...] = ()
    """Rows that it edits or removes, as the writer read them. A backend that finds them still like that need not read
    them once more."""
    rows: tuple[RowChange, ...] = ()
    """Changes of extension tables, carried out last, in this order."""


class Swept(Record):
    """Chunks that no checkpoint needs: those that a sweep removed, or would remove."""

    chunks: int = 0
    stored_bytes: int = 0
    done: bool = True
    """Whether none are left, or nothing more can be done."""
    superseded: bool = False
    """Whether a newer collection has begun: it is for that one to remove what is left."""


class Receipt(Record):
    """What a commit wrote: the checkpoint rows with what the store gave them."""

    checkpoints: tuple[CheckpointRow, ...] = ()


def seal(*fields: Any) -> int:
    """The checksum of a row: a signed 64-bit number over the encoded fields, order and types included.

    A chunk is named by a cryptographic hash of its bytes, so damage in it cannot hide. Rows that the store itself fills
    in (heads, sequence numbers, tags) have no such name, and carry this over every column instead. It is made against
    failing disks and memory, not against an attacker who can write the file.
    """
    unsigned = xxhash.xxh3_64_intdigest(ormsgpack.packb(list(fields), option=ormsgpack.OPT_NON_STR_KEYS))
    # Both SQLite and PostgreSQL have signed 64-bit integers.
    return unsigned - (1 << 64) if unsigned >> 63 else unsigned
