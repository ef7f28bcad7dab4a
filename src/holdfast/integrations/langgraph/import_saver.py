"""import_langgraph: the threads of LangGraph's own savers, taken over into a store.

    from holdfast.integrations.langgraph.import_saver import import_langgraph

    with holdfast.open("agents.db") as store:
        report = import_langgraph("checkpoints.sqlite", store)

LangGraph's own saver reads its database, through a connection that cannot write and sees one moment of it, and with our
`SafeSerializer`; each checkpoint is then put as `HoldfastSaver` would put it. Checkpoints that the store has are
skipped, so an import that was interrupted goes on when it is run again. What may hold a password is never repeated in
an error.
"""

from __future__ import annotations

import os
import re
import shlex
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, unquote

from holdfast import (
    BackendError,
    ConflictError,
    ErrorCode,
    HoldfastError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    StateError,
    Store,
    UnsupportedError,
)
from holdfast.errors import bad_argument
from holdfast.record import Record
from holdfast.store.open import is_open_here

try:
    from langgraph.checkpoint.base import BaseCheckpointSaver, writes_sort_key

    from holdfast.integrations.langgraph import keys
    from holdfast.integrations.langgraph.checkpoints import config_for, entry_of, thread_text
    from holdfast.integrations.langgraph.reader import groups, loaded, one
    from holdfast.integrations.langgraph.safe_serde import SafeSerializer
    from holdfast.integrations.langgraph.types import knows, prepare
    from holdfast.integrations.langgraph.workers import write
    from holdfast.integrations.langgraph.writer import Threads, lead_to
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] not in ("langgraph", "langchain_core"):
        raise
    raise UnsupportedError(
        f"reading what LangGraph's savers wrote needs LangGraph: {missing}",
        code=ErrorCode.NOT_SUPPORTED,
        hint="pip install 'holdfast[langgraph]'",
    ) from missing

Chosen = Sequence[str] | Mapping[str, str]
"""Ids of threads; or, by its id, what each is to be called."""
Place = tuple[str, str]
"""The namespace and the id of a checkpoint."""

LOCK_SECONDS = 10.0
"""How long to wait for a writer that has the file to itself."""
_PAGE = 500
_SHOWN = 5


class ThreadImport(Record):
    """What an import did with one thread, or would do."""

    id: str
    status: Literal["new", "updated", "unchanged", "ahead", "failed"]
    """`ahead`: the store has all of it and has gone on since; it was left alone. `failed`: it could not be imported."""
    checkpoints: int
    """Checkpoints that the store did not have."""
    writes: int
    """Pending writes that it did not have."""
    session: str = ""
    """What it is called in the store; its id unless it was given another."""
    problem: Mapping[str, Any] | None = None
    """Why it failed: code, message, hint and details of the error."""


