"""Merging: two checkpoints, the one that both come from, and a new one that has both as its parents.

Everything is worked out from one view of the store and written as one operation, so that `undo` takes it back. Where
nothing has to be merged, nothing is read: a side that did not change since the common ancestor has its root. Functions
that decide on conflicts are asked when the view has ended; then the merge is worked out again, with their answers.

The merged state is put together in its encoded form. It is decoded once, without any class, to be cut into chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from holdfast.errors import ConflictError, ErrorCode, NotFoundError
from holdfast.history import jsontext
from holdfast.history.checkpoint import Checkpoint, carried_on, new_row
from holdfast.history.merge_base import MergeBase, find_merge_base
from holdfast.history.names import check_tags
from holdfast.history.oplog import FROM_SESSION
from holdfast.history.refs import get_head
from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.diff.diff import Diff, diff_roots
from holdfast.objects.merge.resolve import Resolve, Resolver
from holdfast.objects.merge.states import MergedState, merge_roots
from holdfast.objects.tree.state import encode_state
from holdfast.record import Record
from holdfast.reports.changes import MergeReport
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointId, CheckpointRow, ChunkHash, Move, NewChunk, SessionRow
from holdfast.store.composition import Composition
from holdfast.store.draft import check_message
from holdfast.store.operations import OperationPlan, carry_out
from holdfast.store.place import Expectation, Place, Unset, is_expected, session_of


class Wanted(Record):
    """What the caller of a merge said, checked."""

    ref: str | Checkpoint
    message: str
    tags: tuple[str, ...]
    dry_run: bool


def check_wanted(ref: str | Checkpoint, message: str, tags: Iterable[str], *, dry_run: bool) -> Wanted:
    """Check what can be checked before anything is read."""
    return Wanted(ref, check_message(message), () if tags == () else check_tags(tags), dry_run)


def merge(
    place: Place, parts: Composition, expected: Expectation, wanted: Wanted, resolve: Resolve
) -> MergeReport:
    """Merge a checkpoint into the branch in use.

    Raises:
        ConflictError: The branch moved since its writer saw it.
        NotFoundError: The ref names nothing, or both have nothing in common (`no-common-ancestor`).
        InvalidInputError: `resolve` has a path that is nowhere, while there are conflicts elsewhere.
    """
    resolver = Resolver(resolve, parts.types)
    meant = wanted.ref

    def work(reader: Reader, owner: SessionRow, now: int) -> tuple[OperationPlan | None, MergeReport]:
        nonlocal meant
        resolver.begin()
        ours = get_head(reader, owner.id, place.branch)
        if not isinstance(expected, Unset) and not is_expected(reader, expected, ours):
            raise _moved(owner.id, place.branch, expected, ours.id)
        theirs = place.find_any(reader, meant)
        home = session_of(reader, theirs)
        # A branch may be at another checkpoint in the next round; the one that was meant is this.
        meant = Checkpoint(theirs, home)
        met = find_merge_base(reader, ours, theirs)
        if met is None:
            _refuse_strangers(ours, theirs)
        sides = _Sides(met, ours, theirs)
        bases = tuple(Checkpoint(each, session_of(reader, each)) for each in met.rows)
        report = MergeReport(
            base=bases[0],
            bases=bases,
            base_exact=met.exact,
            ours=Checkpoint(ours, owner),
            theirs=meant,
            dry_run=wanted.dry_run,
        )
        if met.rows[0].id == theirs.id:
            unused = tuple(each.text for each in resolver.unused())
            return None, report.replace(up_to_date=True, unused=unused)
        message = wanted.message or _told(reader, owner, wanted.ref, theirs)
        wanted_now = wanted._replace(message=message)
        return _work_out(reader, place, parts, sides, report, wanted_now, resolver, now)

    while True:
        done = carry_out(place, work)
        if not resolver.ask():
            break
    made = done.made
    return done.found if made is None else done.found.replace(checkpoint=Checkpoint(made, done.session))


def _moved(session: str, branch: str, expected: CheckpointId | None, actual: CheckpointId) -> ConflictError:
    """The head is not the one that the Session has seen; nothing of the caller's is lost, unlike with a save."""
    moved = ConflictError.branch_moved(session, branch, expected=expected, actual=actual)
    return ConflictError(
        str(moved),
        code=moved.code,
        hint="load() the new head, then merge again: what to merge is in the store, and stays there",
        **moved.details,
    )


