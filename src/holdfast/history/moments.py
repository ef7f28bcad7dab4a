"""Which checkpoint was the last one at a moment, and which one came next.

Along a branch, history is followed from the head, newest first: `created_at` only ever falls on the way, so the first
one that is not too young is the answer, and the one seen before it came next. Over a whole session, clocks of several
writers may disagree; there the order is by sequence number, as everywhere: of what is not too young the highest number,
of what is too young the lowest.
"""

from __future__ import annotations

from holdfast.errors import ErrorCode, NotFoundError
from holdfast.history.checkpoint import moment
from holdfast.history.heads import get_head, missing_head
from holdfast.history.unresolved import missing_tag, time_text
from holdfast.history.walk import ancestors
from holdfast.record import Record
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointRow, Query


class Neighbours(Record):
    """The checkpoints on both sides of a moment."""

    before: CheckpointRow
    """The last one at that moment, or before it."""
    after: CheckpointRow | None
    """The first one after it."""


def around(
    reader: Reader,
    session: str,
    branch: str,
    at_us: int,
    *,
    tag: str | None = None,
    all_branches: bool = False,
) -> Neighbours:
    """The neighbours of a moment, along the history of `branch` or among all checkpoints of the session.

    Args:
        reader: The store at one moment.
        session: The session.
        branch: The branch whose history is meant.
        at_us: The moment, in microseconds since 1970 UTC.
        tag: Only checkpoints with this tag count, on both sides.
        all_branches: Every checkpoint of the session counts, whatever branch it is on.

    Raises:
        NotFoundError: The first one is younger (`before-history`), none has the tag, or there is no such branch.
    """
    if all_branches:
        return _in_session(reader, session, branch, at_us, tag)
    head = get_head(reader, session, branch)
    newest = after = None
    for row in ancestors(reader, head):
        if tag is not None and tag not in row.tags:
            continue
        if row.created_at <= at_us:
            return Neighbours(row, after)
        newest, after = newest or row, row
    if newest is None or after is None:
        raise missing_tag(reader, session, f"tag:{tag}", tag or "")
    raise _before_history(f"branch {branch!r} of session {session!r}", at_us, after, newest, tag)


def last_at(
    reader: Reader,
    session: str,
    branch: str,
    at_us: int,
    *,
    tag: str | None = None,
    all_branches: bool = False,
) -> CheckpointRow:
    """The last checkpoint at a moment or before it: `around` without what came next, and the same errors."""
    if all_branches:
        rows = reader.checkpoints(Query(session=session, tag=tag, until=at_us, limit=1))
        if rows:
            return rows[0]
    return around(reader, session, branch, at_us, tag=tag, all_branches=all_branches).before


def _in_session(reader: Reader, session: str, branch: str, at_us: int, tag: str | None) -> Neighbours:
    before = reader.checkpoints(Query(session=session, tag=tag, until=at_us, limit=1))
    after = reader.checkpoints(Query(session=session, tag=tag, since=at_us + 1, oldest_first=True, limit=1))
    if before:
        return Neighbours(before[0], after[0] if after else None)
    if after:
        newest = reader.checkpoints(Query(session=session, tag=tag, limit=1))
        raise _before_history(f"session {session!r}", at_us, after[0], newest[0], tag)
    if tag is None or reader.session(session) is None:
        missing_head(reader, session, branch)
    raise missing_tag(reader, session, f"tag:{tag}", tag)


def _before_history(
    where: str, at_us: int, first: CheckpointRow, newest: CheckpointRow, tag: str | None
) -> NotFoundError:
    tagged = "" if tag is None else f" with the tag {tag!r}"
    return NotFoundError(
        f"{where} has nothing{tagged} at {time_text(at_us)} or before: it goes from "
        f"{time_text(first.created_at)} (#{first.seq}) to {time_text(newest.created_at)} (#{newest.seq})",
        code=ErrorCode.BEFORE_HISTORY,
        hint=f"ask for a later time; the first checkpoint{tagged} is '#{first.seq}'",
        session=first.session,
        asked=moment(at_us).isoformat(),
        first={"id": first.id.hex(), "seq": first.seq, "created_at": moment(first.created_at).isoformat()},
        newest={
            "id": newest.id.hex(),
            "seq": newest.seq,
            "created_at": moment(newest.created_at).isoformat(),
        },
        candidates=[first.id.hex()],
    )
