"""`export_dir` after a kill: the first write of the next Session brings the files that are missing, and no others."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast import Keep

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
def test_a_history_that_had_no_files_gets_none(store, folder, kind):
    for step in range(3):
        store.session("s").save({"step": step})

    for step in (3, 4):
        kept(store, folder, kind).save({"step": step})

    assert filed(folder, kind) == [3, 4]


@KINDS
@pytest.mark.parametrize("keep", [None, Keep(last=5)])
def test_what_was_removed_does_not_come_back(store, folder, kind, keep):
    kept(store, folder, kind).save({"step": 0})
    for step in (1, 2):
        store.session("s").save({"step": step})
    store.session("s").delete("#2", force=True)

    kept(store, folder, kind, keep=keep).save({"step": 3})

    assert filed(folder, kind) == [0, 2, 3]
