"""How a save becomes one commit: which parent, which branch, which expectation.

Everything is computed from one reading of the store and then committed with the head that was read as a condition. If
somebody moved the head in between, what happens depends on what the writer had seen:

- it had seen nothing: it only wants to append, so it reads again and tries again;
- it had seen another head (by loading or saving, or through `expect=`): ConflictError, nothing written;
- the same with `on_conflict="fork"`: the checkpoint goes onto a new branch, beside the head that is there.

A commit that ends in an error of the store may have taken place. It is looked for at once; where that leaves the
question open, the writer keeps the row, and its next save looks for it first. If it is there, the writer goes on as if
that save had returned, and the same save once more is answered with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final, Literal

from holdfast.errors import BackendError, ConflictError, ErrorCode, HoldfastError
from holdfast.history.checkpoint import Checkpoint
from holdfast.history.heads import find_head, missing_head
from holdfast.history.identity import checkpoint_id
from holdfast.history.refs import resolve
from holdfast.objects.state import EncodedState
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
from holdfast.store.draft import Draft
from holdfast.store.rereading import read_again

if TYPE_CHECKING:
    from holdfast.storage.leasing import Fence
    from holdfast.store.policies import Coming
    from holdfast.store.retiring import Retirement


class Unset:
    """The type of `UNSET`, which stands for an argument that was not given where None means something."""

    def __repr__(self) -> str:
        return "<not given>"


UNSET: Final = Unset()

Expectation = CheckpointId | None | Unset
"""The head a writer builds on: an id, None for "no checkpoint yet", or UNSET for "whatever is there"."""

OnConflict = Literal["raise", "fork"]

_ATTEMPTS = 1000
"""A writer without expectation loses a round only when another one wins it, so this many losses in a row mean that
something other than contention is wrong."""


_TOGETHER = 2
"""Attempts to remove old checkpoints in the commit of a save. Whatever is wrong with them then, the save goes first."""


class Saved(Record):
    """What came of a save."""

    row: CheckpointRow
    owner: SessionRow
    """The session, as far as its agent and project go."""
    wrote: bool
    """False where the key named this state already, and nothing was written."""
    forked: bool = False
    """Whether it went beside the head that was there, because that was not the expected one."""
    went: Retirement | None = None
    """What was found to be gone with it; None where nobody looked, or what was found does not hold any more."""


class Unsettled(Record):
    """A save that ended in an error, and of which nobody knows yet whether it took place."""

    row: CheckpointRow
    draft: Draft
    wanted: tuple[str, Expectation, str | None, OnConflict]
    """What the caller wanted of the branch: see `_wanted`."""
    went: Retirement | None
    """What went with it, if it took place."""


class Intent(Record):
    """What the caller wants of the branch: where from, and what to do when it is not as expected."""

    claim: Claim
    branch: str
    expected: Expectation
    parent: str | Checkpoint | None
    on_conflict: OnConflict
    kept: Mapping[ChunkHash, CheckpointId]
    """Checkpoints of states that this writer loaded or saved, by root: what an encoded state may rely on."""
    last: Saved | None = None
    """What this writer saved last."""
    is_told: bool = False
    """Whether the caller said what is expected, and not only what this writer has seen."""
    unsettled: list[Unsettled] | None = None
    """Of this writer, which keeps the list: what a save leaves open is added to it."""
    fence: Fence | None = None
    """The lease that has to be held for anything to be written."""
    leads: bool = False
    """Whether whoever is on the branch goes along where this writer leaves it for a new one."""
    went_back: bool = False
    """Whether this writer went back to what it expects on purpose: going on beside the head is no conflict then."""
    along: Callable[[Coming], Retirement | None] | None = None
    """How to find what goes in the commit of this save, because the session does not keep it."""


class _Place(Record):
    """Where one attempt writes: a child of `parent` on `branch`, whose head must be `expected`."""

    branch: str
    parent: CheckpointRow | None
    expected: CheckpointId | None
    forked: bool = False
    """Whether that is beside the head, because somebody had moved it."""


_NOWHERE: Final = _Place("", None, None)


class _Look(Record):
    """What one reading of the store says."""

    place: _Place
    owner: SessionRow
    known: SessionRow | None = None
    """The session as it is."""
    existing: CheckpointRow | None = None
    """The checkpoint that the key names already, with the same state; then there is nothing to write."""
    settled: bool = False
    """Whether that is what the same save wrote before, when it ended in an error."""
    went: Retirement | None = None
    """And what went with it."""


def save_encoded(
    backend: Backend,
    intent: Intent,
    encoded: EncodedState,
    draft: Draft,
    *,
    now: int,
    app_version: str | None,
) -> Saved:
    """Commit one checkpoint; the same key and root again gives the one that is there.

    Raises:
        ConflictError: The branch is not where the writer expects it, or the key names another state.
        NotFoundError: The branch or the parent does not exist.
    """
    with ExitStack() as turn:
        saved = _save(backend, intent, encoded, draft, now=now, app_version=app_version, turn=turn)
    if saved.wrote and intent.unsettled:
        # What was not there before this save cannot come any more: its branch is not where it has to be.
        intent.unsettled.clear()
    return saved


def _save(
    backend: Backend,
    intent: Intent,
    encoded: EncodedState,
    draft: Draft,
    *,
    now: int,
    app_version: str | None,
    turn: ExitStack,
) -> Saved:
    session = intent.claim.session
    last = _next_after(intent)
    for attempt in range(_ATTEMPTS):
        if attempt == 1:
            # Many who append to one branch would lose round after round to each other; one after the other they do not.
            turn.enter_context(backend.turn(session))
        blindly, last = last, None
        if blindly is not None:
            # Nothing has to be read: if the head is still what this writer saved last, the commit finds it so. It finds
            # a key that is taken as well; what that means is read then.
            look = _Look(_Place(intent.branch, blindly.row, blindly.row.id), blindly.owner)
        else:
            look = read_again(partial(_look, backend, intent, encoded, draft, now))
        if look.existing is not None:
            return Saved(look.existing, look.owner, wrote=look.settled, went=look.went)
        place, owner = look.place, look.owner
        row = _row(place, encoded, draft, intent, now=now, app_version=app_version)
        went = _going_along(intent, row, place.branch, attempt)
        batch = _batch(intent, look, encoded, row, went, now=now)
        try:
            saved = _committed(backend, batch, intent, draft, went)
        except ConflictError as conflict:
            if not _may_pass(conflict, key_is_unread=blindly is not None and draft.key is not None):
                raise
            continue
        except HoldfastError as trouble:
            found = _settle(backend, intent, draft, row, trouble, went)
            if found is None:
                # There may be no room or no right to remove what is old, or it is damaged: the save goes alone.
                intent = intent._replace(along=None)
                continue
            saved = found
        return Saved(saved, owner, wrote=True, forked=place.forked, went=_holds(went, saved))
    raise ConflictError.session_changed(session)


def _may_pass(conflict: ConflictError, *, key_is_unread: bool) -> bool:
    """Whether another attempt may come to something else.

    Another writer came first, or the key is taken: the next reading decides what that means for this one. A key that
    names this state already needs no chunks.
    """
    if conflict.code is ErrorCode.CHUNKS_GONE:
        return key_is_unread
    return conflict.code is not ErrorCode.LEASE_LOST


def _batch(
    intent: Intent,
    look: _Look,
    encoded: EncodedState,
    row: CheckpointRow,
    went: Retirement | None,
    *,
    now: int,
) -> Batch:
    place, known = look.place, look.known
    batch = Batch(
        claim=intent.claim,
        at=now,
        chunks=encoded.chunks,
        checkpoints=(row,),
        moves=(Move(branch=place.branch, expected=place.expected, head=row.id),),
        guard=_guard(place, known),
        relies_on=_relied_on(intent, encoded),
        fence=intent.fence,
        switch_to=_taken_along(intent, place, known),
    )
    return batch if went is None else went.into(batch)


def _going_along(intent: Intent, row: CheckpointRow, branch: str, attempt: int) -> Retirement | None:
    if intent.along is None or attempt >= _TOGETHER:
        return None
    # Imported by now: it is where `along` comes from.
    from holdfast.store.policies import Coming

    return intent.along(Coming(row, branch))


def _holds(went: Retirement | None, saved: CheckpointRow) -> Retirement | None:
    """What went with a checkpoint; None where others saved in between, and it was not the one to look after them."""
    return went if went is not None and went.holds(saved) else None


def _committed(
    backend: Backend, batch: Batch, intent: Intent, draft: Draft, went: Retirement | None
) -> CheckpointRow:
    try:
        return backend.commit(batch).checkpoints[0]
    except HoldfastError:
        raise
    except BaseException:
        # Ctrl-C, say, after the store had done it: the next save would take its own checkpoint for another's.
        _leave_open(intent, draft, batch.checkpoints[0], went)
        raise


def _look(backend: Backend, intent: Intent, encoded: EncodedState, draft: Draft, now: int) -> _Look:
    session = intent.claim.session
    with backend.reader() as reader:
        known = reader.session(session)
        owner = _owner(known, intent.claim, now)
        if (late := _arrived(reader, intent)) is not None:
            if (late.row.root, late.draft, late.wanted) == (encoded.root, draft, _wanted(intent)):
                return _Look(_NOWHERE, owner, known, late.row, settled=True, went=_holds(late.went, late.row))
            if intent.parent is None and not intent.is_told:
                intent = intent._replace(branch=late.row.branch, expected=late.row.id)
        existing = None if draft.key is None else _with_key(reader, session, draft.key, encoded)
        place = _NOWHERE if existing is not None else _choose(reader, intent, now)
    return _Look(place, owner, known, existing)


def _wanted(intent: Intent) -> tuple[str, Expectation, str | None, OnConflict]:
    parent = intent.parent
    return (
        intent.branch,
        intent.expected,
        parent.id if isinstance(parent, Checkpoint) else parent,
        intent.on_conflict,
    )


def _arrived(reader: Reader, intent: Intent) -> Unsettled | None:
    """The newest save of this writer that took place after all, as long as the writer stands where it stood then."""
    for each in reversed(intent.unsettled or ()):
        if each.wanted[:2] == (intent.branch, intent.expected):
            found = reader.checkpoint(each.row.id)
            if found is not None and not found.hidden:
                return each._replace(row=found)
    return None


def _next_after(intent: Intent) -> Saved | None:
    """What this writer saved last, where the new checkpoint simply follows it."""
    last = intent.last
    if last is None or intent.parent is not None or intent.unsettled:
        return None
    return last if (intent.branch, intent.expected) == (last.row.branch, last.row.id) else None


def _relied_on(intent: Intent, encoded: EncodedState) -> CheckpointId | None:
    if encoded.relies_on is None:
        return None
    if encoded.kept_by is not None:
        return CheckpointId(encoded.kept_by)
    known = intent.kept.get(encoded.relies_on)
    if known is None:
        # Encoded by another writer, or so long ago that this one has forgotten what it left out.
        raise ConflictError(
            "what was encoded builds on a state that this Session does not know, or not any more",
            code=ErrorCode.CHUNKS_GONE,
            hint="encode the state again, with the Session that saves it",
            session=intent.claim.session,
        )
    return known


def _owner(known: SessionRow | None, claim: Claim, now: int) -> SessionRow:
    """The session as it will be after the commit, which sets what it does not have yet."""
    if known is None:
        return SessionRow(id=claim.session, agent=claim.agent, project=claim.project, created_at=now)
    return known._replace(agent=known.agent or claim.agent, project=known.project or claim.project)


def _guard(place: _Place, known: SessionRow | None) -> Guard | None:
    """What keeps the parent from being deleted between reading and writing.

    A parent that is the head is kept by the move, which names it. Any other could be hidden meanwhile, and the new
    checkpoint would follow one that is not there; a deletion is in the log, so the log must not have grown.
    """
    if place.parent is None or place.parent.id == place.expected or known is None:
        return None
    return Guard(log_count=known.log_count)


def _taken_along(intent: Intent, place: _Place, known: SessionRow | None) -> str | None:
    """The branch in use from here on: in the same commit, so that nobody ever finds one that was left.

    Where people have gone elsewhere they stay there. One who goes between reading and writing is noticed by the guard.
    """
    leaves = known is not None and known.current == intent.branch != place.branch
    return place.branch if intent.leads and leaves else None


def _with_key(reader: Reader, session: str, key: str, encoded: EncodedState) -> CheckpointRow | None:
    found = reader.checkpoints(Query(session=session, key=key, include_hidden=True, limit=1))
    if not found:
        return None
    if found[0].hidden:
        raise ConflictError.key_taken(session, key, existing=found[0].id, why="which was deleted")
    if found[0].root != encoded.root:
        raise ConflictError.key_taken(session, key, existing=found[0].id)
    return found[0]


def _choose(reader: Reader, intent: Intent, now: int) -> _Place:
    session, branch = intent.claim.session, intent.branch
    head = find_head(reader, session, branch)
    head_id = head.id if head else None
    # A writer that has seen the branch is told below that it is gone; one that has not, that it does not exist.
    seen = intent.expected is not None and not isinstance(intent.expected, Unset)
    known = seen or _begins_branch(intent)
    if head is None and not known and reader.branches(session) and not _was_there(reader, session, branch):
        missing_head(reader, session, branch)
    parent = None if intent.parent is None else resolve(reader, session, branch, intent.parent, now=now)
    if isinstance(intent.expected, Unset) or intent.expected == head_id:
        return _Place(branch, head, head_id) if parent is None else _beside(reader, intent, parent, head_id)
    if intent.on_conflict == "raise":
        raise ConflictError.branch_moved(session, branch, expected=intent.expected, actual=head_id)
    beside = _beside(reader, intent, parent or _seen(reader, intent, head_id), head_id)
    return beside._replace(forked=not intent.went_back)


def _begins_branch(intent: Intent) -> bool:
    """Whether the caller said that the branch is not there yet. Who has merely seen nothing may have mistyped it."""
    return intent.is_told and intent.expected is None


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
    if intent.expected is None or isinstance(intent.expected, Unset):
        return None
    row = reader.checkpoint(intent.expected)
    if row is None and intent.last is not None and intent.last.row.id == intent.expected:
        # Saved by this writer, and retired since: a parent that is gone, with nothing known to be left before it.
        return intent.last.row._replace(hidden=1, prev=None, skipped=0)
    if row is None or row.session != intent.claim.session:
        # There is nothing to fork from: the expectation was never a checkpoint of this session.
        raise ConflictError.branch_moved(
            intent.claim.session, intent.branch, expected=intent.expected, actual=head
        )
    return row


def _beside(
    reader: Reader, intent: Intent, parent: CheckpointRow | None, head: CheckpointId | None
) -> _Place:
    if parent is not None and parent.id == head:
        return _Place(intent.branch, parent, head)
    taken = {branch.name for branch in reader.branches(intent.claim.session)}
    if not taken or (_begins_branch(intent) and intent.branch not in taken):
        return _Place(intent.branch, parent, None)
    free = next(name for n in count(1) if (name := f"{intent.branch}-{n}") not in taken)
    return _Place(free, parent, None)


def _row(
    place: _Place, encoded: EncodedState, draft: Draft, intent: Intent, *, now: int, app_version: str | None
) -> CheckpointRow:
    parent = place.parent
    made = now if draft.created_at is None else draft.created_at
    row = CheckpointRow(
        id=CheckpointId(b""),
        session=intent.claim.session,
        branch=place.branch,
        parents=(parent.id,) if parent else (),
        root=encoded.root,
        # A clock that went back must not put a child before its parent.
        created_at=max(made, parent.created_at + 1) if parent else made,
        trigger=draft.trigger,
        status=draft.status,
        step=draft.step,
        message=draft.message,
        metadata=draft.metadata,
        tokens=draft.tokens,
        cost_usd=draft.cost_usd,
        duration_ms=draft.duration_ms,
        app_version=app_version,
        # Two saves of the same state by the same hand in the same microsecond are still two checkpoints.
        nonce=os.urandom(16),
        key=draft.key,
        size_bytes=encoded.size_bytes,
        # A parent that was deleted meanwhile stays the parent; walks go on from the nearest one that is there.
        prev=(parent.prev if parent.hidden else parent.id) if parent else None,
        skipped=parent.skipped + 1 if parent and parent.hidden else 0,
        tags=draft.tags,
    )
    # By place: a third of the time that `_replace` takes.
    return CheckpointRow(checkpoint_id(row), *row[1:])


def _settle(
    backend: Backend,
    intent: Intent,
    draft: Draft,
    row: CheckpointRow,
    failure: HoldfastError,
    went: Retirement | None,
) -> CheckpointRow | None:
    """Find out whether a commit whose reply was an error took place after all.

    None where it did not, and may without what was to go with it; else the error is raised that there was.
    """
    removes = went is not None and bool(went.gone)
    if not isinstance(failure, BackendError):
        # It was refused.
        if removes:
            return None
        raise failure
    try:
        with backend.reader() as reader:
            found = reader.checkpoint(row.id)
    except BaseException as error:
        _leave_open(intent, draft, row, went)
        if not isinstance(error, HoldfastError):
            raise
        # The store cannot be read either: the first failure is the one to report.
        raise failure from None
    if found is None and failure.details.get("outcome") == "unknown":
        # A server may still be at it.
        _leave_open(intent, draft, row, went)
        raise failure
    if found is None and not removes:
        raise failure
    return found


def _leave_open(intent: Intent, draft: Draft, row: CheckpointRow, went: Retirement | None) -> None:
    if intent.unsettled is not None:
        intent.unsettled.append(Unsettled(row, draft, _wanted(intent), went))
