"""A checkpoint: the public record, its id, and the one place where its row is made.

The record is a thin, unchangeable view of the stored row. Nothing is converted until it is asked for, so that listing
thousands of checkpoints costs little more than reading them.

    id = H("checkpoint" | parents | root | H(rest))

The rest is what the writer knows before the transaction. So the id is known before the write, a lost reply is settled
by reading the id back, and history cannot be changed without changing ids. What the store adds (seq, position, its
clock) and what people may change later (tags, pins, messages) stays outside.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

import ormsgpack

from holdfast.history import jsontext
from holdfast.objects.hashing import digest
from holdfast.storage.records import CheckpointId, CheckpointRow, ChunkHash, SessionRow

_PREFIX = b"holdfast checkpoint\x00"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

STATUSES = ("running", "paused", "completed", "failed", "interrupted")
TRIGGERS = ("manual", "scheduled", "error", "restore", "fork", "merge")
"""The fixed triggers; `auto:<event>` is the open one."""


def moment(microseconds: int) -> datetime:
    """A stored time as a datetime in UTC, exact to the microsecond."""
    return _EPOCH + timedelta(microseconds=microseconds)


def checkpoint_id(row: CheckpointRow) -> CheckpointId:
    """The id that belongs to the writer's part of `row`, whatever its `id` field says."""
    rest = ormsgpack.packb(
        [
            row.session,
            row.branch,
            row.created_at,
            row.trigger,
            row.status,
            row.step,
            row.message,
            row.metadata,
            row.tokens,
            row.cost_usd,
            row.duration_ms,
            row.app_version,
            row.nonce,
        ]
    )
    # The count of parents keeps (parents, root) readable in one way only.
    parents = len(row.parents).to_bytes(4, "big") + b"".join(row.parents)
    return CheckpointId(digest(_PREFIX + parents + row.root + digest(rest)))


def new_row(
    session: str,
    branch: str,
    parents: Sequence[CheckpointRow],
    root: ChunkHash,
    size_bytes: int,
    *,
    at: int,
    app_version: str | None,
    **said: Any,
) -> CheckpointRow:
    """The row of a new checkpoint, with its id; `said` has what else its writer says about it.

    A parent that was removed meanwhile stays the parent; walks go on from the nearest one that is there. One of another
    session is no part of a walk.
    """
    prev, skipped = None, 0
    if parents:
        # A clock that went back must not put a child before its parents.
        at = max(at, *[each.created_at + 1 for each in parents])
        first = parents[0]
        if first.session == session:
            prev, skipped = (first.prev, first.skipped + 1) if first.hidden else (first.id, 0)
    row = CheckpointRow(
        id=CheckpointId(b""),
        session=session,
        branch=branch,
        parents=tuple([each.id for each in parents]),
        root=root,
        created_at=at,
        app_version=app_version,
        # Two saves of the same state by the same hand in the same microsecond are still two checkpoints.
        nonce=os.urandom(16),
        size_bytes=size_bytes,
        prev=prev,
        skipped=skipped,
        **said,
    )
    # By place: a third of the time that `_replace` takes.
    return CheckpointRow(checkpoint_id(row), *row[1:])


def carried_on(row: CheckpointRow) -> dict[str, Any]:
    """What a fork, restore or merge takes over of what the agent said about its progress."""
    names = ("status", "step", "tokens", "cost_usd", "duration_ms")
    return {name: getattr(row, name) for name in names} | {"key": None}


def _field(name: str, doc: str) -> Any:
    """A property that gives a field of the row."""
    return property(attrgetter(f"_row.{name}"), doc=doc)