class _Sides(Record):
    met: MergeBase
    ours: CheckpointRow
    theirs: CheckpointRow


class _Written(Record):
    """The merged state, as far as it is not in the store yet."""

    root: ChunkHash
    size_bytes: int
    chunks: Sequence[NewChunk] = ()
    relies_on: CheckpointId | None = None


def _work_out(
    reader: Reader,
    place: Place,
    parts: Composition,
    sides: _Sides,
    report: MergeReport,
    wanted: Wanted,
    resolver: Resolver,
    now: int,
) -> tuple[OperationPlan | None, MergeReport]:
    met, ours = sides.met, sides.ours.root
    merged = merge_roots(
        [each.root for each in met.rows],
        ours,
        sides.theirs.root,
        reader.chunks,
        parts.types,
        resolver,
        exact=met.exact,
    )
    report = report.replace(
        conflicts=merged.conflicts,
        resolved=merged.resolved,
        unused=merged.unused,
        fast_forward=met.rows[0].id == sides.ours.id,
    )
    if merged.conflicts:
        return None, report
    written = _written(sides, merged, parts)
    report = report.replace(changes=_changes(reader, ours, written, parts.types))
    if wanted.dry_run:
        return None, report
    made = _row(place, sides, written, wanted, now)
    move = Move(place.branch, expected=sides.ours.id, head=made.id)
    plan = OperationPlan("merge", moves=[move], made=made, relies_on=written.relies_on, chunks=written.chunks)
    return plan, report


def _written(sides: _Sides, merged: MergedState, parts: Composition) -> _Written:
    if merged.root is not None:
        # All of it is in the store, as the state of one side.
        side = sides.theirs if merged.root == sides.theirs.root else sides.ours
        return _Written(side.root, side.size_bytes, relies_on=side.id)
    # Objects stay what is stored of them: no class has to be known to carry them over.
    plain = TypeRegistry()
    encoded = encode_state(decode_value(merged.data, plain), plain, cuts=parts.cuts)
    return _Written(encoded.root, encoded.size_bytes, encoded.chunks)


def _changes(reader: Reader, ours: ChunkHash, written: _Written, types: TypeRegistry) -> Diff:
    new = {chunk.hash: chunk for chunk in written.chunks}

    def read(names: Iterable[ChunkHash]) -> Mapping[ChunkHash, bytes]:
        names = list(names)
        found = dict(reader.chunks([name for name in names if name not in new]))
        return found | {name: new[name].data for name in names if name in new}

    return diff_roots(ours, written.root, read, types)


def _row(place: Place, sides: _Sides, written: _Written, wanted: Wanted, now: int) -> CheckpointRow:
    met, ours, theirs = sides
    said = {"merge_base": met.rows[0].id.hex(), "merged_from": theirs.id.hex()}
    if theirs.session != place.claim.session:
        said[FROM_SESSION] = theirs.session
    return new_row(
        place.claim.session,
        place.branch,
        (ours, theirs),
        written.root,
        written.size_bytes,
        at=now,
        app_version=place.app_version,
        trigger="merge",
        message=wanted.message,
        metadata=jsontext.dump(said),
        tags=wanted.tags,
        **carried_on(ours),
    )


def _told(reader: Reader, owner: SessionRow, ref: str | Checkpoint, theirs: CheckpointRow) -> str:
    """What was merged, as people call it."""
    if theirs.session != owner.id:
        return f"merge of #{theirs.seq} of session {theirs.session!r}"
    if isinstance(ref, str) and reader.branch(owner.id, ref) is not None:
        return f"merge of branch {ref!r} at #{theirs.seq}"
    return f"merge of #{theirs.seq}"


def _refuse_strangers(ours: CheckpointRow, theirs: CheckpointRow) -> NoReturn:
    where = "" if ours.session == theirs.session else f" of session {theirs.session!r}"
    raise NotFoundError(
        f"#{theirs.seq}{where} and #{ours.seq} of session {ours.session!r} have no checkpoint in common",
        code=ErrorCode.NO_COMMON_ANCESTOR,
        hint="only lines that began as one can be merged, branches of a session and forks of it in other sessions, "
        "while a checkpoint that both come from is there",
        session=ours.session,
        checkpoint=theirs.id.hex(),
    )
