"""A Document whose store was replaced under it."""

from __future__ import annotations

import os

import pytest

import holdfast


def test_a_document_whose_store_was_replaced_sends_everything_again(tmp_path):
    store = holdfast.open(tmp_path / "store.db", durability="process")
    doc = store.session("s").document()
    doc["log"] = []
    doc.save()
    store.backup(tmp_path / "copy.db")
    doc["log"] += [f"line {n} " * 20 for n in range(2000)]
    doc.save()
    os.replace(tmp_path / "copy.db", tmp_path / "store.db")
    for suffix in ("-wal", "-shm"):
        (tmp_path / f"store.db{suffix}").unlink(missing_ok=True)
    doc["log"].append("after")
    with pytest.raises(holdfast.ConflictError):
        doc.save()
    doc.save(expect="#1")
    assert store.session("s").load() == doc.plain()
    store.close()
