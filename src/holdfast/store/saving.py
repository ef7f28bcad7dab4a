"""How a save becomes one commit.

Everything is computed from one reading of the store (`choosing`) and then committed with the head that was read as a
condition. If somebody moved the head in between, what happens depends on what the writer had seen:

- it had seen nothing: it only wants to append, so it reads again and tries again;
- it had seen another head (by loading or saving, or through `expect=`): ConflictError, nothing written;
- the same with `on_conflict="fork"`: the checkpoint goes onto a new branch, beside the head that is there.

A commit that ends in an error of the store may have taken place. It is looked for at once; where that leaves the
question open, the writer keeps the row, and its next save looks for it first. If it is there, the writer goes on as if
that save had returned, and the same save once more is answered with it.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from holdfast.errors import BackendError, ConflictError, ErrorCode, HoldfastError
from holdfast.history.identity import checkpoint_id
from holdfast.objects.state import EncodedState
from holdfast.storage.ports import Backend
from holdfast.storage.records import (
    Batch,
    CheckpointId,
    CheckpointRow,
    Guard,
    Move,
    SessionRow,
)
from holdfast.store.choosing import Landing, Look, look_for, still_holds
from holdfast.store.draft import Draft
from holdfast.store.intent import Intent, Saved, Unsettled
from holdfast.store.rereading import read_again

if TYPE_CHECKING:
    from holdfast.store.retiring import Retirement

_ATTEMPTS = 1000
"""A writer without expectation loses a round only when another one wins it, so this many losses in a row mean that
something other than contention is wrong."""

_TOGETHER = 2
"""Attempts to remove old checkpoints in the commit of a save. Whatever is wrong with them then, the save goes first."""


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
            look = Look(Landing(intent.branch, blindly.row, blindly.row.id), blindly.owner)
        else:
            look = read_again(partial(look_for, backend, intent, encoded, draft, now))
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
        return Saved(saved, owner, wrote=True, forked=place.forked, went=still_holds(went, saved))
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
    look: Look,
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


def _guard(place: Landing, known: SessionRow | None) -> Guard | None:
    """What keeps the parent from being deleted between reading and writing.

    A parent that is the head is kept by the move, which names it. Any other could be hidden meanwhile, and the new
    checkpoint would follow one that is not there; a deletion is in the log, so the log must not have grown.
    """
    if place.parent is None or place.parent.id == place.expected or known is None:
        return None
    return Guard(log_count=known.log_count)


def _taken_along(intent: Intent, place: Landing, known: SessionRow | None) -> str | None:
    """The branch in use from here on: in the same commit, so that nobody ever finds one that was left.

    Where people have gone elsewhere they stay there. One who goes between reading and writing is noticed by the guard.
    """
    leaves = known is not None and known.current == intent.branch != place.branch
    return place.branch if intent.leads and leaves else None


def _row(
    place: Landing, encoded: EncodedState, draft: Draft, intent: Intent, *, now: int, app_version: str | None
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
        intent.unsettled.append(Unsettled(row, draft, intent.wanted, went))
