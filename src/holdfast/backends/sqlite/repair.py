"""Damage and repair: what is left in a file that may be damaged, and a new store made of it.

Each page is checked in the file. Where all are sound, rows are read through SQLite; otherwise they are looked for page
by page (`pages.py`), because one wrong bit on a page says nothing about the other rows there. `backends/damage.py`
judges the rows.

The new store is made in a file of its own. Then its pages replace those of the old one through SQLite, as one commit:
whoever has the store open sees it like any other, and a process that dies at any point leaves the old store or the new
one. Swapping files would do neither, because SQLite's log and its shared memory go by the name of the file. Writers are
kept out from the first look to the last page. What was there is copied aside first, page by page as it is.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import apsw

from holdfast.backends import damage, rows
from holdfast.backends.chunk_codec import MAX_DEPTH, plain_of
from holdfast.backends.damage import (
    CHECKPOINT_IDS,
    CHECKPOINT_PLACES,
    SESSION_AGENTS,
    SESSION_IDS,
    SESSION_PROJECTS,
    RowInspection,
    Tables,
)
from holdfast.backends.header import HEADER_KEYS
from holdfast.backends.rows import Row
from holdfast.backends.rules import store_damaged
from holdfast.backends.sqlite.chunks import read_chunks
from holdfast.backends.sqlite.connection import (
    CHECKSUMS,
    PAGE_SIZE,
    RESERVED_BYTES,
    fetch,
    set_durability,
    waiting,
)
from holdfast.backends.sqlite.create import initialize
from holdfast.backends.sqlite.errors import translated
from holdfast.backends.sqlite.extension import copy_readable
from holdfast.backends.sqlite.files import create_private, os_errors, sync_folder
from holdfast.backends.sqlite.pages import Cell, FilePages, TablePages, copied_pages
from holdfast.errors import IntegrityError
from holdfast.objects.compression import STREAM, compress
from holdfast.objects.hashing import hash_chunk
from holdfast.objects.tree.nodes import refers
from holdfast.storage.inspection import Flaw, Rebuilt
from holdfast.storage.ports import Inspection
from holdfast.storage.records import ChunkHash, seal

_LOOKS: Final = 5
"""A page that is being written looks damaged for a moment; one that is damaged looks so each time."""
_PAUSE: Final = 0.02
_FRAME_HEADER: Final = 24
_FRAME: Final = _FRAME_HEADER + PAGE_SIZE
_WAL_HEADER: Final = 32
_PROOF: Final = 2
"""Commits behind a damaged place of the log: all but the newest were whole once."""

_MOST_COUNTED: Final = 1 << 48
"""No store gets near it, and a number that a flipped bit made large would use up all there are."""
_SPARE_POSITIONS: Final = 1000
"""How many are passed over where nobody knows any more which was the last: none may be given twice."""

_COLUMNS: Final = {
    "header": "key, value, seal",
    "sessions": rows.SESSION_FIELDS,
    "branches": "session, name, head, moved_at, seal",
    "checkpoints": f"position, session, {', '.join(rows.CHECKPOINT_COLUMNS)}",
    "tags": "tag, position",
    "operations": "session, number, kind, at, data, previous, hash, seal",
    "counters": "name, value",
    "chunks": "number, hash, codec, size_bytes, base, depth, epoch, refers, data",
}
_EPOCH: Final = 6
"""Where the epoch stands in a row of the chunks."""
_ORDER: Final = {"sessions": "number", "checkpoints": "position", "operations": "session, number"}
_INDEXES: Final = {
    SESSION_IDS: ("sqlite_autoindex_sessions_1", "sessions", "id, number"),
    SESSION_AGENTS: ("sessions_by_agent", "sessions", "agent, number"),
    SESSION_PROJECTS: ("sessions_by_project", "sessions", "project, number"),
    CHECKPOINT_IDS: ("sqlite_autoindex_checkpoints_1", "checkpoints", "id, position"),
    CHECKPOINT_PLACES: ("sqlite_autoindex_checkpoints_2", "checkpoints", "session, seq, position"),
}
"""What SQLite calls each index, which table it is of, and its columns."""


@contextmanager
def inspected(connection: apsw.Connection, path: str, timeout: float) -> Iterator[RowInspection]:
    """Look at a store through a connection of `connect_unverified` that nobody else uses."""
    flaws, suspects = check_pages(path)
    if not suspects:
        lost = 0
        try:
            waiting(lambda: fetch(connection, "SELECT 1 FROM header LIMIT 1"), path, timeout)
            lost = lost_commits(connection, path)
            connection.execute("BEGIN")
            found = _inspection(SqlTables(connection), flaws + _flaws_of_log(path, lost))
        except (apsw.BusyError, apsw.CantOpenError, apsw.FullError):
            raise
        except (apsw.Error, UnicodeDecodeError) as error:
            # Nothing is wrong with the pages, and still they do not fit together.
            flaws.append(Flaw("page", f"the structure of {path}", str(error)))
            flaws += _flaws_of_log(path, lost)
        else:
            try:
                yield found
            finally:
                connection.execute("ROLLBACK")
            return
    if connection.in_transaction:
        connection.execute("ROLLBACK")
    pages = _pages(connection, path, suspects, flaws)
    try:
        scanned = TablePages(pages.read, pages.count, suspects)
        # What the indexes say, as far as SQLite can read them.
        with suppress(apsw.Error):
            connection.execute("BEGIN")
        tables = PageTables(scanned, SqlTables(connection))
        yield _inspection(tables, [_free(flaw, scanned) for flaw in flaws])
    finally:
        pages.close()
        with suppress(apsw.Error):
            connection.execute("ROLLBACK")


def _inspection(tables: Tables, flaws: list[Flaw]) -> RowInspection:
    return RowInspection(tables, flaws, header_keys=HEADER_KEYS)


def check_pages(path: str) -> tuple[list[Flaw], frozenset[int]]:
    """The pages of the file that do not match their checksum, but for those that the log has newer."""
    flaws: list[Flaw] = []
    judge = apsw.Connection(":memory:")

    def is_bad(number: int) -> bool:
        return fetch(judge, "SELECT verify_checksum(?)", (pages.read(number),)) != [(1,)]

    pages = FilePages(path)
    try:
        if pages.rest:
            flaws.append(Flaw("page", f"the end of {path}", f"{pages.rest} bytes are no whole page"))
        bad = [each for each in range(1, pages.count + 1) if is_bad(each)]
        for _ in range(_LOOKS):
            log = _read_log(path) if bad else b""
            newer = {int.from_bytes(log[at : at + 4], "big") for at in _frames(log, log[16:24])}
            bad = [each for each in bad if each not in newer and is_bad(each)]
            if not bad or not log:
                break
            # Somebody may be moving pages from the log into the file.
            time.sleep(_PAUSE)
    finally:
        pages.close()
        judge.close()
    flaws += [Flaw("page", f"page {each} of {path}", "it does not match its checksum") for each in bad]
    return flaws, frozenset(bad)


def lost_commits(connection: apsw.Connection, path: str) -> int:
    """How many commits of the write-ahead log lie behind the place where SQLite ends it, because it is damaged there.

    0 also where it is one alone: a commit that was cut off while it was written, and that nobody was told of, looks the
    same. SQLite leaves what is behind alone until it writes over it, or begins the log anew. The connection has looked
    at the store, and is in no transaction.
    """
    behind: list[int] = []
    for _ in range(_LOOKS):
        log = _read_log(path)
        # Older frames belong to a log before this one. Where the header is damaged, most are of the one it headed.
        salts = Counter(log[at + 8 : at + 16] for at in range(_WAL_HEADER, len(log) - _FRAME + 1, _FRAME))
        known, _ = connection.wal_checkpoint(None, apsw.SQLITE_CHECKPOINT_NOOP) if log else (0, 0)
        salt = log[16:24] if known > 0 else salts.most_common(1)[0][0] if salts else b""
        end = _WAL_HEADER + max(known, 0) * _FRAME
        behind = [at for at in _frames(log, salt) if at >= end and log[at + 4 : at + 8] != bytes(4)]
        if len(behind) < _PROOF:
            return 0
        # Somebody may be writing it at this moment.
        time.sleep(_PAUSE)
    return len(behind)


def _flaws_of_log(path: str, lost: int) -> list[Flaw]:
    why = f"it is damaged, and {lost} commits behind that are out of reach"
    return [Flaw("page", f"the write-ahead log {path}-wal", why)] if lost else []


def _frames(log: bytes, salt: bytes) -> list[int]:
    """Where the frames of a log begin that have this salt."""
    frames = range(_WAL_HEADER, len(log) - _FRAME + 1, _FRAME)
    return [at for at in frames if log[at + 8 : at + 16] == salt]


def _read_log(path: str) -> bytes:
    try:
        return Path(path + "-wal").read_bytes()
    except OSError:
        return b""


def _pages(connection: apsw.Connection, path: str, suspects: frozenset[int], flaws: list[Flaw]) -> FilePages:
    """Where to take a damaged file apart from."""
    if 1 in suspects and not _read_log(path):
        # How many pages there are is said on the first one; the file itself knows better.
        return FilePages(path)
    try:
        return copied_pages(connection)
    except (apsw.NotADBError, apsw.CorruptError, apsw.ReadOnlyError, apsw.IOError):
        # SQLite does not get beyond the first page. What is in the log is out of reach then.
        flaws.append(Flaw("header", f"the first page of {path}", "SQLite cannot read the file at all"))
        return FilePages(path)


def _free(flaw: Flaw, pages: TablePages) -> Flaw:
    """A flaw of a page that holds nothing says so: nothing is lost there."""
    number = flaw.what.removeprefix("page ").partition(" ")[0]
    if flaw.kind == "page" and number.isdigit() and int(number) in pages.free:
        return flaw._replace(why=f"{flaw.why}; it is free, and nothing is stored there")
    return flaw


class SqlTables:
    """The tables as SQLite sees them, through a connection that does not verify pages."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def rows(self, table: str) -> Iterator[Row]:
        """See `Tables.rows`."""
        order = f" ORDER BY {_ORDER[table]}" if table in _ORDER else ""
        # NOT INDEXED: what the table has is to be compared with what its indexes say.
        return self._each(f"SELECT {_COLUMNS[table]} FROM {table} NOT INDEXED{order}")  # noqa: S608 - constants

    def entries(self, index: str) -> Iterator[Row]:
        """See `Tables.entries`."""
        name, table, columns = _INDEXES[index]
        first = columns.partition(",")[0]
        return self._each(
            f"SELECT {columns} FROM {table} INDEXED BY {name} WHERE {first} IS NOT NULL"  # noqa: S608 - constants
        )

    def chunk_names(self) -> Iterator[ChunkHash]:
        """See `Tables.chunk_names`."""
        return (ChunkHash(name) for (name,) in self._each("SELECT hash FROM chunks"))

    def chunks(self, names: Iterable[ChunkHash]) -> dict[ChunkHash, bytes]:
        """See `Tables.chunks`."""
        return _readable(names, self._chunk)

    def _chunk(self, name: ChunkHash) -> bytes | None:
        try:
            return read_chunks(self._connection, [name]).get(name)
        except (IntegrityError, apsw.Error):
            # Whatever it is, this chunk is not readable; the others may be.
            return None

    def chunk_row(self, name: ChunkHash) -> Row | None:
        """See `Tables.chunk_row`."""
        found = fetch(self._connection, f"SELECT {_COLUMNS['chunks']} FROM chunks WHERE hash = ?", (name,))  # noqa: S608
        return found[0] if found else None

    def _each(self, sql: str) -> Iterator[Row]:
        with closing(self._connection.execute(sql)) as cursor:
            yield from cursor


