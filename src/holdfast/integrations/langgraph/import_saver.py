"""import_langgraph: the threads of LangGraph's own savers, taken over into a store.

    from holdfast.integrations.langgraph.import_saver import import_langgraph

    with holdfast.open("agents.db") as store:
        report = import_langgraph("checkpoints.sqlite", store)

LangGraph's own saver reads its database, through a connection that cannot write and with our `SafeSerializer`; each
checkpoint is then put as `HoldfastSaver` would put it. Checkpoints that the store has are skipped, so an import that
was interrupted goes on when it is run again.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

from holdfast import (
    ConflictError,
    ErrorCode,
    HoldfastError,
    InvalidInputError,
    NotFoundError,
    StateError,
    Store,
    UnsupportedError,
)
from holdfast.record import Record

try:
    from holdfast.integrations.langgraph import keys
    from holdfast.integrations.langgraph.checkpoints import entry_of, thread_text
    from holdfast.integrations.langgraph.reader import groups, loaded, one
    from holdfast.integrations.langgraph.safe_serde import SafeSerializer
    from holdfast.integrations.langgraph.saver_source import (
        Source,
        located,
        open_source,
        path_of,
        source_unknown,
    )
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
        indexes = {thread: opened.index(thread) for thread in chosen}
        for thread in chosen:
            if not indexes[thread]:
                raise _thread_missing(opened.shown, thread)
        tell("checkpoints at the source", sum(map(len, indexes.values())))
        passed = 0
        for thread, target in chosen.items():
            run = _ThreadRun(opened, store, thread, dry_run=dry_run)
            try:
                done.append(run.run(target, indexes[thread], partial(_tell, tell, passed)))
            except (ConflictError, InvalidInputError, StateError, UnsupportedError) as error:
                if not keep_going:
                    _say_where_it_stopped(error, [each.id for each in done], list(chosen)[len(done) :])
                    raise
                done.append(ThreadImport(thread, "failed", 0, 0, target, error.to_dict()))
            passed += len(indexes[thread])
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

    def run(self, target: str, index: Sequence[tuple[str, str]], tell: Callable[[int], None]) -> ThreadImport:
        """Put what the store does not have."""
        session = _session_for(self._thread, target)
        known = set(self._known_keys(session))
        wanted = {keys.checkpoint_key(*each) for each in index}
        ahead = {key for key in known if keys.is_checkpoint(key)} - wanted
        if ahead and wanted <= known:
            return ThreadImport(self._thread, "ahead", 0, 0, session)
        if ahead:
            raise _differs(session, self._store.url, "each of the two has checkpoints that the other has not")
        written = self._source.write_rows(self._thread)
        for number, (namespace, checkpoint_id) in enumerate(index, 1):
            found = self._source.checkpoint(self._thread, namespace, checkpoint_id)
            with located(self._thread, namespace, checkpoint_id):
                made = _moment(found.checkpoint.get("ts"))
                is_new = keys.checkpoint_key(namespace, checkpoint_id) not in known
                if is_new:
                    self._put(session, namespace, checkpoint_id, found, made)
                rows = written.get((namespace, checkpoint_id), ())
                self._put_writes(session, namespace, checkpoint_id, found, made, rows, is_new=is_new)
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
                    raise _differs(
                        session, self._store.url, f"its checkpoint #{row.seq} is none of LangGraph's"
                    )
                yield row.key or ""
            before = page[-1]

    def _put(
        self, session: str, namespace: str, checkpoint_id: str, found: Any, made: datetime | None
    ) -> None:
        parent = found.parent_config and found.parent_config["configurable"]["checkpoint_id"]
        entry = entry_of(namespace, parent, {**found.checkpoint, "id": checkpoint_id}, found.metadata)
        entry = entry._replace(created_at=made)
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
        self,
        session: str,
        namespace: str,
        checkpoint_id: str,
        found: Any,
        made: datetime | None,
        rows: Sequence[tuple[str, str, int, str]],
        *,
        is_new: bool,
    ) -> None:
        if not rows:
            return
        line = self._lines.writes(session)
        known = {} if is_new else self._known_writes(session, namespace, checkpoint_id)
        calls: dict[tuple[str, str], list[Any]] = {}
        for (path, task, place, channel), (_, _, value) in zip(rows, found.pending_writes, strict=True):
            one, before = [place, channel, value], known.get((task, place))
            # In a place the first write counts for good; of errors, interrupts and resumes the last does.
            if before is None or (place < 0 and line.encode(before).root != line.encode(one).root):
                calls.setdefault((task, path), []).append(one)
        for (task, path), writes in calls.items():
            self._writes += len(writes)
            state = {"task_id": task, "task_path": path, "writes": writes}
            prefix = keys.writes_prefix(namespace, checkpoint_id, task)
            if self._dry_run:
                line.encode(state)
            else:
                append = partial(line.append, prefix=prefix, state=state, created_at=made)
                write(line.encode, state, append)

    def _known_writes(self, session: str, namespace: str, checkpoint_id: str) -> dict[tuple[str, int], Any]:
        group = one(self._store.session(session), keys.checkpoint_key(namespace, checkpoint_id))
        known: dict[tuple[str, int], Any] = {}
        for _, _, calls in loaded(self._store, [] if group is None else [group]):
            for call in calls:
                for each in call["writes"]:
                    if each[0] < 0 or (call["task_id"], each[0]) not in known:
                        known[call["task_id"], each[0]] = each
        return known


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
        same = store.url.startswith("sqlite:///") and Path(path_of(source)).samefile(kept_in)
    if same:
        raise source_unknown(
            store.url,
            "it is the store itself",
            "--store names the store to import into; SOURCE is LangGraph's",
        )


def _checked(threads: Chosen | None) -> dict[str, str] | None:
    """The threads and their names in the store; None for all of them under their own."""
    if threads is None:
        return None
    wanted: dict[str, str] = {}
    if not isinstance(threads, str):
        wanted = dict(threads) if isinstance(threads, Mapping) else {each: each for each in threads}
    if isinstance(threads, str) or any(type(each) is not str for pair in wanted.items() for each in pair):
        raise InvalidInputError(
            "threads must be a list of thread ids",
            code=ErrorCode.BAD_ARGUMENT,
            hint='pass threads=["one", "another"], or {"one": "new id"}, or leave it out for all',
            argument="threads",
        )
    taken: dict[str, str] = {}
    for old, new in wanted.items():
        if taken.setdefault(new, old) != old:
            raise InvalidInputError(
                f"the threads {taken[new]!r:.60} and {old!r:.60} would both become session {new!r:.60}",
                code=ErrorCode.BAD_ARGUMENT,
                hint="give each another id: --thread OLD=NEW",
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


def _source_empty(shown: str) -> NotFoundError:
    return NotFoundError(
        f"there is no thread in {shown}",
        code=ErrorCode.SOURCE_EMPTY,
        hint="look whether this is the database that the graph writes to; nothing was imported",
        source=shown,
    )


def _thread_missing(shown: str, thread: str) -> NotFoundError:
    return NotFoundError(
        f"there is no thread {thread!r} in {shown}",
        code=ErrorCode.SESSION_MISSING,
        hint="without a name all threads are imported; ids are compared letter by letter",
        source=shown,
        session=thread,
    )
