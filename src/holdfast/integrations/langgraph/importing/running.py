"""import_langgraph: every thread of a database of LangGraph's becomes a session of a store.

Threads come one after the other, and in each the checkpoints in the order of their ids, parents first. What the store
has already is passed over, so an import that was interrupted goes on when it is run again. A thread that the store has
with other content ends the import before anything of it is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Literal

from holdfast import Store
from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.integrations.langgraph import keys
from holdfast.integrations.langgraph.configs import thread_text
from holdfast.integrations.langgraph.importing.decoding import Decoder
from holdfast.integrations.langgraph.importing.opening import open_source
from holdfast.integrations.langgraph.importing.refusing import (
    Spot,
    located,
    source_empty,
    source_unknown,
    thread_missing,
)
from holdfast.integrations.langgraph.importing.report import ImportReport, ThreadImport
from holdfast.integrations.langgraph.importing.source import Source, parents_first
from holdfast.integrations.langgraph.importing.standing import Standing, calls, compare, to_save
from holdfast.integrations.langgraph.importing.writing import ThreadWriter
from holdfast.integrations.langgraph.values import prepare
from holdfast.objects.registry import TypeRegistry
from holdfast.store.progress import Progress, silent


def import_langgraph(
    source: str | Path,
    store: Store,
    *,
    threads: Sequence[str] | None = None,
    progress: Progress | None = None,
    dry_run: bool = False,
) -> ImportReport:
    """Import the threads of a database that one of LangGraph's savers wrote; it is only read.

    Threads, namespaces, checkpoint ids, parents, metadata and pending writes come over as they are, and a graph with a
    `HoldfastSaver` goes on from there. Interrupted, it goes on where it was when it is called again.

    Args:
        source: The file of a SqliteSaver or AsyncSqliteSaver, or the `postgresql://` URL of a PostgresSaver.
        store: Where to. Classes of your own that its registry knows become objects; others are kept as `Opaque` until
            they are allowed.
        threads: The ids of the threads to import; all if it is left out.
        progress: Called now and then with what is being done, and how many of it are done; first of all with
            `checkpoints at the source`, and how many there are.
        dry_run: Read and check everything, and write nothing.

    Raises:
        NotFoundError: There is no such file (`source-missing`), nothing in it (`source-empty`), or no such thread.
        InvalidInputError: It is no database of LangGraph's (`source-unknown`), or holds a value that is not taken
            over, such as a pickle (`value-unsupported`); the message has the thread and the channel.
        ConflictError: The store has a thread of that id with other content (`history-differs`); nothing of that thread
            was written. Those before it were.
    """
    wanted = _checked(threads)
    _check_apart(source, store)
    prepare(store)
    decoder = Decoder(store._parts.types)  # noqa: SLF001 - the classes that this store knows
    told = progress or silent
    done: list[ThreadImport] = []
    with closing(open_source(source, decoder)) as opened:
        told("checkpoints at the source", opened.count() if wanted is None else _counted(opened, wanted))
        passed = 0
        for thread in opened.threads() if wanted is None else wanted:
            run = _ThreadRun(opened, store, thread, told, passed, dry_run=dry_run)
            done.append(run.carry_out())
            passed = run.passed
        if not done:
            raise source_empty(opened.shown)
        return ImportReport(
            opened.shown, store.url, tuple(done), dict(decoder.opaque), dict(decoder.bare), dry_run
        )


def check_source(source: str | Path, *, threads: Sequence[str] | None = None) -> None:
    """See that there is something to import, as `import_langgraph` would before it writes anything."""
    wanted = _checked(threads)
    with closing(open_source(source, Decoder(TypeRegistry()))) as opened:
        if wanted is not None:
            _counted(opened, wanted)
        elif next(opened.threads(), None) is None:
            raise source_empty(opened.shown)


class _ThreadRun:
    """The import of one thread."""

    def __init__(
        self, source: Source, store: Store, thread: str, told: Progress, passed: int, *, dry_run: bool
    ) -> None:
        self.passed = passed
        self._source = source
        self._store = store
        self._thread = thread_text(thread)
        self._told = told
        self._dry_run = dry_run
        self._writer = ThreadWriter(store, thread)
        self._checkpoints = 0
        self._writes = 0

    def carry_out(self) -> ThreadImport:
        """Compare, then write what is missing."""
        source, thread = self._source, self._thread
        source.check(thread)
        standing = compare(source, self._store, thread, list(parents_first(source.index(thread))))
        if standing.ahead:
            self.passed += len(standing.entries)
            return ThreadImport(thread, "ahead", 0, 0)
        written = dict.fromkeys(source.written(thread))
        self._check_writes(standing, written)
        for listed in standing.entries:
            key = keys.checkpoint_key(listed.namespace, listed.id)
            if key in standing.missing:
                entry = to_save(source, thread, listed)
                with located(Spot(thread, listed.namespace, listed.id)):
                    self._writer.save(listed.namespace, entry, dry_run=self._dry_run)
                self._checkpoints += 1
            place = (listed.namespace, listed.id)
            if place in written:
                del written[place]
                self._save_writes(standing, *place)
            self.passed += 1
            self._told("importing checkpoints", self.passed)
        # A run saves writes before their checkpoint, and one that died in between left them behind.
        for place in written:
            self._save_writes(standing, *place)
        return ThreadImport(thread, self._status(standing), self._checkpoints, self._writes)

    def _status(self, standing: Standing) -> Literal["new", "updated", "unchanged"]:
        if not standing.known:
            return "new"
        return "updated" if self._checkpoints or self._writes else "unchanged"

    def _check_writes(self, standing: Standing, written: Iterable[tuple[str, str]]) -> None:
        """What the store has of writes must be the source's, before anything of the thread is written."""
        stored = {parsed.owner for key in standing.known if (parsed := keys.parse(key)) and parsed.task_id}
        for namespace, checkpoint in written:
            if keys.checkpoint_key(namespace, checkpoint) in stored:
                for call in calls(self._source.writes(self._thread, namespace, checkpoint)):
                    self._writer.new_writes(keys.writes_prefix(namespace, checkpoint, call["task_id"]), call)

    def _save_writes(self, standing: Standing, namespace: str, checkpoint: str) -> None:
        for call in calls(self._source.writes(self._thread, namespace, checkpoint)):
            prefix = keys.writes_prefix(namespace, checkpoint, call["task_id"])
            # Most have none in the store, and that is known without asking it.
            is_known = keys.writes_key(prefix, 0) in standing.known
            new = self._writer.new_writes(prefix, call) if is_known else call
            if new["writes"]:
                with located(Spot(self._thread, namespace, checkpoint)):
                    self._writer.save_writes(prefix, new, dry_run=self._dry_run)
                self._writes += len(new["writes"])