class ImportReport(Record):
    """What was imported, or would be."""

    source: str
    """Where from, without any secret."""
    target: str
    threads: tuple[ThreadImport, ...]
    opaque: Mapping[str, int]
    """Classes that the store does not know, and how many objects of each are kept as `holdfast.Opaque`."""
    bare: Mapping[str, int]
    """Classes whose constructor refused what was stored, and how many objects of each are kept as bare data."""
    dry_run: bool

    @property
    def failed(self) -> tuple[ThreadImport, ...]:
        """Threads that could not be imported; of an import that was told to keep going."""
        return tuple(each for each in self.threads if each.status == "failed")

    @property
    def checkpoints(self) -> int:
        """Checkpoints that the store did not have."""
        return sum(each.checkpoints for each in self.threads)

    @property
    def writes(self) -> int:
        """Pending writes that it did not have."""
        return sum(each.writes for each in self.threads)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON data."""
        return {
            **self._asdict(),
            "threads": [each._asdict() for each in self.threads],
            "opaque": [{"class": name, "objects": n} for name, n in sorted(self.opaque.items())],
            "bare": [{"class": name, "objects": n} for name, n in sorted(self.bare.items())],
            "checkpoints": self.checkpoints,
            "writes": self.writes,
        }


def import_langgraph(
    source: str | Path,
    store: Store,
    *,
    threads: Chosen | None = None,
    keep_going: bool = False,
    types: Iterable[Any] = (),
    progress: Callable[[str, int], None] | None = None,
    dry_run: bool = False,
) -> ImportReport:
    """Import the threads of a database that one of LangGraph's savers wrote; it is only read.

    Threads, namespaces, checkpoint ids, parents, metadata and pending writes come over as they are, and a graph with a
    `HoldfastSaver` goes on from there. Interrupted, it goes on where it was when it is called again.

    Args:
        source: The file of a SqliteSaver or AsyncSqliteSaver, or the `postgresql://` URL of a PostgresSaver. The
            package of that saver has to be installed.
        store: Where to. Classes of your own that it knows become objects; others are kept as `Opaque` until they are
            allowed.
        threads: The ids of the threads to import, or a dict that gives each another one; all if it is left out.
        keep_going: Skip a thread that cannot be imported: the report has it as `failed`, with its error.
        types: Such classes, and the schemas of graphs that name them, as for `HoldfastSaver`.
        progress: Called now and then with what is being done, and how many of it are done; first of all with
            `checkpoints at the source`, and how many there are.
        dry_run: Read everything, and write nothing.

    Raises:
        NotFoundError: There is no such file (`source-missing`), nothing in it (`source-empty`), or no such thread.
        InvalidInputError: It is no database of LangGraph's (`source-unknown`), or holds a value that is not imported,
            such as a pickle (`value-unsupported`); the message has the thread and the checkpoint.
        ConflictError: The store has a session of that id that is another one (`history-differs`). The threads before
            it were imported: the hint and the details say which.
    """
    wanted = _checked(threads)
    _check_not_the_store(source, store)
    prepare(store, types)
    serde = SafeSerializer(knows(store))
    tell = progress or (lambda _what, _done: None)
    done: list[ThreadImport] = []
    with open_source(source, serde) as opened:
        chosen = {each: each for each in opened.threads()} if wanted is None else wanted
        if not chosen:
            raise _source_empty(opened.shown)
        places = {thread: opened.places(thread) for thread in chosen}
        for thread in chosen:
            if not places[thread]:
                raise _thread_missing(opened.shown, thread)
        tell("checkpoints at the source", sum(map(len, places.values())))
        passed = 0
        for thread, target in chosen.items():
            run = _ThreadRun(opened, store, thread, dry_run=dry_run)
            try:
                done.append(run.run(target, places[thread], partial(_tell, tell, passed)))
            except (ConflictError, InvalidInputError, StateError, UnsupportedError) as error:
                if not keep_going:
                    _say_where_it_stopped(error, [each.id for each in done], list(chosen)[len(done) :])
                    raise
                done.append(ThreadImport(thread, "failed", 0, 0, target, error.to_dict()))
            passed += len(places[thread])
    return ImportReport(opened.shown, store.url, tuple(done), dict(serde.opaque), dict(serde.bare), dry_run)


def _tell(progress: Callable[[str, int], None], passed: int, done: int) -> None:
    progress("importing checkpoints", passed + done)


def chosen_threads(source: str | Path, texts: Sequence[str] = ()) -> dict[str, str] | None:
    """See that there is something to import, before a store is made for it; which threads were asked for.

    Args:
        source: As for `import_langgraph`.
        texts: `ID` or `OLD=NEW`, as typed; an id that has a `=` itself is meant where there is such a thread. Without
            any, all threads are meant.
    """
    with open_source(source, SafeSerializer(lambda _cls: False)) as opened:
        there = set(opened.threads())
    if not there:
        raise _source_empty(opened.shown)
    wanted: dict[str, str] = {}
    for text in texts:
        cuts = [at for at, character in enumerate(text) if character == "=" and text[at + 1 :]]
        readings = [(text, text), *((text[:at], text[at + 1 :]) for at in cuts)]
        found = next((pair for pair in readings if pair[0] in there), None)
        if found is None:
            raise _thread_missing(opened.shown, readings[-1][0])
        wanted[found[0]] = found[1]
    return _checked(wanted) if texts else None


class _Write(NamedTuple):
    """What a CheckpointTuple does not say of a pending write; and its channel."""

    path: str
    task: str
    idx: int
    channel: str


class Source(NamedTuple):
    """A database of LangGraph's that is open for reading."""

    shown: str
    saver: BaseCheckpointSaver[Any]
    query: Callable[..., list[Any]]
    writes: str
    """The columns of `_Write`, and the table."""

    def threads(self) -> list[str]:
        """The ids of all threads."""
        return [str(row[0]) for row in self.query("SELECT DISTINCT thread_id FROM checkpoints ORDER BY 1")]

    def places(self, thread: str) -> list[Place]:
        """The checkpoints of a thread, in the order of ids, but parents first."""
        rows = self.query(
            "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id FROM checkpoints WHERE thread_id = %s "
            "ORDER BY checkpoint_id, checkpoint_ns",
            thread,
        )
        parents: dict[Place, Place] = {(row[0], row[1]): (row[0], row[2]) for row in rows}
        ordered: dict[Place, None] = {}
        for place in parents:
            line: dict[Place, None] = {}
            above = place
            while above in parents and above not in ordered and above not in line:
                line[above] = None
                above = parents[above]
            ordered.update(dict.fromkeys(reversed(line)))
        return list(ordered)

    def written(self, thread: str) -> dict[Place, list[_Write]]:
        """The pending writes of each checkpoint, in the order in which a CheckpointTuple has them."""
        statement = f"SELECT checkpoint_ns, checkpoint_id, {self.writes} WHERE thread_id = %s"
        found: dict[Place, list[_Write]] = {}
        for namespace, checkpoint_id, *rest in self.query(statement, thread):
            found.setdefault((namespace, checkpoint_id), []).append(_Write(*rest))
        for rows in found.values():
            rows.sort(key=lambda row: writes_sort_key(*row[:3]))
        return found

    def checkpoint(self, thread: str, place: Place) -> Any:
        """A checkpoint with its pending writes, as the saver gives it."""
        try:
            found: Any = self.saver.get_tuple(config_for(thread, *place))
            checkpoint, metadata = found.checkpoint.items(), found.metadata.items()
            return found._replace(checkpoint=dict(checkpoint), metadata=dict(metadata))
        except HoldfastError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
            # LangGraph's own code, on rows that LangGraph did not write.
            raise StateError(
                f"the checkpoint cannot be read: {type(error).__name__}: {error}",
                code=ErrorCode.DECODE_FAILED,
                hint="look whether LangGraph can still read this thread; --keep-going imports the others",
            ) from error


