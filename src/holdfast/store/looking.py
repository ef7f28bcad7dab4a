"""What a person sees of a moment in the past: the checkpoint that was newest then, and by how much it missed."""

from __future__ import annotations

from datetime import datetime

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.history.checkpoint import Checkpoint, moment
from holdfast.history.names import check_tags
from holdfast.history.refs import around
from holdfast.history.times import to_microseconds
from holdfast.reports.search import Around
from holdfast.storage.records import CheckpointRow
from holdfast.store.place import Place, session_of


def look_around(
    place: Place, when: datetime | str, *, tag: str | None = None, all_branches: bool = False
) -> Around:
    """The neighbours of a moment; see `Session.around`."""
    if tag is not None:
        (tag,) = check_tags([tag])
    if not isinstance(when, datetime | str):
        raise InvalidInputError(
            f"a time must be a datetime or text, not {type(when).__name__}",
            code=ErrorCode.BAD_TIME,
            hint='pass "2 hours ago", ISO text or a datetime',
        )
    at = to_microseconds(when, now=place.clock())
    session = place.claim.session
    with place.backend.reader() as reader:
        found = around(reader, session, place.branch, at, tag=tag, all_branches=all_branches)

        def shown(row: CheckpointRow) -> Checkpoint:
            return Checkpoint(row, session_of(reader, row))

        after = None if found.after is None else shown(found.after)
        return Around(moment(at), shown(found.before), after)