class PageTables:
    """The tables as they are put together from the pages of a file; indexes and tags come from SQLite if it can.

    SQLite leaves the bytes of a row where they were when it writes a longer one elsewhere, and a damaged page may lead
    to them: the seal of such a row is right, and what it says is old. So where a row is found more than once, those of
    sound pages come first.
    """

    def __init__(self, pages: TablePages, sql: SqlTables) -> None:
        self._pages = pages
        self._sql = sql
        self._rows: dict[str, dict[Row, None]] = {table: {} for table in _COLUMNS}
        # Where each chunk is, and not what is in it: all of them together may not fit into memory.
        self._places: dict[int, tuple[int, int]] = {}
        self._numbers: dict[ChunkHash, int] = {}
        for cell in pages.rows():
            table = _table_of(cell)
            if table == "chunks":
                self._numbers.setdefault(ChunkHash(cell.values[1]), cell.rowid)
                self._places.setdefault(cell.rowid, (cell.page, cell.at))
            elif table is not None:
                self._rows[table][_row_of(table, cell)] = None
        # The name in a row may be what is damaged; the index has it too, and the hash says which is right.
        named = _each_readable(sql._each("SELECT hash, number FROM chunks WHERE hash IS NOT NULL"))  # noqa: SLF001
        self._named = {ChunkHash(row[0]): row[1] for row in named if isinstance(row[0], bytes)}

    def rows(self, table: str) -> Iterator[Row]:
        """See `Tables.rows`."""
        if table == "tags":
            return _each_readable(self._sql.rows(table))
        found = list(self._rows[table])
        if table in _ORDER:
            column = 1 if table == "operations" else 0
            found.sort(key=lambda row: row[column] if isinstance(row[column], int) else 0)
        return iter(found)

    def entries(self, index: str) -> Iterator[Row]:
        """See `Tables.entries`."""
        return _each_readable(self._sql.entries(index))

    def chunk_names(self) -> Iterator[ChunkHash]:
        """See `Tables.chunk_names`."""
        return iter(self._numbers)

    def chunks(self, names: Iterable[ChunkHash]) -> dict[ChunkHash, bytes]:
        """See `Tables.chunks`."""
        return _readable(names, self._chunk)

    def _chunk(self, name: ChunkHash) -> bytes | None:
        row = self.chunk_row(name)
        chain = [] if row is None else [row]
        while chain and chain[-1][4] is not None and len(chain) <= MAX_DEPTH + 1:
            below = self._by_number(chain[-1][4])
            if below is None:
                return None
            chain.append(below)
        try:
            return plain_of(name, [(number, *rest[:4], data) for number, _, *rest, _, _, data in chain])
        except (IntegrityError, IndexError, TypeError):
            # TypeError: a column that came out as another type than was written.
            return None

    def chunk_row(self, name: ChunkHash) -> Row | None:
        """See `Tables.chunk_row`."""
        number = self._numbers.get(name, self._named.get(name))
        row = None if number is None else self._by_number(number)
        return None if row is None else (row[0], name, *row[2:])

    def _by_number(self, number: int) -> Row | None:
        place = self._places.get(number)
        return None if place is None else _row_of("chunks", self._pages.cell(*place))


