"""The envelope of a checkpoint in an archive: every field of its row that means the same in any store.

What the store gives (seq, position, its clock, sizes) stays out, so that the same checkpoint is the same file wherever
it is exported. Three hashes hold it together: `root` is that of the state, `id` that of everything the writer said, and
`seal` that of the envelope, with what can be changed after a save (tags, a pin, an edited message).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from holdfast.errors import InvalidInputError
from holdfast.history import jsontext
from holdfast.history.checkpoint import checkpoint_id, moment
from holdfast.history.names import check_branch, check_key, check_label, check_session, check_tags
from holdfast.objects.hashing import digest
from holdfast.record import Record
from holdfast.storage.records import CheckpointId, CheckpointRow, ChunkHash, SessionRow
from holdfast.store.archives.refusing import damaged, kind_of, malformed, wrong_version
from holdfast.store.draft import check_draft, check_message, check_text

VERSION: Final = 1
CHECKPOINT: Final = "holdfast-checkpoint"
SESSION: Final = "holdfast-session"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
LATEST: Final = (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
"""Microseconds. What is saved next is younger, and has to be a datetime too: the last day is left for that."""
_ID: Final = re.compile("[0-9a-f]{64}")
_NONCE: Final = re.compile("(?:[0-9a-f]{2}){1,64}")


class SessionHeader(Record):
    """The first line of a whole session: whose it is, where its branches stand, how many lines follow."""

    id: str
    agent: str | None
    project: str | None
    current: str
    branches: Mapping[str, CheckpointId]
    checkpoints: int


class ReadCheckpoint(Record):
    """A checkpoint as an archive has it; its hashes are not compared yet."""

    row: CheckpointRow
    """With the root and the id that the file claims."""
    agent: str | None
    project: str | None
    state: Any
    seal: str
    envelope: dict[str, Any]
    where: str
    foreign: bool = False
    """Whether another program wrote it: it has no hashes, and its id is a key."""


def envelope_of(row: CheckpointRow, owner: SessionRow) -> dict[str, Any]:
    """The envelope of a checkpoint, without its state: keys sorted, plain JSON data."""
    made: dict[str, Any] = {
        "added_metadata": None if row.added_metadata is None else jsontext.parse(row.added_metadata),
        "agent": owner.agent,
        "app_version": row.app_version,
        "branch": row.branch,
        "cost_usd": row.cost_usd,
        "created_at": time_text(row.created_at),
        "duration_ms": row.duration_ms,
        "edited_message": row.edited_message,
        "format": CHECKPOINT,
        "id": row.id.hex(),
        "key": row.key,
        "message": row.message,
        "metadata": jsontext.parse(row.metadata),
        "nonce": row.nonce.hex(),
        "parents": [each.hex() for each in row.parents],
        "pinned": row.pinned,
        "prev": None if row.prev is None else row.prev.hex(),
        "project": owner.project,
        "root": row.root.hex(),
        "session": row.session,
        "skipped": row.skipped,
        "status": row.status,
        "step": row.step,
        "tags": list(row.tags),
        "tokens": row.tokens,
        "trigger": row.trigger,
        "version": VERSION,
    }
    return made | {"seal": seal_of(made)}


def header_of(header: SessionHeader) -> dict[str, Any]:
    """The first line of a whole session, as plain JSON data."""
    made: dict[str, Any] = {
        "agent": header.agent,
        "branches": {name: head.hex() for name, head in sorted(header.branches.items())},
        "checkpoints": header.checkpoints,
        "current": header.current,
        "format": SESSION,
        "project": header.project,
        "session": header.id,
        "version": VERSION,
    }
    return made | {"seal": seal_of(made)}


def time_text(microseconds: int) -> str:
    """A time as an envelope has it."""
    return moment(microseconds).isoformat(timespec="microseconds")


def seal_of(envelope: Mapping[str, Any]) -> str:
    """The hash of an envelope without its seal."""
    text = jsontext.dump({key: envelope[key] for key in sorted(envelope)})
    return digest(b"holdfast archive\x00" + text.encode()).hex()


def read_checkpoint(data: Mapping[str, Any], where: str) -> ReadCheckpoint:
    """The checkpoint that a document of an archive describes.

    Raises:
        InvalidInputError: A field is missing, unknown, or not what it has to be (`archive-malformed`).
        UnsupportedError: It is of a version that this program does not read.
    """
    _check_version(data, where)
    _check_fields(data, _CHECKPOINT_FIELDS, where)
    envelope = {key: each for key, each in data.items() if key not in ("state", "seal")}
    read = _Fields(data, where)
    draft = read.checked(
        "metadata",
        lambda _: check_draft(
            read.of("message", str),
            tags=read.of("tags", list),
            step=data["step"],
            status=data["status"],
            trigger=data["trigger"],
            metadata=read.of("metadata", dict),
            tokens=data["tokens"],
            cost_usd=data["cost_usd"],
            duration_ms=data["duration_ms"],
            key=read.named("key", check_key),
        ),
    )
    edited = data["edited_message"]
    added = data["added_metadata"]
    row = CheckpointRow(
        id=CheckpointId(read.id("id")),
        session=read.checked("session", check_session),
        branch=read.checked("branch", check_branch),
        parents=tuple(CheckpointId(each) for each in read.ids("parents")),
        root=ChunkHash(read.id("root")),
        created_at=read.time("created_at"),
        trigger=draft.trigger,
        status=draft.status,
        step=draft.step,
        message=draft.message,
        metadata=draft.metadata,
        tokens=draft.tokens,
        cost_usd=draft.cost_usd,
        duration_ms=draft.duration_ms,
        app_version=read.checked("app_version", lambda each: check_label(each, "application version")),
        nonce=read.nonce("nonce"),
        key=draft.key,
        size_bytes=0,
        prev=None if data["prev"] is None else CheckpointId(read.id("prev")),
        skipped=read.count("skipped"),
        tags=read.checked("tags", check_tags),
        pinned=read.of("pinned", bool),
        edited_message=None if edited is None else read.checked("edited_message", check_message),
        added_metadata=None
        if added is None
        else read.checked(
            "added_metadata", lambda _: jsontext.metadata_text(read.of("added_metadata", dict))
        ),
    )
    agent = read.checked("agent", lambda each: check_label(each, "agent"))
    project = read.checked("project", lambda each: check_label(each, "project"))
    return ReadCheckpoint(row, agent, project, data["state"], read.of("seal", str), envelope, where)


def read_header(data: Mapping[str, Any], where: str) -> SessionHeader:
    """The first line of a whole session; see `read_checkpoint`."""
    _check_version(data, where)
    _check_fields(data, _HEADER_FIELDS, where)
    read = _Fields(data, where)
    branches = {
        read.branch(name): CheckpointId(_id(head, "branches", where))
        for name, head in read.of("branches", dict).items()
    }
    header = SessionHeader(
        read.checked("session", check_session),
        read.checked("agent", lambda each: check_label(each, "agent")),
        read.checked("project", lambda each: check_label(each, "project")),
        read.checked("current", check_branch),
        branches,
        read.count("checkpoints"),
    )
    if data["seal"] != seal_of({key: each for key, each in data.items() if key != "seal"}):
        raise damaged(where, "seal-differs", "its first line does not fit its seal")
    return header


def check_hashes(read: ReadCheckpoint, root: bytes) -> None:
    """Compare what a checkpoint claims with what it is; `root` is that of the state in the file.

    Raises:
        IntegrityError: Something does not fit; the message says what (`archive-damaged`).
    """
    row = read.row
    if row.root != root:
        raise damaged(
            read.where, "root-differs", f"the state has the root {root.hex()[:12]}, not {row.root.hex()[:12]}"
        )
    if checkpoint_id(row) != row.id:
        raise damaged(
            read.where,
            "id-differs",
            f"its id is not {row.id.hex()[:12]}: the message, the metadata, the parents or another part was edited",
        )
    if seal_of(read.envelope) != read.seal:
        raise damaged(
            read.where,
            "seal-differs",
            "its tags, key, pin, owner or what was added later do not fit its seal",
        )


class _Fields:
    """Reads fields of a document; each error names the field."""

    def __init__(self, data: Mapping[str, Any], where: str) -> None:
        self._data = data
        self._where = where

    def of(self, name: str, kind: type) -> Any:
        value = self._data[name]
        if type(value) is not kind:
            raise self._bad(name, f"is {kind_of(type(value))}, not {kind_of(kind)}")
        return value

    def count(self, name: str) -> int:
        number: int = self.of(name, int)
        if not 0 <= number < 2**63:
            raise self._bad(name, f"cannot be {number!r:.40}")
        return number

    def named(self, name: str, check: Callable[[str], str]) -> str | None:
        return None if self._data[name] is None else self.checked(name, check)

    def checked(self, name: str, check: Callable[[Any], Any]) -> Any:
        try:
            return check(self._data[name])
        except InvalidInputError as error:
            if error.details.get("file") == self._where:
                raise
            raise self._bad(name, f"cannot be kept: {error}") from error

    def branch(self, name: Any) -> str:
        try:
            return check_branch(name)
        except InvalidInputError as error:
            raise self._bad("branches", f"cannot be kept: {error}") from error

    def id(self, name: str) -> bytes:
        return _id(self._data[name], name, self._where)

    def ids(self, name: str) -> list[bytes]:
        return [_id(each, name, self._where) for each in self.of(name, list)]

    def nonce(self, name: str) -> bytes:
        text = self._data[name]
        if type(text) is not str or not _NONCE.fullmatch(text):
            raise self._bad(name, "is not 2 to 128 hex digits")
        return bytes.fromhex(text)

    def time(self, name: str) -> int:
        text = self.checked(name, lambda each: check_text(each, name))
        try:
            since = (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)
            # A legal text may name a moment that no datetime in UTC is.
            again = time_text(since)
        except (ValueError, TypeError, OverflowError) as error:
            raise self._bad(name, f"is no time with a zone: {text!r:.60}") from error
        if again != text:
            raise self._bad(name, f"is not written as a time in UTC: {text!r:.60}")
        if since > LATEST:
            raise self._bad(name, f"is too late to save anything after it: {text!r:.60}")
        return since

    def _bad(self, name: str, why: str) -> InvalidInputError:
        return malformed(self._where, "bad-field", f"its {name!r} {why}")


def _id(value: object, name: str, where: str) -> bytes:
    if type(value) is not str or not _ID.fullmatch(value):
        raise malformed(where, "bad-field", f"its {name!r} holds {value!r:.80}, which is not 64 hex digits")
    return bytes.fromhex(value)


def _check_version(data: Mapping[str, Any], where: str) -> None:
    found = data.get("version")
    if type(found) is not int or found != VERSION:
        raise wrong_version(where, found, VERSION)


def _check_fields(data: Mapping[str, Any], wanted: frozenset[str], where: str) -> None:
    if missing := sorted(wanted - data.keys()):
        raise malformed(where, "missing-field", f"it has no {missing[0]!r}")
    if unknown := sorted(data.keys() - wanted):
        raise malformed(
            where, "unknown-field", f"it has a field {unknown[0]!r:.60} that the format does not know"
        )


_HEADER_FIELDS: Final = frozenset(
    ("agent", "branches", "checkpoints", "current", "format", "project", "seal", "session", "version")
)
_CHECKPOINT_FIELDS: Final = frozenset(
    (
        *("added_metadata", "agent", "app_version", "branch", "cost_usd", "created_at", "duration_ms"),
        *(
            "edited_message",
            "format",
            "id",
            "key",
            "message",
            "metadata",
            "nonce",
            "parents",
            "pinned",
            "prev",
        ),
        *("project", "root", "seal", "session", "skipped", "state", "status", "step", "tags", "tokens"),
        *("trigger", "version"),
    )
)
