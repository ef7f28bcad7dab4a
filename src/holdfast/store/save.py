"""How a save becomes one commit: check, choose the parent, commit, settle; and what a writer remembers between saves.

Everything is planned from one view of the store and committed with the head that was read as a condition. If somebody
moved the head in between, what happens depends on what the writer had seen:

- it had seen nothing: it only wants to append, so it reads again and tries again;
- it had seen another head with the same state: it goes on from the head there is;
- it had seen another state (by loading or saving, or through `expect=`): ConflictError, nothing written;
- the same with `on_conflict="fork"`: the checkpoint goes onto a new branch, beside the head that is there.

A commit that ends in an error of the store may have taken place. It is looked for at once; where that leaves the
question open, the writer keeps the row, and its next save looks for it first. If it is there, the writer goes on as if
that save had returned, and the same save once more is answered with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import (
    BackendError,
    ConflictError,
    ErrorCode,
    HoldfastError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
)
from holdfast.history.checkpoint import Checkpoint, new_row
from holdfast.history.refs import find_head, missing_head, resolve
from holdfast.objects.tree.state import EncodedState, decode_state, encode_state
from holdfast.record import Record
from holdfast.storage.ports import Backend, Reader
from holdfast.storage.records import (
    Batch,
    CheckpointId,
    CheckpointRow,
    ChunkHash,
    Claim,
    Guard,
    Move,
    Query,
    SessionRow,
)
from holdfast.store.composition import Composition
from holdfast.store.draft import Draft
from holdfast.store.place import (
    ATTEMPTS,
    UNSET,
    Expectation,
    OnConflict,
    Place,
    Ref,
    Unset,
    free_branch,
    is_expected,
    read_again,
)

if TYPE_CHECKING:
    from holdfast.history.keep import Keep
    from holdfast.objects.tree.memo import StateMemo
    from holdfast.storage.leases import Fence
    from holdfast.store.archive.export_dir import ExportFolder
    from holdfast.store.document import DocumentKinds
    from holdfast.store.keep import Retirement, SaveRetention
    from holdfast.store.lease import HeldLease

_WITH_RETENTION: Final = 2
"""Attempts to remove old checkpoints in the commit of a save. Whatever is wrong with them then, the save goes first."""
_MOST_KEPT: Final = 64
"""More than there are saves under way at once: each relies on a state that was saved before it was encoded."""
_WHOLE_ID: Final = re.compile("[0-9a-fA-F]{64}")
_NAME: Final = re.compile("[^@#~:]+")


Wanted = tuple[str, Expectation, str | None, OnConflict]
"""A branch, what is expected of it, the parent that was named, and what to do where it is not as expected."""


class Saved(Record):
    """What came of a save."""

    row: CheckpointRow
    owner: SessionRow
    """The session, as far as its agent and project go."""
    wrote: bool
    """False where the key named this state already, and nothing was written."""
    forked: bool = False
    """Whether it went beside the head that was there, because that was not the expected one."""
    retired: Retirement | None = None
    """What retention removed with it."""


class Unsettled(Record):
    """A save that ended in an error, and of which nobody knows yet whether it took place."""

    row: CheckpointRow
    draft: Draft
    wanted: Wanted
    retired: Retirement | None


class Intent(Record):
    """What the caller wants of the branch: where from, and what to do when it is not as expected."""

    claim: Claim
    branch: str
    expected: Expectation
    parent: Ref | None
    on_conflict: OnConflict
    kept: Mapping[ChunkHash, CheckpointId]
    """Checkpoints of states that this writer loaded or saved, by root: what an encoded state may rely on."""
    last: Saved | None
    """What this writer saved last."""
    is_told: bool
    """Whether the caller said what is expected, and not only what this writer has seen."""
    unsettled: list[Unsettled]
    """Of this writer: a save that stays open is added to it."""
    fence: Fence | None
    """The lease that has to be held for anything to be written."""
    leads: bool
    """Also move the session's current branch when this save forks."""
    went_back: bool
    """Whether this writer went back to what it expects on purpose: going on beside the head is no conflict then."""
    retention: SaveRetention | None
    """Finds what goes in the commit of this save."""

    @property
    def wanted(self) -> Wanted:
        """What is the same when the same save is asked for again."""
        parent = self.parent.id if isinstance(self.parent, Checkpoint) else self.parent
        return self.branch, self.expected, parent, self.on_conflict

    @property
    def begins_branch(self) -> bool:
        """Whether the caller said that there is no such branch yet. Who has merely seen nothing may have mistyped."""
        return self.is_told and self.expected is None