def _table_of(cell: Cell) -> str | None:
    """Which table a row is of, told by its columns; its seal then says whether it is one."""
    kinds = tuple(type(each) for each in cell.values)
    if len(kinds) == 30:
        return "checkpoints"
    if len(kinds) == 11:
        return "sessions"
    if len(kinds) == 9:
        return "chunks" if kinds[1] is bytes else None
    if len(kinds) == 8:
        return "operations"
    if kinds == (str, int):
        return "counters" if cell.values[0] in damage.COUNTERS else None
    return {(str, str, int): "header", (int, str, bytes, int, int): "branches"}.get(kinds)


def _row_of(table: str, cell: Cell) -> Row:
    """The columns of `_COLUMNS`. A number that is the key of a row is not among its values in the file."""
    if table == "sessions":
        return (cell.rowid, *cell.values[1:-1])
    return (cell.rowid, *cell.values[1:]) if table in ("checkpoints", "chunks") else cell.values


def _each_readable(found: Iterator[Row]) -> Iterator[Row]:
    """Rows up to where SQLite cannot go on."""
    with suppress(apsw.Error, UnicodeDecodeError):
        yield from found


def _readable(
    names: Iterable[ChunkHash], read: Callable[[ChunkHash], bytes | None]
) -> dict[ChunkHash, bytes]:
    found = ((name, read(name)) for name in names)
    return {name: data for name, data in found if data is not None}


