"""Events: what happened, as typed records that go over a bus.

Each has a `type`, lower-case words joined by dots (`checkpoint.created`), a time and, mostly, a session. What holdfast
says about its own work has a class with a field for each fact. What the application says about itself is a plain
`Event` with `data`, made by `occurred`: plain JSON, copied when it is made, because a subscriber sees it later and on
another thread.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, Self

from holdfast.errors import ErrorCode, InvalidInputError, bad_argument
from holdfast.history import jsontext
from holdfast.history.checkpoint import Checkpoint

_WORD = "[a-z][a-z0-9_-]*"
_TYPE: Final = re.compile(rf"{_WORD}(\.{_WORD})*")
_LONGEST = 128
"""An event's type becomes the trigger of a checkpoint; it is a name, not a message."""

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def now() -> datetime:
    """The time that an event gets where none is given: this moment, in UTC."""
    return datetime.now(UTC)


def _type(name: str) -> Any:
    """The type of a class of events: the same for all of them, and nothing to pass."""
    return field(default=name, init=False)


def _mapping() -> Any:
    """A mapping that nobody can change; left out of the hash, because mappings have none."""
    return field(default_factory=lambda: _NOTHING, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened. Make one of your own with `occurred`.

    A class of your own is a frozen dataclass on top of this one, with `type: str = field(default="...", init=False)`.
    """

    type: str
    """Lower-case words joined by dots."""
    at: datetime = field(default_factory=now)
    """When, in UTC."""
    session: str | None = None
    """The session that it is about."""
    data: Mapping[str, Any] = _mapping()
    """What else the application said about it."""

    def to_dict(self) -> dict[str, Any]:
        """The event as plain JSON data, the same on every surface."""
        record = {each.name: _plain(getattr(self, each.name)) for each in fields(self)}
        if not self.data:
            del record["data"]
        return record


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCreated(Event):
    """A checkpoint is in the store."""

    type: str = _type("checkpoint.created")
    checkpoint_id: str
    branch: str
    seq: int
    step: int | None = None
    beat_count: int | None = None
    size_bytes: int = 0
    trigger: str = "manual"
    forked: bool = False
    """Whether it went onto a new branch, because somebody else had moved the one it was meant for."""

    @classmethod
    def of(
        cls,
        checkpoint: Checkpoint,
        *,
        beat_count: int | None = None,
        forked: bool = False,
    ) -> Self:
        """The event for a checkpoint; its beats are read from its metadata where they are not given."""
        if beat_count is None:
            beats = checkpoint.metadata.get("beats")
            beat_count = beats if type(beats) is int else None
        return cls(
            at=checkpoint.created_at,
            session=checkpoint.session,
            checkpoint_id=checkpoint.id,
            branch=checkpoint.branch,
            seq=checkpoint.seq,
            step=checkpoint.step,
            beat_count=beat_count,
            size_bytes=checkpoint.size_bytes,
            trigger=checkpoint.trigger,
            forked=forked,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRestored(Event):
    """An agent goes on from a checkpoint."""

    type: str = _type("checkpoint.restored")
    checkpoint_id: str
    beats_recovered: int | None = None
    steps_recovered: int | None = None
    age_seconds: float = 0.0
    complete: bool = True
    """Whether every source got its state back."""
    sources: Mapping[str, str] = _mapping()
    """What became of each source, by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPruned(Event):
    """Checkpoints were removed."""

    type: str = _type("checkpoint.pruned")
    count: int
    ids: tuple[str, ...] = ()
    reason: str = "retention"
    """`retention`, `prune`, `delete` or `forget`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFailed(Event):
    """A save ended in an error."""

    type: str = _type("checkpoint.failed")
    code: str
    """The code of a HoldfastError, else the name of the exception's class."""
    message: str
    trigger: str = "manual"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderForked(Event):
    """Somebody else had moved the branch, and the recorder goes on beside it."""

    type: str = _type("recorder.forked")
    branch: str
    """The new branch, which the recorder is on from here."""
    expected: str | None
    """The head that it had seen."""
    found: str | None
    """The head that was there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFailed(Event):
    """A source could not be captured, or could not take its state back."""

    type: str = _type("source.failed")
    name: str
    phase: str
    """`snapshot` or `restore`."""
    message: str


def occurred(
    type: str,  # noqa: A002 - the field's name
    /,
    *,
    session: str | None = None,
    at: datetime | None = None,
    **data: Any,
) -> Event:
    """An event of the application's own: `occurred("tool.completed", tool="search", hits=3)`.

    Args:
        type: Lower-case words joined by dots.
        session: The session that it is about.
        at: When; now by default.
        data: Plain JSON. It is copied.

    Raises:
        InvalidInputError: The type or the data is none.
    """
    return of_application(type, data, session=session, at=at)


def of_application(
    name: str, data: dict[str, Any], *, session: str | None = None, at: datetime | None = None
) -> Event:
    """The same, with data whose names may be any."""
    check_type(name)
    kept = MappingProxyType(_copied(name, data)) if data else _NOTHING
    return Event(type=name, at=now() if at is None else at, session=session, data=kept)


def check_type(name: str) -> str:
    """Return `name` if it can be the type of an event."""
    if type(name) is str and len(name) <= _LONGEST and _TYPE.fullmatch(name):
        return name
    raise InvalidInputError(
        f"{name!r:.80} cannot be the type of an event",
        code=ErrorCode.BAD_NAME,
        hint="use lower-case words joined by dots, such as tool.completed",
    )


def check_pattern(pattern: str) -> str:
    """Return `pattern` if it can choose events: a type, `words.*` for all below, or `*` for all."""
    if type(pattern) is str:
        exact = pattern.removesuffix(".*")
        if pattern == "*" or (len(exact) <= _LONGEST and _TYPE.fullmatch(exact)):
            return pattern
    raise bad_argument(
        f"{pattern!r:.80} cannot choose events",
        'use a type such as "tool.completed", all below one such as "checkpoint.*", or "*"',
    )


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern, checked before, chooses events of this type."""
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return name == pattern


def _copied(name: str, data: dict[str, Any]) -> dict[str, Any]:
    try:
        copy: dict[str, Any] = jsontext.parse(jsontext.metadata_text(data))
    except InvalidInputError as refused:
        raise bad_argument(
            f"the data of event {name!r} cannot be kept: {refused}",
            "an event's data is plain JSON (dict, list, str, int, float, bool, None)",
            **refused.details,
        ) from None
    return copy


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
