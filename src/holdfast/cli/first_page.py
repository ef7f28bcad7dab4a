"""Whether a damaged store can be repaired in its place at all.

A repair writes through SQLite, which has to get beyond the first page of the file: where its magic number or its page
size is destroyed, nothing can be put in its place. What is in it can still be read and named; so a plan alone would
promise more than the repair can do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast import Store
    from holdfast.reports.upkeep import Problem

_SCHEME = "sqlite:///"


def is_beyond_repair(store: Store, problems: Iterable[Problem]) -> bool:
    """Whether a repair of what `problems` say would be refused. Nothing is written to find out."""
    if not store.url.startswith(_SCHEME) or not any(each.kind in ("page", "header") for each in problems):
        return False
    import apsw

    path = unquote(store.url.removeprefix(_SCHEME))
    try:
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            # The first thing that needs the first page, and nothing else of the file.
            connection.execute("PRAGMA schema_version").fetchall()
        finally:
            connection.close()
    except (apsw.NotADBError, apsw.CorruptError):
        return True
    except apsw.Error:
        # Locked, or not to be opened now: the repair itself will say what is in its way.
        return False
    return False
