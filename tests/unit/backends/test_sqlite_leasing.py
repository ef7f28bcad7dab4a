"""Leases in a SQLite file: beside damage and repairs, in stores from before there were any, and what a save costs."""

from __future__ import annotations

import time
from pathlib import Path

import apsw
import pytest

import holdfast
from holdfast.backends.sqlite import SqliteBackend
from holdfast.errors import ConflictError, ErrorCode
from holdfast.storage.leases import Holder, Lease

NAME = "heartbeat:work"
STRANGER = Holder("stranger", "far-away/boot/1.1", 12345, "1")


def claim(store: SqliteBackend, name: str = NAME, seconds: float = 600.0) -> Lease:
    return store.claim(name, STRANGER, seconds, at=time.time_ns() // 1000, ticks=0)


def change(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path), vfs="cksmvfs")
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()


def test_a_repair_leaves_leases_behind_and_counts_on(path: Path) -> None:
    with holdfast.open(path, durability="process") as store:
        first = store.lease("heartbeat:s")
        store.session("s", lease=first).save({"n": 1})
        for number in range(200):
            # Enough for pages of their own.
            claim(store._backend, f"run:{number} {'x' * 100}")  # type: ignore[arg-type]
        change(path, "UPDATE checkpoints SET message = 'changed'")
        report = store.repair()
        assert len(report.lost) == 1
        assert store._backend.lease("heartbeat:s") is None
        with pytest.raises(ConflictError) as lost:
            store.session("s", lease=first).save({"n": 2})
        assert lost.value.code is ErrorCode.LEASE_LOST
        with store.lease("heartbeat:s") as again:
            assert again.epoch == first.epoch + 201
        assert store.verify().ok