class SaveTarget(Record):
    """Where one attempt writes: a child of `parent` on `branch`, whose head must be `expected`."""

    branch: str
    parent: CheckpointRow | None
    expected: CheckpointId | None
    forked: bool = False


class Snapshot(Record):
    """What one view of the store says about a save."""

    target: SaveTarget
    owner: SessionRow
    known: SessionRow | None = None
    """The session as it is."""
    existing: CheckpointRow | None = None
    """The checkpoint that the key names already, with the same state; then there is nothing to write."""
    settled: Unsettled | None = None
    """Where that is what the same save wrote before, when it ended in an error."""


_NOWHERE: Final = SaveTarget("", None, None)


class Writer:
    """One writer on one branch of one session: the head it has seen, and which states it knows to be in the store.

    Seeing the tip and saving set the head that the next save expects, so that no update is lost by accident; naming an
    older checkpoint does not. A Session has one writer, and its Documents share it.
    """

    def __init__(
        self,
        parts: Composition,
        claim: Claim,
        branch: str | None,
        keep: Keep | None = None,
        lease: HeldLease | None = None,
        files: ExportFolder | None = None,
    ) -> None:
        self.parts = parts
        self.claim = claim
        self.follows_current = branch is None
        """Whether nobody named a branch: then it is the session's current one."""
        self._branch = branch
        if keep is not None:
            # Only a session that is given a policy needs to know what one is.
            from holdfast.history.keep import check_keep

            check_keep(keep)
        self.keep = keep
        self.lease = lease
        self.files = files
        self.leads = False
        self.expected: Expectation = UNSET
        self._went_back_to: CheckpointId | None = None
        self._memo: StateMemo | None = None
        self._kept: dict[ChunkHash, CheckpointId] = {}
        self._last: Saved | None = None
        self._unsettled: list[Unsettled] = []

    @property
    def branch(self) -> str:
        """The branch in use; where none was named, the session's current one, read when it is first needed."""
        if self._branch is None:
            self._branch = self.current_branch()
        return self._branch

    @branch.setter
    def branch(self, name: str) -> None:
        self._branch = name

    def current_branch(self) -> str:
        """The current branch of the session; `main` where there is none, or it cannot be read."""
        try:
            with self.parts.backend.reader() as reader:
                row = reader.session(self.claim.session)
                if row is not None and (
                    row.current == "main" or reader.branch(row.id, row.current) is not None
                ):
                    return row.current
        except IntegrityError:
            # A damaged store: what can be found is found from `main`.
            pass
        return "main"

    @property
    def place(self) -> Place:
        """Where it stands, for operations that change what is there."""
        parts = self.parts
        return Place(parts.backend, self.claim, self.branch, parts.clock, parts.app_version, self.lease)

    def find(self, reader: Reader, ref: Ref) -> CheckpointRow:
        """The row that a ref names from where this writer stands."""
        return resolve(reader, self.claim.session, self.branch, ref, now=self.parts.clock())

    def reader_for(self, ref: Ref, known: ChunkHash | None = None) -> AbstractContextManager[Reader]:
        """A view of the store for a load of the state that a ref names. A root that is `known` need not come."""
        branch, backend, ahead = self.branch, self.parts.backend, self.parts.ahead
        if ahead is None:
            return backend.reader()
        text: object = ref.id if isinstance(ref, Checkpoint) else ref
        if text == "@":
            return ahead.reader_for(self.claim.session, branch, known)
        # Whatever else may be the name of a branch, or an id. What is no text at all is refused by who looks for it.
        if isinstance(text, str) and _NAME.fullmatch(text):
            return ahead.reader_for(self.claim.session, text, known)
        return backend.reader()

    def notice(self, reader: Reader, row: CheckpointRow) -> None:
        """Seeing the tip sets what the next save expects; seeing an older checkpoint does not."""
        branch = reader.branch(self.claim.session, self.branch)
        if branch is not None and branch.head == row.id:
            self.expected = row.id

    def go_on(self, branch: str, head: Checkpoint | None) -> None:
        """Stand on a branch whose head is this one, or that has none; the next save expects that."""
        self.branch = branch
        self.expected = None if head is None else CheckpointId(bytes.fromhex(head.id))

    def went_on(self, made: Checkpoint) -> None:
        """Stand on a checkpoint that an operation wrote for this writer just now; it has a file like one of a save."""
        self.go_on(made.branch, made)
        if self.files is not None:
            row = made._row  # noqa: SLF001 - the row that was written
            self.files.join(self.place, row, self.parts.metrics, has_retention=self.keep is not None)
            self.files.catch_up(self.place)
            self._file_open(self.files, [each.row for each in self._unsettled])
            self.files.after_operation(self.place, row)

    def go_back(self, checkpoint: CheckpointId) -> None:
        """Go on from an older checkpoint, on purpose: the next save is its child, on a branch of its own."""
        self.expected = self._went_back_to = checkpoint

    @property
    def went_back(self) -> bool:
        """Whether the next save goes on from an older checkpoint on purpose."""
        return self._went_back_to is not None and self.expected == self._went_back_to

    def encode(self, state: Any) -> EncodedState:
        """The first half of a save: bytes that no later change of the state can reach."""
        self.parts.types.begin()
        encoded = encode_state(state, self.parts.types, self._memo, cuts=self.parts.cuts)
        if encoded.relies_on is None:
            return encoded
        # Now, and not when it is written: many others may be written before.
        kept_by = self._kept.get(encoded.relies_on)
        return EncodedState(*encoded[:5], kept_by, encoded.nanoseconds)

    def save(
        self,
        encoded: EncodedState,
        draft: Draft,
        expect: Ref | Unset | None,
        parent: Ref | None,
        on_conflict: OnConflict,
    ) -> Checkpoint:
        """The second half of a save: write what was checked and encoded. AsyncSession runs it in a worker thread."""
        if on_conflict not in ("raise", "fork"):
            raise InvalidInputError(
                f"on_conflict cannot be {on_conflict!r}",
                code=ErrorCode.BAD_ARGUMENT,
                hint='use "raise" or "fork"',
            )
        began = perf_counter_ns()
        parts, is_told = self.parts, not isinstance(expect, Unset)
        if encoded.relies_on in self._kept:
            # Other saves that are under way may rely on it too: it must not be the next to be dropped.
            self._kept[encoded.relies_on] = self._kept.pop(encoded.relies_on)
        retention = None if self.keep is None else parts.retention.of_save(self.place, self.keep)
        intent = Intent(
            self.claim,
            self.branch,
            self._expectation(expect, parent),
            parent,
            on_conflict,
            self._kept,
            self._last,
            is_told,
            self._unsettled,
            None if self.lease is None else self.lease.fence,
            self.leads,
            self.went_back and not is_told,
            retention,
        )
        # The list is emptied by a save that takes place.
        open_before = [each.row for each in self._unsettled]
        try:
            saved = _save(parts.backend, intent, encoded, draft, parts.clock(), parts.app_version)
        except HoldfastError as error:
            self._count_failure(error)
            if self.lease is not None and isinstance(error, ConflictError):
                told = self.lease._noted(error)  # noqa: SLF001 - its own lease
                if told is not error:
                    raise told from error
            raise
        # Only now are the chunks in the store; before, a save that failed would have counted as kept.
        if encoded.memo is not None:
            self._memo = encoded.memo
        self._keep_root(saved.row)
        if saved.wrote:
            # Without what was retired: that would be kept until the next save.
            self._last = saved if saved.retired is None else saved._replace(retired=None)
            self._branch, self.expected = saved.row.branch, saved.row.id
            self._went_back_to = None
            if self.files is not None or retention is not None:
                self._look_after(saved, open_before, retention)
            row, took = saved.row, encoded.nanoseconds + perf_counter_ns() - began
            parts.metrics.saved(
                row.trigger, row.status, row.size_bytes, row.stored_bytes, took, forked=saved.forked
            )
        return Checkpoint(saved.row, saved.owner)

    def document(self, ref: Ref, default: Any, kinds: DocumentKinds) -> Any:
        """A Document of the state that `ref` names, saved by this writer."""
        # Imported by those who use documents: a quarter of all there is to import.
        from holdfast.store.document import make_document

        session = self.claim.session
        began = perf_counter_ns()
        with self.reader_for(ref) as reader:
            try:
                row = self.find(reader, ref)
            except NotFoundError as missing:
                if isinstance(default, Unset) and (ref != "@" or reader.branches(session)):
                    raise
                if missing.code is ErrorCode.REF_AMBIGUOUS:
                    raise
                head = find_head(reader, session, self.branch)
                value, seen = {} if isinstance(default, Unset) else default, head
                root = None
            else:
                value, seen = decode_state(row.root, reader.chunks, self.parts.types), row
                root = row.root
        document = make_document(value, kinds, self.parts.types, root, self.save, cuts=self.parts.cuts)
        self.expected = None if seen is None else seen.id
        if root is not None and seen is not None:
            self._keep_root(seen)
            self.parts.metrics.loaded(perf_counter_ns() - began)
        return document

    def _look_after(
        self, saved: Saved, open_before: Sequence[CheckpointRow], retention: SaveRetention | None
    ) -> None:
        """Write the file of a checkpoint that was saved, and see to it that no more stay than are kept."""
        files = self.files
        if files is not None:
            files.join(self.place, saved.row, self.parts.metrics, has_retention=retention is not None)
            files.catch_up(self.place)
            others = [each for each in open_before if each.id != saved.row.id]
            self._file_open(files, others)
            # One that was open itself may have its file from an operation in between.
            files.after_save(self.place, saved.row, saved.owner, is_new=len(others) == len(open_before))
        if retention is not None:
            # Last: the files of what went go with it.
            retention.done(saved.retired)

    def _file_open(self, files: ExportFolder, rows: Iterable[CheckpointRow]) -> None:
        """Write the files of checkpoints that may have taken place although their saves ended in an error."""
        for each in rows:
            # They stay open until a save takes place: by then they may have been here several times.
            files.after_operation(self.place, each, is_new=False)

    def _count_failure(self, error: HoldfastError) -> None:
        if isinstance(error, ConflictError):
            # Whatever happened to the branch or the store, the next save sends the whole state.
            self._memo = None
        # That one is answered by sending the whole state: most callers never hear of it.
        if error.code is not ErrorCode.CHUNKS_GONE:
            moved = error.code is ErrorCode.BRANCH_MOVED
            self.parts.metrics.save_failed(error.code.value, conflict=moved)

    def _keep_root(self, row: CheckpointRow) -> None:
        """Remember that the chunks of this state are in the store for as long as this checkpoint is."""
        self._kept.pop(row.root, None)
        self._kept[row.root] = row.id
        if len(self._kept) > _MOST_KEPT:
            del self._kept[next(iter(self._kept))]

    def _expectation(self, expect: Ref | Unset | None, parent: Ref | None) -> Expectation:
        if isinstance(expect, Unset):
            # Naming the parent says what the writer builds on, so what it saw before does not matter.
            return self.expected if parent is None else UNSET
        if expect is None:
            return None
        if isinstance(expect, Checkpoint):
            expect = expect.id
        if _WHOLE_ID.fullmatch(expect):
            # Known without reading, and still an answer when the checkpoint has been deleted: it is not the head.
            return CheckpointId(bytes.fromhex(expect))
        with self.parts.backend.reader() as reader:
            return self.find(reader, expect).id