class _ThreadRun:
    """The import of one thread."""

    def __init__(self, source: Source, store: Store, thread: str, *, dry_run: bool) -> None:
        self._source = source
        self._store = store
        self._thread = thread
        self._dry_run = dry_run
        # Which branch people are on is decided when all of it is there.
        self._lines = Threads(store, leads=False)
        self._checkpoints = self._writes = 0

    def run(self, target: str, places: Sequence[Place], tell: Callable[[int], None]) -> ThreadImport:
        """Put what the store does not have."""
        session = _session_for(self._thread, target)
        known = set(self._known_keys(session))
        wanted = {keys.checkpoint_key(*each) for each in places}
        ahead = {key for key in known if keys.is_checkpoint(key)} - wanted
        if ahead and wanted <= known:
            return ThreadImport(self._thread, "ahead", 0, 0, session)
        if ahead:
            raise _differs(session, self._store.url, "each of the two has checkpoints that the other has not")
        written = self._source.written(self._thread)
        for number, place in enumerate(places, 1):
            with located(self._thread, *place):
                found = self._source.checkpoint(self._thread, place)
                is_new = keys.checkpoint_key(*place) not in known
                if is_new:
                    self._put(session, place, found)
                if place in written:
                    self._put_writes(session, place, found, written[place], is_new=is_new)
            tell(number)
        if self._checkpoints and not self._dry_run:
            latest = next(groups(self._store.session(session), *keys.namespace_range("")), None)
            if latest is not None:
                # What the graph goes on from.
                lead_to(self._store, latest.checkpoint)
        changed = self._checkpoints or self._writes
        status: Any = "new" if not known else "updated" if changed else "unchanged"
        return ThreadImport(self._thread, status, self._checkpoints, self._writes, session)

    def _known_keys(self, session: str) -> Iterator[str]:
        before = None
        while page := self._store.find(session=session, before=before, limit=_PAGE):
            for row in page:
                if keys.parse(row.key) is None:
                    why = f"its checkpoint #{row.seq} is none of LangGraph's"
                    raise _differs(session, self._store.url, why)
                yield row.key or ""
            before = page[-1]

    def _put(self, session: str, place: Place, found: Any) -> None:
        namespace, checkpoint_id = place
        parent = found.parent_config and found.parent_config["configurable"]["checkpoint_id"]
        entry = entry_of(namespace, parent, {**found.checkpoint, "id": checkpoint_id}, found.metadata)
        entry = entry._replace(created_at=_moment(found.checkpoint.get("ts")))
        line = self._lines.line(session, namespace)
        self._checkpoints += 1
        if self._dry_run:
            line.encode(entry.state)
            return
        try:
            write(line.encode, entry.state, lambda encoded: line.put(encoded, entry))
        except ConflictError as conflict:
            if conflict.code is not ErrorCode.KEY_TAKEN:
                raise
            why = f"checkpoint {checkpoint_id} is there otherwise, or was deleted"
            raise _differs(session, self._store.url, why) from conflict

    def _put_writes(
        self, session: str, place: Place, found: Any, rows: Sequence[_Write], *, is_new: bool
    ) -> None:
        line = self._lines.writes(session)
        known = {} if is_new else self._known_writes(session, place)
        calls: dict[tuple[str, str], list[Any]] = {}
        for row, (_, _, value) in zip(rows, found.pending_writes, strict=True):
            made, before = [row.idx, row.channel, value], known.get((row.task, row.idx))
            # In a place the first write counts for good; of errors, interrupts and resumes the last does.
            if before is None or (row.idx < 0 and line.encode(before).root != line.encode(made).root):
                calls.setdefault((row.task, row.path), []).append(made)
        created_at = _moment(found.checkpoint.get("ts"))
        for (task, path), writes in calls.items():
            self._writes += len(writes)
            state = {"task_id": task, "task_path": path, "writes": writes}
            if self._dry_run:
                line.encode(state)
                continue
            prefix = keys.writes_prefix(*place, task)
            write(line.encode, state, partial(line.append, prefix=prefix, state=state, created_at=created_at))

    def _known_writes(self, session: str, place: Place) -> dict[tuple[str, int], Any]:
        group = one(self._store.session(session), keys.checkpoint_key(*place))
        known: dict[tuple[str, int], Any] = {}
        for _, _, calls in loaded(self._store, [] if group is None else [group]):
            for call in calls:
                for each in call["writes"]:
                    if each[0] < 0 or (call["task_id"], each[0]) not in known:
                        known[call["task_id"], each[0]] = each
        return known


