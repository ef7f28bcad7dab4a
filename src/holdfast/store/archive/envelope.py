"""The envelope of a checkpoint in an archive: every field of its row that means the same in any store.

What the store gives (seq, position, its clock, sizes) stays out, so that the same checkpoint is the same file wherever
it is exported. Three hashes hold it together: `root` is that of the state, `id` that of everything the writer said, and
`seal` that of the envelope, with what can be changed after a save (tags, a pin, an edited message).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import msgspec

from holdfast.errors import ErrorCode, IntegrityError, InvalidInputError, UnsupportedError
from holdfast.history import jsontext
from holdfast.history.checkpoint import checkpoint_id, moment
from holdfast.history.names import check_branch, check_key, check_label, check_session, check_tags
from holdfast.objects.hashing import digest
from holdfast.record import Record
from holdfast.storage.records import CheckpointId, CheckpointRow, ChunkHash, SessionRow
from holdfast.store.draft import check_draft, check_message

VERSION: Final = 1
CHECKPOINT: Final = "holdfast-checkpoint"
SESSION: Final = "holdfast-session"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
LATEST: Final = (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
"""Microseconds. What is saved next is younger, and has to be a datetime too: the last day is left for that."""
_FOREIGN_VERSION: Final = re.compile(r"0\.0\.[0-9]{1,6}")
_ANEW: Final = "export it again, or get the file anew from where it came from"

_Hash = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
_Nonce = Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{2}){1,64}\Z")]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class ArchiveLimits(Record):
    """What an import takes in; what is refused is not read to its end."""

    checkpoint_bytes: int = 256 << 20
    """The text of one checkpoint, uncompressed."""
    values: int = 2_000_000
    """Values in one checkpoint. Each takes some 100 bytes of memory at least, however short its text is."""
    depth: int = 900
    """Brackets in each other. A state has at most 254 levels, each of which takes up to three brackets."""
    text: int = 64 << 20
    """Bytes of one text."""
    checkpoints: int = 1_000_000
    """In one import."""
    branches: int = 10_000
    """New branches that one import may make: one for each line whose name is taken, or that follows nothing."""


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
    envelope: Mapping[str, Any]
    where: str
    foreign: bool = False
    """Whether another program wrote it: it has no hashes, and its id is a key."""


class _Checkpoint(msgspec.Struct, forbid_unknown_fields=True):
    """The shape of an envelope."""

    added_metadata: dict[str, Any] | None
    agent: str | None
    app_version: str | None
    branch: str
    cost_usd: float | int | None
    created_at: str
    duration_ms: float | int | None
    edited_message: str | None
    format: str
    id: _Hash
    key: str | None
    message: str
    metadata: dict[str, Any]
    nonce: _Nonce
    parents: list[_Hash]
    pinned: bool
    prev: _Hash | None
    project: str | None
    root: _Hash
    seal: str
    session: str
    skipped: _Count
    status: str
    step: int | None
    tags: list[str]
    tokens: int | None
    trigger: str
    version: int


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    """The shape of a session's first line."""

    agent: str | None
    branches: dict[str, _Hash]
    checkpoints: _Count
    current: str
    format: str
    project: str | None
    seal: str
    session: str
    version: int


