"""`export_dir` after a kill: the first write of the next Session brings the files that are missing, and no others."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast import HoldfastWarning, Keep
from holdfast.store.archives import keeping

ROOT = Path(__file__).parents[4]
KINDS = pytest.mark.parametrize("kind", ["json", "jsonl"])

KILLED = """
import os, signal, sys
import holdfast
from holdfast.store.archives import keeping

path, folder, kind = sys.argv[1:]
with holdfast.open(path) as store:
    session = store.session("s", export_dir=folder, export_format=kind)
    for step in range(2):
        session.save({"step": step})
    for name in ("export_to_folder", "append_new"):
        setattr(keeping, name, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
    session.save({"step": 2})
"""


@pytest.fixture
def store(tmp_path):
    with holdfast.open(tmp_path / "s.db", durability="process") as made:
        yield made


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "out"


def filed(folder, kind):
    """The steps that have a file, or a line."""
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    texts = [each.read_text() for each in found]
    whole = texts if kind == "json" else [line for text in texts for line in text.splitlines()]
    return sorted(json.loads(each)["state"]["step"] for each in whole)


def kept(store, folder, kind, **options):
    return store.session("s", export_dir=folder, export_format=kind, **options)


@KINDS
def test_a_kill_between_a_save_and_its_file_is_made_up_for_by_the_next_write(tmp_path, folder, kind):
    path = tmp_path / "s.db"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, path, folder, kind],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert filed(folder, kind) == [0, 1]
    with holdfast.open(path, durability="process") as store:
        assert store.session("s").load() == {"step": 2}

        kept(store, folder, kind).save({"step": 3})

        assert filed(folder, kind) == [0, 1, 2, 3]


@KINDS
def test_an_operation_makes_up_for_it_as_well(store, folder, kind):
    kept(store, folder, kind).save({"step": 0})
    store.session("s").save({"step": 1})

    kept(store, folder, kind).restore("#1")

    assert filed(folder, kind) == [0, 0, 1]


@KINDS
def test_a_history_that_had_no_files_gets_none(store, folder, kind):
    for step in range(3):
        store.session("s").save({"step": step})

    for step in (3, 4):
        kept(store, folder, kind).save({"step": step})

    assert filed(folder, kind) == [3, 4]


@KINDS
@pytest.mark.parametrize("count", [3, 4])
def test_more_than_kills_explain_gets_none(store, folder, kind, count, monkeypatch):
    monkeypatch.setattr(keeping, "_MOST_LEFT", 3)
    kept(store, folder, kind).save({"step": 0})
    for step in range(1, 1 + count):
        store.session("s").save({"step": step})

    kept(store, folder, kind).save({"step": 9})

    assert filed(folder, kind) == ([0, 1, 2, 3, 9] if count == 3 else [0, 9])


@KINDS
def test_only_the_first_write_of_a_session_looks(store, folder, kind):
    session = kept(store, folder, kind)
    session.save({"step": 0})
    store.session("s").save({"step": 1})

    session.save({"step": 2}, on_conflict="fork")

    assert filed(folder, kind) == [0, 2]


@KINDS
@pytest.mark.parametrize("keep", [None, Keep(last=5)])
def test_what_was_removed_does_not_come_back(store, folder, kind, keep):
    kept(store, folder, kind).save({"step": 0})
    for step in (1, 2):
        store.session("s").save({"step": step})
    store.session("s").delete("#2", force=True)

    kept(store, folder, kind, keep=keep).save({"step": 3})

    assert filed(folder, kind) == [0, 2, 3]


@KINDS
def test_where_the_last_that_had_a_file_goes_what_stays_gets_one(store, folder, kind):
    store.session("other", export_dir=folder, export_format=kind).save({"step": 7})
    kept(store, folder, kind).save({"step": 0})
    store.session("s").save({"step": 1})

    kept(store, folder, kind, keep=Keep(last=2)).save({"step": 2})

    assert filed(folder, kind) == [1, 2, 7]


@KINDS
def test_with_retention_too_a_history_that_had_no_files_gets_none(store, folder, kind):
    store.session("other", export_dir=folder, export_format=kind).save({"step": 7})
    for step in range(3):
        store.session("s").save({"step": step})

    kept(store, folder, kind, keep=Keep(last=10)).save({"step": 3})

    assert filed(folder, kind) == [3, 7]


@KINDS
def test_where_it_cannot_be_seen_what_is_missing_the_next_write_looks_again(store, folder, kind, monkeypatch):
    kept(store, folder, kind).save({"step": 0})
    store.session("s").save({"step": 1})
    session = kept(store, folder, kind)

    def troubled(*_arguments, **_options):
        raise OSError("not just now")

    with monkeypatch.context() as patch:
        patch.setattr(keeping.ExportFolder, "_missing", troubled)
        for name in ("export_to_folder", "append_new"):
            patch.setattr(keeping, name, troubled)
        with pytest.warns(HoldfastWarning, match="not just now") as told:
            session.save({"step": 2})
    assert len(told) == 1
    assert filed(folder, kind) == [0]

    session.save({"step": 3})

    assert filed(folder, kind) == [0, 1, 2, 3]


@KINDS
@pytest.mark.parametrize("is_first", [True, False])
def test_a_file_that_somebody_else_catches_up_with_comes_once(store, folder, kind, is_first, monkeypatch):
    kept(store, folder, kind).save({"step": 0})
    session = kept(store, folder, kind)
    if not is_first:
        session.save({"step": 1})
    look = keeping.ExportFolder.join

    def others_first(self, *arguments, **options):
        # Between the save and its file; the other Session knows of the one and not of the other.
        monkeypatch.setattr(keeping.ExportFolder, "join", look)
        kept(store, folder, kind).save({"step": 3})
        look(self, *arguments, **options)

    monkeypatch.setattr(keeping.ExportFolder, "join", others_first)
    session.save({"step": 2})

    assert filed(folder, kind) == ([0, 2, 3] if is_first else [0, 1, 2, 3])
