"""Session: one line of work of one agent, seen by one writer.

A Session remembers the head it has seen. Loading or looking at the tip, and saving, set that expectation; the next
save is refused with ConflictError if the branch has moved since, so that no update is lost by accident. A Session that
has read nothing appends to the head there is. One Session is one writer: give each thread its own (`store.session()`
makes a new one each time, and costs nothing until it is used).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from itertools import islice
from typing import TYPE_CHECKING, Any

from holdfast.errors import ConflictError, ErrorCode, IntegrityError, InvalidInputError, NotFoundError
from holdfast.history.checkpoint import Checkpoint
from holdfast.history.names import check_branch, check_label, check_session, check_tags
from holdfast.history.refs import is_range, resolve_range
from holdfast.history.walk import ancestors
from holdfast.objects.registry import TypeRegistry, can_register
from holdfast.objects.state import EncodedState, decode_state
from holdfast.storage.ports import Reader
from holdfast.storage.records import Claim, Query
from holdfast.store.composition import Composition
from holdfast.store.draft import check_draft, check_text
from holdfast.store.place import session_of
from holdfast.store.saving import UNSET, OnConflict, Unset
from holdfast.store.writer import Writer

# Branches, undo and removal are imported by the methods that need them: a process that only saves is started faster.
if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.history.keep import Keep
    from holdfast.history.lineage import Tree
    from holdfast.store.branching import BranchInfo
    from holdfast.store.document import Document
    from holdfast.store.looking import Around
    from holdfast.store.pruning import PruneReport
    from holdfast.store.recovering import Recovered
    from holdfast.store.undoing import OperationInfo, Undone

Ref = str | Checkpoint


class Session:
    """One line of work; made by `store.session(...)`."""

    def __init__(
        self,
        parts: Composition,
        session: str,
        *,
        agent: str | None,
        project: str | None,
        branch: str,
        keep: Keep | None = None,
    ) -> None:
        claim = Claim(
            session=check_session(session),
            agent=check_label(agent, "agent"),
            project=check_label(project, "project"),
        )
        self._writer = Writer(parts, claim, check_branch(branch), keep)

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

        Raises:
            InvalidInputError: The state or an argument cannot be kept; the message has the path. Nothing is written.
            ConflictError: The branch moved since this Session saw it, or the key names another state.
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
            from holdfast.store.recovering import load_intact

            value = load_intact(self._writer, ref, path, types)
        if as_ is None:
            return value
        from holdfast.objects.build import build

        return build(value, as_, types)

    def recover(self, ref: Ref = "@") -> Recovered:
        """Return the newest state that is whole, at or before `ref`, and what had to be passed over for it.

        The next save goes on from the head of the branch, damaged or not: history stays as it was.

        Raises:
            NotFoundError: `ref` names nothing.
            IntegrityError: Nothing at or before `ref` can be read (`nothing-intact`).
        """
        from holdfast.store.recovering import recover

        return recover(self._writer, ref)

    def document(self, ref: Ref = "@", *, default: Any = UNSET) -> Document:
        """Return a state as a Document: a dict or list that knows what changed in it, and saves only that.

        The Document is a writer of its own. It expects the checkpoint that it was made from to be the head when it is
        saved, and goes on from what it saved; what this Session loads or saves meanwhile does not matter to it.

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
        from holdfast.history.lineage import tree_of

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
        from holdfast.store.looking import look_around

        return look_around(self._writer.place, when, tag=tag, all_branches=all_branches)

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

    def annotate(
        self, ref: Ref, *, message: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> Checkpoint:
        """Edit the message of a checkpoint, or lay metadata over what it has; the id stays the same."""
        from holdfast.store import changing

        return changing.annotate(self._writer.place, ref, message=message, metadata=metadata)

    def tag(self, ref: Ref, *tags: str) -> Checkpoint:
        """Put labels on a checkpoint."""
        from holdfast.store import changing

        return changing.retag(self._writer.place, ref, add=check_tags(tags))

    def untag(self, ref: Ref, *tags: str) -> Checkpoint:
        """Take labels off a checkpoint."""
        from holdfast.store import changing

        return changing.retag(self._writer.place, ref, remove=check_tags(tags))

    def pin(self, ref: Ref) -> Checkpoint:
        """Protect a checkpoint: deleting it needs force, and retention keeps it."""
        from holdfast.store import changing

        return changing.set_pin(self._writer.place, ref, pinned=True)

    def unpin(self, ref: Ref) -> Checkpoint:
        """End the protection of a checkpoint."""
        from holdfast.store import changing

        return changing.set_pin(self._writer.place, ref, pinned=False)

    def delete(self, ref: Ref, *, force: bool = False) -> Checkpoint:
        """Remove a checkpoint from history and return its record; deleting the tip moves the branch back.

        The row is hidden, and goes for good only with gc; until then `undo` brings it back. A pinned checkpoint, or
        one where branches part, needs `force`.
        """
        from holdfast.store.removing import delete

        row, owner = delete(self._writer.place, ref, force=force)
        if not isinstance(self._writer.expected, Unset) and self._writer.expected == row.id:
            self._writer.expected = row.prev
        return Checkpoint(row, owner)

    def prune(self, keep: Keep, *, dry_run: bool = False) -> PruneReport:
        """Remove the checkpoints that a policy does not keep, and say why each stays or goes.

        They are hidden, and go for good only with gc; `undo` brings them back until then. The tips of branches, the
        checkpoints where branches part and pinned ones always stay. With `per="agent"`, all sessions of this session's
        agent are pruned.

        Args:
            keep: The policy, such as `Keep(last=100, days=7)`.
            dry_run: Only say what would go.
        """
        from holdfast.store.pruning import prune

        parts = self._writer.parts
        return prune(parts.backend, self.id, self.branch, keep, now=parts.clock(), dry_run=dry_run)

    def clear(self, *, force: bool = False) -> int:
        """Remove every checkpoint and every branch of the session; return how many checkpoints that were.

        They are hidden, as with `delete`, and one `undo` brings them back. If one of them is pinned, it needs `force`.
        """
        from holdfast.store.removing import clear

        removed = clear(self._writer.place, force=force)
        self._writer.expected = None
        return removed

    def fork(self, ref: Ref = "@", name: str | None = None, *, session: str | None = None) -> Session:
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
        from holdfast.store.branching import fork

        place, made = fork(self._writer.place, ref, name, session)
        claim = place.claim
        forked = Session(
            self._writer.parts,
            claim.session,
            agent=claim.agent,
            project=claim.project,
            branch=place.branch,
            keep=self._writer.keep,
        )
        forked._writer.go_on(place.branch, made)
        return forked

    def restore(self, ref: Ref) -> Checkpoint:
        """Go back: save the state of a checkpoint as a new one at the tip of the branch in use.

        Nothing is taken away. What was the head stays in history, right behind the new checkpoint, and `undo` makes it
        the head again.

        Raises:
            ConflictError: The branch moved since this Session saw it.
            NotFoundError: `ref` names nothing in this session.
        """
        from holdfast.store.branching import restore

        made = restore(self._writer.place, ref, self._writer.expected)
        self._writer.go_on(self.branch, made)
        return made

    def branches(self) -> list[BranchInfo]:
        """List the branches of the session with their heads, by name."""
        from holdfast.store.branching import list_branches

        return list_branches(self._writer.place)

    def switch(self, name: str, *, remember: bool = False) -> Checkpoint:
        """Go on with another branch from here on; return its head, which the next save expects.

        Args:
            name: The branch.
            remember: Also make it the branch that the command line is on where none is named. Without it this Session
                alone is switched.

        Raises:
            NotFoundError: There is no such branch (`branch-missing`).
        """
        from holdfast.store.branching import switch

        head = switch(self._writer.place, name, remember=remember)
        self._writer.go_on(name, head)
        return head

    def rename_branch(self, old: str, new: str) -> BranchInfo:
        """Give a branch another name; this Session goes on with it if it is the branch in use.

        Raises:
            NotFoundError: There is no branch `old` (`branch-missing`).
            ConflictError: There is a branch `new` already (`branch-exists`).
        """
        from holdfast.store.branching import rename

        renamed = rename(self._writer.place, old, new)
        if self.branch == old:
            self._writer.branch = new
        return renamed

    def delete_branch(self, name: str, *, force: bool = False) -> Checkpoint:
        """Remove a branch and return the checkpoint it was at. Its checkpoints stay.

        The branch in use, the last one, and one that alone leads to its newest checkpoint need `force`. It can be
        undone in any case.
        """
        from holdfast.store.branching import drop

        head = drop(self._writer.place, name, force=force)
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
        from holdfast.store.undoing import operations

        return operations(self._writer.place, check_limit(limit))

    def _turn(self, verb: str) -> Undone:
        from holdfast.store.undoing import reverse

        turn = reverse(self._writer.place, verb)
        if turn.moved:
            self._writer.go_on(turn.branch, turn.undone.head)
        if turn.lost is not None:
            # The branch is gone and others are not: the next save should not begin a new line without being asked to.
            self._writer.expected = turn.lost
        return turn.undone

    def _load(self, ref: Ref, path: str | None, types: TypeRegistry) -> Any:
        with self._reader() as reader:
            row = self._writer.find(reader, ref)
            self._writer.notice(reader, row)
            if path is None:
                return decode_state(row.root, reader.chunks, types)
            from holdfast.objects.selection import select_part

            return select_part(row.root, path, reader.chunks, types)

    def _between(self, reader: Reader, text: str, limit: int | None) -> list[Checkpoint]:
        found = resolve_range(reader, self.id, self.branch, text, now=self._writer.parts.clock())
        return [Checkpoint(row, session_of(reader, row)) for row in islice(found, limit)]

    def _reader(self) -> AbstractContextManager[Reader]:
        return self._writer.parts.backend.reader()

    def __repr__(self) -> str:
        return f"<Session {self.id!r} on {self.branch!r} of {self._writer.parts.backend.url}>"


def _knowing(types: TypeRegistry, as_: Any) -> TypeRegistry:
    """A class to load as is known for that load, registered or not."""
    return types.child([as_]) if isinstance(as_, type) and can_register(as_) else types


def check_limit(limit: int | None) -> int | None:
    """Return `limit` if it can bound a listing."""
    if limit is None or (type(limit) is int and limit > 0):
        return limit
    raise InvalidInputError(
        f"limit must be a whole number above 0, not {limit!r}",
        code=ErrorCode.BAD_ARGUMENT,
        hint="leave it out for everything",
    )