class Checkpoint:
    """An immutable record of one moment of a session. Load its state with `session.load(checkpoint)`."""

    __slots__ = ("_row", "agent", "project")

    agent: str | None
    project: str | None

    def __init__(self, row: CheckpointRow, session: SessionRow) -> None:
        object.__setattr__(self, "_row", row)
        object.__setattr__(self, "agent", session.agent)
        object.__setattr__(self, "project", session.project)

    _row: CheckpointRow

    @property
    def id(self) -> str:
        """64 hex digits; any unique prefix of four or more names it."""
        return self._row.id.hex()

    session: str = _field("session", "The session it belongs to.")
    branch: str = _field("branch", "The branch it was saved on.")
    seq: int = _field("seq", "Its number in the session: 1, 2, 3 ...; never reused.")
    position: int = _field("position", "Its number in the whole store, in order of arrival.")

    @property
    def parents(self) -> tuple[str, ...]:
        """The ids it was made from: none for a first one, two for a merge."""
        return tuple(parent.hex() for parent in self._row.parents)

    @property
    def parent(self) -> str | None:
        """The first parent, removed or not."""
        return self._row.parents[0].hex() if self._row.parents else None

    @property
    def prev(self) -> str | None:
        """The nearest ancestor that is still there; walks such as `@~3` follow it."""
        return self._row.prev.hex() if self._row.prev else None

    skipped: int = _field("skipped", "How many removed checkpoints lie between this one and `prev`.")

    @property
    def root(self) -> str:
        """The hash of the state: equal roots mean equal states."""
        return self._row.root.hex()

    @property
    def created_at(self) -> datetime:
        """When the writer saved it, in UTC."""
        return moment(self._row.created_at)

    @property
    def stored_at(self) -> datetime:
        """When the store took it, in UTC."""
        return moment(self._row.stored_at)

    trigger: str = _field(
        "trigger", "Why it was saved: manual, auto:<event>, scheduled, error, restore, fork or merge."
    )
    status: str = _field(
        "status", "What the agent was doing: running, paused, completed, failed or interrupted."
    )
    step: int | None = _field("step", "The agent's own step number.")

    @property
    def message(self) -> str:
        """What a person or the agent said about it; an edited message wins."""
        edited = self._row.edited_message
        return self._row.message if edited is None else edited

    @property
    def metadata(self) -> dict[str, Any]:
        """A fresh copy of its metadata, with what was added later laid over it."""
        merged: dict[str, Any] = jsontext.parse(self._row.metadata)
        if self._row.added_metadata is not None:
            merged.update(jsontext.parse(self._row.added_metadata))
        return merged

    tags: tuple[str, ...] = _field("tags", "Its labels, sorted.")
    pinned: bool = _field("pinned", "Whether it is protected from removal.")
    tokens: int | None = _field("tokens", "Tokens used by the execution so far.")
    cost_usd: float | None = _field("cost_usd", "What the execution cost so far.")
    duration_ms: float | None = _field("duration_ms", "How long the execution took so far.")
    app_version: str | None = _field("app_version", "The version of the application that saved it.")
    key: str | None = _field("key", "The caller's own id for it, unique in the session.")
    size_bytes: int = _field("size_bytes", "The size of its encoded state.")
    stored_bytes: int = _field("stored_bytes", "What it added to the store.")

    def to_dict(self) -> dict[str, Any]:
        """The record as plain JSON data, the same on every surface."""
        record: dict[str, Any] = {name: getattr(self, name) for name in _FIELDS}
        record["parents"] = list(self.parents)
        record["tags"] = list(self.tags)
        record["created_at"] = self.created_at.isoformat()
        record["stored_at"] = self.stored_at.isoformat()
        return record

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"a checkpoint cannot be changed; use session.annotate or session.tag (tried {name!r})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Checkpoint):
            return NotImplemented
        return (self._row, self.agent, self.project) == (other._row, other.agent, other.project)

    def __hash__(self) -> int:
        return hash(self._row.id)

    def __reduce__(self) -> tuple[Any, ...]:
        # Records cross process pools; unchangeable objects need to say how they are rebuilt.
        owner = SessionRow(id=self.session, agent=self.agent, project=self.project, created_at=0)
        return Checkpoint, (self._row, owner)

    def __repr__(self) -> str:
        return f"<Checkpoint {self.id[:12]} #{self.seq} {self.session}/{self.branch} {self.message!r}>"


_FIELDS = (
    *("id", "session", "agent", "project", "branch", "seq", "position", "parents", "prev", "skipped", "root"),
    *(
        "created_at",
        "stored_at",
        "trigger",
        "status",
        "step",
        "message",
        "metadata",
        "tags",
        "pinned",
        "tokens",
    ),
    *("cost_usd", "duration_ms", "app_version", "key", "size_bytes", "stored_bytes"),
)
