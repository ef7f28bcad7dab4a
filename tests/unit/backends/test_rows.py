"""Records as rows: each field in its column, and the same record again."""

from __future__ import annotations

from holdfast.backends import rows
from holdfast.storage.records import CheckpointId, CheckpointRow, ChunkHash, SessionRow

_CHECKPOINT = CheckpointRow(
    id=CheckpointId(b"i" * 32),
    session="s",
    branch="side",
    parents=(CheckpointId(b"p" * 32), CheckpointId(b"q" * 32)),
    root=ChunkHash(b"r" * 32),
    created_at=1,
    trigger="auto:tool",
    status="paused",
    step=2,
    message="m",
    metadata='{"a":1}',
    tokens=3,
    cost_usd=0.25,
    duration_ms=1.5,
    app_version="v",
    nonce=b"n" * 16,
    key="k",
    size_bytes=4,
    seq=5,
    position=6,
    stored_at=7,
    stored_bytes=8,
    prev=CheckpointId(b"o" * 32),
    skipped=9,
    hidden=10,
    tags=("t", "ü"),
    pinned=True,
    edited_message="e",
    added_metadata='{"b":2}',
)
_SESSION = SessionRow("s", "agent", "project", 1, last_seq=2, log_count=3, log_tip=b"t" * 32, current="side")


def test_each_field_of_a_checkpoint_is_in_its_column():
    row = rows.checkpoint_row(_CHECKPOINT)
    names = ("session", "position", *(name.strip('"') for name in rows.CHECKPOINT_COLUMNS[:-1]))
    columns = dict(zip(names, row[:-1], strict=True))
    stored = {"parents": b"p" * 32 + b"q" * 32, "tags": '["t", "ü"]', "pinned": 1}
    assert columns == _CHECKPOINT._asdict() | stored


def test_a_checkpoint_comes_back_from_its_row():
    session, position, *rest = rows.checkpoint_row(_CHECKPOINT)
    # A reader gets the number of the session too.
    read = (session, position, 11, *rest)
    rows.check_checkpoint(read)
    assert rows.checkpoint_from(read) == _CHECKPOINT


def test_a_session_comes_back_from_its_row_and_each_field_is_in_its_column():
    row = rows.session_row(11, _SESSION)
    assert rows.session_from(row) == _SESSION
    assert dict(zip(rows.SESSION_FIELDS.split(", "), row, strict=True)) == {
        "number": 11,
        **_SESSION._asdict(),
        "seal": row[-1],
    }