def rebuild_store(
    target: apsw.Connection,
    source: apsw.Connection,
    path: str,
    plan: Callable[[Inspection], Rebuilt | None],
    timeout: float,
) -> str | None:
    """Put what `plan` makes of a store in its place; see `Backend.rebuild`.

    Args:
        target: A connection of `connect_unverified`, to write to the store.
        source: Another one, to look at it meanwhile.
        path: The file of the store.
        plan: What to make of it.
        timeout: How many seconds to wait for another writer.

    Raises:
        IntegrityError: SQLite cannot read the first page (`store-damaged`).
    """
    growing = Path(path).with_name(f".holdfast-{os.urandom(8).hex()}.tmp")
    try:
        with os_errors(Path(path)):
            create_private(growing)
        made = apsw.Connection(str(growing), flags=apsw.SQLITE_OPEN_READWRITE, vfs=CHECKSUMS)
        try:
            # It is gone when this ends, one way or the other: nobody needs it to be durable.
            fetch(made, "PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF")
            made.reserve_bytes(reserve=RESERVED_BYTES)
            initialize(made, str(growing), timeout=timeout)
            return _replace(target, source, made, path, plan, timeout)
        finally:
            made.close()
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            Path(f"{growing}{suffix}").unlink(missing_ok=True)


def _replace(
    target: apsw.Connection,
    source: apsw.Connection,
    made: apsw.Connection,
    path: str,
    plan: Callable[[Inspection], Rebuilt | None],
    timeout: float,
) -> str | None:
    with suppress(apsw.Error):
        fetch(target, "SELECT 1 FROM header LIMIT 1")
        if not lost_commits(target, path):
            # So that what is kept aside is one file, where nobody is in the way. A damaged log is kept as it is.
            _empty_log(target)
    with suppress(apsw.Error):
        # Without the log, nobody could look at the store while it is locked. Where this fails the next step says why.
        fetch(target, "PRAGMA journal_mode=WAL")
    with suppress(apsw.CorruptError, apsw.NotADBError, apsw.SQLError):
        # What comes out of a repair has to last, whatever saves were asked to. Where SQLite cannot read the names of
        # the tables it takes no setting, and its own is this one, but for what macOS needs.
        set_durability(target, "power")
    try:
        backup = target.backup("main", made, "main")
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise _beyond_repair(path) from error
    with backup:
        try:
            # A step of no pages takes the write lock, and holds it until the end.
            waiting(lambda: backup.step(0), path, timeout)
        except (apsw.NotADBError, apsw.CorruptError, apsw.ReadOnlyError) as error:
            raise _beyond_repair(path) from error
        with inspected(source, path, timeout) as seen:
            wanted = plan(seen)
            if wanted is None:
                return None
            with translated(path):
                fetch(made, "BEGIN IMMEDIATE")
                _fill(made, seen, wanted)
                copy_readable(source, made)
                fetch(made, "COMMIT")
        aside = _keep_aside(path)
        backup.step(-1)
    _empty_log(target)
    return aside


