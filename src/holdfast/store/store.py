"""Store: everything in one place, and what can be asked across sessions.

It joins a backend with the type registry and the clock, and hands out Sessions. It is safe to share between threads; a
process that forks may go on using it on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self
from weakref import WeakSet

from holdfast.history import jsontext
from holdfast.history.checkpoint import Checkpoint, moment
from holdfast.objects.codec.registry import C, Upgrade
from holdfast.reports.listings import SessionInfo
from holdfast.storage.ports import Backend, Reader
from holdfast.storage.records import Query, StoreStats
from holdfast.store.composition import compose, system_clock
from holdfast.store.draft import (
    check_checkpoint,
    check_filters,
    check_status,
    check_step,
    check_trigger,
    microseconds,
)
from holdfast.store.place import Ref, records
from holdfast.store.session import Session, check_limit

if TYPE_CHECKING:
    from holdfast.history.keep import Keep
    from holdfast.objects.diff.diff import Diff
    from holdfast.reports.transfer import CopyReport, ImportReport
    from holdfast.reports.upkeep import ForgetReport, GcReport, RepairReport, VerifyReport
    from holdfast.storage.tables import RowChange, Table
    from holdfast.store.archive.envelope import ArchiveLimits
    from holdfast.store.lease import HeldLease, OnLost
    from holdfast.store.metrics import MetricsSnapshot
    from holdfast.store.rows import Rows
    from holdfast.store.sql import SqlResult
    from holdfast.store.watch import Watch


class Store:
    """A place that keeps checkpoints; made by `holdfast.open`, or around a backend of your own.

    Args:
        backend: Where bytes live.
        types: Classes whose instances may be part of a state, beside those registered with `@holdfast.register`.
        app_version: The version of the application, written into each checkpoint.
        clock: Microseconds since 1970 UTC; for tests.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        types: Iterable[type] = (),
        app_version: str | None = None,
        clock: Callable[[], int] = system_clock,
    ) -> None:
        self._leases: WeakSet[HeldLease] = WeakSet()
        self._export_dir: tuple[str | None] | None = None
        self._parts = compose(backend, types, app_version, clock)

    @staticmethod
    def of(session: Session) -> Store:
        """Return the store that made a session."""
        store = session._store  # noqa: SLF001 - given by `session` below; its own kind could not be named there
        assert isinstance(store, Store)
        return store

    @property
    def _backend(self) -> Backend:
        return self._parts.backend

    @property
    def url(self) -> str:
        """Where the store is, without any secret."""
        return self._backend.url

    def register(
        self,
        cls: C,
        *,
        name: str | None = None,
        version: int = 1,
        upgrade: Upgrade | None = None,
        encode: Callable[[Any], Any] | None = None,
        decode: Callable[[Any], Any] | None = None,
    ) -> C:
        """Make the objects of a class savable in this store, as `holdfast.register` does in every store.

        Args:
            cls: A dataclass, attrs class, pydantic model, enum or named tuple; any class with encode and decode.
            name: What its objects are stored under; the name of the class without its module by default.
            version: Raise it when the stored data of the class changes shape.
            upgrade: A function (data, stored version) -> data that brings older data into the present shape.
            encode: A function that gives the data to store of an object, made of values that can be saved.
            decode: One that gives the object for it.

        Returns:
            The class.

        Raises:
            InvalidInputError: The class cannot be registered like this, or the name belongs to another class.
        """
        self._parts.types.register(
            cls, name=name, version=version, upgrade=upgrade, encode=encode, decode=decode
        )
        return cls

    def on_unknown(self, take: Callable[[type], bool] | None) -> None:
        """Have a function decide about classes that are not registered, when a state is saved that has one.

        It is asked with exactly the class of the object. It calls `register` and returns True, and the save goes on; or
        it returns False, and the save is refused as always. It may be asked by several threads at once, and about a
        class that it declined again with the next save. Loading never asks: what is stored comes back as a class only
        where that was registered.

        Args:
            take: The function, in the place of the one before; None for none.
        """
        self._parts.types.on_unknown(take)

    def session(
        self,
        id: str = "default",  # noqa: A002 - the glossary's word
        *,
        agent: str | None = None,
        project: str | None = None,
        branch: str | None = None,
        keep: Keep | None = None,
        lease: HeldLease | None = None,
        export_dir: str | Path | bool | None = None,
        export_format: str = "json.gz",
    ) -> Session:
        """A new Session object: one writer on one branch. Nothing is read or written until it is used.

        Args:
            id: The session; any text that names it in your own world.
            agent: Whose work it is.
            project: What it belongs to.
            branch: The branch to work on; the current branch of the session if none is named (see `Session.switch`).
            keep: With each save of this object, what this policy does not keep is removed for good.
            lease: What `lease` gave: as soon as somebody else has it, nothing that this object saves is written, and
                saving raises ConflictError (`lease-lost`).
            export_dir: A folder that gets a file for each checkpoint that this object writes, as `export` would; True
                is `./checkpoints/`, False is none; without it, what the setting `checkpoints.export_dir` says. The
                file goes with its checkpoint. One that cannot be written is a warning.
            export_format: json.gz, json, or jsonl for one file with a line for each. Refused without `export_dir`.
        """
        if export_dir is None:
            export_dir = self._usual_export_dir()
        return Session(
            self._parts,
            id,
            agent=agent,
            project=project,
            branch=branch,
            keep=keep,
            lease=lease,
            export_dir=export_dir,
            export_format=export_format,
            store=self,
        )

    def _usual_export_dir(self) -> str | None:
        """What the settings say, read once."""
        if self._export_dir is None:
            from holdfast.settings.settings import export_dir_setting

            self._export_dir = (export_dir_setting(self._parts.stored_in.url),)
        return self._export_dir[0]

    def lease(self, name: str, *, seconds: float = 30.0, on_lost: OnLost | None = None) -> HeldLease:
        """Claim a lease: a name that one holder at a time has, of all that use this store.

        It is renewed by a thread of its own until it is given up: `with store.lease("heartbeat:research-42") as held`.
        A holder that died is followed at once on the same machine, and elsewhere when its time is over.
        `store.session(..., lease=held)` writes only as long as it is held.

        Args:
            name: What it is for, a colon, and the session: `heartbeat:research-42`.
            seconds: For how long it stays held when this process stops renewing it: after that it is lost, even if
                nobody else has it.
            on_lost: Called with the lease when it is lost, in a thread of its own.

        Raises:
            ConflictError: Somebody else has it (`lease-held`).
            InvalidInputError: The name or the time cannot be used.
        """
        from holdfast.store.lease import HeldLease

        held = HeldLease(self._backend, self._parts.clock, name, seconds=seconds, on_lost=on_lost)
        self._leases.add(held)
        return held

    def is_leased(self, name: str) -> bool:
        """Whether somebody, this process included, holds a lease now; looking takes it from nobody."""
        from holdfast.store.lease import is_leased

        return is_leased(self._backend, self._parts.clock, name)

    def write(self, rows: Iterable[RowChange], *, lease: HeldLease | None = None) -> None:
        """Change rows of extension tables without a checkpoint: all of them or none, durably before returning.

        `Session.save(rows=...)` writes them together with a checkpoint. A table is made by the first write to it.

        Args:
            rows: Changes that a `Table` made: insert, upsert, update, delete; carried out in this order.
            lease: What `lease` gave: as soon as somebody else has it, nothing is written (`lease-lost`).

        Raises:
            ConflictError: A row is there already, is missing, or is not as expected (`row-conflict`).
            UnsupportedError: The store has a table of that name with other columns (`table-mismatch`).
            BackendError: The write failed. If its details have `outcome: unknown`, read the rows back to find out.
        """
        from holdfast.store.rows import write

        write(self._backend, rows, lease)

    def rows(self, table: Table) -> Rows:
        """Return a way to read the rows of an extension table: `get(key)`, `find(column=value)`, `count(...)`."""
        from holdfast.store.rows import Rows

        return Rows(self._backend, table)

    def sessions(self, *, agent: str | None = None, project: str | None = None) -> list[SessionInfo]:
        """List the sessions, oldest first."""
        with self._reader() as reader:
            rows = reader.sessions(agent=agent, project=project)
        return [
            SessionInfo(row.id, row.agent, row.project, moment(row.created_at), row.last_seq, row.current)
            for row in rows
        ]

    def current_branch(self, session: str = "default") -> str:
        """Return the current branch of a session, as `Session.switch` set it; `main` until then."""
        check_filters(session=session)
        with self._reader() as reader:
            row = reader.session(session)
        return "main" if row is None else row.current

    def rehearsal(self) -> Store:
        """Return a store that reads from this one and writes nowhere, to try an operation on before it is done.

        `store.rehearsal().session("x").restore("#3")` is checked and answered as the real one would be, and changes
        nothing. Each operation is tried alone: the next one does not see it.
        """
        from holdfast.store.dry_run import Rehearsal

        backend: Any = Rehearsal(self._backend)
        tried = Store(backend, clock=self._parts.clock)
        # What is only tried is not counted here.
        own = tried._parts
        tried._parts = own._replace(
            types=self._parts.types, app_version=self._parts.app_version, cuts=self._parts.cuts
        )
        return tried

    def projects(self) -> list[str]:
        """List the projects that sessions belong to, by name."""
        with self._reader() as reader:
            return sorted({row.project for row in reader.sessions() if row.project is not None})

    def find(  # noqa: PLR0913 - each is a keyword of the public contract
        self,
        *,
        session: str | None = None,
        branch: str | None = None,
        agent: str | None = None,
        project: str | None = None,
        tag: str | None = None,
        status: str | None = None,
        trigger: str | None = None,
        step: int | None = None,
        key: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        metadata: Mapping[str, Any] | None = None,
        before: Checkpoint | None = None,
        limit: int | None = None,
    ) -> list[Checkpoint]:
        """Find checkpoints by what is known about them, newest first, without touching any state.

        Args:
            session: Of this session only.
            branch: Saved on this branch.
            agent: Of sessions of this agent.
            project: Of sessions of this project.
            tag: With this label.
            status: With this status.
            trigger: With this trigger; `auto` finds every `auto:<event>` too.
            step: With this step number.
            key: With this key.
            since: Saved at or after; a datetime, ISO text or `2 hours ago`, local time where it names no zone.
            until: Saved at or before; a day alone means its end.
            metadata: Whose metadata has these values; nested dicts go deeper, everything else must be equal.
            before: Only what came before this one: the last of a page gives the next page.
            limit: At most so many.
        """
        check_filters(session=session, branch=branch, agent=agent, project=project, tag=tag, key=key)
        check_checkpoint("before", before, "pass a Checkpoint: the last one of the page before")
        query = Query(
            session=session,
            branch=branch,
            agent=agent,
            project=project,
            tag=tag,
            status=None if status is None else check_status(status),
            trigger=None if trigger is None else check_trigger(trigger),
            step=check_step(step),
            key=key,
            since=None if since is None else microseconds(since, "since", self._parts.clock()),
            until=None if until is None else microseconds(until, "until", self._parts.clock(), end=True),
            metadata=jsontext.conditions(metadata),
            before_position=None if before is None else before.position,
            limit=check_limit(limit),
        )
        with self._reader() as reader:
            return records(reader, reader.checkpoints(query))

    def load_each(self, checkpoints: Iterable[Checkpoint]) -> Iterator[Any]:
        """Yield the states of many checkpoints, verified, in the order in which they are given.

        They are read a page at a time, each page from one view, and no view is open between two states. What follows
        each other shares most of its chunks: those are read once. A checkpoint that was removed since is loaded too,
        until it is gone for good.

        Args:
            checkpoints: As `find`, `log` and the like give them; of any session of this store.

        Raises:
            IntegrityError: The stored bytes of the state whose turn it is are damaged; the next is the one after it.
            NotFoundError: It is gone for good, likewise.
            StateError: It does not fit a registered type that has changed, likewise.
        """
        from holdfast.store.load_many import EachState

        return EachState(self._backend, self._parts.types, checkpoints, self._parts.at_hand)

    def diff(self, a: Checkpoint, b: Checkpoint, *, path: str | None = None) -> Diff:
        """Return what differs between the states of two checkpoints of any sessions; see `Session.diff`."""
        from holdfast.store.diff import check_checkpoints

        check_checkpoints(a, b)
        return self.session(a.session).diff(a, b, path=path)

    def json_form(self, state: Any) -> Any:
        """Return a state as plain data that JSON has: what JSON patches of a `Diff` apply to.

        What JSON has no type for becomes an object with `$type` and `$value`, as in `holdfast show --json`; objects of
        registered classes become what is stored of them.

        Raises:
            InvalidInputError: The state holds something that cannot be saved; the message has its path.
        """
        from holdfast.store.diff import json_form_of

        return json_form_of(state, self._parts.types)

    def from_json_form(self, data: Any) -> Any:
        """Return the state that plain JSON data stands for: the way back from `json_form`, types and all.

        Raises:
            InvalidInputError: An object with `$type` and `$value` in it means nothing; the message has its place.
        """
        from holdfast.store.diff import value_of_json_form

        return value_of_json_form(data, self._parts.types)

    def pack(self, value: Any) -> bytes:
        """Return a value as bytes, for a column of rows beside the checkpoints; `unpack` gives it back.

        The same value always gives the same bytes. They are not compressed, and shared with nothing.

        Raises:
            InvalidInputError: It holds something that cannot be saved; the message has its path.
        """
        from holdfast.objects.codec.encode import encode_value

        self._parts.types.begin()
        return encode_value(value, self._parts.types)

    def unpack(self, data: bytes) -> Any:
        """Return the value that `pack` made these bytes of.

        Raises:
            StateError: The bytes are no value, or do not fit the registered types.
        """
        from holdfast.objects.codec.decode import decode_value

        return decode_value(data, self._parts.types)

    def sql(
        self,
        query: str,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        *,
        seconds: float = 5.0,
        limit: int = 10_000,
    ) -> SqlResult:
        """Answer a question in SQL: one SELECT over the views `sessions`, `checkpoints`, `tags` and extension tables.

        Nothing can be written, attached or read but these views.

        Args:
            query: The SELECT. `?` or `:name` stand for parameters; on PostgreSQL `$1`, `$2`.
            parameters: Their values.
            seconds: The question is stopped after so long.
            limit: At most so many rows; `truncated` says whether there are more.

        Raises:
            InvalidInputError: It is no SQL, or does more than read the views (`sql-refused`).
            BackendError: It took too long (`sql-stopped`).
            UnsupportedError: This kind of store answers no SQL; or, on PostgreSQL, HOLDFAST_SQL_URL names no role that
                may read the views alone.
        """
        from holdfast.store.sql import ask

        return ask(self._backend, query, parameters, seconds=seconds, limit=limit)

    def watch(
        self, *, after: Checkpoint | None = None, session: str | None = None, timeout: float | None = None
    ) -> Watch:
        """Yield checkpoints as they are saved, by anybody, oldest first.

        Args:
            after: Begin with the one that came after this; without it, with the next that comes.
            session: Of this session only.
            timeout: Stop when none came for so many seconds; without it, never.
        """
        from holdfast.store.watch import Watch

        check_filters(session=session)
        check_checkpoint("after", after, "pass a Checkpoint: the last one that was seen")
        return Watch(self._backend, after=after, session=session, timeout=timeout)

    def copy_session(self, source: str, target: str) -> int:
        """Copy all checkpoints of a session into a new one of this store; return how many those are.

        The copy appears all at once. It has the same states, without a byte of them being read or written, and the same
        keys, messages, metadata, tags, pins, times, lineage and branches. The ids are new, because the session is part
        of them, and the numbers are 1, 2, 3 ...; removed checkpoints and the operation log stay behind.

        Args:
            source: The session.
            target: The id of the new one. It belongs to the same agent and project, unless it is an emptied one
                that has its own.

        Raises:
            ConflictError: The target has checkpoints already (`session-exists`).
            NotFoundError: There is no session `source`.
        """
        from holdfast.store.copy import copy_session

        return copy_session(self._backend, source, target, now=self._parts.clock())

    def stats(self) -> StoreStats:
        """Count what is in the store."""
        with self._reader() as reader:
            return reader.stats()

    def metrics(self) -> MetricsSnapshot:
        """Return what this Store object did so far, in this process, as numbers.

        They are of one moment, cheap to take, and begin at nothing with each Store that is opened, and after a fork.
        `.to_dict()` gives plain data, `.prometheus()` the text that Prometheus reads.
        """
        return self._parts.metrics.snapshot()

    def collector(self) -> Any:
        """Return a collector of these numbers for a registry of prometheus-client: `REGISTRY.register(...)`.

        A registry takes one: the names of two would be the same.

        Raises:
            UnsupportedError: prometheus-client is not installed.
        """
        return self._parts.metrics.collector()

    def count_resume(self, steps: int = 0) -> None:
        """Count in the metrics that an agent went on from a checkpoint, and how many steps it need not do again."""
        self._parts.metrics.resumed(steps)

    def copy_to(
        self,
        target: str | Path | Store,
        *,
        sessions: Sequence[str] | None = None,
        dry_run: bool = False,
        progress: Callable[[str, int], None] | None = None,
    ) -> CopyReport:
        """Copy sessions to another store, of any kind, made if there is none; what it has already is not sent again.

        Each session comes out as it was here at one moment: ids, numbers, tags, branches, what undo can bring back.
        What is gone here for good goes there too. Interrupted, it goes on where it was when it is called again. Others
        may go on writing here; let nobody write to the copies.

        Args:
            target: A store, or where to open one.
            sessions: The ids of the sessions to copy; all if it is left out.
            dry_run: Only say what would be copied.
            progress: Called now and then with what is being done, and how many of it are done.

        Raises:
            ConflictError: The target has a session of that id which is no copy of this one (`history-differs`);
                nothing was written then. Or somebody wrote to it meanwhile (`session-changed`).
            NotFoundError: There is no such session here.
            IntegrityError: A checkpoint here is damaged; those before it were copied.
        """
        from holdfast.store.copy import copy_sessions, open_target

        wanted = target._backend if isinstance(target, Store) else target  # noqa: SLF001 - its own kind
        with open_target(wanted, dry_run=dry_run) as other:
            return copy_sessions(
                self._backend,
                other,
                sessions=sessions,
                dry_run=dry_run,
                progress=progress,
            )

    def import_(
        self,
        path: str | Path | BinaryIO,
        *,
        session: str | None = None,
        limits: ArchiveLimits | None = None,
        advance: bool = False,
        dry_run: bool = False,
        progress: Callable[[str, int], None] | None = None,
    ) -> ImportReport:
        """Take in what `Session.export` wrote, here or elsewhere: a file, or all archives in a folder.

        Everything is verified before anything is written: a file that was changed is refused. Each session comes whole
        or not at all; where an import of several ends in between, the same one brings the rest. Checkpoints keep their
        ids, keys, tags and lineage; those that are there already are left alone, so that it can be run again. The files
        of one import may come in any order; what comes without what it was made from begins a line (`cut_off`). No
        branch that is there moves: a head that is new gets the branch that it was on if that name is free, and `main-1`
        or the like if not.

        With `advance`, a branch that is there is fast-forwarded where what came in on a branch of its name goes on from
        its head, in the transaction of the rows; `undo` brings the head back. Where the lines have parted it stays, and
        what is new has a branch beside it.

        Args:
            path: The file, or a folder with files (folders in it are not searched); or a file that was opened to read
                bytes.
            session: Of a file that another program wrote: the session it goes into. Archives of holdfast say it
                themselves, and are refused if it is another one.
            limits: How much an archive may hold.
            advance: Move branches forward where what came in goes on from them.
            dry_run: Only say what would be imported.
            progress: Called now and then with what is being done, and how many of it are done.

        Raises:
            InvalidInputError: It is no archive (`archive-malformed`), too large (`archive-too-large`), or of a session
                that belongs to somebody else here (`session-mismatch`).
            IntegrityError: It was changed since it was written (`archive-damaged`).
            UnsupportedError: A newer version of holdfast wrote it.
            ConflictError: A key of it names another checkpoint here (`key-taken`).
            NotFoundError: There is no such file.
        """
        from holdfast.store.archive.import_ import import_archives

        return import_archives(
            self._parts,
            path,
            session=session,
            limits=limits,
            advance=advance,
            dry_run=dry_run,
            progress=progress,
        )

    def gc(
        self,
        *,
        keep_days: float = 14,
        dry_run: bool = False,
        progress: Callable[[str, int], None] | None = None,
    ) -> GcReport:
        """Remove for good what was deleted or pruned, and free the room that nothing needs any more.

        Safe beside running writers. What was removed longer ago than `keep_days` cannot be brought back by undo
        afterwards. With `dry_run` nothing is changed, and the report says what would be.

        Args:
            keep_days: Removed checkpoints stay for so long; 0 removes all of them now.
            dry_run: Only say what would go.
            progress: Called now and then with what is being done, and how many of it are done.

        Raises:
            IntegrityError: A checkpoint is damaged; no chunk is removed then.
        """
        from holdfast.store.gc import collect_garbage

        now = self._parts.clock()
        return collect_garbage(
            self._parts.backend, now=now, keep_days=keep_days, dry_run=dry_run, progress=progress
        )

    def forget(self, session: str, *refs: Ref, dry_run: bool = False, clean: bool = True) -> ForgetReport:
        """Erase a session, or some of its checkpoints, at once and for good; there is no undo.

        The rows, the session's operation log and every chunk that nothing else needs go, and the files of the store
        are written anew without them. What other checkpoints hold too stays with those.

        Args:
            session: The session.
            refs: Its checkpoints, removed ones by their whole id; all of the session if none is given.
            dry_run: Only say what would go.
            clean: False ends it with the rows and the log, which takes no longer than any other change, and no other
                rights: nobody can load what is forgotten, and its bytes are freed by the next gc.

        Raises:
            NotFoundError: There is no such session or checkpoint.
            BackendError: Somebody still reads an older moment of the store; what is forgotten is gone for every
                reader, and calling it again for anything cleans the files.
        """
        check_filters(session=session)
        from holdfast.store.gc import forget

        now = self._parts.clock()
        try:
            report = forget(self._parts.backend, session, refs, now=now, dry_run=dry_run, clean=clean)
        finally:
            if not dry_run:
                # Whatever came of it: what is forgotten does not stay at hand. Not before it is gone, or somebody
                # might load it once more.
                self._parts.at_hand.clear()
        if not dry_run:
            self._parts.metrics.removed(session, "forget", count=report.checkpoints)
        return report

    def verify(
        self,
        *,
        quick: bool = False,
        session: str | None = None,
        progress: Callable[[str, int], None] | None = None,
    ) -> VerifyReport:
        """Check that everything in the store is as it was written, and name each checkpoint that cannot be loaded.

        Damage does not end it: it is in the report. Safe beside running writers.

        Args:
            quick: Leave out the states: rows, ids, links, heads and logs are checked, and no chunk is read.
            session: Of this session only.
            progress: Called now and then with what is being done, and how many of it are done.
        """
        check_filters(session=session)
        from holdfast.store.verify import verify

        return verify(self._parts.backend, quick=quick, session=session, progress=progress)

    def repair(
        self, *, dry_run: bool = False, progress: Callable[[str, int], None] | None = None
    ) -> RepairReport:
        """Put what is whole of a damaged store in its place, and keep what was there in a file beside it.

        Checkpoints that are whole stay as they are, with their ids and numbers. Those that are not are left out and
        named; history leads past them. A store that is whole is left alone. Others may have the store open meanwhile;
        writers wait.

        Args:
            dry_run: Only say what would be done.
            progress: Called now and then with what is being done, and how many of it are done.

        Raises:
            IntegrityError: The first page of the file cannot be read: nothing can be put in its place.
            UnsupportedError: This kind of store cannot be repaired.
            BackendError: There is no room for the new store beside the old one, or another writer holds it.
        """
        from holdfast.store.repair import repair

        return repair(self._parts.backend, now=self._parts.clock(), dry_run=dry_run, progress=progress)

    def backup(self, path: str | Path) -> Path:
        """Write a consistent copy of the whole store to a new file, beside running writers; return its path."""
        target = Path(path)
        self._parts.backend.backup(target)
        return target

    def close(self) -> None:
        """Let go of the store and of its leases. Closing twice is fine; using it afterwards is a StateError."""
        for held in list(self._leases):
            # As at the end of its block: where the store cannot be told, it runs out.
            held.__exit__(None, None, None)
        self._parts.retention.close()
        try:
            self._backend.close()
        finally:
            # Only now: a load that began before this is the last one.
            self._parts.at_hand.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _reader(self) -> AbstractContextManager[Reader]:
        return self._backend.reader()

    def __repr__(self) -> str:
        return f"<Store {self.url}>"
