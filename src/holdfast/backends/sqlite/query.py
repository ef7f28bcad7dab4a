"""How SQLite is told to answer a `Query`; what is asked is in `backends/querying.py`.

SQLite has no statistics to choose by, so the text says in which order it takes the tables.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.backends import query as queries
from holdfast.storage.records import Query

# CROSS JOIN is how one tells SQLite to take the tables in this order.
_SQLITE: Final = queries.Dialect(
    placeholder="?",
    by_tag=(
        "tags AS t CROSS JOIN checkpoints AS c ON c.position = t.position "
        "CROSS JOIN sessions AS s ON s.number = c.session"
    ),
    by_session="sessions AS s CROSS JOIN checkpoints AS c ON c.session = s.number",
    newest="checkpoints AS c CROSS JOIN sessions AS s ON s.number = c.session",
    few_of_each=(
        "sessions AS s CROSS JOIN checkpoints AS c ON c.position IN ("
        "SELECT c.position FROM checkpoints AS c WHERE c.session = s.number{conditions} "
        "ORDER BY {order} {direction} LIMIT ?)"
    ),
    # GLOB is exact about upper and lower case, unlike LIKE.
    auto="""(c."trigger" = ? OR c."trigger" GLOB 'auto:*')""",
    always_few=False,
)


def to_sql(query: Query) -> tuple[str, list[Any]]:
    """The statement that finds the checkpoints, in their order, and its parameters."""
    return queries.to_sql(query, _SQLITE)
