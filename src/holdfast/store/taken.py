"""What is taken already, for one who brings something from elsewhere: files that a store has open, and keys.

Neither can be seen from outside of the stores: a file shows no sign of who has it open in this very process, and a
checkpoint that was deleted keeps its key until it is gone for good.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.backends.fork import watched
from holdfast.storage.records import Query

if TYPE_CHECKING:
    from holdfast.storage.ports import Backend

_PAGE = 1000


def is_open_here(path: Path) -> bool:
    """Whether a store of this process has this file open.

    Nobody else in the process may open it then, not even to read: the locks of a file belong to the process, and fall
    when any descriptor of it is closed. A second SQLite library does not know that, nor does `open`.
    """
    try:
        found = path.stat()
    except OSError:
        return False
    # Of the backends, only those in files can say.
    return any(getattr(each, "has_open", _has_none)((found.st_dev, found.st_ino)) for each in watched())


def deleted_keys(backend: Backend, session: str) -> Iterator[str]:
    """The keys of checkpoints of a session that were deleted, and are not gone yet."""
    query = Query(session=session, include_hidden=True, oldest_first=True, limit=_PAGE)
    with backend.reader() as reader:
        while page := reader.checkpoints(query):
            yield from (row.key for row in page if row.hidden and row.key is not None)
            query = query._replace(after_seq=page[-1].seq)


def _has_none(_file: tuple[int, int]) -> bool:
    return False
