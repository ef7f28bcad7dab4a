"""Walks through ancestry that cannot lose a link.

History is followed by `prev`, from a checkpoint to its nearest ancestor that is still there. Rows are read in pages by
sequence number, because neighbours in history are nearly always neighbours in the session; a link that leaves the page
is fetched by id. A link that leads nowhere is damage, and is said to be: a walk never just ends early.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.errors import IntegrityError
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointId, CheckpointRow, Query

_PAGE = 256
"""Rows read ahead: one query for most logs, and little wasted when only the newest few are wanted."""


def ancestors(reader: Reader, start: CheckpointRow, *, limit: int | None = None) -> Iterator[CheckpointRow]:
    """Yield `start` and its ancestors, newest first."""
    page: dict[CheckpointId, CheckpointRow] = {}
    row, count = start, 0
    while limit is None or count < limit:
        yield row
        count += 1
        if row.prev is None:
            return
        found = page.pop(row.prev, None)
        if found is None:
            size = _PAGE if limit is None else min(_PAGE, max(limit - count, 1))
            rows = reader.checkpoints(Query(session=row.session, before_seq=row.seq, limit=size))
            page = {each.id: each for each in rows}
            found = page.pop(row.prev, None) or reader.checkpoint(row.prev)
        row = _linked(row, found)


def _linked(child: CheckpointRow, found: CheckpointRow | None) -> CheckpointRow:
    if found is None:
        why = f"its ancestor {child.prev.hex() if child.prev else ''} is not in the store"
    elif found.session != child.session or found.seq >= child.seq or found.hidden:
        why = f"its ancestor {found.id.hex()} does not come before it"
    else:
        return found
    raise IntegrityError.row_damaged(f"checkpoint {child.id.hex()}", why=why)