def _save(
    backend: Backend,
    intent: Intent,
    encoded: EncodedState,
    draft: Draft,
    now: int,
    app_version: str | None,
) -> Saved:
    """Commit one checkpoint; the same key and root again gives the one that is there.

    Raises:
        ConflictError: The branch is not where the writer expects it, or the key names another state.
        NotFoundError: The branch or the parent does not exist.
    """
    last, retention = _follows_own_save(intent), intent.retention
    with ExitStack() as turn:
        for attempt in range(ATTEMPTS):
            if attempt == 1:
                # Many who append to one branch would lose round after round to each other.
                turn.enter_context(backend.turn(intent.claim.session))
            follows_own_save = last is not None and attempt == 0
            if last is not None and attempt == 0:
                # Nothing has to be read: if the head is still what this writer saved last, the commit finds it so. It
                # finds a key that is taken as well; what that means is read then.
                seen = Snapshot(SaveTarget(intent.branch, last.row, last.row.id), last.owner)
            else:
                seen = read_again(partial(_read_target, backend, intent, encoded, draft, now))
            if seen.existing is not None:
                if seen.settled is not None:
                    intent.unsettled.clear()
                    return Saved(seen.existing, seen.owner, wrote=True, retired=seen.settled.retired)
                return Saved(seen.existing, seen.owner, wrote=False)
            row = _new_row(seen.target, encoded, draft, intent, now, app_version)
            retired = None
            if retention is not None and attempt < _WITH_RETENTION:
                retired = retention.plan(row, seen.target.branch)
            batch = _batch(intent, seen, encoded, draft, row, retired, now)
            try:
                saved = _commit(backend, batch, intent, draft, retired)
            except ConflictError as conflict:
                if not _may_pass(conflict, key_is_unread=follows_own_save and draft.key is not None):
                    raise
                continue
            if isinstance(saved, HoldfastError):
                # There may be no room or no right to remove what is old, or it is damaged: the save goes alone.
                assert retention is not None
                retention.trouble, retention = saved, None
                continue
            # What was not there before this save cannot come any more: its branch is not where it has to be.
            intent.unsettled.clear()
            return Saved(saved, seen.owner, wrote=True, forked=seen.target.forked, retired=retired)
    raise ConflictError.session_changed(intent.claim.session)


