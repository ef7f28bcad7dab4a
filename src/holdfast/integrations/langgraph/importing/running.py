"""import_langgraph: every thread of a database of LangGraph's becomes a session of a store.

Threads come one after the other, and in each the checkpoints in the order of their ids, parents first. What the store
has already is passed over, so an import that was interrupted goes on when it is run again. A thread that cannot be
taken over, or that the store has with other content, ends the import before anything of it is written; with
`keep_going` it is reported, and the others are imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

from holdfast import Store
from holdfast.errors import (
    ConflictError,
    HoldfastError,
    InvalidInputError,
    StateError,
    UnsupportedError,
)
from holdfast.integrations.langgraph import keys
from holdfast.integrations.langgraph.importing import choosing
from holdfast.integrations.langgraph.importing.decoding import Decoder
from holdfast.integrations.langgraph.importing.opening import open_source, path_of
from holdfast.integrations.langgraph.importing.refusing import (
    Spot,
    located,
    session_for,
    source_empty,
    source_unknown,
    stopped,
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
    threads: choosing.Threads | None = None,
    keep_going: bool = False,
    types: Iterable[Any] = (),
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
        threads: The ids of the threads to import, or a dict that gives each another one; all if it is left out.
        keep_going: Pass over a thread that cannot be imported: the report has it as `failed`, with its error.
        types: Such classes, and the schemas of graphs that name them, as for `HoldfastSaver`.
        progress: Called now and then with what is being done, and how many of it are done; first of all with
            `checkpoints at the source`, and how many there are.
        dry_run: Read and check everything, and write nothing.

    Raises:
        NotFoundError: There is no such file (`source-missing`), nothing in it (`source-empty`), or no such thread.
        InvalidInputError: It is no database of LangGraph's (`source-unknown`), or holds a value that is not taken
            over, such as a pickle (`value-unsupported`); the message has the thread and the channel.
        ConflictError: The store has a thread of that id with other content (`history-differs`); nothing of that thread
            was written. Those before it were: the hint and the details say which.
    """
    wanted = choosing.checked(threads)
    _check_apart(source, store)
    prepare(store, types)
    decoder = Decoder(store._parts.types)  # noqa: SLF001 - the classes that this store knows
    told = progress or silent
    done: list[ThreadImport] = []
    with closing(open_source(source, decoder)) as opened:
        total = opened.count() if wanted is None else choosing.count(opened, wanted)
        told("checkpoints at the source", total)
        passed = 0
        waiting = ((each, each) for each in opened.threads()) if wanted is None else iter(wanted.items())
        for thread, target in waiting:
            run = _ThreadRun(opened, store, thread, target, told, passed, dry_run=dry_run)
            try:
                done.append(run.carry_out())
            except _OF_A_THREAD as error:
                if not keep_going:
                    _say_where_it_stopped(error, thread, done, waiting)
                    raise
                done.append(ThreadImport(thread, "failed", 0, 0, target, error.to_dict()))
            passed = run.passed
        if not done:
            raise source_empty(opened.shown)
        return ImportReport(
            opened.shown, store.url, tuple(done), dict(decoder.opaque), dict(decoder.bare), dry_run
        )


_OF_A_THREAD = (ConflictError, InvalidInputError, StateError, UnsupportedError)
"""What a thread can be refused with. Whatever else fails, fails for the next one too."""


def chosen_threads(source: str | Path, texts: Sequence[str] = ()) -> dict[str, str] | None:
    """See that there is something to import, before a store is made for it; which threads were asked for.

    Args:
        source: As for `import_langgraph`.
        texts: `ID` or `OLD=NEW`, as typed; without any, all threads are meant.
    """
    with closing(open_source(source, Decoder(TypeRegistry()))) as opened:
        if texts:
            return choosing.named(opened, texts)
        if next(opened.threads(), None) is None:
            raise source_empty(opened.shown)
    return None


def _say_where_it_stopped(
    error: HoldfastError, thread: str, done: Sequence[ThreadImport], waiting: Iterator[tuple[str, str]]
) -> None:
    """Which threads there are by now, and which not."""
    imported = [each.id for each in done]
    left = [thread, *(each for each, _ in waiting)]
    error.hint = stopped(error.hint, imported, left)
    error.details |= {"imported": imported, "not_imported": left}


class _ThreadRun:
    """The import of one thread."""

    def __init__(
        self,
        source: Source,
        store: Store,
        thread: str,
        target: str,
        told: Progress,
        passed: int,
        *,
        dry_run: bool,
    ) -> None:
        self.passed = passed
        self._source = source
        self._store = store
        self._thread = thread
        self._target = target
        self._told = told
        self._dry_run = dry_run
        self._writer: ThreadWriter
        self._checkpoints = 0
        self._writes = 0

    def carry_out(self) -> ThreadImport:
        """Compare, then write what is missing."""
        source, thread = self._source, self._thread
        self._writer = ThreadWriter(self._store, session_for(thread, self._target))
        source.check(thread)
        with source.decoder.uncounted():
            standing = compare(
                source, self._store, thread, self._target, list(parents_first(source.index(thread)))
            )
        if standing.ahead:
            self.passed += len(standing.entries)
            return ThreadImport(thread, "ahead", 0, 0, self._target)
        written = dict.fromkeys(source.written(thread))
        with source.decoder.uncounted():
            self._check_writes(standing, written)
        for listed in standing.entries:
            key, made = keys.checkpoint_key(listed.namespace, listed.id), None
            if key in standing.missing:
                entry = to_save(source, thread, listed)
                made = entry.created_at
                with located(Spot(thread, listed.namespace, listed.id)):
                    self._writer.save(listed.namespace, entry, dry_run=self._dry_run)
                self._checkpoints += 1
            place = (listed.namespace, listed.id)
            if place in written:
                del written[place]
                self._save_writes(standing, *place, made)
            self.passed += 1
            self._told("importing checkpoints", self.passed)
        # A run saves writes before their checkpoint, and one that died in between left them behind.
        for place in written:
            self._save_writes(standing, *place, None)
        if self._checkpoints and not self._dry_run:
            self._writer.lead_to_latest()
        return ThreadImport(thread, self._status(standing), self._checkpoints, self._writes, self._target)

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

    def _save_writes(
        self, standing: Standing, namespace: str, checkpoint: str, made: datetime | None
    ) -> None:
        before = self._writes
        with self._source.decoder.uncounted() as count:
            for call in calls(self._source.writes(self._thread, namespace, checkpoint)):
                prefix = keys.writes_prefix(namespace, checkpoint, call["task_id"])
                # Most have none in the store, and that is known without asking it.
                is_known = keys.writes_key(prefix, 0) in standing.known
                new = self._writer.new_writes(prefix, call) if is_known else call
                if new["writes"]:
                    made = made or self._writer.made_at(keys.checkpoint_key(namespace, checkpoint))
                    with located(Spot(self._thread, namespace, checkpoint)):
                        self._writer.save_writes(prefix, new, made, dry_run=self._dry_run)
                    self._writes += len(new["writes"])
            if self._writes > before:
                count()


def _check_apart(source: str | Path, store: Store) -> None:
    """Refuse the store itself, without opening it: to close it again would take the locks of the store away."""
    kept_in = unquote(store.url.removeprefix("sqlite:///"))
    same = False
    # No path, or one where nothing is: opening the source says so better.
    with suppress(OSError, ValueError):
        same = store.url.startswith("sqlite:///") and Path(path_of(source)).samefile(kept_in)
    if same:
        raise source_unknown(
            store.url,
            "it is the store itself",
            hint="--store names the store to import into; SOURCE is LangGraph's",
        )
