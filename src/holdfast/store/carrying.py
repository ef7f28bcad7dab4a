"""Rows and their chunks on the way into another store, in batches of bounded size.

A batch has rows with all chunks that the target does not have yet, so that at each moment every row there has its
state. Which chunks those are is found by walking down the state beside that of a checkpoint that the target has: what
both refer to is there, and is protected by that row. Of the rest the target is asked; what it has is named in the
batch, so that a collection of chunks that runs there cannot take it before the rows come.

A state that is larger than a batch is sent ahead in parts. Nothing protects those but their age, so the batch with the
row names them too, and if the target says that one is gone, it is sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.errors import ConflictError, ErrorCode
from holdfast.objects.tree.read import links, read_chunks
from holdfast.record import Record
from holdfast.storage.copy_rows import Adoption
from holdfast.storage.ports import Backend, Reader
from holdfast.storage.records import (
    BranchRow,
    CheckpointId,
    CheckpointRow,
    Chunk,
    ChunkHash,
    Operation,
    SessionRow,
)
from holdfast.store.place import Progress

_ROWS: Final = 256
_BYTES: Final = 4 << 20
"""Of a batch. A larger one saves little, and a smaller one costs a sync more often."""
_READ_AT_ONCE: Final = 64
"""Chunks: even full ones are about a batch."""
PREPARED: Final = 64
"""Rows whose roots are asked for at once."""
_ASKED_AT_ONCE: Final = 1024
_REMEMBERED: Final = 20_000
"""Chunks whose links are kept for the next row, which has most of them too."""
_ATTEMPTS: Final = 20
"""Times that chunks may go while they are on their way; each means that a whole collection came between."""


@dataclass(slots=True)
class Tally:
    """What was written to the target so far."""

    checkpoints: int = 0
    chunks: int = 0
    bytes: int = 0


class Extra(Record):
    """What a batch changes beside bringing checkpoints."""

    removals: tuple[CheckpointId, ...] = ()
    branches: tuple[BranchRow, ...] | None = None
    operations: tuple[Operation, ...] = ()
    cuts_log_from: int = 0


_NOTHING_ELSE: Final = Extra()


class Carrier:
    """Brings rows of one session into a store.

    Args:
        source: One view of the store they come from.
        target: The store they go to.
        mine: The session at the source.
        theirs: The session at the target; None where there is none.
        tally: Counts what is written.
        progress: Told after each batch.
    """

    def __init__(
        self,
        source: Reader,
        target: Backend,
        mine: SessionRow,
        theirs: SessionRow | None,
        tally: Tally,
        progress: Progress,
    ) -> None:
        self._source = source
        self._target = target
        self._mine = mine
        self._tally = tally
        self._progress = progress
        self._theirs = theirs
        """The session at the target, as it was read or written last."""
        self._rows: list[tuple[CheckpointRow, ChunkHash | None]] = []
        self._new = 0
        self._removals: list[CheckpointId] = []
        self._chunks: dict[ChunkHash, Chunk] = {}
        self._size = 0
        self._found: dict[ChunkHash, None] = {}
        self._links: dict[ChunkHash, Sequence[ChunkHash]] = {}
        self._ahead: dict[ChunkHash, bytes | None] = {}
        """Roots of rows to come: what the source has of them, None where the target has them."""

    @property
    def theirs(self) -> SessionRow:
        """The session as it is at the target between two batches."""
        return self._theirs or self._mine._replace(last_seq=0, log_count=0, log_tip=b"")

    def prepare(self, rows: Sequence[CheckpointRow]) -> None:
        """Ask for the roots of the next few rows at once: most rows need nothing else, and a question takes time."""
        roots = list(dict.fromkeys(row.root for row in rows))
        with self._target.reader() as reader:
            present = reader.present(roots)
        missing = [name for name in roots if name not in present]
        self._ahead = dict.fromkeys(present)
        if missing:
            self._ahead |= read_chunks(missing, self._source.chunks)

    def bring(self, row: CheckpointRow, base: ChunkHash | None) -> None:
        """Write a checkpoint that the target does not have, with what it needs of its state.

        Args:
            row: The checkpoint.
            base: The root of a state whose checkpoint is at the target, or was brought before; the more like it, the
                less is to be looked at.
        """
        self._rows.append((row, base))
        self._new += 1
        self._gather(row.root, base)
        self._send_if_full()

    def put(self, row: CheckpointRow) -> None:
        """Write a checkpoint in the place of the one that is there; its state is there too."""
        self._rows.append((row, row.root))
        self._send_if_full()

    def remove(self, checkpoint: CheckpointId) -> None:
        """Take a checkpoint out of the target."""
        self._removals.append(checkpoint)
        self._send_if_full()

    def write_log(self, operations: Sequence[Operation], *, cuts_from: int, before: Operation | None) -> None:
        """Write the end of the log.

        Args:
            operations: What comes after `before`.
            cuts_from: From which number on what is there goes first; 0 where nothing does.
            before: The newest entry that stays.
        """
        tip = before
        parts = _parts(operations) or [()]
        for part in parts:
            tip = part[-1] if part else tip
            count, newest = (tip.number, tip.hash) if tip else (0, b"")
            self.send(
                Extra(operations=tuple(part), cuts_log_from=cuts_from),
                self.theirs._replace(log_count=count, log_tip=newest),
            )
            cuts_from = 0

    def flush(self) -> None:
        """Write what has been gathered, if anything."""
        if self._rows or self._removals:
            self.send()

    def send(
        self,
        extra: Extra = _NOTHING_ELSE,
        session: SessionRow | None = None,
        *,
        whole: bool = False,
    ) -> None:
        """Write what has been gathered, and what else there is; afterwards the session is as given."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._adopt(extra, session or self._advanced(), whole=whole)
                break
            except ConflictError as conflict:
                self._check_gone(conflict)
                if attempt == _ATTEMPTS:
                    raise
                for row, base in self._rows:
                    self._gather(row.root, base)
        self._tally.checkpoints += self._new
        self._rows, self._removals, self._new = [], [], 0
        self._found = {}
        self._progress("copying checkpoints", self._tally.checkpoints)

    def _adopt(self, extra: Extra, session: SessionRow, *, whole: bool) -> None:
        self._deliver(
            Adoption(
                session=session,
                expected=self._theirs,
                chunks=tuple(self._chunks.values()),
                found=tuple(self._found),
                checkpoints=tuple(row for row, _ in self._rows),
                removals=(*extra.removals, *self._removals),
                branches=extra.branches,
                operations=extra.operations,
                cuts_log_from=extra.cuts_log_from,
                whole=whole,
            )
        )

    def _deliver(self, batch: Adoption) -> None:
        self._target.adopt(batch)
        self._theirs = batch.session
        self._tally.chunks += len(self._chunks)
        self._tally.bytes += self._size
        self._chunks, self._size = {}, 0

    def _advanced(self) -> SessionRow:
        newest = max((row.seq for row, _ in self._rows), default=0)
        return self.theirs._replace(last_seq=max(newest, self.theirs.last_seq))

    def _check_gone(self, conflict: ConflictError) -> None:
        """Begin the batch anew where chunks went that it counted on; raise what has another reason."""
        if conflict.code is not ErrorCode.CHUNKS_GONE:
            raise conflict
        self._chunks, self._size, self._found, self._links = {}, 0, {}, {}
        # Roots that were there may be among those that went.
        self._ahead = {name: data for name, data in self._ahead.items() if data is not None}

    def _send_if_full(self) -> None:
        if len(self._rows) + len(self._removals) >= _ROWS or self._size >= _BYTES:
            self.send()

    def _send_ahead(self) -> None:
        sent = tuple(self._chunks)
        self._deliver(Adoption(self.theirs, self._theirs, chunks=tuple(self._chunks.values())))
        self._found.update(dict.fromkeys(sent))

    def _gather(self, root: ChunkHash, base: ChunkHash | None) -> None:
        """Find what the target does not have of a state, level by level beside another that it has."""
        if root == base:
            return
        level: dict[ChunkHash, ChunkHash | None] = {root: base}
        beside = [] if base is None else [base]
        shared = set(beside)
        while level:
            old = [each for found in self._linked(beside).values() for each in found]
            shared.update(old)
            level = {
                name: like
                for name, like in level.items()
                if name not in shared and name not in self._chunks and name not in self._found
            }
            new = dict.fromkeys(each for found in self._take(level) for each in found)
            beside = [each for each in dict.fromkeys(old) if each not in new]
            level = _paired([each for each in new if each not in shared], beside)

    def _take(self, level: Mapping[ChunkHash, ChunkHash | None]) -> Iterable[Sequence[ChunkHash]]:
        """Count these chunks in, as found or to be sent; what they refer to."""
        names = list(level)
        present = self._present(names)
        self._found.update((name, None) for name in names if name in present)
        yield from self._linked([name for name in names if name in present]).values()
        missing = [name for name in names if name not in present]
        for start in range(0, len(missing), _READ_AT_ONCE):
            for name, data in self._read(missing[start : start + _READ_AT_ONCE]).items():
                self._chunks[name] = Chunk(name, data, level[name])
                self._size += len(data)
                yield self._remember(name, data)
            if self._size >= 2 * _BYTES:
                self._send_ahead()

    def _present(self, names: Sequence[ChunkHash]) -> set[ChunkHash]:
        present = {name for name in names if name in self._ahead and self._ahead[name] is None}
        unknown = [name for name in names if name not in self._ahead]
        for start in range(0, len(unknown), _ASKED_AT_ONCE):
            with self._target.reader() as reader:
                present |= reader.present(unknown[start : start + _ASKED_AT_ONCE])
        return present

    def _read(self, names: Sequence[ChunkHash]) -> dict[ChunkHash, bytes]:
        read = {name: data for name in names if (data := self._ahead.get(name)) is not None}
        unknown = [name for name in names if name not in read]
        return read | read_chunks(unknown, self._source.chunks) if unknown else read

    def _linked(self, names: Sequence[ChunkHash]) -> dict[ChunkHash, Sequence[ChunkHash]]:
        """What chunks refer to that the target has, or that are on their way there."""
        found = {name: self._links[name] for name in names if name in self._links}
        unknown = [name for name in names if name not in found]
        for name in [name for name in unknown if name in self._chunks]:
            found[name] = self._remember(name, self._chunks[name].data)
        unknown = [name for name in unknown if name not in found]
        for start in range(0, len(unknown), _READ_AT_ONCE):
            with self._target.reader() as reader:
                # One that went since is left out: who relies on it finds out when the batch is written.
                there = reader.present(unknown[start : start + _READ_AT_ONCE])
                for name, data in read_chunks(there, reader.chunks).items():
                    found[name] = self._remember(name, data)
        return found

    def _remember(self, name: ChunkHash, data: bytes) -> Sequence[ChunkHash]:
        if len(self._links) >= _REMEMBERED:
            self._links.clear()
        found = self._links[name] = links(name, data)
        return found


def _paired(new: Sequence[ChunkHash], old: Sequence[ChunkHash]) -> dict[ChunkHash, ChunkHash | None]:
    """New chunks, each with the old one that it probably came from."""
    if len(new) != len(old):
        return dict.fromkeys(new)
    return dict(zip(new, old, strict=True))


def _parts(operations: Sequence[Operation]) -> list[Sequence[Operation]]:
    """The same entries in parts that are no larger than a batch."""
    parts: list[list[Operation]] = []
    size = 0
    for each in operations:
        size += len(each.data)
        if not parts or size > _BYTES or len(parts[-1]) >= _ROWS:
            parts.append([])
            size = len(each.data)
        parts[-1].append(each)
    return list(parts)