def _may_pass(conflict: ConflictError, *, key_is_unread: bool) -> bool:
    """Whether another attempt may come to something else.

    Another writer came first, or the key is taken: the next view decides what that means for this one. A key that names
    this state already needs no chunks.
    """
    if conflict.code is ErrorCode.CHUNKS_GONE:
        return key_is_unread
    return conflict.code not in (ErrorCode.LEASE_LOST, ErrorCode.ROW_CONFLICT)


def _follows_own_save(intent: Intent) -> Saved | None:
    """What this writer saved last, where the new checkpoint simply follows it."""
    last = intent.last
    if last is None or intent.parent is not None or intent.unsettled:
        return None
    return last if (intent.branch, intent.expected) == (last.row.branch, last.row.id) else None


def _batch(
    intent: Intent,
    seen: Snapshot,
    encoded: EncodedState,
    draft: Draft,
    row: CheckpointRow,
    retired: Retirement | None,
    now: int,
) -> Batch:
    target, known = seen.target, seen.known
    guard = None
    if target.parent is not None and target.parent.id != target.expected and known is not None:
        # A parent that is the head is kept by the move, which names it. Any other could be removed meanwhile, and the
        # new checkpoint would follow one that is not there.
        guard = Guard(known.log_count, known.last_seq)
    # In the same commit, so that nobody ever finds a branch that was left. Who has gone elsewhere stays there.
    leaves = known is not None and known.current == intent.branch != target.branch
    batch = Batch(
        claim=intent.claim,
        at=now,
        chunks=encoded.chunks,
        checkpoints=(row,),
        moves=(Move(target.branch, target.expected, row.id),),
        guard=guard,
        relies_on=_relied_on(intent, encoded),
        fence=intent.fence,
        switch_to=target.branch if intent.leads and leaves else None,
        rows=draft.rows,
    )
    return batch if retired is None else retired.into(batch)