def _counted(source: Source, wanted: Sequence[str]) -> int:
    """How many checkpoints these threads have. All are looked for before any is imported."""
    count = 0
    for thread in wanted:
        entries = len(source.index(thread))
        if not entries and not source.written(thread):
            raise thread_missing(source.shown, thread)
        count += entries
    return count


def _check_apart(source: str | Path, store: Store) -> None:
    """Refuse the store itself, without opening it: to close it again would take the locks of the store away."""
    kept_in = store.url.removeprefix("sqlite:///")
    same = False
    # No path, or one where nothing is: opening the source says so better.
    with suppress(OSError, ValueError):
        same = kept_in != store.url and Path(str(source).removeprefix("sqlite:///")).samefile(kept_in)
    if same:
        raise source_unknown(
            store.url,
            "it is the store itself",
            hint="--store names the store to import into; SOURCE is LangGraph's",
        )


def _checked(threads: Sequence[str] | None) -> list[str] | None:
    if threads is None:
        return None
    if isinstance(threads, str) or any(type(thread) is not str for thread in threads):
        raise InvalidInputError(
            "threads must be a list of thread ids",
            code=ErrorCode.BAD_ARGUMENT,
            hint='pass threads=["one", "another"], or leave it out for all',
            argument="threads",
        )
    return list(dict.fromkeys(threads))