class _Foreign(msgspec.Struct):
    """The shape of a checkpoint that another program wrote, without its snapshot."""

    id: str
    version: str
    timestamp: Annotated[int, msgspec.Meta(ge=0, le=LATEST // 1000)]
    execution_id: str = "default"
    agent_id: str | None = None
    metadata: dict[str, Any] = {}


def envelope_of(row: CheckpointRow, owner: SessionRow) -> dict[str, Any]:
    """Return the envelope of a checkpoint, without its state: keys sorted, plain JSON data."""
    made: dict[str, Any] = {
        "added_metadata": None if row.added_metadata is None else jsontext.parse(row.added_metadata),
        "agent": owner.agent,
        "app_version": row.app_version,
        "branch": row.branch,
        "cost_usd": row.cost_usd,
        "created_at": _time_text(row.created_at),
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
    """Return the first line of a whole session, as plain JSON data."""
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


def seal_of(envelope: Mapping[str, Any]) -> str:
    """Return the hash of an envelope; its seal does not count."""
    text = jsontext.dump({key: envelope[key] for key in sorted(envelope) if key != "seal"})
    return digest(b"holdfast archive\x00" + text.encode()).hex()


def read_checkpoint(data: Mapping[str, Any], where: str) -> ReadCheckpoint:
    """Return the checkpoint that a document of an archive describes.

    Raises:
        InvalidInputError: A field is missing, unknown, or not what it has to be (`archive-malformed`).
        UnsupportedError: It is of a version that this program does not read.
    """
    _check_version(data, where)
    if "state" not in data:
        raise malformed(where, "bad-field", "it has no 'state'")
    envelope = {key: each for key, each in data.items() if key != "state"}
    with _bad_field(where):
        said = msgspec.convert(envelope, _Checkpoint)
        draft = check_draft(
            said.message,
            tags=said.tags,
            step=said.step,
            status=said.status,
            trigger=said.trigger,
            metadata=said.metadata,
            tokens=said.tokens,
            cost_usd=said.cost_usd,
            duration_ms=said.duration_ms,
            key=said.key,
        )
        row = CheckpointRow(
            id=_id(said.id),
            session=check_session(said.session),
            branch=check_branch(said.branch),
            parents=tuple(map(_id, said.parents)),
            root=ChunkHash(bytes.fromhex(said.root)),
            created_at=_read_time(said.created_at),
            trigger=draft.trigger,
            status=draft.status,
            step=draft.step,
            message=draft.message,
            metadata=draft.metadata,
            tokens=draft.tokens,
            cost_usd=draft.cost_usd,
            duration_ms=draft.duration_ms,
            app_version=check_label(said.app_version, "application version"),
            nonce=bytes.fromhex(said.nonce),
            key=draft.key,
            size_bytes=0,
            prev=None if said.prev is None else _id(said.prev),
            skipped=said.skipped,
            tags=check_tags(said.tags),
            pinned=said.pinned,
            edited_message=None if said.edited_message is None else check_message(said.edited_message),
            added_metadata=None
            if said.added_metadata is None
            else jsontext.metadata_text(said.added_metadata),
        )
        agent, project = check_label(said.agent, "agent"), check_label(said.project, "project")
    return ReadCheckpoint(row, agent, project, data["state"], said.seal, envelope, where)


def read_header(data: Mapping[str, Any], where: str) -> SessionHeader:
    """Return what the first line of a whole session says; see `read_checkpoint`."""
    _check_version(data, where)
    with _bad_field(where):
        said = msgspec.convert(data, _Header)
        header = SessionHeader(
            check_session(said.session),
            check_label(said.agent, "agent"),
            check_label(said.project, "project"),
            check_branch(said.current),
            {check_branch(name): _id(head) for name, head in said.branches.items()},
            said.checkpoints,
        )
    if said.seal != seal_of(data):
        raise damaged(where, "seal-differs", "its first line does not fit its seal")
    return header


def read_foreign(data: Mapping[str, Any], where: str, session: str | None) -> ReadCheckpoint:
    """Return the checkpoint that a file of another program describes, without a root and a place in history yet.

        {"version": "0.0.1", "id": "ckpt_abc123", "timestamp": 1738790400000, "execution_id": "exec_xyz",
         "agent_id": "my-agent", "snapshot": {...}, "metadata": {"step_number": 1, ...}}

    Its id becomes the key, its execution the session unless one is given, its snapshot the state. There is nothing to
    verify it by, and nothing in it is a tag of ours.
    """
    version = data.get("version")
    if type(version) is not str and type(version) is not int:
        raise malformed(where, "version", f"its version is {version!r:.40}, which is none")
    if not _FOREIGN_VERSION.fullmatch(str(version)):
        raise UnsupportedError(
            f"{where} is a checkpoint of another program, in version {version!r:.40} of its form; "
            "this version of holdfast reads 0.0.x",
            code=ErrorCode.FORMAT_TOO_NEW,
            hint="upgrade holdfast: pip install --upgrade holdfast; or have the file written in version 0.0.x",
            file=where,
            reason="version",
        )
    if data["snapshot"] is None:
        raise malformed(where, "bad-field", "its 'snapshot' is null")
    fields = {key: each for key, each in data.items() if key != "snapshot"}
    with _bad_field(where):
        said = msgspec.convert(fields, _Foreign)
        kept = said.metadata | {key: each for key, each in fields.items() if key not in _FOREIGN_FIELDS}
        draft = check_draft(
            "",
            tags=(),
            step=kept.pop("step_number", None),
            status="running",
            trigger="manual",
            metadata=kept,
            tokens=kept.pop("tokens_used", None),
            cost_usd=None,
            duration_ms=kept.pop("duration_ms", None),
            key=check_key(said.id),
        )
        row = CheckpointRow(
            id=CheckpointId(b""),
            session=check_session(said.execution_id if session is None else session),
            branch="main",
            parents=(),
            root=ChunkHash(b""),
            created_at=said.timestamp * 1000,
            trigger=draft.trigger,
            status=draft.status,
            step=draft.step,
            message=draft.message,
            metadata=draft.metadata,
            tokens=draft.tokens,
            cost_usd=draft.cost_usd,
            duration_ms=draft.duration_ms,
            app_version=None,
            # Made of what it is, so that the same file is the same checkpoint in every store.
            nonce=digest(b"foreign\x00" + said.id.encode())[:16],
            key=draft.key,
            size_bytes=0,
        )
        agent = check_label(said.agent_id, "agent")
    return ReadCheckpoint(row, agent, None, data["snapshot"], "", {}, where, foreign=True)


_FOREIGN_FIELDS: Final = frozenset(_Foreign.__struct_fields__)


def check_hashes(read: ReadCheckpoint, root: ChunkHash) -> None:
    """Compare what a checkpoint claims with what it is; `root` is that of the state in the file.

    Raises:
        IntegrityError: Something does not fit; the message says what (`archive-damaged`).
    """
    row = read.row
    if row.root != root:
        why = f"the state has the root {root.hex()[:12]}, not {row.root.hex()[:12]}"
        raise damaged(read.where, "root-differs", why)
    if checkpoint_id(row) != row.id:
        why = f"its id is not {row.id.hex()[:12]}: the message, the parents or another part was edited"
        raise damaged(read.where, "id-differs", why)
    if seal_of(read.envelope) != read.seal:
        why = "its tags, key, pin, owner or what was added later do not fit its seal"
        raise damaged(read.where, "seal-differs", why)


def malformed(where: str, reason: str, why: str, hint: str = _ANEW) -> InvalidInputError:
    """Return the error for what is no archive of ours, or none that we can read.

    Args:
        where: The file, and the line where there are several.
        reason: One word for programs.
        why: What is wrong, for people; the end of a sentence.
        hint: What to do.
    """
    return InvalidInputError(
        f"{where} cannot be imported: {why}",
        code=ErrorCode.ARCHIVE_MALFORMED,
        hint=hint,
        file=where,
        reason=reason,
    )


def too_large(where: str, reason: str, why: str, limit: str) -> InvalidInputError:
    """Return the error for more than the limits allow; `limit` is the field of ArchiveLimits that decides."""
    return InvalidInputError(
        f"{where} cannot be imported: {why}",
        code=ErrorCode.ARCHIVE_TOO_LARGE,
        hint=f"if you trust it, raise the limit in Python: store.import_(..., limits=ArchiveLimits({limit}=...))",
        file=where,
        reason=reason,
    )


def damaged(where: str, reason: str, why: str) -> IntegrityError:
    """Return the error for a file that does not fit its own hashes."""
    return IntegrityError(
        f"{where} was changed since it was written: {why}",
        code=ErrorCode.ARCHIVE_DAMAGED,
        hint=_ANEW,
        file=where,
        reason=reason,
    )


@contextmanager
def _bad_field(where: str) -> Iterator[None]:
    """Name the file in the error for a field that cannot be kept."""
    try:
        yield
    except (msgspec.ValidationError, InvalidInputError, ValueError, OverflowError) as error:
        raise malformed(where, "bad-field", f"a field cannot be kept: {error!s:.300}") from error


def _check_version(data: Mapping[str, Any], where: str) -> None:
    found = data.get("version")
    if type(found) is int and found == VERSION:
        return
    code, hint = ErrorCode.FORMAT_TOO_OLD, "export it again with the program that it came from"
    if type(found) is int and found > VERSION:
        code, hint = ErrorCode.FORMAT_TOO_NEW, "upgrade holdfast: a newer version wrote it"
    raise UnsupportedError(
        f"{where} has version {found!r:.40} of the archive format; this program reads version {VERSION}",
        code=code,
        hint=hint,
        file=where,
        reason="version",
    )


def _id(text: str) -> CheckpointId:
    return CheckpointId(bytes.fromhex(text))


def _time_text(microseconds: int) -> str:
    return moment(microseconds).isoformat(timespec="microseconds")


def _read_time(text: str) -> int:
    when = datetime.fromisoformat(text)
    if when.tzinfo is None:
        raise ValueError(f"{text!r:.60} has no time zone")
    since = (when - _EPOCH) // timedelta(microseconds=1)
    if since > LATEST or _time_text(since) != text:
        raise ValueError(f"{text!r:.60} is too late, or not written as a time in UTC")
    return since
