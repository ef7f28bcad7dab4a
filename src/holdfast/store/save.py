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
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
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
    settle,
)

if TYPE_CHECKING:
    from holdfast.history.keep import Keep
    from holdfast.objects.tree.build import StateMemo
    from holdfast.store.archive.export_dir import ExportFolder
    from holdfast.store.document import DocumentKinds
    from holdfast.store.keep import Retirement
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
    trouble: HoldfastError | None = None
    """Why old checkpoints could not be removed with it."""


class Unsettled(Record):
    """A save that ended in an error, and of which nobody knows yet whether it took place."""

    row: CheckpointRow
    draft: Draft
    wanted: Wanted
    retired: Retirement | None


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
_FINAL: Final = (ErrorCode.LEASE_LOST, ErrorCode.ROW_CONFLICT)
"""Conflicts that another attempt would come to as well."""


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
        self.last: Saved | None = None
        """What this writer saved last."""
        self.unsettled: list[Unsettled] = []

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
            self._file_open(self.files, [each.row for each in self.unsettled])
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
        parts = self.parts
        if encoded.relies_on in self._kept:
            # Other saves that are under way may rely on it too: it must not be the next to be dropped.
            self._kept[encoded.relies_on] = self._kept.pop(encoded.relies_on)
        # The list is emptied by a save that takes place.
        open_before = [each.row for each in self.unsettled]
        try:
            saved = _Save(self, encoded, draft, expect, parent, on_conflict).run()
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
            self.last = saved if saved.retired is None else saved._replace(retired=None, trouble=None)
            self._branch, self.expected = saved.row.branch, saved.row.id
            self._went_back_to = None
            if self.files is not None or self.keep is not None:
                self._look_after(saved, open_before)
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

    def _look_after(self, saved: Saved, open_before: Sequence[CheckpointRow]) -> None:
        """Write the file of a checkpoint that was saved, and see to it that no more stay than are kept."""
        files = self.files
        if files is not None:
            files.join(self.place, saved.row, self.parts.metrics, has_retention=self.keep is not None)
            files.catch_up(self.place)
            others = [each for each in open_before if each.id != saved.row.id]
            self._file_open(files, others)
            # One that was open itself may have its file from an operation in between.
            files.after_save(self.place, saved.row, saved.owner, is_new=len(others) == len(open_before))
        if self.keep is not None:
            # Last: the files of what went go with it.
            self.parts.retention.done(self.place, self.keep, saved.retired, saved.trouble)

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

    def relied_on(self, encoded: EncodedState) -> CheckpointId | None:
        """The checkpoint that keeps what was left out of an encoded state."""
        if encoded.relies_on is None:
            return None
        known = encoded.kept_by or self._kept.get(encoded.relies_on)
        if known is None:
            # Encoded by another writer, or so long ago that this one has forgotten what it left out.
            raise ConflictError(
                "what was encoded builds on a state that this Session does not know, or not any more",
                code=ErrorCode.CHUNKS_GONE,
                hint="encode the state again, with the Session that saves it",
                session=self.claim.session,
            )
        return CheckpointId(known)

    def expectation(self, expect: Ref | Unset | None, parent: Ref | None) -> Expectation:
        """The head that a save expects: what the caller says, or what this writer has seen."""
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


