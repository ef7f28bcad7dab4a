"""Writer: what one writer remembers between calls, and what it does with that.

It knows the branch in use, the head it has seen, and which states it knows to be in the store. Seeing the tip and
saving set the head that the next save expects, so that no update is lost by accident; naming an older checkpoint does
not. A Session is one Writer with the public names around it, and each Document has one of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holdfast.errors import ConflictError, ErrorCode, HoldfastError, InvalidInputError, NotFoundError
from holdfast.history.checkpoint import Checkpoint
from holdfast.history.heads import find_head
from holdfast.history.refs import resolve
from holdfast.objects.state import EncodedState, decode_state, encode_state
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointId, CheckpointRow, ChunkHash, Claim
from holdfast.store.composition import Composition
from holdfast.store.draft import Draft
from holdfast.store.intent import UNSET, Expectation, Intent, OnConflict, Saved, Unset, Unsettled
from holdfast.store.place import Place

if TYPE_CHECKING:
    from holdfast.history.keep import Keep
    from holdfast.objects.memo import StateMemo
    from holdfast.store.archives.keeping import ExportFolder
    from holdfast.store.document import DocumentKinds
    from holdfast.store.leases import HeldLease

Ref = str | Checkpoint

_MOST_KEPT = 64
"""More than there are saves under way at once: each relies on a state that was saved before it was encoded."""

_WHOLE_ID = "[0-9a-fA-F]{64}"
_NAME = "[^@#~:]+"


class Writer:
    """One writer on one branch of one session; under a lease, if it is given one, that it has to hold to write."""

    def __init__(
        self,
        parts: Composition,
        claim: Claim,
        branch: str,
        keep: Keep | None = None,
        lease: HeldLease | None = None,
        files: ExportFolder | None = None,
    ) -> None:
        self.parts = parts
        self.claim = claim
        self.branch = branch
        self.keep = None if keep is None else _checked(keep)
        self.lease = lease
        self.files = files
        self.leads = False
        """Whether whoever is on its branch goes along where it forks: see `Intent.leads`."""
        self.expected: Expectation = UNSET
        self._went_back_to: CheckpointId | None = None
        self._memo: StateMemo | None = None
        self._kept: dict[ChunkHash, CheckpointId] = {}
        self._last: Saved | None = None
        self._unsettled: list[Unsettled] = []

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
        backend, ahead = self.parts.backend, self.parts.ahead
        if ahead is None:
            return backend.reader()
        text: object = ref.id if isinstance(ref, Checkpoint) else ref
        if text == "@":
            return ahead.reader_for(self.claim.session, self.branch, known)
        # Whatever else may be the name of a branch, or an id. What is no text at all is refused by who looks for it.
        if isinstance(text, str) and re.fullmatch(_NAME, text):
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
        # A program that only reads never imports it.
        from holdfast.store.saving import save_encoded

        began = perf_counter_ns()
        parts = self.parts
        if encoded.relies_on in self._kept:
            # Other saves that are under way may rely on it too: it must not be the next to be dropped.
            self._kept[encoded.relies_on] = self._kept.pop(encoded.relies_on)
        intent = Intent(
            claim=self.claim,
            branch=self.branch,
            expected=self._expectation(expect, parent),
            parent=parent,
            on_conflict=on_conflict,
            kept=self._kept,
            last=self._last,
            is_told=not isinstance(expect, Unset),
            unsettled=self._unsettled,
            fence=None if self.lease is None else self.lease.fence,
            leads=self.leads,
            went_back=self.went_back and isinstance(expect, Unset),
            along=None if self.keep is None else parts.upkeep.along(self.place, self.keep),
        )
        # The list is emptied by a save that takes place.
        open_before = tuple(each.row for each in self._unsettled)
        try:
            saved = save_encoded(
                parts.backend, intent, encoded, draft, now=parts.clock(), app_version=parts.app_version
            )
        except HoldfastError as error:
            self._count_failure(error)
            if self.lease is not None and isinstance(error, ConflictError):
                told = self.lease._noted(error)  # noqa: SLF001 - its own lease
                if told is not error:
                    raise told from error
            raise
        # Only now are the chunks in the store; before, a save that failed would have counted as kept.
        self._memo = encoded.memo
        self._keep(saved.row)
        if saved.wrote:
            # Without what went: that would be kept until the next save.
            self._last = saved if saved.went is None else saved._replace(went=None)
            self.branch, self.expected = saved.row.branch, saved.row.id
            self._went_back_to = None
            self._look_after(saved, open_before)
            row, took = saved.row, encoded.nanoseconds + perf_counter_ns() - began
            parts.metrics.saved(row.trigger, row.status, row.size_bytes, row.stored_bytes, took, saved.forked)
        return Checkpoint(saved.row, saved.owner)

    def document(self, ref: Ref, default: Any, kinds: DocumentKinds) -> Any:
        """A Document of the state that `ref` names, with a writer of its own."""
        # Imported by those who use documents: a quarter of all there is to import.
        from holdfast.store.document import make_document

        own = Writer(self.parts, self.claim, self.branch, self.keep, self.lease, self.files)
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
                value, root = {} if isinstance(default, Unset) else default, None
                own.expected = head.id if head else None
            else:
                self.notice(reader, row)
                value, root = decode_state(row.root, reader.chunks, self.parts.types), row.root
                own.expected = row.id
                own._keep(row)
                self.parts.metrics.loaded(perf_counter_ns() - began)
        return make_document(value, kinds, self.parts.types, root, own.save, cuts=self.parts.cuts)

    def _look_after(self, saved: Saved, open_before: Sequence[CheckpointRow]) -> None:
        """Write the file of a checkpoint that was saved, and see to it that no more stay than are kept."""
        parts, files = self.parts, self.files
        if files is not None:
            files.join(self.place, saved.row, parts.metrics, has_retention=self.keep is not None)
        if saved.went is not None:
            # Before anything that takes long: these are gone, and their files go with this.
            parts.upkeep.went(saved.went)
        if files is not None:
            # Before what is still to be removed, which goes with its files.
            files.catch_up(self.place)
            others = [each for each in open_before if each.id != saved.row.id]
            self._file_open(files, others)
            # One that was open itself may have its file from an operation in between.
            is_new = len(others) == len(open_before)
            files.after_save(self.place, saved.row, saved.owner, is_new=is_new)
        if self.keep is not None:
            parts.upkeep.after_save(self.place, self.keep, is_done=saved.went is not None)

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

    def _keep(self, row: CheckpointRow) -> None:
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
        if re.fullmatch(_WHOLE_ID, expect):
            # Known without reading, and still an answer when the checkpoint has been deleted: it is not the head.
            return CheckpointId(bytes.fromhex(expect))
        with self.parts.backend.reader() as reader:
            return self.find(reader, expect).id


def _checked(keep: Keep) -> Keep:
    # Only a session that is given a policy needs to know what one is.
    from holdfast.history.keep import check_keep

    return check_keep(keep)
