"""A `Query` as SQL: constant text for each set of filters, every value bound.

The text decides which table drives the search, because SQLite has no statistics to choose by: the label or the session
if one is given, the start of an id, the sessions of an agent or project or any session within a time, else the newest
checkpoints first. Metadata is not part of the text: `matching` compares it on the rows that are left.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.backends.matching import id_range
from holdfast.backends.rows import CHECKPOINT_FIELDS
from holdfast.storage.records import Query

# CROSS JOIN is how one tells SQLite to take the tables in this order.
_BY_TAG = (
    "tags AS t CROSS JOIN checkpoints AS c ON c.position = t.position "
    "CROSS JOIN sessions AS s ON s.number = c.session"
)
_BY_SESSION = "sessions AS s CROSS JOIN checkpoints AS c ON c.session = s.number"
_NEWEST = "checkpoints AS c CROSS JOIN sessions AS s ON s.number = c.session"

_EXACT = {
    "session": "s.id = ?",
    "branch": "c.branch = ?",
    "agent": "s.agent = ?",
    "project": "s.project = ?",
    "tag": "t.tag = ?",
    "status": "c.status = ?",
    "step": "c.step = ?",
    "seq": "c.seq = ?",
    "key": "c.key = ?",
    "since": "c.created_at >= ?",
    "until": "c.created_at <= ?",
    "before_seq": "c.seq < ?",
    "after_seq": "c.seq > ?",
    "before_position": "c.position < ?",
    "after_position": "c.position > ?",
}
# GLOB is exact about upper and lower case, unlike LIKE.
_AUTO = """(c."trigger" = ? OR c."trigger" GLOB 'auto:*')"""


# Of each session only as many as are wanted in all: a page of an agent does not cost its whole history.
_FEW_OF_EACH = (
    "sessions AS s CROSS JOIN checkpoints AS c ON c.position IN ("
    "SELECT c.position FROM checkpoints AS c WHERE c.session = s.number{conditions} ORDER BY c.seq {direction} LIMIT ?)"
)
_OF_SESSIONS = ("session", "agent", "project")


def to_sql(query: Query) -> tuple[str, list[Any]]:
    """The statement that finds the checkpoints, in their order, and its parameters."""
    of_sessions, session_values = _exactly(query, _OF_SESSIONS)
    conditions, parameters = _exactly(query, [name for name in _EXACT if name not in _OF_SESSIONS])
    if query.id_prefix is not None:
        conditions.append("c.id BETWEEN ? AND ?")
        parameters.extend(id_range(query.id_prefix))
    if query.trigger is not None:
        conditions.append(_AUTO if query.trigger == "auto" else 'c."trigger" = ?')
        parameters.append(query.trigger)
    if not query.include_hidden:
        conditions.append("c.hidden = 0")
    direction = "ASC" if query.oldest_first else "DESC"
    # Metadata is compared on what comes out, so that it has to come out unlimited.
    limit = [] if query.metadata or query.limit is None else [query.limit]
    tables, order = _driven_by(query)
    if of_sessions and tables == _BY_SESSION and query.session is None and limit:
        within = "".join(f" AND {each}" for each in conditions)
        tables = _FEW_OF_EACH.format(conditions=within, direction=direction)
        conditions, parameters = of_sessions, [*parameters, *limit, *session_values]
    else:
        conditions, parameters = of_sessions + conditions, session_values + parameters
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    sql = f"SELECT {CHECKPOINT_FIELDS} FROM {tables}{where} ORDER BY {order} {direction}"  # noqa: S608 - constants
    return sql + " LIMIT ?" * len(limit), parameters + limit


def _exactly(query: Query, names: Iterable[str]) -> tuple[list[str], list[Any]]:
    """The conditions of these filters, and what they are compared with."""
    given = [name for name in names if getattr(query, name) is not None]
    return [_EXACT[name] for name in given], [getattr(query, name) for name in given]


def _driven_by(query: Query) -> tuple[str, str]:
    if query.tag is not None:
        return _BY_TAG, "t.position"
    if query.id_prefix is not None:
        # The plus keeps SQLite from going through all rows in this order instead of looking up the few by their id.
        return _NEWEST, "+c.position"
    if query.session is not None:
        # Within a session both orders are the same, and seq is the one that has an index.
        return _BY_SESSION, "c.seq"
    if any(each is not None for each in (query.agent, query.project, query.since, query.until)):
        return _BY_SESSION, "c.position"
    return _NEWEST, "c.position"