def _relied_on(intent: Intent, encoded: EncodedState) -> CheckpointId | None:
    if encoded.relies_on is None:
        return None
    known = encoded.kept_by or intent.kept.get(encoded.relies_on)
    if known is None:
        # Encoded by another writer, or so long ago that this one has forgotten what it left out.
        raise ConflictError(
            "what was encoded builds on a state that this Session does not know, or not any more",
            code=ErrorCode.CHUNKS_GONE,
            hint="encode the state again, with the Session that saves it",
            session=intent.claim.session,
        )
    return CheckpointId(known)


def _new_row(
    target: SaveTarget,
    encoded: EncodedState,
    draft: Draft,
    intent: Intent,
    now: int,
    app_version: str | None,
) -> CheckpointRow:
    return new_row(
        intent.claim.session,
        target.branch,
        () if target.parent is None else (target.parent,),
        encoded.root,
        encoded.size_bytes,
        at=now if draft.created_at is None else draft.created_at,
        app_version=app_version,
        trigger=draft.trigger,
        status=draft.status,
        step=draft.step,
        message=draft.message,
        metadata=draft.metadata,
        tokens=draft.tokens,
        cost_usd=draft.cost_usd,
        duration_ms=draft.duration_ms,
        key=draft.key,
        tags=draft.tags,
    )