def _fill(made: apsw.Connection, seen: RowInspection, wanted: Rebuilt) -> None:
    """Write what is to be there; rows keep what the store once gave them, chunks keep their numbers."""
    header = seen.header()
    # The file was initialized with a header of its own, which stands in for what is lost.
    made.executemany("DELETE FROM header WHERE key = ?", [(key,) for key in header])
    _insert(made, "header", ((key, value, seal(key, value)) for key, value in header.items()))
    numbers = {session.id: number for number, session in enumerate(wanted.sessions, start=1)}
    _insert(made, "sessions", (rows.session_row(numbers[each.id], each) for each in wanted.sessions))
    _insert(made, "branches", (rows.branch_row(numbers[each.session], each) for each in wanted.branches))
    for row in wanted.checkpoints:
        _, position, *rest = rows.checkpoint_row(row)
        _insert(made, "checkpoints", [(position, numbers[row.session], *rest)])
    _insert(made, "tags", ((tag, row.position) for row in wanted.checkpoints for tag in row.tags))
    _insert(
        made, "operations", (rows.operation_row(numbers[each.session], each) for each in wanted.operations)
    )
    newest_epoch = 0
    for chunk in _chunks(seen, wanted):
        _insert(made, "chunks", [chunk])
        newest_epoch = max(newest_epoch, chunk[_EPOCH])
    counted: dict[str, int] = {}
    for name, value in seen.tables.rows("counters"):
        if _is_count(value):
            # They only ever grow: of two versions of a row, the higher one is the later.
            counted[name] = max(value, counted.get(name, 0))
    counters = {
        "position": seen.newest_position() + (0 if "position" in counted else _SPARE_POSITIONS),
        "epoch": max(newest_epoch, counted.get("epoch", 0)),
        # Where nobody knows any more: nobody has claimed one more often than once a second ever since 1970.
        "lease": counted.get("lease", int(time.time())),
    }
    made.executemany("UPDATE counters SET value = ?2 WHERE name = ?1", counters.items())


