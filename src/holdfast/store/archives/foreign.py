"""Checkpoints in the form of another program: one JSON file each, with an id of its own and no hashes.

    {"version": "0.0.1", "id": "ckpt_abc123", "timestamp": 1738790400000, "execution_id": "exec_xyz",
     "agent_id": "my-agent", "snapshot": {...}, "metadata": {"step_number": 1, ...}}

Its id becomes the key, its execution the session, its snapshot the state; there is nothing to verify it by. Nothing in
it is a tag of ours: a `$type` in a snapshot is a key like any other. Imported once more, it is known by its key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from holdfast.errors import InvalidInputError
from holdfast.history.names import check_key, check_label, check_session
from holdfast.objects.hashing import digest
from holdfast.storage.records import CheckpointId, CheckpointRow, ChunkHash
from holdfast.store.archives.envelope import LATEST, ReadCheckpoint
from holdfast.store.archives.refusing import kind_of, malformed, unknown_foreign_version
from holdfast.store.draft import check_draft

_FIELDS: Final = ("version", "id", "timestamp", "execution_id", "agent_id", "snapshot", "metadata")
_VERSION: Final = re.compile(r"0\.0\.[0-9]{1,6}")
_KNOWN: Final = frozenset(("step_number", "tokens_used", "duration_ms"))
_LATEST: Final = LATEST // 1000


def is_foreign(data: Mapping[str, Any]) -> bool:
    """Whether a document has this form."""
    return "format" not in data and "snapshot" in data


def read_foreign(data: Mapping[str, Any], where: str, session: str | None) -> ReadCheckpoint:
    """The checkpoint that such a file describes; without a root, an id and a place in history yet.

    Args:
        data: The document, as JSON has it.
        where: What to call it in errors.
        session: The session it goes into; the execution it names where none is given.

    Raises:
        InvalidInputError: A part of it is missing, or cannot be kept.
        UnsupportedError: It has another version of that form.
    """
    version = data.get("version")
    if type(version) is not str or not _VERSION.fullmatch(version):
        raise unknown_foreign_version(where, version)
    for name in ("id", "snapshot"):
        if data.get(name) is None:
            raise malformed(where, "missing-field", f"it has no {name!r}")
    metadata = data.get("metadata", {})
    if type(metadata) is not dict:
        raise malformed(where, "bad-field", f"its 'metadata' is {kind_of(type(metadata))}")
    kept = {name: each for name, each in metadata.items() if name not in _KNOWN}
    kept |= {name: each for name, each in data.items() if name not in _FIELDS}
    try:
        key = check_key(data["id"])
        draft = check_draft(
            "",
            tags=(),
            step=metadata.get("step_number"),
            status="running",
            trigger="manual",
            metadata=kept,
            tokens=metadata.get("tokens_used"),
            cost_usd=None,
            duration_ms=metadata.get("duration_ms"),
            key=key,
        )
        owner = check_session(data.get("execution_id", "default") if session is None else session)
        agent = check_label(data.get("agent_id"), "agent")
    except InvalidInputError as error:
        raise malformed(where, "bad-field", f"it cannot be kept: {error}") from error
    row = CheckpointRow(
        id=CheckpointId(b""),
        session=owner,
        branch="main",
        parents=(),
        root=ChunkHash(b""),
        created_at=_time(data.get("timestamp"), where),
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
        nonce=digest(b"foreign\x00" + key.encode())[:16],
        key=key,
        size_bytes=0,
    )
    return ReadCheckpoint(row, agent, None, data["snapshot"], "", {}, where, foreign=True)


def _time(value: object, where: str) -> int:
    if type(value) is not int or not 0 <= value <= _LATEST:
        raise malformed(where, "bad-field", f"its 'timestamp' is {value!r:.40}, not milliseconds since 1970")
    return value * 1000