class _Save:
    """One save on its way: where it goes, what it writes, and what came of it."""

    def __init__(
        self,
        writer: Writer,
        encoded: EncodedState,
        draft: Draft,
        expect: Ref | Unset | None,
        parent: Ref | None,
        on_conflict: OnConflict,
    ) -> None:
        self._writer = writer
        self._backend: Backend = writer.parts.backend
        self._session = writer.claim.session
        self._branch = writer.branch
        self._encoded = encoded
        self._draft = draft
        self._is_told = not isinstance(expect, Unset)
        self._expected = writer.expectation(expect, parent)
        self._parent = parent
        self._on_conflict = on_conflict
        self._now = writer.parts.clock()
        self._trouble: HoldfastError | None = None
        """Why old checkpoints cannot be removed with it."""
        self._wanted: Wanted = (
            self._branch,
            self._expected,
            parent.id if isinstance(parent, Checkpoint) else parent,
            on_conflict,
        )
        # The caller said that there is no such branch yet. A writer that has merely seen nothing may have mistyped.
        self._begins_branch = self._is_told and self._expected is None
        # Going on beside the head is no conflict for a writer that went back on purpose.
        self._went_back = writer.went_back and not self._is_told

    def run(self) -> Saved:
        """Commit one checkpoint; the same key and root again gives the one that is there.

        Raises:
            ConflictError: The branch is not where the writer expects it, or the key names another state.
            NotFoundError: The branch or the parent does not exist.
        """
        writer, last = self._writer, self._follows_own_save()
        with ExitStack() as turn:
            for attempt in range(ATTEMPTS):
                if attempt == 1:
                    # Many who append to one branch would lose round after round to each other.
                    turn.enter_context(self._backend.turn(self._session))
                follows_own_save = last is not None and attempt == 0
                if last is not None and attempt == 0:
                    # Nothing has to be read: if the head is still what this writer saved last, the commit finds it so.
                    # It finds a key that is taken as well; what that means is read then.
                    seen = Snapshot(SaveTarget(self._branch, last.row, last.row.id), last.owner)
                else:
                    seen = read_again(self._read_target)
                if seen.existing is not None:
                    if seen.settled is not None:
                        writer.unsettled.clear()
                        return Saved(seen.existing, seen.owner, wrote=True, retired=seen.settled.retired)
                    return Saved(seen.existing, seen.owner, wrote=False)
                row = self._new_row(seen.target)
                retired = self._plan_retention(row, seen.target.branch) if attempt < _WITH_RETENTION else None
                try:
                    saved = self._commit(self._batch(seen, row, retired), retired)
                except ConflictError as conflict:
                    # Another writer came first, or the key is taken: the next view says what that means. A key that
                    # names this state already needs no chunks.
                    key_is_unread = follows_own_save and self._draft.key is not None
                    if conflict.code in _FINAL or (
                        conflict.code is ErrorCode.CHUNKS_GONE and not key_is_unread
                    ):
                        raise
                    continue
                if isinstance(saved, HoldfastError):
                    # There may be no room or no right to remove what is old, or it is damaged: the save goes alone.
                    self._trouble = saved
                    continue
                # What was not there before this save cannot come any more: its branch is not where it has to be.
                writer.unsettled.clear()
                return Saved(
                    saved,
                    seen.owner,
                    wrote=True,
                    forked=seen.target.forked,
                    retired=retired,
                    trouble=self._trouble,
                )
        raise ConflictError.session_changed(self._session)

    def _plan_retention(self, row: CheckpointRow, branch: str) -> Retirement | None:
        """What the session's policy removes in the commit of this save."""
        writer = self._writer
        if writer.keep is None or self._trouble is not None:
            return None
        try:
            return writer.parts.retention.plan(writer.place, writer.keep, row, branch)
        except HoldfastError as error:
            # Old rows that cannot be read must not keep a new one from being written.
            self._trouble = error
            return None

    def _follows_own_save(self) -> Saved | None:
        """What this writer saved last, if the new checkpoint simply follows it."""
        last = self._writer.last
        if last is None or self._parent is not None or self._writer.unsettled:
            return None
        return last if (self._branch, self._expected) == (last.row.branch, last.row.id) else None

    def _new_row(self, target: SaveTarget) -> CheckpointRow:
        said = self._draft._asdict()
        del said["rows"]
        at = said.pop("created_at")
        return new_row(
            self._session,
            target.branch,
            () if target.parent is None else (target.parent,),
            self._encoded.root,
            self._encoded.size_bytes,
            at=self._now if at is None else at,
            app_version=self._writer.parts.app_version,
            **said,
        )

    def _batch(self, seen: Snapshot, row: CheckpointRow, retired: Retirement | None) -> Batch:
        writer, target, known = self._writer, seen.target, seen.known
        guard = None
        if target.parent is not None and target.parent.id != target.expected and known is not None:
            # A parent that is the head is kept by the move, which names it. Any other could be removed meanwhile, and
            # the new checkpoint would follow one that is not there.
            guard = Guard(known.log_count, known.last_seq)
        # In the same commit, so that nobody ever finds a branch that was left. Who has gone elsewhere stays there.
        leaves = known is not None and known.current == self._branch != target.branch
        batch = Batch(
            claim=writer.claim,
            at=self._now,
            chunks=self._encoded.chunks,
            checkpoints=(row,),
            moves=(Move(target.branch, target.expected, row.id),),
            guard=guard,
            relies_on=writer.relied_on(self._encoded),
            fence=None if writer.lease is None else writer.lease.fence,
            switch_to=target.branch if writer.leads and leaves else None,
            rows=self._draft.rows,
        )
        return batch if retired is None else retired.into(batch)

    def _commit(self, batch: Batch, retired: Retirement | None) -> CheckpointRow | HoldfastError:
        """Commit; where the reply was an error, find out whether it took place.

        Return the error if it did not, but can be tried again without retention; otherwise raise it.
        """
        (row,) = batch.checkpoints
        removes = retired is not None and bool(retired.gone)
        still_open = Unsettled(row, self._draft, self._wanted, retired)
        try:
            return self._backend.commit(batch).checkpoints[0]
        except ConflictError:
            raise
        except BackendError as failure:
            try:
                found = settle(self._backend, failure, lambda reader: reader.checkpoint(row.id))
            except BaseException:
                self._writer.unsettled.append(still_open)
                raise
            if found is None and failure.details.get("outcome") == "unknown":
                # A server may still be at it.
                self._writer.unsettled.append(still_open)
                raise
            if found is None and not removes:
                raise
            return found or failure
        except HoldfastError as refused:
            if not removes:
                raise
            return refused
        except BaseException:
            # Ctrl-C, say, after the store had done it: the next save would take its own checkpoint for another's.
            self._writer.unsettled.append(still_open)
            raise

    def _read_target(self) -> Snapshot:
        """Read what a save needs to know: where it goes, or what is there already."""
        claim, branch, expected = self._writer.claim, self._branch, self._expected
        with self._backend.reader() as reader:
            known = reader.session(self._session)
            if known is None:
                owner = SessionRow(
                    id=self._session, agent=claim.agent, project=claim.project, created_at=self._now
                )
            else:
                owner = known._replace(
                    agent=known.agent or claim.agent, project=known.project or claim.project
                )
            if (late := self._arrived(reader)) is not None:
                if (late.row.root, late.draft, late.wanted) == (
                    self._encoded.root,
                    self._draft,
                    self._wanted,
                ):
                    return Snapshot(_NOWHERE, owner, known, late.row, late)
                if self._parent is None and not self._is_told:
                    branch, expected = late.row.branch, late.row.id
            if self._draft.key is not None:
                existing = self._with_key(reader, self._draft.key)
                if existing is not None:
                    return Snapshot(_NOWHERE, owner, known, existing)
            return Snapshot(self._choose(reader, branch, expected), owner, known)

    def _arrived(self, reader: Reader) -> Unsettled | None:
        """The newest save of this writer that took place after all, while the writer stands where it stood then."""
        for each in reversed(self._writer.unsettled):
            if each.wanted[:2] == self._wanted[:2]:
                found = reader.checkpoint(each.row.id)
                if found is not None and not found.hidden:
                    return each._replace(row=found)
        return None

    def _with_key(self, reader: Reader, key: str) -> CheckpointRow | None:
        found = reader.checkpoints(Query(session=self._session, key=key, include_hidden=True, limit=1))
        if not found:
            return None
        if found[0].hidden:
            raise ConflictError.key_taken(self._session, key, existing=found[0].id, why="which was deleted")
        if found[0].root != self._encoded.root:
            raise ConflictError.key_taken(self._session, key, existing=found[0].id)
        return found[0]

    def _choose(self, reader: Reader, branch: str, expected: Expectation) -> SaveTarget:
        session = self._session
        head = find_head(reader, session, branch)
        head_id = head.id if head else None
        # A writer that has seen the branch is told below that it is gone; one that has not, that it does not exist.
        seen = expected is not None and not isinstance(expected, Unset)
        known = seen or self._begins_branch
        if (
            head is None
            and not known
            and reader.branches(session)
            and not _was_there(reader, session, branch)
        ):
            missing_head(reader, session, branch)
        parent = None
        if self._parent is not None:
            parent = resolve(reader, session, branch, self._parent, now=self._now)
        holds = isinstance(expected, Unset) or expected == head_id
        if holds or (not self._is_told and self._same_state(reader, expected, head)):
            if parent is None:
                return SaveTarget(branch, head, head_id)
            return self._beside(reader, branch, parent, head_id)
        assert not isinstance(expected, Unset)
        if self._on_conflict == "raise" and not self._went_back:
            raise ConflictError.branch_moved(session, branch, expected=expected, actual=head_id)
        base = parent or self._seen(reader, branch, expected, head_id)
        return self._beside(reader, branch, base, head_id)._replace(forked=not self._went_back)

    def _same_state(self, reader: Reader, expected: Expectation, head: CheckpointRow | None) -> bool:
        last = self._writer.last
        if last is not None and head is not None and last.row.id == expected:
            return last.row.root == head.root
        return is_expected(reader, expected, head)

    def _seen(
        self, reader: Reader, branch: str, expected: CheckpointId | None, head: CheckpointId | None
    ) -> CheckpointRow | None:
        """The row the writer built on; None if it had seen an empty branch."""
        if expected is None:
            return None
        row, last = reader.checkpoint(expected), self._writer.last
        if row is None and last is not None and last.row.id == expected:
            # Saved by this writer, and retired since: a parent that is gone, with nothing known to be left before it.
            return last.row._replace(hidden=1, prev=None, skipped=0)
        if row is None or row.session != self._session:
            # There is nothing to fork from: the expectation was never a checkpoint of this session.
            raise ConflictError.branch_moved(self._session, branch, expected=expected, actual=head)
        return row

    def _beside(
        self, reader: Reader, branch: str, parent: CheckpointRow | None, head: CheckpointId | None
    ) -> SaveTarget:
        if parent is not None and parent.id == head:
            return SaveTarget(branch, parent, head)
        taken = {each.name for each in reader.branches(self._session)}
        if not taken or (self._begins_branch and branch not in taken):
            return SaveTarget(branch, parent, None)
        return SaveTarget(free_branch(branch, taken), parent, None)


def _was_there(reader: Reader, session: str, branch: str) -> bool:
    """Whether a branch without a head once had one: deleting its last checkpoint removes it, a save brings it back.

    Where a checkpoint that was born on it is still there, the branch was renamed or removed, and is not meant any more.
    """
    born = Query(session=session, branch=branch, limit=1)
    if reader.checkpoints(born):
        return False
    return bool(reader.checkpoints(born._replace(include_hidden=True)))
