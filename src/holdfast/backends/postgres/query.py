"""How PostgreSQL is told to answer a `Query`; what is asked is in `backends/querying.py`.

PostgreSQL chooses by statistics, which may be old or not there yet, and guesses how much a limit leaves out. So each
table stands in a LATERAL query with a limit or an offset, which is never taken apart: it is looked up for each row of
the one before. Of each session come at most so many rows, in the order of its index, and only those are sorted.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.backends import query as queries
from holdfast.storage.records import Query

_SESSION_OF_EACH: Final = "CROSS JOIN LATERAL (SELECT * FROM sessions WHERE number = c.session OFFSET 0) AS s"

_POSTGRES: Final = queries.Dialect(
    placeholder="%s",
    by_tag=(
        "tags AS t CROSS JOIN LATERAL (SELECT * FROM checkpoints WHERE position = t.position OFFSET 0) AS c "  # noqa: S608 - constants
        + _SESSION_OF_EACH
    ),
    by_session="sessions AS s JOIN checkpoints AS c ON c.session = s.number",
    newest=f"checkpoints AS c {_SESSION_OF_EACH}",
    few_of_each=(
        "sessions AS s CROSS JOIN LATERAL (SELECT * FROM checkpoints AS c WHERE c.session = s.number{conditions} "
        "ORDER BY {order} {direction} LIMIT ?) AS c"
    ),
    auto="""(c."trigger" = ? OR starts_with(c."trigger", 'auto:'))""",
    always_few=True,
)


def to_sql(query: Query) -> tuple[str, list[Any]]:
    """The statement that finds the checkpoints, in their order, and its parameters."""
    return queries.to_sql(query, _POSTGRES)