def _chunks(seen: RowInspection, wanted: Rebuilt) -> Iterator[Row]:
    """Chunks as they are, under their numbers; what stood on one that is left behind stands alone.

    A hash vouches for the bytes of a chunk and for nothing else in its row, so the rest is worked out again or checked.
    """
    found = [(row[0], name) for name in wanted.chunks if (row := seen.tables.chunk_row(name)) is not None]
    taken: set[int] = set()
    rewritten: set[int] = set()
    # What a chunk stands on has a lower number than itself.
    for number, name in sorted(found):
        row = seen.tables.chunk_row(name)
        assert row is not None, "it was there a moment ago"
        _, _, codec, size_bytes, base, depth, epoch, _, data = row
        plain = seen.chunks([name])[name]
        if hash_chunk(plain) != name:
            raise IntegrityError.chunk_damaged(name, why="its bytes do not have this hash")
        # A difference needs the plain bytes of its base; a version of a stream needs the very row.
        if base is not None and (base not in taken or (codec == STREAM and base in rewritten)):
            codec, data = compress(plain)
            size_bytes, base, depth = len(plain), None, 0
            rewritten.add(number)
        # A lost mark would let gc take its children.
        epoch = epoch if _is_count(epoch) else 0
        yield number, name, codec, size_bytes, base, depth, epoch, refers(plain), data
        taken.add(number)


def _is_count(value: object) -> bool:
    """Whether a damaged page can be believed in this: a number that a store could have come to."""
    return type(value) is int and 0 <= value < _MOST_COUNTED


def _insert(made: apsw.Connection, table: str, found: Iterable[Row]) -> None:
    marks = ", ".join("?" * len(_COLUMNS[table].split(",")))
    made.executemany(f"INSERT INTO {table} ({_COLUMNS[table]}) VALUES ({marks})", found)  # noqa: S608 - constants


def _keep_aside(path: str) -> str:
    """Copy the files as they are, damage and all, to a name that says so; durable before anything is changed."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    aside = Path(f"{path}.damaged-{stamp}")
    with os_errors(Path(path)):
        pages = FilePages(path)
        try:
            _write_durably(aside, pages.everything())
        finally:
            pages.close()
        # Closing a descriptor of the log drops no lock: those are on the other two files.
        log = _read_log(path)
        if log:
            _write_durably(Path(f"{aside}-wal"), [log])
        sync_folder(aside.parent)
    return str(aside)


def _write_durably(target: Path, parts: Iterable[bytes]) -> None:
    create_private(target)
    with target.open("r+b") as file:
        for part in parts:
            file.write(part)
        file.flush()
        # What is there is about to be written over: from now on this is the only one.
        os.fsync(file.fileno())


def _empty_log(target: apsw.Connection) -> None:
    # Nothing depends on it: what is in the log counts as much as what is in the file.
    with suppress(apsw.Error):
        fetch(target, "PRAGMA wal_checkpoint(TRUNCATE)")


def _beyond_repair(path: str) -> IntegrityError:
    why = "its first page is not readable, and without that nothing can be put in its place"
    return IntegrityError(
        str(store_damaged(path, why)),
        code=store_damaged(path, why).code,
        hint="keep the file, and bring the store back from a backup; `verify` still names what is in it",
        path=path,
    )