@contextmanager
def open_source(source: str | Path, serde: SafeSerializer) -> Iterator[Source]:
    """Open what is to be imported: a file, or a PostgreSQL database by its URL or by libpq's keywords."""
    text, path = str(source), _path_of(source)
    is_address = text.startswith(("postgresql://", "postgres://")) or not path or "\0" in path
    if not is_address and not os.path.lexists(path):
        # What is no file may be an address, and hold a password: it is never repeated.
        is_address = re.match(r"\s*\w+\s*=", text) is not None
        if not is_address and re.search(r"://|=|@|^\s*postgres|^//", path):
            raise _bad_source("there is no file of that name, nor is it a URL that begins with postgresql://")
    with _postgres(text, serde) if is_address else _sqlite(Path(path), serde) as opened:
        yield opened


@contextmanager
def _sqlite(path: Path, serde: SafeSerializer) -> Iterator[Source]:
    shown = str(path)
    if not path.exists():
        raise NotFoundError(
            f"there is no file {shown} to import from",
            code=ErrorCode.SOURCE_MISSING,
            hint="name the file that SqliteSaver writes, or the postgresql:// URL of PostgresSaver's database",
            source=shown,
        )
    if not path.is_file():
        raise _source_unknown(shown, "it is no file")
    if is_open_here(path):
        raise _source_unknown(shown, "it is a store of holdfast's that this program has open")
    with _needing("langgraph-checkpoint-sqlite"):
        from langgraph.checkpoint.sqlite import SqliteSaver
    # Python's own driver, which SqliteSaver uses: a second SQLite library in the process would take the locks of the
    # first away when it closes the file.
    uri, log = f"file:{quote(str(path.absolute()))}", Path(f"{path}-wal")
    had_log = log.exists()
    options: Any = {"uri": True, "timeout": LOCK_SECONDS, "isolation_level": None, "check_same_thread": False}
    try:
        with closing(sqlite3.connect(f"{uri}?mode=ro", **options)) as connection:
            # Views and triggers of a hostile file may call nothing; one moment of it is read.
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("BEGIN")
            checkpoints, writes = (
                {row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))}
                for table in ("checkpoints", "writes")
            )
            if not checkpoints >= {"thread_id", "checkpoint_ns", "metadata"} or not writes:
                raise _source_unknown(shown, "it has no tables `checkpoints` and `writes` of LangGraph's")
            saver = SqliteSaver(connection, serde=serde)
            # It would bring the tables up to date, and may not.
            saver.is_setup = True
            saver._has_task_path = "task_path" in writes  # noqa: SLF001 - what `setup` finds out by writing
            path_column = "task_path" if "task_path" in writes else "''"

            def query(statement: str, *values: object) -> list[Any]:
                return list(connection.execute(statement.replace("%s", "?"), values))

            yield Source(shown, saver, query, f"{path_column}, task_id, idx, channel FROM writes")
    except sqlite3.Error as error:
        raise _sqlite_error(error, shown) from error
    finally:
        with suppress(sqlite3.Error, OSError):
            if not had_log and log.exists() and not log.stat().st_size:
                # SQLite makes two files beside a database in WAL mode, and one who only reads cannot remove them.
                with closing(sqlite3.connect(f"{uri}?mode=rw", uri=True)) as tidy:
                    tidy.execute("SELECT count(*) FROM sqlite_schema")


