"""A PostgreSQL database that PostgresSaver or AsyncPostgresSaver wrote.

Everything is read in one read-only transaction, so it is one moment of the database. A checkpoint there is a JSON
document with the small values in it; each other value is a row of `checkpoint_blobs`, by channel and version. From one
checkpoint to the next most versions are the same, so only those that changed are fetched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, LiteralString

import psycopg
from psycopg import IsolationLevel, sql
from psycopg.conninfo import make_conninfo

from holdfast.backends.postgres.address import DEFAULT_SCHEMA, Address, parse, parse_keywords
from holdfast.backends.postgres.errors import connecting_failed, translate
from holdfast.errors import ErrorCode, HoldfastError
from holdfast.integrations.langgraph.importing.decoding import KINDS, Decoder
from holdfast.integrations.langgraph.importing.refusing import (
    BadValueError,
    Spot,
    malformed,
    refused_kind,
    source_unknown,
)
from holdfast.integrations.langgraph.importing.source import Listed, Stored, Write

_Connection = psycopg.Connection[tuple[Any, ...]]

_COLUMNS: Final = {
    "checkpoints": {
        "thread_id",
        "checkpoint_ns",
        "checkpoint_id",
        "parent_checkpoint_id",
        "checkpoint",
        "metadata",
    },
    "checkpoint_blobs": {"thread_id", "checkpoint_ns", "channel", "version", "type", "blob"},
    "checkpoint_writes": {
        "thread_id",
        "checkpoint_ns",
        "checkpoint_id",
        "task_id",
        "idx",
        "channel",
        "type",
        "blob",
    },
}

_SENDS: Final = "__pregel_tasks"
_SENDS_IN_CHANNEL: Final = 4
"""The version of LangGraph's checkpoints from which on what a node sends is a channel. Before, it was only in the
writes of the parent, and the saver puts it into the channel when it reads."""

_REMEMBERED: Final = 8
"""Namespaces whose last values are kept in memory: the graph and the subgraphs that are at work in it at a time."""

_HINTS: Final = {
    ErrorCode.DATABASE_MISSING: "name the database that PostgresSaver was opened with; nothing was imported",
    ErrorCode.SERVER_GONE: "see that the server runs and that host and port are right, then run the import again; it "
    "goes on where it was",
    ErrorCode.PERMISSION_DENIED: "GRANT the role USAGE on the schema and SELECT on the tables of LangGraph's saver",
}
"""What to do about a source; for a store it is something else."""

_ABSENT: Final = object()
_PARAMETERS: Final = {"connect_timeout": "10", "fallback_application_name": "holdfast import-langgraph"}


class PostgresSource:
    """A database, open for reading; made with `open`."""

    def __init__(self, address: Address, connection: _Connection, decoder: Decoder) -> None:
        self.shown = address.shown
        self._address = address
        self._connection = connection
        self.decoder = decoder
        self._task_path: sql.Composable = sql.SQL("''")
        self._last: dict[tuple[object, ...], dict[str, tuple[str, Any]]] = {}

    @classmethod
    def open(cls, url: str, decoder: Decoder) -> PostgresSource:
        """Connect to a database: by its URL, or by libpq's keywords.

        Raises:
            HoldfastError: It cannot be reached, or is not one of LangGraph's.
        """
        address = parse(url) if url.startswith(("postgresql://", "postgres://")) else parse_keywords(url)
        connected = _connected(address)
        if isinstance(connected, HoldfastError):
            # Outside of any except block: the driver's error holds the password.
            raise connected
        source = cls(address, connected, decoder)
        try:
            source._begin()
        except BaseException:
            source.close()
            raise
        return source

    def _begin(self) -> None:
        connection = self._connection
        with self._translated():
            connection.read_only = True
            connection.isolation_level = IsolationLevel.REPEATABLE_READ
            # Limits that an administrator set for web requests would end the import in the middle.
            connection.execute("SET LOCAL statement_timeout = 0")
            connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            if self._address.schema != DEFAULT_SCHEMA:
                schema = sql.Identifier(self._address.schema)
                connection.execute(sql.SQL("SET LOCAL search_path = {}").format(schema))
        columns = {table: self._columns(table) for table in _COLUMNS}
        if not any(columns.values()):
            hint = "where the tables are in another schema than the first of search_path, add ?schema=NAME to the URL"
            raise source_unknown(self.shown, "it has no table `checkpoints`", hint=hint)
        for table, wanted in _COLUMNS.items():
            if not columns[table] >= wanted:
                why = (
                    f"its table `{table}` has other columns, as ShallowPostgresSaver's and very old ones have"
                )
                hint = "run the graph with PostgresSaver on it once (setup() brings tables up to date), then import"
                raise source_unknown(self.shown, why, hint=hint)
        if "task_path" in columns["checkpoint_writes"]:
            self._task_path = sql.Identifier("task_path")

    def _columns(self, table: str) -> set[str]:
        rows = self._rows(
            "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
            table,
        )
        return {row[0] for row in rows}

    def count(self) -> int:
        """How many checkpoints there are in all."""
        return int(self._rows("SELECT count(*) FROM checkpoints")[0][0])

    def threads(self) -> Iterator[str]:
        """The ids of all threads, sent as they are asked for."""
        with self._translated(), self._connection.cursor(name="threads") as cursor:
            cursor.execute(
                "SELECT thread_id FROM checkpoints UNION SELECT thread_id FROM checkpoint_writes ORDER BY 1"
            )
            for (thread,) in cursor:
                yield str(thread)

    def check(self, thread: str) -> None:
        """See that no value is of a kind that is not taken over."""
        found = self._rows(
            "SELECT c.checkpoint_ns, c.checkpoint_id, b.channel, b.type FROM checkpoint_blobs b JOIN checkpoints c "
            "ON c.thread_id = b.thread_id AND c.checkpoint_ns = b.checkpoint_ns "
            "AND c.checkpoint -> 'channel_versions' ->> b.channel = b.version "
            'WHERE b.thread_id = %s AND b.type <> ALL(%s) ORDER BY c.checkpoint_id COLLATE "C" LIMIT 1',
            thread,
            [*KINDS, "empty"],
        )
        found += self._rows(
            "SELECT checkpoint_ns, checkpoint_id, channel, type FROM checkpoint_writes "
            "WHERE thread_id = %s AND (type IS NULL OR type <> ALL(%s)) LIMIT 1",
            thread,
            list(KINDS),
        )
        for namespace, checkpoint, channel, kind in found:
            raise refused_kind(kind).at(Spot(thread, namespace, checkpoint, channel))

    def index(self, thread: str) -> list[Listed]:
        """The checkpoints of a thread in the order of their ids, byte by byte."""
        self._last.clear()
        rows = self._rows(
            "SELECT checkpoint_id, checkpoint_ns, parent_checkpoint_id FROM checkpoints WHERE thread_id = %s "
            'ORDER BY checkpoint_id COLLATE "C", checkpoint_ns COLLATE "C"',
            thread,
        )
        return [Listed(row[0], row[1], row[2] or None) for row in rows]

    def written(self, thread: str) -> list[tuple[str, str]]:
        """Where in a thread there are writes."""
        rows = self._rows(
            "SELECT checkpoint_ns, checkpoint_id FROM checkpoint_writes WHERE thread_id = %s GROUP BY 1, 2 "
            'ORDER BY checkpoint_id COLLATE "C", checkpoint_ns COLLATE "C"',
            thread,
        )
        return [(row[0], row[1]) for row in rows]

    def checkpoint(self, thread: str, entry: Listed) -> Stored:
        """A checkpoint, with the values of its channels from where they are."""
        rows = self._rows(
            "SELECT checkpoint, metadata, (SELECT jsonb_object_agg(key, value) FROM "
            "jsonb_each_text(CASE jsonb_typeof(checkpoint -> 'channel_versions') "
            "WHEN 'object' THEN checkpoint -> 'channel_versions' END)) "
            "FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id = %s",
            thread,
            entry.namespace,
            entry.id,
        )
        checkpoint, metadata, versions = rows[0]
        spot = Spot(thread, entry.namespace, entry.id)
        if type(checkpoint) is not dict or type(metadata) is not dict:
            raise malformed("it is no checkpoint, or its metadata is no object").at(spot)
        values = {**(checkpoint.get("channel_values") or {}), **self._blobs(spot, versions or {})}
        checkpoint = {**checkpoint, "channel_values": values}
        if entry.parent is not None and _is_before(checkpoint.get("v")):
            self._add_sends(spot, entry.parent, checkpoint)
        return Stored(checkpoint, metadata)

    def _blobs(self, spot: Spot, versions: Mapping[str, str]) -> dict[str, Any]:
        # What was read as a stranger is of no use to one who knows the classes.
        place = (spot.thread, spot.namespace, self.decoder.is_strange)
        before = self._last.pop(place, {})
        wanted = {
            name: version for name, version in versions.items() if before.get(name, ("",))[0] != version
        }
        known = {name: each for name, each in before.items() if name in versions and name not in wanted}
        rows = self._rows(
            "SELECT channel, version, type, blob FROM checkpoint_blobs WHERE thread_id = %s AND checkpoint_ns = %s "
            "AND (channel, version) IN (SELECT * FROM unnest(%s::text[], %s::text[]))",
            spot.thread,
            spot.namespace,
            list(wanted),
            list(wanted.values()),
        )
        known.update((name, (version, _ABSENT)) for name, version in wanted.items())
        for channel, version, kind, data in rows:
            if kind != "empty":
                known[channel] = (version, self._value(spot._replace(channel=channel), kind, data))
        self._last[place] = known
        if len(self._last) > _REMEMBERED:
            del self._last[next(iter(self._last))]
        return {name: value for name, (_, value) in known.items() if value is not _ABSENT}

    def _add_sends(self, spot: Spot, parent: str, checkpoint: dict[str, Any]) -> None:
        rows = self._rows(
            sql.SQL(
                "SELECT type, blob FROM checkpoint_writes WHERE thread_id = %s AND checkpoint_id = %s "
                "AND channel = %s ORDER BY {}, task_id, idx"
            ).format(self._task_path),
            spot.thread,
            parent,
            _SENDS,
        )
        if not rows:
            return
        place = spot._replace(channel=_SENDS)
        checkpoint["channel_values"][_SENDS] = [self._value(place, *row) for row in rows]
        versions = dict(checkpoint.get("channel_versions") or {})
        # The same as the newest of the others, as the saver has it; the first version where there is none.
        versions[_SENDS] = max(versions.values()) if versions else f"{1:032}.{0:016}"
        checkpoint["channel_versions"] = versions

    def writes(self, thread: str, namespace: str, checkpoint: str) -> list[Write]:
        """The writes of a checkpoint, by task and index."""
        rows = self._rows(
            sql.SQL(
                "SELECT task_id, {path}, idx, channel, type, blob FROM checkpoint_writes "
                "WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id = %s "
                'ORDER BY task_id COLLATE "C", {path} COLLATE "C", idx'
            ).format(path=self._task_path),
            thread,
            namespace,
            checkpoint,
        )
        spot = Spot(thread, namespace, checkpoint)
        return [
            Write(task, path, place, channel, self._value(spot._replace(channel=channel), kind, data))
            for task, path, place, channel, kind, data in rows
        ]

    def _value(self, spot: Spot, kind: str | None, data: bytes | None) -> Any:
        try:
            return self.decoder.value(kind, data)
        except BadValueError as bad:
            raise bad.at(spot) from None

    def close(self) -> None:
        """End the transaction and the connection."""
        self._connection.close()

    def _rows(self, statement: LiteralString | sql.Composed, *values: object) -> list[tuple[Any, ...]]:
        # Binary, so that bytes come as bytes and not as text twice as long.
        with self._translated(), self._connection.cursor(binary=True) as cursor:
            return cursor.execute(statement, values).fetchall()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            ours = translate(error, self.shown)
            raise _of_a_source(ours) if ours is not None else error from error


def _connected(address: Address) -> _Connection | HoldfastError:
    try:
        parameters = {**_PARAMETERS, **address.parameters, "client_encoding": "UTF8"}
        return psycopg.connect(make_conninfo("", **parameters))
    # UnicodeError: a host that is no host name.
    except (psycopg.Error, UnicodeError) as error:
        return _of_a_source(connecting_failed(error, address))


def _of_a_source(error: HoldfastError) -> HoldfastError:
    """The same error, for a database that is no store and is only read."""
    error.hint = _HINTS.get(error.code, error.hint)
    return error


def _is_before(version: Any) -> bool:
    return isinstance(version, int) and version < _SENDS_IN_CHANNEL
