"""A `Query` as SQL, and the parts of it that each database would answer differently.

The SQL is constant text for each set of filters, with every value bound. It decides which table drives the search: the
label or the session if one is given, the start of an id, the sessions of an agent or project, else the newest
checkpoints first. A `Dialect` makes a database follow that order.

Metadata is compared here and not in SQL, because each database has its own idea of JSON equality. Two values are equal
when they are equal as JSON and of the same kind: `1`, `1.0` and `true` differ; the order of keys does not count.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.backends.rows import CHECKPOINT_FIELDS
from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.record import Record
from holdfast.storage.records import Query

Conditions = tuple[tuple[tuple[str, ...], str], ...]
"""(path of keys, value as JSON text) pairs, as `Query.metadata` has them."""

_ID_DIGITS = 64
_HEX = frozenset("0123456789abcdef")


def normalized(conditions: Conditions) -> Conditions:
    """The same conditions with their values in the form that `metadata_matches` compares."""
    return tuple((path, _text(json.loads(value))) for path, value in conditions)


def metadata_matches(metadata: str, added: str | None, conditions: Conditions) -> bool:
    """Whether metadata, with what was added laid over it, has all these values. The conditions are normalized."""
    if not conditions:
        return True
    value = json.loads(metadata)
    if added is not None:
        value = value | json.loads(added)
    return all(_holds(value, path, wanted) for path, wanted in conditions)


def id_range(prefix: str) -> tuple[bytes, bytes]:
    """The lowest and the highest id that start with these hex digits, of which there may be an odd number."""
    if len(prefix) > _ID_DIGITS or not _HEX.issuperset(prefix):
        raise InvalidInputError(
            f"{prefix!r:.80} is not the start of an id",
            code=ErrorCode.BAD_REF,
            hint="an id is 64 hex digits; give its first ones",
        )
    return bytes.fromhex(prefix.ljust(_ID_DIGITS, "0")), bytes.fromhex(prefix.ljust(_ID_DIGITS, "f"))


def _holds(value: Any, path: tuple[str, ...], wanted: str) -> bool:
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return _text(value) == wanted


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


class Dialect(Record):
    """What one database says in its own way. `?` stands for a value; `placeholder` takes its place."""

    placeholder: str
    by_tag: str
    """tags AS t, checkpoints AS c and sessions AS s, from the first to the last."""
    by_session: str
    """sessions AS s, then their checkpoints AS c."""
    newest: str
    """checkpoints AS c in the order that is asked for, then the session AS s of each."""
    few_of_each: str
    """The same as `by_session`, with at most `?` checkpoints of each session: a page of an agent does not cost its
    whole history. It has places for further conditions, the order and its direction."""
    auto: str
    """A trigger that is `?`, or begins with `auto:`."""
    always_few: bool
    """Whether `few_of_each` is to be used where it can be, with None for no limit; else only where it reads less."""


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
    "key_from": "c.key >= ?",
    "key_below": "c.key < ?",
    "since": "c.created_at >= ?",
    "until": "c.created_at <= ?",
    "before_seq": "c.seq < ?",
    "after_seq": "c.seq > ?",
    "before_position": "c.position < ?",
    "after_position": "c.position > ?",
}
# Of a label the places are in its own index.
_EXACT_OF_TAG = _EXACT | {"before_position": "t.position < ?", "after_position": "t.position > ?"}
_OF_SESSIONS = ("session", "agent", "project")
_THROUGH_SESSIONS = ("agent", "project", "since", "until")


def to_sql(query: Query, dialect: Dialect) -> tuple[str, list[Any]]:
    """The statement that finds the checkpoints, in their order, and its parameters."""
    of_sessions, session_values = _exactly(query, _OF_SESSIONS)
    conditions, parameters = _conditions(query, dialect)
    direction = "ASC" if query.oldest_first else "DESC"
    # Metadata is compared on what comes out, so that it has to come out unlimited.
    limit: list[int | None] = [] if query.metadata or query.limit is None else [query.limit]
    tables, order = _driven_by(query, dialect)
    # Within a session a key is there once; across sessions the place decides between two.
    orders = [order, "c.position"] if query.by_key and query.session is None else [order]
    by_session = tables == dialect.by_session
    if by_session and (dialect.always_few or (limit and query.session is None and of_sessions)):
        within = "".join(f" AND {each}" for each in conditions)
        inner = "c.key" if query.by_key else _seq(query)
        tables = dialect.few_of_each.format(conditions=within, order=inner, direction=direction)
        conditions, parameters = of_sessions, [*parameters, *(limit or [None]), *session_values]
    else:
        conditions, parameters = of_sessions + conditions, session_values + parameters
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    ordered = ", ".join(f"{each} {direction}" for each in orders)
    sql = f"SELECT {CHECKPOINT_FIELDS} FROM {tables}{where} ORDER BY {ordered}"  # noqa: S608 - constants
    sql += " LIMIT ?" * len(limit)
    return sql.replace("?", dialect.placeholder), parameters + limit


def _conditions(query: Query, dialect: Dialect) -> tuple[list[str], list[Any]]:
    """What is asked of the checkpoints themselves."""
    conditions, parameters = _exactly(query, [name for name in _EXACT if name not in _OF_SESSIONS])
    if query.id_prefix is not None:
        conditions.append("c.id BETWEEN ? AND ?")
        parameters.extend(id_range(query.id_prefix))
    if query.prev is not None:
        conditions.append("c.prev = ?" if query.prev else "c.prev IS NULL")
        parameters.extend([query.prev] if query.prev else [])
    if query.trigger is not None:
        conditions.append(dialect.auto if query.trigger == "auto" else 'c."trigger" = ?')
        parameters.append(query.trigger)
    if query.by_key:
        # Said even where a range says it too: the index is over keys that are not NULL, and databases want to read so.
        conditions.append("c.key IS NOT NULL")
    if not query.include_hidden:
        conditions.append("c.hidden = 0")
    return conditions, parameters


def _exactly(query: Query, names: Iterable[str]) -> tuple[list[str], list[Any]]:
    """The conditions of these filters, and what they are compared with."""
    exact = _EXACT if query.tag is None else _EXACT_OF_TAG
    given = [name for name in names if getattr(query, name) is not None]
    return [exact[name] for name in given], [getattr(query, name) for name in given]


def _driven_by(query: Query, dialect: Dialect) -> tuple[str, str]:
    if query.tag is not None:
        return dialect.by_tag, "c.key" if query.by_key else "t.position"
    if query.id_prefix is not None:
        # The sum keeps a database from going through all rows in this order instead of looking up the few by their id.
        return dialect.newest, "c.key" if query.by_key else "c.position + 0"
    if query.by_key:
        # Keys are in order within a session only.
        return dialect.by_session, "c.key"
    if query.session is not None:
        # Within a session both orders are the same, and seq is the one that has an index.
        return dialect.by_session, _seq(query)
    if _has(query, _THROUGH_SESSIONS):
        return dialect.by_session, "c.position"
    return dialect.newest, "c.position"


def _seq(query: Query) -> str:
    """The order within a session."""
    # Few follow one checkpoint, and there is an index to find them; this order would lead through the whole session.
    return "c.seq" if query.prev is None else "c.seq + 0"


def _has(query: Query, names: Sequence[str]) -> bool:
    return any(getattr(query, name) is not None for name in names)