def _commit(
    backend: Backend, batch: Batch, intent: Intent, draft: Draft, retired: Retirement | None
) -> CheckpointRow | HoldfastError:
    """Commit; where the reply was an error, settle whether it took place.

    Return the error if it did not, but can be tried again without retention; otherwise raise it.
    """
    row = batch.checkpoints[0]
    try:
        return backend.commit(batch).checkpoints[0]
    except ConflictError:
        raise
    except HoldfastError as trouble:
        return _settle(backend, intent, draft, row, trouble, retired) or trouble
    except BaseException:
        # Ctrl-C, say, after the store had done it: the next save would take its own checkpoint for another's.
        intent.unsettled.append(Unsettled(row, draft, intent.wanted, retired))
        raise


def _settle(
    backend: Backend,
    intent: Intent,
    draft: Draft,
    row: CheckpointRow,
    failure: HoldfastError,
    retired: Retirement | None,
) -> CheckpointRow | None:
    """Find out whether a commit whose reply was an error took place after all.

    Return None if it did not, but can be tried again without retention; otherwise raise the error.
    """
    removes = retired is not None and bool(retired.gone)
    if not isinstance(failure, BackendError):
        # It was refused.
        if removes:
            return None
        raise failure
    try:
        with backend.reader() as reader:
            found = reader.checkpoint(row.id)
    except BaseException as error:
        intent.unsettled.append(Unsettled(row, draft, intent.wanted, retired))
        if not isinstance(error, HoldfastError):
            raise
        # The store cannot be read either: the first failure is the one to report.
        raise failure from None
    if found is None and failure.details.get("outcome") == "unknown":
        # A server may still be at it.
        intent.unsettled.append(Unsettled(row, draft, intent.wanted, retired))
        raise failure
    if found is None and not removes:
        raise failure
    return found


def _read_target(backend: Backend, intent: Intent, encoded: EncodedState, draft: Draft, now: int) -> Snapshot:
    """Read what a save needs to know: where it goes, or what is there already.

    Raises:
        ConflictError: The branch is not where the writer expects it, or the key names another state.
        NotFoundError: The branch or the parent does not exist.
    """
    claim = intent.claim
    with backend.reader() as reader:
        known = reader.session(claim.session)
        if known is None:
            owner = SessionRow(id=claim.session, agent=claim.agent, project=claim.project, created_at=now)
        else:
            owner = known._replace(agent=known.agent or claim.agent, project=known.project or claim.project)
        if (late := _arrived(reader, intent)) is not None:
            if (late.row.root, late.draft, late.wanted) == (encoded.root, draft, intent.wanted):
                return Snapshot(_NOWHERE, owner, known, late.row, late)
            if intent.parent is None and not intent.is_told:
                intent = intent._replace(branch=late.row.branch, expected=late.row.id)
        if draft.key is not None:
            existing = _with_key(reader, claim.session, draft.key, encoded)
            if existing is not None:
                return Snapshot(_NOWHERE, owner, known, existing)
        return Snapshot(_choose(reader, intent, now), owner, known)