def _connected(address: str) -> tuple[str, Any]:
    """What may be shown of an address, and a connection to it."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.rows import dict_row

    fields: dict[str, Any] = {}
    with suppress(psycopg.Error):
        fields = dict(conninfo_to_dict(address))
    # A password in the wrong place would be repeated by the driver, and by us.
    names = [str(fields.get(name) or "") for name in ("host", "user", "dbname")]
    port = str(fields.get("port") or "5432")
    if not fields or not port.isdigit() or any(re.search(r"[@=]|://", each) for each in names):
        raise _bad_source("it is no URL of a PostgreSQL database, nor libpq's keywords for one")
    shown = f"postgresql://{names[0]}:{port}/{names[2]}"
    try:
        options: Any = {"row_factory": dict_row, "prepare_threshold": 0, "application_name": "holdfast"}
        return shown, psycopg.connect(address, **options)
    except psycopg.Error as error:
        refusal = str(error).replace(str(fields.get("password") or "\0"), "$PGPASSWORD")
    # Not in the block above: the error of the driver would come along, with all that it says.
    hint = "check the address, and that the server runs and lets this user in"
    raise _unreadable(f"{shown} cannot be reached: {refusal}", ErrorCode.SERVER_GONE, hint, shown)


@contextmanager
def _postgres(address: str, serde: SafeSerializer) -> Iterator[Source]:
    with _needing("langgraph-checkpoint-postgres"):
        import psycopg
        from langgraph.checkpoint.postgres import PostgresSaver
        from psycopg.rows import tuple_row
    shown, connection = _connected(address)
    try:
        with closing(connection):
            connection.read_only = True
            # One moment of the database, whatever a graph writes meanwhile.
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ

            def query(statement: str, *values: object) -> list[Any]:
                with connection.cursor(row_factory=tuple_row) as cursor:
                    # Every statement is written in this module.
                    return list(cursor.execute(statement, values))

            # ShallowPostgresSaver has tables of the same names, without these columns.
            query("SELECT checkpoint_id, parent_checkpoint_id FROM checkpoints LIMIT 0")
            saver = PostgresSaver(connection, serde=serde)
            yield Source(shown, saver, query, "task_path, task_id, idx, channel FROM checkpoint_writes")
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn) as error:
        why = "it has no tables of PostgresSaver, or older ones, which its setup() brings up to date"
        raise _source_unknown(shown, why) from error
    except psycopg.Error as error:
        code = ErrorCode.IO_FAILED
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            code = ErrorCode.PERMISSION_DENIED
        elif isinstance(error, psycopg.OperationalError):
            code = ErrorCode.SERVER_GONE
        hint = "look at the database with psql, then run the import again"
        raise _unreadable(f"{shown} could not be read: {error}", code, hint, shown) from error


_NO_ACCESS = ErrorCode.PERMISSION_DENIED, "make the file and its folder readable and writable"
_SQLITE_ERRORS = {
    sqlite3.SQLITE_BUSY: (
        ErrorCode.STORE_LOCKED,
        "run the import again when the graph that writes it has ended",
    ),
    sqlite3.SQLITE_CANTOPEN: _NO_ACCESS,
    sqlite3.SQLITE_READONLY: _NO_ACCESS,
}


def _sqlite_error(error: sqlite3.Error, shown: str) -> HoldfastError:
    # The lowest byte is the kind of the error, the rest says more about it.
    kind = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if kind == sqlite3.SQLITE_NOTADB:
        return _source_unknown(shown, "it is no SQLite file, or an encrypted one")
    if kind == sqlite3.SQLITE_CORRUPT:
        hint = "sqlite3 FILE '.recover' saves what can be saved of it; import that"
        return IntegrityError(
            f"{shown} is damaged: {error}", code=ErrorCode.STORE_DAMAGED, hint=hint, source=shown
        )
    other = ErrorCode.IO_FAILED, "look at the file with the sqlite3 program, then try again"
    return _unreadable(f"{shown} could not be read: {error}", *_SQLITE_ERRORS.get(kind, other), shown)


@contextmanager
def _needing(package: str) -> Iterator[None]:
    try:
        yield
    except ImportError as missing:
        raise UnsupportedError(
            f"reading that database needs LangGraph's own saver for it: {missing}",
            code=ErrorCode.NOT_SUPPORTED,
            hint=f"pip install {package}",
        ) from missing


@contextmanager
def located(thread: str, namespace: str, checkpoint_id: str) -> Iterator[None]:
    """Say where it was that a value could not be read or kept."""
    try:
        yield
    except (InvalidInputError, StateError, UnsupportedError) as error:
        where = f"thread {thread!r}, {f'namespace {namespace!r}, ' if namespace else ''}checkpoint {checkpoint_id}"
        details = {**error.details, "thread": thread, "namespace": namespace, "checkpoint": checkpoint_id}
        raise type(error)(f"{where}: {error}", code=error.code, hint=error.hint, **details) from error


def _path_of(source: str | Path) -> str:
    """The path that is meant by a source which is a file."""
    return os.path.expanduser(str(source).removeprefix("sqlite:///"))  # noqa: PTH111 - leaves an unknown home as it is


def _moment(text: Any) -> datetime | None:
    """The time that a checkpoint says it was made at. LangGraph writes it in UTC; in other hands it may be anything."""
    try:
        when = datetime.fromisoformat(text)
        return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None


def _check_not_the_store(source: str | Path, store: Store) -> None:
    """Refuse the store itself, without opening it: to close it again would take the locks of the store away."""
    same = False
    # No path, or one where nothing is: opening the source says so better.
    with suppress(OSError, ValueError):
        kept_in = unquote(store.url.removeprefix("sqlite:///"))
        same = store.url.startswith("sqlite:///") and Path(_path_of(source)).samefile(kept_in)
    if same:
        hint = "--store names the store to import into; SOURCE is LangGraph's"
        raise _source_unknown(store.url, "it is the store itself", hint)


def _checked(threads: Chosen | None) -> dict[str, str] | None:
    """The threads and their names in the store; None for all of them under their own."""
    if threads is None:
        return None
    wanted: dict[str, str] = {}
    if not isinstance(threads, str):
        wanted = dict(threads) if isinstance(threads, Mapping) else {each: each for each in threads}
    if isinstance(threads, str) or any(type(each) is not str for pair in wanted.items() for each in pair):
        raise bad_argument(
            "threads must be a list of thread ids",
            'pass threads=["one", "another"], or {"one": "new id"}, or leave it out for all',
            argument="threads",
        )
    taken: dict[str, str] = {}
    for old, new in wanted.items():
        if taken.setdefault(new, old) != old:
            raise bad_argument(
                f"the threads {taken[new]!r:.60} and {old!r:.60} would both become session {new!r:.60}",
                "give each another id: --thread OLD=NEW",
                argument="threads",
            )
    return wanted


def _session_for(thread: str, target: str) -> str:
    try:
        return thread_text(target)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"thread {thread!r:.60}: {error}",
            code=error.code,
            hint=f"give it another id: --thread {shlex.quote(f'{thread}=NEW')} ({error.hint})",
            thread=thread,
            **error.details,
        ) from None


def _say_where_it_stopped(error: HoldfastError, imported: Sequence[str], left: Sequence[str]) -> None:
    def named(threads: Sequence[str]) -> str:
        shown = ", ".join(map(repr, threads[:_SHOWN])) or "none"
        return f"{shown} and {len(threads) - _SHOWN:,} more" if len(threads) > _SHOWN else shown

    error.hint = f"{error.hint}. Imported: {named(imported)}; not imported: {named(left)}"
    if len(left) > 1 and "--keep-going" not in error.hint:
        error.hint += "; --keep-going imports the others"
    error.details |= {"imported": list(imported), "not_imported": list(left)}


def _differs(session: str, store: str, why: str) -> ConflictError:
    word = shlex.quote(session)
    return ConflictError(
        f"session {session!r} of {store} is not this thread: {why}",
        code=ErrorCode.HISTORY_DIFFERS,
        hint=f"import it under another id (--thread {word}={word}-imported) or into another store; or, if nobody needs "
        f"that session, erase it first, which asks for the name of the store: holdfast forget --session {word}",
        session=session,
        store=store,
    )


def _unreadable(message: str, code: ErrorCode, hint: str, shown: str) -> BackendError:
    return BackendError(message, code=code, hint=hint, source=shown)


def _source_empty(shown: str) -> NotFoundError:
    hint = "look whether this is the database that the graph writes to; nothing was imported"
    return NotFoundError(
        f"there is no thread in {shown}", code=ErrorCode.SOURCE_EMPTY, hint=hint, source=shown
    )


def _thread_missing(shown: str, thread: str) -> NotFoundError:
    return NotFoundError(
        f"there is no thread {thread!r} in {shown}",
        code=ErrorCode.SESSION_MISSING,
        hint="without a name all threads are imported; ids are compared letter by letter",
        source=shown,
        session=thread,
    )


def _bad_source(why: str) -> InvalidInputError:
    return InvalidInputError(
        f"the source of an import cannot be used: {why}",
        code=ErrorCode.BAD_URL,
        hint="name the file of SqliteSaver, or postgresql://user:password@host:5432/database",
    )


def _source_unknown(shown: str, why: str, hint: str = "") -> InvalidInputError:
    return InvalidInputError(
        f"{shown} is no database of LangGraph's SqliteSaver or PostgresSaver: {why}",
        code=ErrorCode.SOURCE_UNKNOWN,
        hint=hint or "name the database that the saver of the graph was opened with",
        source=shown,
    )
