"""Which checkpoints begin a line in a store although they were made from another one: an import counts them.

Either that one came after them, or it has not come. A number that a store has given never changes, and an ancestor has
the lower one, so that the line stays cut off there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointId, CheckpointRow, Query
from holdfast.store.archives.refusing import malformed

_PAGE: Final = 1000


def parents_missing(read: Iterable[CheckpointRow], arriving: Iterable[CheckpointRow]) -> int:
    """How many of what is new followed a checkpoint where they came from that is neither with them nor here.

    One whose ancestors were removed before its file was written says so itself, and follows nothing there either.

    Args:
        read: All that the archives have, with what each followed there.
        arriving: Of that, what is new, with what each follows here.
    """
    here = {row.id: row for row in arriving}
    return sum(row.prev is not None and row.id in here and _follows_nothing(here[row.id]) for row in read)


def _follows_nothing(row: CheckpointRow) -> bool:
    # What leads on past those that were removed here has them counted.
    return row.prev is None and not row.skipped


def came_before(
    reader: Reader, session: str, arriving: Sequence[CheckpointRow], where: Mapping[CheckpointId, str]
) -> int:
    """How many are here that were made from what only comes now, from the files of `where`.

    Raises:
        InvalidInputError: One of them is not younger than that.
    """
    if not arriving:
        return 0
    new = {row.id: row for row in arriving}
    count = 0
    for row in every_row(reader, session):
        made_from = [new[each] for each in dict.fromkeys(row.parents) if each in new]
        for parent in made_from:
            if row.created_at <= parent.created_at:
                why = f"checkpoint {row.id.hex()[:12]}, which is here, was made from it and is not younger"
                raise malformed(where[parent.id], "older-than-parent", why)
        count += bool(made_from)
    return count


def every_row(reader: Reader, session: str) -> Iterator[CheckpointRow]:
    """The checkpoints of a session, removed ones included, oldest first."""
    query = Query(session=session, include_hidden=True, oldest_first=True, limit=_PAGE)
    while page := reader.checkpoints(query):
        yield from page
        query = query._replace(after_seq=page[-1].seq)
