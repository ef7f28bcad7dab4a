"""The reader of a store in memory: every question is a walk over the rows of one moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice

from holdfast.backends.matching import id_range, metadata_matches, normalized
from holdfast.backends.memory.moment import Moment
from holdfast.storage.copy_rows import Adopted, adoption_mark
from holdfast.storage.records import (
    BranchRow,
    CheckpointId,
    CheckpointRow,
    ChunkHash,
    Operation,
    Query,
    SessionRow,
    StoreStats,
)
from holdfast.storage.tables import Row, RowQuery, Table


class MemoryReader:
    """A `Reader` of one moment."""

    def __init__(self, moment: Moment) -> None:
        self._moment = moment

    def session(self, session: str) -> SessionRow | None:
        """See `Reader.session`."""
        return self._moment.sessions.get(session)

    def sessions(self, *, agent: str | None = None, project: str | None = None) -> Sequence[SessionRow]:
        """See `Reader.sessions`."""
        return [
            row
            for row in self._moment.sessions.values()
            if agent in (None, row.agent) and project in (None, row.project)
        ]

    def branch(self, session: str, name: str) -> BranchRow | None:
        """See `Reader.branch`."""
        return self._moment.branches.get((session, name))

    def branches(self, session: str) -> Sequence[BranchRow]:
        """See `Reader.branches`."""
        rows = [row for row in self._moment.branches.values() if row.session == session]
        return sorted(rows, key=lambda row: row.name)

    def checkpoint(self, checkpoint: CheckpointId) -> CheckpointRow | None:
        """See `Reader.checkpoint`."""
        return self._moment.checkpoints.get(checkpoint)

    def checkpoints(self, query: Query) -> Sequence[CheckpointRow]:
        """See `Reader.checkpoints`."""
        low, high = id_range(query.id_prefix or "")
        query = query._replace(metadata=normalized(query.metadata))
        rows = self._moment.checkpoints.values()
        in_order = rows if query.oldest_first else reversed(rows)
        found: Iterable[CheckpointRow]
        found = (row for row in in_order if low <= row.id <= high and self._matches(row, query))
        if query.by_key:
            keyed = (row for row in found if row.key is not None)
            # The order of code points is that of bytes in UTF-8. Equal keys stay in the order that they have.
            found = sorted(keyed, key=lambda row: row.key or "", reverse=not query.oldest_first)
        return list(islice(found, None if query.limit is None else max(query.limit, 0)))

    def operations(self, session: str, *, after: int = 0) -> Sequence[Operation]:
        """See `Reader.operations`."""
        return [
            each
            for each in self._moment.operations.values()
            if each.session == session and each.number > after
        ]

    def chunks(self, hashes: Iterable[ChunkHash]) -> Mapping[ChunkHash, bytes]:
        """See `Reader.chunks`."""
        known = self._moment.chunks
        return {each: known[each] for each in hashes if each in known}

    def present(self, hashes: Iterable[ChunkHash]) -> AbstractSet[ChunkHash]:
        """See `Reader.present`."""
        return {each for each in hashes if each in self._moment.chunks}

    def adopted(self, session: SessionRow) -> Adopted | None:
        """See `Reader.adopted`."""
        mark = self._moment.adopted.get(session.id)
        kinds: tuple[Adopted, ...] = ("whole", "partial")
        return next((each for each in kinds if mark == adoption_mark(session, each)), None)

    def tables(self) -> Sequence[Table]:
        """See `Reader.tables`."""
        return self._moment.tables.declared()

    def find_rows(self, table: Table, query: RowQuery) -> Sequence[Row]:
        """See `Reader.find_rows`."""
        return self._moment.tables.find(table, query)

    def count_rows(self, table: Table, query: RowQuery) -> int:
        """See `Reader.count_rows`."""
        return len(self._moment.tables.find(table, query._replace(limit=None)))

    def stats(self) -> StoreStats:
        """See `Reader.stats`; chunks are kept as they came."""
        moment = self._moment
        hidden = sum(1 for row in moment.checkpoints.values() if row.hidden)
        size = sum(map(len, moment.chunks.values()))
        return StoreStats(
            sessions=len(moment.sessions),
            branches=len(moment.branches),
            checkpoints=len(moment.checkpoints) - hidden,
            hidden=hidden,
            chunks=len(moment.chunks),
            chunk_bytes=size,
            stored_bytes=size,
        )

    def _matches(self, row: CheckpointRow, query: Query) -> bool:
        owner = self._moment.sessions[row.session]
        if row.hidden and not query.include_hidden:
            return False
        exact = (
            (query.session, row.session),
            (query.branch, row.branch),
            (query.agent, owner.agent),
            (query.project, owner.project),
            (query.status, row.status),
            (query.step, row.step),
            (query.seq, row.seq),
            (query.key, row.key),
        )
        if any(wanted is not None and wanted != actual for wanted, actual in exact):
            return False
        return (
            (query.tag is None or query.tag in row.tags)
            and (query.prev is None or (row.prev or b"") == query.prev)
            and _trigger_matches(query.trigger, row.trigger)
            and _in_range(row, query)
            and metadata_matches(row.metadata, row.added_metadata, query.metadata)
        )


def _trigger_matches(wanted: str | None, trigger: str) -> bool:
    return wanted in (None, trigger) or (wanted == "auto" and trigger.startswith("auto:"))


def _in_range(row: CheckpointRow, query: Query) -> bool:
    return (
        (query.key_from is None or (row.key is not None and row.key >= query.key_from))
        and (query.key_below is None or (row.key is not None and row.key < query.key_below))
        and (query.since is None or row.created_at >= query.since)
        and (query.until is None or row.created_at <= query.until)
        and (query.before_seq is None or row.seq < query.before_seq)
        and (query.after_seq is None or row.seq > query.after_seq)
        and (query.before_position is None or row.position < query.before_position)
        and (query.after_position is None or row.position > query.after_position)
    )
