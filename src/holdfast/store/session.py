"""Session: one line of work of one agent, seen by one writer.

A Session remembers the head it has seen. Loading or looking at the tip, and saving, set that expectation; the next
save is refused with ConflictError if the branch has moved since, so that no update is lost by accident. A Session that
has read nothing appends to the head there is. One Session is one writer: give each thread its own (`store.session()`
makes a new one each time, and costs nothing until it is used).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from itertools import islice
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, Self

from holdfast.errors import ConflictError, ErrorCode, IntegrityError, InvalidInputError, NotFoundError
from holdfast.history.checkpoint import Checkpoint, moment
from holdfast.history.names import check_branch, check_label, check_session, check_tags
from holdfast.history.refs import ancestors, around, find_head, is_range, resolve_range
from holdfast.objects.codec.registry import TypeRegistry, can_register
from holdfast.objects.tree.state import EncodedState, read_state
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointId, Claim, Query
from holdfast.store import operations
from holdfast.store.composition import Composition
from holdfast.store.draft import check_draft, check_text
from holdfast.store.keep import prune, removed_ids
from holdfast.store.place import UNSET, OnConflict, Ref, Unset, records, session_of
from holdfast.store.save import Writer

# Imported by the methods that need them: a process that only saves and loads starts faster.
if TYPE_CHECKING:
    from holdfast.history.keep import Keep
    from holdfast.history.tree import Tree
    from holdfast.objects.diff.diff import Diff
    from holdfast.objects.merge.resolve import Resolve
    from holdfast.reports.changes import MergeReport, Undone
    from holdfast.reports.listings import BranchInfo, OperationInfo
    from holdfast.reports.search import Around, BisectReport, Blame, Divergence, GrepMatch, PathChange
    from holdfast.reports.transfer import ExportReport
    from holdfast.reports.upkeep import PruneReport, Recovered
    from holdfast.storage.tables import RowChange
    from holdfast.store.document import Document
    from holdfast.store.lease import HeldLease
    from holdfast.store.search.line import Findings

_USUAL_FILES: Final = "json.gz"


class Session:
    """One line of work; made by `store.session(...)`."""

    def __init__(  # noqa: PLR0913 - each is a keyword of the public contract
        self,
        parts: Composition,
        session: str,
        *,
        agent: str | None,
        project: str | None,
        branch: str | None,
        keep: Keep | None = None,
        lease: HeldLease | None = None,
        export_dir: str | Path | bool | None = None,
        export_format: str = _USUAL_FILES,
        store: object = None,
    ) -> None:
        claim = Claim(
            session=check_session(session),
            agent=check_label(agent, "agent"),
            project=check_label(project, "project"),
        )
        if lease is not None:
            # Only a session that is given one needs to know what a lease is.
            from holdfast.store.lease import check_held

            lease = check_held(lease)
        files = None
        if export_format != _USUAL_FILES and export_dir is None:
            # Nobody says how to write files and wants none; export_dir=False says that they are switched off.
            raise InvalidInputError(
                f"export_format={export_format!r:.40} without export_dir: no files would be written",
                code=ErrorCode.BAD_ARGUMENT,
                hint='pass export_dir, a folder or True for "checkpoints"; or leave both out for no files',
            )
        if export_dir is not None and export_dir is not False:
            # Only a session that keeps files needs to know how they are written.
            from holdfast.store.archive.export_dir import ExportFolder

            files = ExportFolder(export_dir, export_format)
        self._store = store
        self._writer = Writer(
            parts, claim, None if branch is None else check_branch(branch), keep, lease, files
        )

    @property
    def id(self) -> str:
        """The id of the session."""
        return self._writer.claim.session

    @property
    def agent(self) -> str | None:
        """The agent it was opened for."""
        return self._writer.claim.agent

    @property
    def project(self) -> str | None:
        """The project it was opened for."""
        return self._writer.claim.project

    @property
    def branch(self) -> str:
        """The branch in use."""
        return self._writer.branch

    def _reader(self) -> AbstractContextManager[Reader]:
        return self._writer.parts.backend.reader()

    def __repr__(self) -> str:
        return f"<Session {self.id!r} on {self.branch!r} of {self._writer.parts.backend.url}>"

    def save(  # noqa: PLR0913 - each is a keyword of the public contract
        self,
        state: Any,
        message: str = "",
        *,
        tags: Iterable[str] = (),
        step: int | None = None,
        status: str = "running",
        trigger: str = "manual",
        metadata: Mapping[str, Any] | None = None,
        tokens: int | None = None,
        cost_usd: float | None = None,
        duration_ms: float | None = None,
        key: str | None = None,
        created_at: datetime | None = None,
        expect: Ref | Unset | None = UNSET,
        parent: Ref | None = None,
        on_conflict: OnConflict = "raise",
        rows: Iterable[RowChange] = (),
    ) -> Checkpoint:
        """Save a state as a new checkpoint on the branch in use, durably before returning.

        Args:
            state: Any value that can be kept; usually a dict. Or what `encode` made of one.
            message: What happened, for people.
            tags: Labels; `tag:x` as a ref is the newest checkpoint that has it.
            step: The agent's own step number.
            status: running, paused, completed, failed or interrupted.
            trigger: Why it is saved: manual, auto:<event>, scheduled, error, restore, fork or merge.
            metadata: A dict of plain JSON, to find checkpoints by.
            tokens: Tokens used so far.
            cost_usd: Cost so far.
            duration_ms: Time taken so far.
            key: The caller's own id, unique in the session: saving the same state under it again returns the
                checkpoint that is there.
            created_at: When it was made, for what is brought here from elsewhere; now unless given. Never before its
                parent: where it would be, it is taken for made right after that. Without a zone it is local time.
            expect: Save only if this is still the head. None: only if the branch does not exist, and make it then; in a
                session that has other branches it begins a line of its own, without a parent.
            parent: Make a child of this checkpoint, on a new branch if it is not the head.
            on_conflict: "fork" saves onto a new branch where "raise" raises ConflictError. The Session goes on there.
            rows: Changes of extension tables (`Table`), all or nothing with the checkpoint. Where a key finds the
                checkpoint that is there, its rows are there as well, and none of these is written.

        Raises:
            InvalidInputError: The state or an argument cannot be kept; the message has the path. Nothing is written.
            ConflictError: The branch moved since this Session saw it, the key names another state, or a row is not as
                its change expects (`row-conflict`).
            NotFoundError: The branch does not exist, and others do (`branch-missing`); `expect=None` makes it.
            BackendError: The store could not write; saving again is safe.
        """
        draft = check_draft(
            message,
            tags=tags,
            step=step,
            status=status,
            trigger=trigger,
            metadata=metadata,
            tokens=tokens,
            cost_usd=cost_usd,
            duration_ms=duration_ms,
            key=key,
            created_at=created_at,
            rows=rows,
        )
        writer = self._writer
        if isinstance(state, EncodedState):
            return writer.save(state, draft, expect, parent, on_conflict)
        try:
            return writer.save(writer.encode(state), draft, expect, parent, on_conflict)
        except ConflictError as conflict:
            if conflict.code is not ErrorCode.CHUNKS_GONE:
                raise
        # What the last save left in the store was removed since; the writer no longer counts on it.
        return writer.save(writer.encode(state), draft, expect, parent, on_conflict)

    def write(self, rows: Iterable[RowChange]) -> None:
        """Change rows of extension tables without a checkpoint, under this Session's lease; see `Store.write`."""
        from holdfast.store.rows import write

        writer = self._writer
        write(writer.parts.backend, rows, writer.lease)

    def encode(self, state: Any) -> EncodedState:
        """Do the first half of a save: bytes that no later change of the state can reach. Give them to `save`.

        For programs that write in another thread than the one that owns the state. What this Session saved last is left
        out of them, so that they are of use to it alone, and at once: where that is removed in between, the save raises
        ConflictError (`chunks-gone`), and the state has to be encoded again.
        """
        return self._writer.encode(state)

    @property
    def seen(self) -> str | None:
        """The id of the checkpoint that the next save expects to be the head; None where nothing was seen yet."""
        expected = self._writer.expected
        return None if expected is None or isinstance(expected, Unset) else expected.hex()

    def load(
        self,
        ref: Ref = "@",
        *,
        path: str | None = None,
        as_: type[Any] | None = None,
        default: Any = UNSET,
        recover: bool = False,
    ) -> Any:
        """Return the state of a checkpoint, verified; the newest of the branch if no ref is given.

        Args:
            ref: Which checkpoint.
            path: A part of the state, read without the rest: `messages[-20:]`, `beliefs.b7.confidence`.
            as_: A type to build: a registered one, or a dataclass, attrs class or pydantic model from plain data.
            default: What to return where `ref` names nothing; without it that is a NotFoundError.
            recover: Where it is damaged, return the state of the newest checkpoint before it that is whole, with a
                RecoveryWarning that says so. `recover()` does the same and tells more.

        Raises:
            NotFoundError: `ref` names nothing, or the state has nothing at `path`, and there is no default.
            IntegrityError: The stored bytes are damaged. They are never returned.
            StateError: The state does not fit `as_`, or a registered type that has changed.
        """
        began = perf_counter_ns()
        types = _knowing(self._writer.parts.types, as_)
        try:
            value = self._load(ref, path, types)
        except NotFoundError as missing:
            if isinstance(default, Unset) or missing.code is ErrorCode.REF_AMBIGUOUS:
                raise
            if ref == "@" and missing.code is not ErrorCode.PATH_MISSING:
                self._writer.expected = None
            return default
        except IntegrityError:
            if not recover:
                raise
            from holdfast.store.repair import load_intact

            value = load_intact(self._writer, ref, path, types)
        if as_ is not None:
            from holdfast.objects.codec.convert import build

            value = build(value, as_, types)
        self._writer.parts.metrics.loaded(perf_counter_ns() - began)
        return value

    def resume(self, ref: Ref = "@", *, as_: type[Any] | None = None, default: Any = UNSET) -> Any:
        """Return the state of a checkpoint to go on from: the next save is its child.

        If `ref` is not the head, that save begins a new branch (`main-1`), and what came after `ref` stays as it is.

        Args:
            ref: Which checkpoint.
            as_: A type to build, as for `load`.
            default: What to return where `ref` names nothing; without it that is a NotFoundError.
        """
        state = self.load(ref, as_=as_, default=default)
        with self._reader() as reader:
            if self.exists(ref):
                row, head = self._writer.find(reader, ref), find_head(reader, self.id, self.branch)
                if head is None or row.id != head.id:
                    self._writer.go_back(row.id)
        return state

    def recover(self, ref: Ref = "@") -> Recovered:
        """Return the newest state that is whole, at or before `ref`, and what had to be passed over for it.

        The next save goes on from the head of the branch, damaged or not: history stays as it was.

        Raises:
            NotFoundError: `ref` names nothing.
            IntegrityError: Nothing at or before `ref` can be read (`nothing-intact`).
        """
        from holdfast.store.repair import recover

        began = perf_counter_ns()
        recovered = recover(self._writer, ref)
        self._writer.parts.metrics.loaded(perf_counter_ns() - began)
        return recovered

    def document(self, ref: Ref = "@", *, default: Any = UNSET) -> Document:
        """Return a state as a Document: a dict or list that knows what changed in it, and saves only that.

        The Document and this Session share one expectation: making it sets what the next save of either expects, and
        each goes on from what the other saved.

        Args:
            ref: Which checkpoint.
            default: What to begin with where `ref` names nothing. Without it that is a NotFoundError, but in a session
                without any checkpoint the document begins as an empty dict.

        Raises:
            NotFoundError: `ref` names nothing, and there is no default.
            InvalidInputError: The state is neither a dict nor a list.
            IntegrityError: The stored bytes are damaged. They are never returned.
        """
        from holdfast.store.document import DOCUMENTS

        document: Document = self._writer.document(ref, default, DOCUMENTS)
        return document

    def checkpoint(self, ref: Ref = "@") -> Checkpoint:
        """Return the record of a checkpoint, without its state."""
        with self._reader() as reader:
            row = self._writer.find(reader, ref)
            self._writer.notice(reader, row)
            return Checkpoint(row, session_of(reader, row))

    def log(self, ref: Ref = "@", *, limit: int | None = None) -> list[Checkpoint]:
        """Return a checkpoint and its ancestors, newest first; an empty list for a session without any.

        A range such as `main..risky-idea` gives the ancestors of the second that are not ancestors of the first.
        """
        check_limit(limit)
        with self._reader() as reader:
            if isinstance(ref, str) and is_range(ref):
                return self._between(reader, ref, limit)
            session = reader.session(self.id)
            if ref == "@" and (session is None or not reader.branches(self.id)):
                return []
            row = self._writer.find(reader, ref)
            owner = session or session_of(reader, row)
            return [Checkpoint(each, owner) for each in ancestors(reader, row, limit=limit)]

    def keyed(
        self, start: str = "", stop: str | None = None, *, reverse: bool = False, limit: int | None = None
    ) -> list[Checkpoint]:
        """Return checkpoints of the session by their keys, in the order of these, whatever branch they are on.

        Keys are compared byte by byte in UTF-8. Those that begin with `run-7/` are `keyed("run-7/", "run-70")`: `0` is
        the character after `/`.

        Args:
            start: A key that is this, or comes after it.
            stop: A key that comes before this; without it, to the last.
            reverse: From the last key to the first.
            limit: At most so many.
        """
        query = Query(
            session=self.id,
            key_from=check_text(start, "start"),
            key_below=None if stop is None else check_text(stop, "stop"),
            by_key=True,
            oldest_first=not reverse,
            limit=check_limit(limit),
        )
        with self._reader() as reader:
            rows = reader.checkpoints(query)
            owner = session_of(reader, rows[0]) if rows else None
        return [Checkpoint(row, owner) for row in rows] if owner is not None else []

    def tree(self, *, limit: int | None = None) -> Tree:
        """Return the lineage of the session as data, newest first: lines that part, merges, heads, what was removed."""
        # Imported by those who look at lineage: a save needs none of it.
        from holdfast.history.tree import tree_of

        check_limit(limit)
        with self._reader() as reader:
            return tree_of(reader, self.id, self.branch, limit=limit)

    def at(self, when: datetime | str, *, tag: str | None = None, all_branches: bool = False) -> Checkpoint:
        """Return the last checkpoint at or before a moment, in the history of the branch in use.

        Args:
            when: A datetime, or text: `2 hours ago`, `yesterday 17:00`, `2026-11-15 14:30`; local time where it names
                no zone.
            tag: Only checkpoints with this label count.
            all_branches: Every checkpoint of the session counts.

        Raises:
            NotFoundError: The first one is younger (`before-history`; the message has the range), or there is none.
            InvalidInputError: The text is not a time (`bad-time`).
        """
        return self.around(when, tag=tag, all_branches=all_branches).before

    def around(self, when: datetime | str, *, tag: str | None = None, all_branches: bool = False) -> Around:
        """Return the checkpoints on both sides of a moment, and by how much the one before missed it; see `at`."""
        from holdfast.history.times import to_microseconds
        from holdfast.reports.search import Around

        if tag is not None:
            (tag,) = check_tags([tag])
        if not isinstance(when, datetime | str):
            raise InvalidInputError(
                f"a time must be a datetime or text, not {type(when).__name__}",
                code=ErrorCode.BAD_TIME,
                hint='pass "2 hours ago", ISO text or a datetime',
            )
        at = to_microseconds(when, now=self._writer.parts.clock())
        with self._reader() as reader:
            found = around(reader, self.id, self.branch, at, tag=tag, all_branches=all_branches)
            before, *after = records(reader, [each for each in found if each is not None])
        return Around(moment(at), before, after[0] if after else None)

    def exists(self, ref: Ref) -> bool:
        """Say whether `ref` names a checkpoint of this session."""
        with self._reader() as reader:
            try:
                self._writer.find(reader, ref)
            except NotFoundError as error:
                if error.code is ErrorCode.REF_AMBIGUOUS:
                    raise
                return False
            return True

    def _load(self, ref: Ref, path: str | None, types: TypeRegistry) -> Any:
        # Before the view is opened: what that still sees and is forgotten meanwhile does not stay at hand.
        kept = self._writer.parts.at_hand.begin()
        with self._writer.reader_for(ref, kept.root_of(self.id)) as reader:
            row = self._writer.find(reader, ref)
            self._writer.notice(reader, row)
            kept.note_root(self.id, row.root)
            if path is not None:
                from holdfast.objects.diff.location import select_part

                return select_part(row.root, path, kept.through(reader.chunks), types)
            found = read_state(row.root, kept.through(reader.chunks, row.size_bytes))
        # The view has ended: it takes a while to build a large state, and nothing more is asked of the store for it.
        return found.decode(types)

    def _between(self, reader: Reader, text: str, limit: int | None) -> list[Checkpoint]:
        found = resolve_range(reader, self.id, self.branch, text, now=self._writer.parts.clock())
        return [Checkpoint(row, session_of(reader, row)) for row in islice(found, limit)]

    def annotate(
        self, ref: Ref, *, message: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> Checkpoint:
        """Edit the message of a checkpoint, or lay metadata over what it has; the id stays the same."""
        return operations.annotate(self._writer.place, ref, message=message, metadata=metadata)

    def tag(self, ref: Ref, *tags: str) -> Checkpoint:
        """Put labels on a checkpoint."""
        return operations.retag(self._writer.place, ref, add=check_tags(tags))

    def untag(self, ref: Ref, *tags: str) -> Checkpoint:
        """Take labels off a checkpoint."""
        return operations.retag(self._writer.place, ref, remove=check_tags(tags))

    def pin(self, ref: Ref) -> Checkpoint:
        """Protect a checkpoint: deleting it needs force, and retention keeps it."""
        return operations.set_pin(self._writer.place, ref, pinned=True)

    def unpin(self, ref: Ref) -> Checkpoint:
        """End the protection of a checkpoint."""
        return operations.set_pin(self._writer.place, ref, pinned=False)

    def delete(self, ref: Ref, *, force: bool = False) -> Checkpoint:
        """Remove a checkpoint from history and return its record; deleting the tip moves the branch back.

        The row is hidden, and goes for good only with gc; until then `undo` brings it back. A pinned checkpoint, or
        one where branches part, needs `force`.
        """
        row, owner = operations.delete(self._writer.place, ref, force=force)
        if not isinstance(self._writer.expected, Unset) and self._writer.expected == row.id:
            self._writer.expected = row.prev
        self._writer.parts.metrics.removed(self.id, "delete", [row.id.hex()])
        return Checkpoint(row, owner)

    def prune(self, keep: Keep | None = None, *, only: bool = False, dry_run: bool = False) -> PruneReport:
        """Remove the checkpoints that a policy does not keep, and say why each stays or goes.

        They are hidden, and go for good only with gc; `undo` brings them back until then. The tips of branches, the
        checkpoints where branches part or meet and pinned ones always stay; what is part of another checkpoint goes
        with that one. With `per="agent"`, all sessions of this session's agent are pruned.

        Args:
            keep: The policy, such as `Keep(last=100, days=7)`. Without one: the last hour, what is manual or
                significant, and of what is older one an hour.
            only: Keep only what the policy keeps. Otherwise what is manual or significant stays as well.
            dry_run: Only say what would go.
        """
        parts = self._writer.parts
        report = prune(self._writer.place, keep, only=only, dry_run=dry_run)
        for session, ids in removed_ids(report).items():
            parts.metrics.removed(session, "prune", ids)
        self._go_back(report)
        return report

    def _go_back(self, report: PruneReport) -> None:
        """Expect the branch where a prune left it: a tip that is a part of another checkpoint goes with that one."""
        at = self._writer.expected
        if report.dry_run or isinstance(at, Unset):
            return
        gone = {each.checkpoint.id: each.checkpoint.prev for each in report.decisions if not each.kept}
        while at is not None and at.hex() in gone:
            prev = gone[at.hex()]
            at = None if prev is None else CheckpointId(bytes.fromhex(prev))
        self._writer.expected = at

    def clear(self, *, force: bool = False) -> int:
        """Remove every checkpoint and every branch of the session; return how many checkpoints that were.

        They are hidden, as with `delete`, and one `undo` brings them back. If one of them is pinned, it needs `force`.
        """
        removed = operations.clear(self._writer.place, force=force)
        self._writer.expected = None
        self._writer.parts.metrics.removed(self.id, "clear", removed)
        return len(removed)

    def take_export_dir(self) -> Path | None:
        """Write no files from here on, and return the folder they went to: for who writes files of another form."""
        files, self._writer.files = self._writer.files, None
        return None if files is None else files.folder

    def fork(self, ref: Ref = "@", name: str | None = None, *, session: str | None = None) -> Self:
        """Begin a new branch at a checkpoint, and return a Session on it. This one stays where it is.

        One checkpoint is written, with the same state and `ref` as its parent; no part of the state is copied.

        Args:
            ref: Where the branch begins.
            name: What it is called; by default after the branch in use: `main-1`, `main-2` ...
            session: Begin it in another session, new or not; there it is called `main` by default.

        Raises:
            ConflictError: There is a branch of that name already (`branch-exists`).
            NotFoundError: `ref` names nothing in this session.
        """
        place, made = operations.fork(self._writer.place, ref, name, session)
        claim, files = place.claim, self._writer.files
        forked = type(self)(
            self._writer.parts,
            claim.session,
            agent=claim.agent,
            project=claim.project,
            branch=place.branch,
            keep=self._writer.keep,
            lease=self._writer.lease,
            export_dir=None if files is None else files.folder,
            export_format="json.gz" if files is None else files.kind,
            store=self._store,
        )
        forked._writer.went_on(made)  # noqa: SLF001 - a Session like this one
        return forked

    def restore(self, ref: Ref) -> Checkpoint:
        """Go back: save the state of a checkpoint as a new one at the tip of the branch in use.

        Nothing is taken away. What was the head stays in history, right behind the new checkpoint, and `undo` makes it
        the head again.

        Raises:
            ConflictError: The branch moved since this Session saw it.
            NotFoundError: `ref` names nothing in this session.
        """
        made = operations.restore(self._writer.place, ref, self._writer.expected)
        self._writer.went_on(made)
        return made

    def branches(self) -> list[BranchInfo]:
        """List the branches of the session with their heads, by name."""
        return operations.list_branches(self._writer.place)

    def switch(self, name: str, *, remember: bool = True) -> Checkpoint:
        """Go on with another branch from here on; return its head, which the next save expects.

        Args:
            name: The branch.
            remember: Make it the current branch of the session: the one that `store.session(id)`, recorders and the
                command line use where none is named. False: this Session alone is switched.

        Raises:
            NotFoundError: There is no such branch (`branch-missing`).
        """
        head = operations.switch(self._writer.place, name, remember=remember)
        self._writer.go_on(name, head)
        return head

    def rename_branch(self, old: str, new: str) -> BranchInfo:
        """Give a branch another name; this Session goes on with it if it is the branch in use.

        Raises:
            NotFoundError: There is no branch `old` (`branch-missing`).
            ConflictError: There is a branch `new` already (`branch-exists`).
        """
        renamed = operations.rename(self._writer.place, old, new)
        if self.branch == old:
            self._writer.branch = new
        return renamed

    def delete_branch(self, name: str, *, force: bool = False) -> Checkpoint:
        """Remove a branch and return the checkpoint it was at. Its checkpoints stay.

        The branch in use, the last one, and one that alone leads to its newest checkpoint need `force`. It can be
        undone in any case.
        """
        head = operations.drop(self._writer.place, name, force=force)
        if self.branch == name:
            # What it led to is still there: the next save should not begin a new line without being asked to.
            self._writer.go_on(name, head)
        return head

    def undo(self) -> Undone:
        """Take back the newest operation of the session: a restore, fork, tag, delete, prune and so on, never a save.

        The undo is an operation too, so that `redo` can take it back in turn.

        Raises:
            ConflictError: Something moved since (`undo-blocked`); the hint names what to do instead.
            NotFoundError: There is nothing to undo (`nothing-to-undo`), or gc removed what it would bring back
                (`undo-gone`).
        """
        return self._turn("undo")

    def redo(self) -> Undone:
        """Bring back what the last undo took, until something else is done.

        Raises:
            ConflictError: Something moved since (`undo-blocked`); the hint names what to do instead.
            NotFoundError: There is nothing to redo (`nothing-to-redo`), or gc removed what it would bring back
                (`undo-gone`).
        """
        return self._turn("redo")

    def operations(self, *, limit: int | None = 20) -> list[OperationInfo]:
        """List what was done to the history of the session, newest first: everything but saves."""
        return operations.list_operations(self._writer.place, check_limit(limit))

    def _turn(self, verb: str) -> Undone:

        turn = operations.reverse(self._writer.place, verb)
        if turn.moved:
            self._writer.go_on(turn.branch, turn.undone.head)
        if turn.lost is not None:
            # The branch is gone and others are not: the next save should not begin a new line without being asked to.
            self._writer.expected = turn.lost
        return turn.undone

    def diff(self, a: Ref = "@~1", b: Ref = "@", *, path: str | None = None) -> Diff:
        """Return what differs between two states, reading only that: by default what the newest checkpoint changed.

        Equal means of the same type and value: 1, 1.0 and True differ, and so does a dict whose keys stand in another
        order. An item of a list that is a dict or an object with an `id` is the same item wherever it stands.

        Args:
            a: The checkpoint before; a ref, or a Checkpoint of any session of the store.
            b: The one after, likewise.
            path: Only this part of both: `messages`, `beliefs.b7`. What only one of them has was added or removed.

        Raises:
            NotFoundError: A ref names nothing, or neither state has anything at `path`.
            IntegrityError: What had to be read is damaged.
        """
        from holdfast.store.diff import diff_refs

        return diff_refs(self._writer.place, self._writer.parts.types, a, b, path=path)

    def diverge(self, a: Ref, b: Ref = "@") -> Divergence:
        """Return where two lines of work differ first, and how: two branches, sessions or executions.

        They are compared step by step from the checkpoint where they part, or from their beginnings where they have
        none in common. States are compared by their roots; only the two that differ are read.

        Args:
            a: The newest checkpoint of one line; a ref, or a Checkpoint of any session of the store.
            b: That of the other line, likewise.

        Raises:
            NotFoundError: A ref names nothing.
        """
        from holdfast.store.search.diverge import diverge

        return diverge(self._writer.place, self._writer.parts.types, a, b)

    def label(self, ref: Ref = "@") -> str:
        """Return what to call a checkpoint: its message, or else what it changed: `+2 messages, score 0.41 to 0.63`."""
        from holdfast.store.diff import label_of

        return label_of(self._writer.place, self._writer.parts.types, ref)

    def merge(
        self,
        ref: Ref,
        *,
        resolve: Resolve = None,
        message: str = "",
        dry_run: bool = False,
        tags: Iterable[str] = (),
    ) -> MergeReport:
        """Merge a checkpoint, with all that led to it, into the branch in use: what both changed since they parted.

        Dicts are merged by key and objects by field, lists by the `id` of their items or as sequences, texts by lines;
        everything else is one thing. One checkpoint is written, with two parents, and `undo` takes it back. If a
        conflict is left, nothing is written, and the report has it. Where the checkpoint at which both met last is gone
        for good (`base_exact`), everything that differs is a conflict.

        Args:
            ref: What to merge: a branch, or any other ref; or a Checkpoint of another session that began as a fork.
            resolve: Who decides on conflicts: "ours", "theirs", a function that gets a `MergeConflict` and returns the
                value (`ABSENT` for none, the conflict itself to leave it open), or a dict of these by path, in which
                `*` is any step: `{"messages": "ours", "beliefs.*.confidence": lambda c: max(c.ours, c.theirs)}`.
                Places in lists count from the beginning, as those of the conflicts do.
                A path without a `*` that decided nothing is in `unused` of the report.
            message: What happened, for people; says what was merged unless given.
            dry_run: Work it out and write nothing.
            tags: Labels of the new checkpoint.

        Raises:
            ConflictError: The branch moved since this Session saw it.
            NotFoundError: `ref` names nothing, or has no checkpoint in common with the branch (`no-common-ancestor`).
            InvalidInputError: `resolve` is none of these, returned what cannot be kept, or has a path without a `*` at
                which neither side has anything, while there are conflicts elsewhere.
        """
        from holdfast.store.merge import check_wanted, merge

        writer = self._writer
        wanted = check_wanted(ref, message, tags, dry_run=dry_run)
        report = merge(writer.place, writer.parts, writer.expected, wanted, resolve)
        if report.checkpoint is not None:
            writer.went_on(report.checkpoint)
        return report

    def bisect(
        self,
        predicate: Callable[[Any], Any] | str,
        *,
        good: Ref | None = None,
        bad: Ref | None = None,
        path: str | None = None,
        check: Literal["ends", "all"] = "ends",
        progress: Callable[[Checkpoint, bool | None, int], None] | None = None,
    ) -> BisectReport:
        """Return the first checkpoint where something holds, loading few states: 12 at most for 1,000 checkpoints.

        It has to be monotonic for that: once it holds, it holds for good. What the report says of `found` and `before`
        was tested; `check` says how much of the rest is. States with the same root are loaded once.

        Args:
            predicate: A function that takes a state and says whether it holds; it may return `holdfast.Skip`. Or an
                expression over the state, which runs no code: `messages[-1].role == "tool" and score < 0.5`. What an
                expression asks for and a state does not have is unknown there: neither it nor its contrary holds.
            good: A checkpoint where it does not hold yet; the first of the history unless given.
            bad: A later one where it holds; the head unless given.
            path: Load this part of each state only, and judge that. A state without it is one where it does not hold.
            check: "ends": the oldest and the newest are tested, the rest is assumed. "all": every state, and the answer
                is exact whether it is monotonic or not.
            progress: Called after each test with the checkpoint, whether it holds (None: skipped) and how many states
                lie between the two nearest answers.

        Raises:
            NotFoundError: It does not hold at the newest checkpoint (`never-holds`), or a ref names nothing.
            InvalidInputError: The predicate raised (`predicate-failed`, with the checkpoint and the cause), the
                expression is none (`bad-expression`), or it holds at `good` already.
            IntegrityError: No state could be read. Single ones are skipped, with a note.
        """
        from holdfast.store.search.bisect import bisect

        return bisect(
            self._writer.place,
            self._writer.parts.types,
            predicate,
            good=good,
            bad=bad,
            path=path,
            check=check,
            progress=progress,
        )

    def blame(self, path: str, ref: Ref = "@") -> Blame:
        """Return who set what is at a path: the checkpoint, what it set, and what was there before.

        Every state back to the change is looked into, each root once, and no change is missed. Where the value came in
        by a merge, it is the checkpoint that set it on the merged line, and `merges` names the merge.

        Args:
            path: Which part: `beliefs.b7.confidence`, `messages[-1].role`.
            ref: From which checkpoint on to look back.

        Raises:
            NotFoundError: No state has anything there (`path-missing`), or `ref` names nothing.
            InvalidInputError: The path is none (`bad-path`).
            IntegrityError: No state could be read. Single ones are skipped, with a note in the report.
        """
        from holdfast.store.search.changes import blame

        return blame(self._writer.place, self._writer.parts.types, path, ref)

    def history_of(
        self, path: str, ref: Ref = "@", *, oldest_first: bool = False, limit: int | None = None
    ) -> Findings[PathChange]:
        """Return each change of what is at a path, newest first, as they are found.

        Values are compared as they are stored, and only those that changed are built. Every state with a root of its
        own is looked into for that part, and no change is missed.

        Args:
            path: Which part: `score`, `beliefs.b7.confidence`.
            ref: From which checkpoint on to look back; or a range, `#10..#90`.
            oldest_first: From the beginning on; all of them are looked for first.
            limit: At most so many changes.

        Raises:
            NotFoundError: No state has anything there (`path-missing`, when the history was gone through), or `ref`
                names nothing.
            InvalidInputError: The path is none (`bad-path`).
            IntegrityError: No state could be read. Single ones are skipped, with a warning and in `notes` of what is
                returned.
        """
        from holdfast.store.search.changes import history_of

        check_limit(limit)
        place, types = self._writer.place, self._writer.parts.types
        return history_of(place, types, path, ref, oldest_first=oldest_first, limit=limit)

    def grep(
        self,
        pattern: str,
        ref: Ref | None = None,
        *,
        path: str | None = None,
        regex: bool = False,
        ignore_case: bool = False,
        limit: int | None = None,
    ) -> Findings[GrepMatch]:
        """Return where texts that match came in: newest checkpoint first, as they are found.

        What each checkpoint changed is searched, so a text that stays in the state is found once, where it was written.
        A text that was edited counts if a match touches what was edited. Keys and bytes do not count.

        Args:
            pattern: The words to look for, as they are.
            ref: From which checkpoint on to look back; or a range, `#10..#90`. Without it, all branches are searched.
            path: Only in this part of each state; `.notes` says so if no state has anything there.
            regex: The pattern is a regular expression; needs `holdfast[query]`. One that takes more than a second on
                a text is refused then.
            ignore_case: Capital and small letters are the same.
            limit: At most so many matches.

        Raises:
            InvalidInputError: The pattern is none, or takes too long (`bad-pattern`).
            NotFoundError: `ref` names nothing.
            IntegrityError: No state could be read. Single ones are skipped, with a warning and in `notes` of what is
                returned.
            UnsupportedError: A regular expression, and the library for it is not installed.
        """
        from holdfast.store.search.grep import grep, pattern_spans

        check_limit(limit)
        spans = pattern_spans(pattern, regex=regex, ignore_case=ignore_case)
        return grep(self._writer.place, spans, ref, path=path, limit=limit)

    def export(
        self,
        ref: Ref | Iterable[Ref] = "@",
        path: str | Path | BinaryIO = "checkpoints/",
        *,
        format: str | None = None,  # noqa: A002 - what a person calls it
        session: bool = False,
        force: bool = False,
        dry_run: bool = False,
    ) -> ExportReport:
        """Write checkpoints with their states to a file or a folder.

        The end of the name says how: `.json` is one checkpoint, readable, with a line for each value; `.json.gz` the
        same, compressed; `.jsonl` has one checkpoint a line and is appended to, by several writers at once if need be;
        `.html` is a page with a timeline, the states and what changed, which opens without a server and cannot be
        imported. A path that ends with `/`, or is a folder, gets a file for each checkpoint, named
        `YYYYMMDD-HHMMSS-xxxx.json.gz` by its time in UTC and the first digits of its id. A file that is replaced or
        made appears whole, and what was there is there until then.

        Args:
            ref: The checkpoint; or a range such as `main~5..main`, or several of both. A range with nothing in it is
                refused where it is alone, and a warning beside others.
            path: The file or folder; or a file that was opened to write bytes. A link is followed, and stays a link.
            format: json, json.gz, jsonl, jsonl.gz or html, where the name does not say it; where it does, the same.
            session: The whole session with its branches, in .jsonl, .jsonl.gz or .html; `ref` does not matter then.
            force: Write over a file that is there, also over one of lines. Lines are appended and folders are added to
                without it.
            dry_run: Write nothing; the report says about how large it would be.

        Raises:
            NotFoundError: There is no such checkpoint.
            InvalidInputError: The file is there already, or is that of a whole session, to which nothing is appended
                (`path-exists`); or it does not fit what is to be written, or is no ordinary file (`bad-argument`).
            BackendError: The file cannot be written.
        """
        from holdfast.store.archive.export import export

        return export(
            self._writer.place, ref, path, format=format, session=session, force=force, dry_run=dry_run
        )


def check_limit(limit: int | None) -> int | None:
    """Return `limit` if it can bound a listing."""
    if limit is None or (type(limit) is int and limit > 0):
        return limit
    raise InvalidInputError(
        f"limit must be a whole number above 0, not {limit!r}",
        code=ErrorCode.BAD_ARGUMENT,
        hint="leave it out for everything",
    )


def _knowing(types: TypeRegistry, as_: Any) -> TypeRegistry:
    """A class to load as is known for that load, registered or not."""
    return types.child([as_]) if isinstance(as_, type) and can_register(as_) else types