def _arrived(reader: Reader, intent: Intent) -> Unsettled | None:
    """The newest save of this writer that took place after all, as long as the writer stands where it stood then."""
    for each in reversed(intent.unsettled):
        if each.wanted[:2] == (intent.branch, intent.expected):
            found = reader.checkpoint(each.row.id)
            if found is not None and not found.hidden:
                return each._replace(row=found)
    return None


def _with_key(reader: Reader, session: str, key: str, encoded: EncodedState) -> CheckpointRow | None:
    found = reader.checkpoints(Query(session=session, key=key, include_hidden=True, limit=1))
    if not found:
        return None
    if found[0].hidden:
        raise ConflictError.key_taken(session, key, existing=found[0].id, why="which was deleted")
    if found[0].root != encoded.root:
        raise ConflictError.key_taken(session, key, existing=found[0].id)
    return found[0]


def _choose(reader: Reader, intent: Intent, now: int) -> SaveTarget:
    session, branch, expected = intent.claim.session, intent.branch, intent.expected
    head = find_head(reader, session, branch)
    head_id = head.id if head else None
    # A writer that has seen the branch is told below that it is gone; one that has not, that it does not exist.
    seen = expected is not None and not isinstance(expected, Unset)
    known = seen or intent.begins_branch
    if head is None and not known and reader.branches(session) and not _was_there(reader, session, branch):
        missing_head(reader, session, branch)
    parent = None if intent.parent is None else resolve(reader, session, branch, intent.parent, now=now)
    holds = isinstance(expected, Unset) or expected == head_id
    if holds or (not intent.is_told and _same_state(reader, intent, head)):
        return (
            SaveTarget(branch, head, head_id) if parent is None else _beside(reader, intent, parent, head_id)
        )
    if intent.on_conflict == "raise":
        raise ConflictError.branch_moved(
            session, branch, expected=None if isinstance(expected, Unset) else expected, actual=head_id
        )
    beside = _beside(reader, intent, parent or _seen(reader, intent, head_id), head_id)
    return beside._replace(forked=not intent.went_back)


def _same_state(reader: Reader, intent: Intent, head: CheckpointRow | None) -> bool:
    last = intent.last
    if last is not None and head is not None and last.row.id == intent.expected:
        return last.row.root == head.root
    return is_expected(reader, intent.expected, head)


def _was_there(reader: Reader, session: str, branch: str) -> bool:
    """Whether a branch without a head once had one: deleting its last checkpoint removes it, a save brings it back.

    Where a checkpoint that was born on it is still there, the branch was renamed or removed, and is not meant any more.
    """
    born = Query(session=session, branch=branch, limit=1)
    if reader.checkpoints(born):
        return False
    return bool(reader.checkpoints(born._replace(include_hidden=True)))


def _seen(reader: Reader, intent: Intent, head: CheckpointId | None) -> CheckpointRow | None:
    """The row the writer built on; None where it had seen an empty branch."""
    expected, session = intent.expected, intent.claim.session
    if expected is None or isinstance(expected, Unset):
        return None
    row = reader.checkpoint(expected)
    if row is None and intent.last is not None and intent.last.row.id == expected:
        # Saved by this writer, and retired since: a parent that is gone, with nothing known to be left before it.
        return intent.last.row._replace(hidden=1, prev=None, skipped=0)
    if row is None or row.session != session:
        # There is nothing to fork from: the expectation was never a checkpoint of this session.
        raise ConflictError.branch_moved(session, intent.branch, expected=expected, actual=head)
    return row


def _beside(
    reader: Reader, intent: Intent, parent: CheckpointRow | None, head: CheckpointId | None
) -> SaveTarget:
    if parent is not None and parent.id == head:
        return SaveTarget(intent.branch, parent, head)
    taken = {branch.name for branch in reader.branches(intent.claim.session)}
    if not taken or (intent.begins_branch and intent.branch not in taken):
        return SaveTarget(intent.branch, parent, None)
    return SaveTarget(free_branch(intent.branch, taken), parent, None)
