"""Looking at a store that may be damaged: each row for itself, judged by its own seal.

Pages are checked one by one in the file. Rows are then read through a connection that does not verify pages, because
one wrong bit on a page says nothing about the other rows there. Where SQLite cannot read a table, or where a page is
wrong and may have hidden rows without a word, the rows come from the pages themselves (`tables.ImageTables`). What a
table has is compared with what its indexes know: a checkpoint that only an index remembers is lost, and has a name.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

import apsw

from holdfast.backends import rows
from holdfast.backends.rows import Row
from holdfast.backends.sqlite.connection import CHECKSUMS, fetch, waiting
from holdfast.backends.sqlite.creation import HEADER_KEYS
from holdfast.backends.sqlite.page_files import CopiedPages, FilePages, check_pages, log_size
from holdfast.backends.sqlite.pages import Image
from holdfast.backends.sqlite.tables import ImageTables, SqlTables, Tables
from holdfast.errors import IntegrityError
from holdfast.storage.inspection import Flaw, LostRow
from holdfast.storage.records import (
    BranchRow,
    CheckpointId,
    CheckpointRow,
    ChunkHash,
    Operation,
    SessionRow,
)
from holdfast.storage.seal import seal

_ID_BYTES: Final = 32
_PARENTS: Final = 5
_PREV: Final = 22
_TAGS: Final = 25
"""Where they stand in a row of the checkpoints."""
_CHECKSUM: Final = "its checksum does not match"
_ONLY_INDEX: Final = "its row is not readable: only an index knows of it"


def connect_unverified(path: str, *, writable: bool) -> apsw.Connection:
    """A connection that reads pages whatever their checksums say, and writes right ones."""
    flags = apsw.SQLITE_OPEN_READWRITE if writable else apsw.SQLITE_OPEN_READONLY
    name = path
    wal = path + "-wal"
    if not writable and not os.path.exists(wal):  # noqa: PTH110 - SQLite's own names
        from urllib.parse import quote

        name, flags = f"file:{quote(path)}?immutable=1", flags | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(name, flags=flags, vfs=CHECKSUMS)
    try:
        connection.set_busy_timeout(0)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
        fetch(connection, "PRAGMA checksum_verification=OFF")
    except BaseException:
        connection.close(force=True)
        raise
    return connection


@contextmanager
def inspected(connection: apsw.Connection, path: str, *, timeout: float) -> Iterator[SqliteInspection]:
    """Look at a store through a connection of `connect_unverified` that nobody else uses."""
    flaws, suspects = check_pages(path)
    if not suspects:
        deadline = time.monotonic() + timeout
        begin = partial(fetch, connection, "SELECT 1 FROM header LIMIT 1")
        try:
            connection.execute("BEGIN")
            waiting(begin, path, deadline=deadline, timeout=timeout)
            found = SqliteInspection(SqlTables(connection), flaws)
        except (apsw.BusyError, apsw.CantOpenError, apsw.FullError):
            raise
        except (apsw.Error, UnicodeDecodeError) as error:
            # Nothing is wrong with the pages, and still they do not fit together: the log may be damaged.
            flaws.append(Flaw("page", f"the structure of {path}", str(error)))
            connection.execute("ROLLBACK")
        else:
            try:
                yield found
            finally:
                connection.execute("ROLLBACK")
            return
    pages = _pages(connection, path, suspects, flaws)
    try:
        image = Image(pages.read, pages.count, suspects)
        yield SqliteInspection(ImageTables(image, suspects), [_free(flaw, image) for flaw in flaws])
    finally:
        pages.close()


def _pages(
    connection: apsw.Connection, path: str, suspects: frozenset[int], flaws: list[Flaw]
) -> FilePages | CopiedPages:
    """Where to take a damaged file apart from."""
    if 1 in suspects and not log_size(path):
        # How many pages there are is said on the first one; the file itself knows better.
        return FilePages(path)
    try:
        return CopiedPages(connection)
    except (apsw.NotADBError, apsw.CorruptError, apsw.ReadOnlyError, apsw.IOError):
        # SQLite does not get beyond the first page. What is in the log is out of reach then.
        flaws.append(Flaw("header", f"the first page of {path}", "SQLite cannot read the file at all"))
        return FilePages(path)


class SqliteInspection:
    """An `Inspection` of one SQLite file."""

    def __init__(self, tables: Tables, flaws: Sequence[Flaw]) -> None:
        self.tables = tables
        self._flaws = list(flaws)
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
        for row in self.tables.rows("checkpoints"):
            name = self._owner_of(row)
            if name is not None:
                yield rows.checkpoint_from((name, *row))

    def operations(self, session: str) -> Sequence[Operation]:
        """See `Inspection.operations`."""
        return self._operations.get(session, [])

    def chunk_names(self) -> Iterator[ChunkHash]:
        """See `Inspection.chunk_names`."""
        return self.tables.chunk_names()

    def chunks(self, hashes: Iterable[ChunkHash]) -> Mapping[ChunkHash, bytes]:
        """See `Inspection.chunks`."""
        found = ((name, self.tables.chunk(name)) for name in hashes)
        return {name: data for name, data in found if data is not None}

    def header(self) -> dict[str, str]:
        """The entries of the header that match their checksum."""
        return {row[0]: row[1] for row in self.tables.rows("header") if seal(row[0], row[1]) == row[2]}

    def newest_position(self) -> int:
        """The highest position that was ever given, as far as it can be told."""
        given = [row[0] for row in self.tables.rows("checkpoints") if isinstance(row[0], int)]
        given += [
            row[-1] for row in self._indexed("sqlite_autoindex_checkpoints_1") if isinstance(row[-1], int)
        ]
        counted = [
            value for name, value in self.tables.rows("counters") if name == "position" and type(value) is int
        ]
        return max([*given, *counted], default=0)

    def _judge_header(self) -> None:
        for key, value, checksum in self.tables.rows("header"):
            if seal(key, value) != checksum:
                self._flaws.append(Flaw("header", f"header {key!r}", _CHECKSUM))
        missing = HEADER_KEYS - self.header().keys()
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
                self._sessions[number] = rows.session_from(row)
            except IntegrityError:
                self._flaws.append(Flaw("session", f"session {name!r}", _CHECKSUM, session=str(name)))
            else:
                self._proven[number] = name
        for name, number in self._indexed("sqlite_autoindex_sessions_1"):
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
                    found[session, branch.name] = branch
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
            whole.add(row[0])
            ids.add(row[3])
            expected.update((tag, row[0]) for tag in json.loads(row[_TAGS]))
        entries = self._indexed("sqlite_autoindex_checkpoints_1")
        named = {at: name for name, at in entries if isinstance(name, bytes) and len(name) == _ID_BYTES}
        gone: dict[Any, Any] = {at: name for at, name in named.items() if at not in whole and name not in ids}
        places: dict[Any, tuple[int, int]] = {}
        if gone or broken:
            entries = self._indexed("sqlite_autoindex_checkpoints_2", columns=3)
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
            entries = self._indexed("sqlite_autoindex_checkpoints_2", columns=3)
            seqs = [seq for owner, seq, _ in entries if owner == number]
            log = sorted(self._operations.get(name, ()), key=lambda each: each.number)
            self._sessions[number] = SessionRow(
                id=name,
                agent=self._label(number, 2, "sessions_by_agent"),
                project=self._label(number, 3, "sessions_by_project"),
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
                rows.check_checkpoint((name, *row))
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


def _free(flaw: Flaw, image: Image) -> Flaw:
    """A flaw of a page that holds nothing says so: nothing is lost there."""
    number = flaw.what.removeprefix("page ").partition(" ")[0]
    if flaw.kind == "page" and number.isdigit() and int(number) in image.free:
        return flaw._replace(why=f"{flaw.why}; it is free, and nothing is stored there")
    return flaw
