"""Damaged stores: judge each row by its own seal, and name what is lost.

A `Tables` supplies rows and judges none of them. `RowInspection` compares what a table has with what its indexes know:
a checkpoint that only an index remembers is lost, and has a name. If a damaged row names the wrong session, or its
session's row is damaged, the seal says which name is right. A backend whose rows cannot be damaged one by one uses
`ReaderInspection`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any, Final, Protocol

from holdfast.backends import rows
from holdfast.backends.rows import Row
from holdfast.errors import IntegrityError
from holdfast.storage.inspection import Flaw, LostRow
from holdfast.storage.ports import Reader
from holdfast.storage.records import (
    BranchRow,
    CheckpointId,
    CheckpointRow,
    ChunkHash,
    Operation,
    Query,
    SessionRow,
    seal,
)

SESSION_IDS: Final = "session ids"
"""An index: (id, number)."""
SESSION_AGENTS: Final = "session agents"
"""An index: (agent, number)."""
SESSION_PROJECTS: Final = "session projects"
"""An index: (project, number)."""
CHECKPOINT_IDS: Final = "checkpoint ids"
"""An index: (id, position)."""
CHECKPOINT_PLACES: Final = "checkpoint places"
"""An index: (session, seq, position)."""

COUNTERS: Final = ("position", "epoch", "lease")
"""What a store counts."""

_ID_BYTES: Final = 32
_PARENTS: Final = 5
_PREV: Final = 22
_TAGS: Final = 25
"""Where they stand in a row of the checkpoints."""
_CHECKSUM: Final = "its checksum does not match"
_ONLY_INDEX: Final = "its row is not readable: only an index knows of it"


class Tables(Protocol):
    """Where rows come from."""

    def rows(self, table: str) -> Iterator[Row]:
        """The rows of a table, each with its columns in the order of the schema.

        Sessions come by number, checkpoints by position, operations by number. Where a damaged table has a row in more
        than one version, the one that is to be believed comes first: of those that match their seals, that one counts.
        Among the counters is `position`, the highest that the store remembers having given.
        """
        ...

    def entries(self, index: str) -> Iterator[Row]:
        """What one of the indexes above says; nothing where a database keeps none that could know better."""
        ...

    def chunk_names(self) -> Iterator[ChunkHash]:
        """The names of all chunks."""
        ...

    def chunks(self, names: Iterable[ChunkHash]) -> dict[ChunkHash, bytes]:
        """The plain bytes of chunks; without those that are not there, or cannot be put together."""
        ...

    def chunk_row(self, name: ChunkHash) -> Row | None:
        """A row of the chunk table: number, hash, codec, size_bytes, base, depth, epoch, refers, data."""
        ...


class RowInspection:
    """An `Inspection` of rows in tables.

    Args:
        tables: Where the rows come from.
        flaws: What is known already to be wrong.
        header_keys: What a header has to have.
        check: Raises where a row of `CHECKPOINT_FIELDS` does not match its seal.
    """

    def __init__(
        self,
        tables: Tables,
        flaws: Sequence[Flaw],
        *,
        header_keys: AbstractSet[str],
        check: Callable[[Row], None] = rows.check_checkpoint,
    ) -> None:
        self.tables = tables
        self._flaws = list(flaws)
        self._header_keys = header_keys
        self._check = check
        self._lost: list[LostRow] = []
        self._names: dict[int, list[str]] = {}
        self._sessions: dict[int, SessionRow] = {}
        self._proven: dict[int, str] = {}
        self._judge_header()
        self._judge_sessions()
        self._branches = self._judge_branches()
        self._operations = self._judge_operations()
        self._judge_checkpoints()
        self._restore_sessions()

    def flaws(self) -> Sequence[Flaw]:
        """See `Inspection.flaws`."""
        return self._flaws

    def lost(self) -> Sequence[LostRow]:
        """See `Inspection.lost`."""
        return self._lost

    def sessions(self) -> Sequence[SessionRow]:
        """See `Inspection.sessions`."""
        return [self._sessions[number] for number in sorted(self._sessions)]

    def branches(self) -> Sequence[BranchRow]:
        """See `Inspection.branches`."""
        return self._branches

    def checkpoints(self) -> Iterator[CheckpointRow]:
        """See `Inspection.checkpoints`."""
        last = None
        for row in self.tables.rows("checkpoints"):
            name = self._owner_of(row)
            if name is not None and row[0] != last:
                last = row[0]
                yield rows.checkpoint_from((name, *row))

    def operations(self, session: str) -> Sequence[Operation]:
        """See `Inspection.operations`."""
        return self._operations.get(session, [])

    def chunk_names(self) -> Iterator[ChunkHash]:
        """See `Inspection.chunk_names`."""
        return self.tables.chunk_names()

    def chunks(self, hashes: Iterable[ChunkHash]) -> Mapping[ChunkHash, bytes]:
        """See `Inspection.chunks`."""
        return self.tables.chunks(hashes)

    def header(self) -> dict[str, str]:
        """The entries of the header that match their checksum."""
        found: dict[str, str] = {}
        for key, value, checksum in self.tables.rows("header"):
            if seal(key, value) == checksum:
                found.setdefault(key, value)
        return found

    def newest_position(self) -> int:
        """The highest position that was ever given, as far as it can be told."""
        given = [row[0] for row in self.tables.rows("checkpoints") if isinstance(row[0], int)]
        given += [row[-1] for row in self._indexed(CHECKPOINT_IDS) if isinstance(row[-1], int)]
        counted = [
            value for name, value in self.tables.rows("counters") if name == "position" and type(value) is int
        ]
        return max([*given, *counted], default=0)

    def _judge_header(self) -> None:
        for key, value, checksum in self.tables.rows("header"):
            if seal(key, value) != checksum:
                self._flaws.append(Flaw("header", f"header {key!r}", _CHECKSUM))
        missing = self._header_keys - self.header().keys()
        if missing:
            self._flaws.append(Flaw("header", "the header", f"it has no {', '.join(sorted(missing))}"))
        counters = {name for name, value in self.tables.rows("counters") if type(value) is int}
        for name in sorted({"epoch", "position"} - counters):
            self._flaws.append(Flaw("counter", f"counter {name!r}", "it is not there"))

    def _judge_sessions(self) -> None:
        for row in self.tables.rows("sessions"):
            number, name = row[0], row[1]
            self._names.setdefault(number, []).append(name)
            try:
                self._sessions.setdefault(number, rows.session_from(row))
            except IntegrityError:
                self._flaws.append(Flaw("session", f"session {name!r}", _CHECKSUM, session=str(name)))
            else:
                self._proven.setdefault(number, name)
        for name, number in self._indexed(SESSION_IDS):
            known = self._names.setdefault(number, [])
            if not known:
                self._flaws.append(
                    Flaw("session", f"session {name!r}", "its row is not readable", session=name)
                )
            if name not in known:
                known.append(name)

    def _judge_branches(self) -> list[BranchRow]:
        found: dict[tuple[str, str], BranchRow] = {}
        for number, *row in self.tables.rows("branches"):
            for session in self._names.get(number, ()):
                with suppress(IntegrityError):
                    branch = rows.branch_from(session, tuple(row))
                    found.setdefault((session, branch.name), branch)
                    self._proven.setdefault(number, session)
                    break
            else:
                owner = self._name_of(number)
                of = f" of session {owner!r}" if owner else ""
                self._flaws.append(Flaw("branch", f"branch {row[0]!r}{of}", _CHECKSUM, owner, str(row[0])))
        return list(found.values())

    def _judge_operations(self) -> dict[str, list[Operation]]:
        found: dict[str, list[Operation]] = {}
        for number, *row in self.tables.rows("operations"):
            for session in self._names.get(number, ()):
                with suppress(IntegrityError):
                    found.setdefault(session, []).append(rows.operation_from(session, tuple(row)))
                    self._proven.setdefault(number, session)
                    break
            else:
                owner = self._name_of(number)
                what = f"operation {row[0]} of session {owner!r}"
                self._flaws.append(Flaw("operation", what, _CHECKSUM, owner))
        return found

    def _judge_checkpoints(self) -> None:
        whole: set[int] = set()
        ids: set[bytes] = set()
        broken: list[Row] = []
        expected: set[tuple[str, int]] = set()
        for row in self.tables.rows("checkpoints"):
            if self._owner_of(row) is None:
                broken.append(row)
                continue
            if row[0] in whole:
                continue
            whole.add(row[0])
            ids.add(row[3])
            expected.update((tag, row[0]) for tag in json.loads(row[_TAGS]))
        entries = self._indexed(CHECKPOINT_IDS)
        named = {at: name for name, at in entries if isinstance(name, bytes) and len(name) == _ID_BYTES}
        gone: dict[Any, Any] = {at: name for at, name in named.items() if at not in whole and name not in ids}
        places: dict[Any, tuple[int, int]] = {}
        if gone or broken:
            entries = self._indexed(CHECKPOINT_PLACES, columns=3)
            places = {position: (number, seq) for number, seq, position in entries}
        spoiled = {row[0]: _followed(row) for row in broken}
        for row in broken:
            if row[0] not in gone and row[0] not in whole and row[3] not in ids:
                gone[row[0]] = row[3]
                places.setdefault(row[0], (row[1], row[2]))
        for position, name in sorted(gone.items(), key=lambda each: str(each[0]).zfill(20)):
            number, seq = places.get(position, (None, None))
            why = "its row does not match its checksum" if position in spoiled else _ONLY_INDEX
            self._lost.append(
                LostRow(
                    _id(name),
                    self._name_of(number),
                    seq if type(seq) is int else None,
                    why,
                    spoiled.get(position, ()),
                )
            )
        self._judge_tags(expected, whole)

    def _judge_tags(self, expected: set[tuple[str, int]], whole: set[int]) -> None:
        found = {(tag, position) for tag, position in self.tables.rows("tags")}
        for tag, position in sorted(expected - found):
            self._flaws.append(
                Flaw("tag", f"tag {tag!r} at position {position}", "it cannot be found by the tag")
            )
        for tag, position in sorted(found - expected, key=str):
            # A tag of a row that is itself damaged is no damage of its own.
            if position in whole:
                self._flaws.append(
                    Flaw("tag", f"tag {tag!r} at position {position}", "the row has no such tag")
                )

    def _restore_sessions(self) -> None:
        """What the other rows say about a session whose own row is damaged."""
        for number in set(self._proven) - self._sessions.keys():
            name = self._proven[number]
            mine = [row for row in self.checkpoints() if row.session == name]
            entries = self._indexed(CHECKPOINT_PLACES, columns=3)
            seqs = [seq for owner, seq, _ in entries if owner == number]
            log = sorted(self._operations.get(name, ()), key=lambda each: each.number)
            self._sessions[number] = SessionRow(
                id=name,
                agent=self._label(number, 2, SESSION_AGENTS),
                project=self._label(number, 3, SESSION_PROJECTS),
                created_at=min((row.stored_at for row in mine), default=0),
                last_seq=max((row.seq for row in mine), default=0) if not seqs else max(seqs),
                log_count=log[-1].number if log else 0,
                log_tip=log[-1].hash if log else b"",
            )

    def _label(self, number: int, column: int, index: str) -> str | None:
        """The agent or project of a session, if the row and the index say the same."""
        said = {row[column] for row in self.tables.rows("sessions") if row[0] == number}
        known = {label for label, owner in self._indexed(index) if owner == number}
        both = said & known
        return both.pop() if both else None

    def _owner_of(self, row: Row) -> str | None:
        """The session whose name makes the seal of a checkpoint right."""
        for name in self._names.get(row[1], ()):
            with suppress(IntegrityError):
                self._check((name, *row))
                self._proven.setdefault(row[1], name)
                return name
        return None

    def _name_of(self, number: object) -> str | None:
        names = self._names.get(number, []) if isinstance(number, int) else []
        proven = self._proven.get(number) if isinstance(number, int) else None
        return proven or (names[0] if names else None)

    def _indexed(self, index: str, columns: int = 2) -> list[Row]:
        return [
            row
            for row in self.tables.entries(index)
            if len(row) == columns and isinstance(row[-1], int) and isinstance(row[0], (str, bytes, int))
        ]


def _followed(row: Row) -> tuple[CheckpointId, ...]:
    """What a damaged row says twice: the nearest ancestor that was there, and the first parent."""
    parents = row[_PARENTS]
    said = (_id(row[_PREV]), _id(parents[:_ID_BYTES]) if isinstance(parents, bytes) else None)
    return tuple(each for each in said if each is not None)


def _id(value: object) -> CheckpointId | None:
    return CheckpointId(value) if isinstance(value, bytes) and len(value) == _ID_BYTES else None


class ReaderInspection:
    """An `Inspection` through a reader.

    Args:
        reader: One view of the store.
        names: The chunks that there are, where the backend can list them; without it, those that no checkpoint needs
            are not looked at.
    """

    def __init__(self, reader: Reader, names: Iterable[ChunkHash] = ()) -> None:
        self._reader = reader
        self._names = names

    def flaws(self) -> Sequence[Flaw]:
        """None."""
        return []

    def lost(self) -> Sequence[LostRow]:
        """None."""
        return []

    def sessions(self) -> Sequence[SessionRow]:
        """See `Inspection.sessions`."""
        return self._reader.sessions()

    def branches(self) -> Sequence[BranchRow]:
        """See `Inspection.branches`."""
        return [each for session in self.sessions() for each in self._reader.branches(session.id)]

    def checkpoints(self) -> Iterator[CheckpointRow]:
        """See `Inspection.checkpoints`."""
        return iter(self._reader.checkpoints(Query(include_hidden=True, oldest_first=True)))

    def operations(self, session: str) -> Sequence[Operation]:
        """See `Inspection.operations`."""
        return self._reader.operations(session)

    def chunk_names(self) -> Iterator[ChunkHash]:
        """See `Inspection.chunk_names`."""
        return iter(self._names)

    def chunks(self, hashes: Iterable[ChunkHash]) -> Mapping[ChunkHash, bytes]:
        """See `Inspection.chunks`."""
        return self._reader.chunks(hashes)
