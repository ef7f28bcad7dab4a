"""`export_dir`: a file beside each checkpoint of a Session, gone with it; never a reason for a save to fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast import HoldfastWarning, InvalidInputError, Keep


@pytest.fixture
def store(tmp_path):
    with holdfast.open(tmp_path / "s.db", durability="process") as made:
        yield made


def names(folder):
    return sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []


def test_files_go_with_their_checkpoints_whatever_removes_them(store, tmp_path):
    folder = tmp_path / "out"
    session = store.session("s", export_dir=folder)
    other = store.session("other", export_dir=folder)
    for step in range(6):
        session.save({"step": step})
    other.save({"mine": 1})
    (folder / "20260101-000000-abcd.json").write_text("somebody else's")
    (folder / "notes.txt").write_text("mine")
    assert len(names(folder)) == 9
    session.delete("#1", force=True)
    assert len(names(folder)) == 8
    session.prune(Keep(last=2), only=True)
    assert len(names(folder)) == 5
    store.forget("s", "#6")
    assert len(names(folder)) == 4
    store.forget("s")
    assert len(names(folder)) == 3
    assert {"notes.txt", "20260101-000000-abcd.json"} < set(names(folder))


def test_an_export_that_fails_is_a_warning_and_the_save_counts(store, tmp_path):
    (tmp_path / "out").write_text("a file where the folder should be")
    for kind in ("json", "json.gz", "jsonl"):
        session = store.session(kind, export_dir=tmp_path / "out", export_format=kind)
        with pytest.warns(HoldfastWarning, match="is saved") as told:
            made = session.save({"a": 1})
        assert store.session(kind).checkpoint().id == made.id
        assert told[0].filename == __file__


def test_files_that_cannot_be_removed_are_a_warning_too(store, tmp_path, monkeypatch):
    session = store.session("s", export_dir=tmp_path / "out")
    session.save({"a": 1})
    session.save({"a": 2})
    monkeypatch.setattr("pathlib.Path.unlink", lambda *_, **__: (_ for _ in ()).throw(PermissionError("no")))
    with pytest.warns(HoldfastWarning, match="stay"):
        session.delete("@")


def test_a_document_and_a_fork_of_the_process_keep_files_as_well(store, tmp_path):
    session = store.session("s", export_dir=tmp_path / "out")
    document = session.document(default={})
    document["a"] = 1
    document.save()
    assert len(names(tmp_path / "out")) == 1
    child = os.fork()
    if child == 0:
        try:
            session.save({"child": 1})
            session.delete("@")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert len(names(tmp_path / "out")) == 1


def every_way_to_write(store, **files):
    """A history with a checkpoint of every way that a Session has to write one."""
    session = store.session("s", **files)
    session.save({"a": 1, "b": 1})
    idea = session.fork("@", "idea")
    idea.save({"a": 1, "b": 2})
    session.save({"a": 2, "b": 1})
    session.merge("idea")
    session.restore("#1")
    document = session.document()
    document["z"] = 1
    document.save()
    session.load()
    session.save({"q": 1}, parent="#1")
    store.session("s", branch="idea", **files).save({"q": 2}, expect="#1", on_conflict="fork")
    session.restore("#1")
    session.undo()
    session.redo()
    session.fork("@", session="elsewhere").save({"q": 3})


@pytest.mark.parametrize("kind", ["json", "json.gz", "jsonl"])
def test_every_checkpoint_that_a_session_writes_has_its_file(store, tmp_path, kind):
    every_way_to_write(store, export_dir=tmp_path / "out", export_format=kind)
    triggers = {each.trigger for each in store.find()}
    assert triggers == {"manual", "fork", "merge", "restore"}
    with holdfast.open("memory:") as other:
        report = other.import_(tmp_path / "out")
        assert {each.id: each.prev for each in other.find()} == {each.id: each.prev for each in store.find()}
        assert [each.cut_off for each in report.sessions] == [0, 0]
        assert other.import_(tmp_path / "out").checkpoints == 0


def test_a_rehearsal_leaves_no_file(store, tmp_path):
    store.session("s").save({"a": 1})
    store.rehearsal().session("s", export_dir=tmp_path / "out").restore("@")
    assert names(tmp_path / "out") == []


def test_true_is_the_usual_folder_and_nonsense_is_refused(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store.session("s", export_dir=True, export_format="json").save({"a": 1})
    assert len(names(tmp_path / "checkpoints")) == 1
    for wrong in ({"export_dir": ""}, {"export_dir": 7}, {"export_dir": "a", "export_format": "xml"}):
        with pytest.raises(InvalidInputError):
            store.session("s", **wrong)


ROOT = Path(__file__).parents[4]
KINDS = pytest.mark.parametrize("kind", ["json", "jsonl"])

KILLED = """
import os, signal, sys
import holdfast
from holdfast.store.archive import export_dir

path, folder, kind = sys.argv[1:]
with holdfast.open(path) as store:
    session = store.session("s", export_dir=folder, export_format=kind)
    for step in range(2):
        session.save({"step": step})
    for name in ("export_to_folder", "append_lines"):
        setattr(export_dir, name, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
    session.save({"step": 2})
"""


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "out"


def filed(folder, kind):
    """The steps that have a file, or a line."""
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    texts = [each.read_text() for each in found]
    whole = texts if kind == "json" else [line for text in texts for line in text.splitlines()]
    return sorted(json.loads(each)["state"]["step"] for each in whole)


def keeping(store, folder, kind, **options):
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

        keeping(store, folder, kind).save({"step": 3})

        assert filed(folder, kind) == [0, 1, 2, 3]


@KINDS
@pytest.mark.parametrize("keep", [None, Keep(last=5)])
def test_what_was_removed_does_not_come_back(store, folder, kind, keep):
    keeping(store, folder, kind).save({"step": 0})
    for step in (1, 2):
        store.session("s").save({"step": step})
    store.session("s").delete("#2", force=True)

    keeping(store, folder, kind, keep=keep).save({"step": 3})

    assert filed(folder, kind) == [0, 2, 3]
