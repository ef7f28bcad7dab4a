"""A restore of code and notebook survives kill -9 at every step, can be finished or undone, and loses nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.workspace.repositories import contents, git_state, repository

import holdfast
from holdfast import InvalidInputError, NotFoundError, StateError
from holdfast.agents import Notebook, Workspace

PROGRAM = Path(__file__).with_name("restoring.py")


def make(folder: Path):
    """A repository with a notebook: a state that is wanted back, and later work on everything."""
    repository(folder, {"a": b"1", "b": b"1", "c": b"1"})
    with holdfast.open(str(folder / ".holdfast")) as store:
        nb = Notebook(store.session("bug"), workspace=Workspace(folder))
        (folder / "a").write_bytes(b"wanted")
        (folder / "link").symlink_to("a")
        nb.board.add("it is the scale")
        nb.checkpoint("wanted", ["wanted"])
        wanted = contents(folder)
        (folder / "a").write_bytes(b"later")
        (folder / "b").write_bytes(b"later")
        (folder / "link").unlink()
        (folder / "new").write_bytes(b"later")
        nb.board.add("later thought")
    return wanted, contents(folder)


@contextmanager
def opened(folder: Path) -> Iterator[Notebook]:
    with holdfast.open(str(folder / ".holdfast")) as store:
        yield Notebook(store.session("bug"), workspace=Workspace(folder))


def test_a_restore_killed_at_any_step_can_be_finished_and_undone(tmp_path):
    wanted, later = make(tmp_path / "r")
    kept = git_state(tmp_path / "r")
    ends = set()
    for number in range(1, 100):
        folder = tmp_path / f"r{number}"
        shutil.copytree(tmp_path / "r", folder, symlinks=True)
        done = subprocess.run(
            [sys.executable, PROGRAM, folder, str(number)], check=False, capture_output=True
        )
        ends.add(done.returncode)
        if done.returncode == 0:
            break
        assert done.returncode == -9, done.stderr.decode()
        twin = tmp_path / f"twin{number}"
        shutil.copytree(folder, twin, symlinks=True)
        for place, verb, expected in ((folder, "finish", wanted), (twin, "undo", later)):
            with opened(place) as nb:
                if nb.unfinished_restore() is None:
                    assert contents(place) == (wanted if number > 3 else later)
                    continue
                with pytest.raises(StateError) as raised:
                    nb.restore("@")
                assert raised.value.code == "restore-unfinished"
                report = nb.finish_restore() if verb == "finish" else nb.undo_restore()
                assert report.recovery_complete
                assert contents(place) == expected
                assert nb.unfinished_restore() is None
                assert nb.board.get("h1")["statement"] == "it is the scale"
                assert git_state(place) == kept
        shutil.rmtree(folder)
        shutil.rmtree(twin)
    assert ends == {0, -9}
    assert number > 10


def test_work_after_a_crash_is_left_alone_by_finish_and_undo(tmp_path):
    wanted, _ = make(tmp_path / "r")
    folder = tmp_path / "r"
    subprocess.run([sys.executable, PROGRAM, folder, "6"], check=False, capture_output=True)
    (folder / "b").write_bytes(b"written after the crash")

    with opened(folder) as nb:
        report = nb.finish_restore()

    assert report.code is not None
    assert set(report.code.conflicts) == {"b"}
    assert not report.recovery_complete
    assert (folder / "b").read_bytes() == b"written after the crash"
    assert {k: v for k, v in contents(folder).items() if k != "b"} == {
        k: v for k, v in wanted.items() if k != "b"
    }


def test_code_and_notebook_can_be_restored_apart_and_planned_first(tmp_path):
    wanted, later = make(tmp_path / "r")
    with opened(tmp_path / "r") as nb:
        plan = nb.plan("tag:wanted").to_dict()
        assert plan["counts"] == {"A": 1, "M": 2, "D": 1}
        assert contents(tmp_path / "r") == later

        nb.restore("tag:wanted", what="notebook")
        assert (len(nb.board.all()), contents(tmp_path / "r")) == (1, later)
        nb.undo_restore()
        assert len(nb.board.all()) == 2
        nb.restore("tag:wanted", what="code")
        assert (len(nb.board.all()), contents(tmp_path / "r")) == (2, wanted)
        nb.undo_restore()
        assert contents(tmp_path / "r") == later
        with pytest.raises(NotFoundError):
            nb.undo_restore()
        with pytest.raises(NotFoundError):
            nb.finish_restore()


def test_undo_leaves_alone_what_was_written_since(tmp_path):
    make(tmp_path / "r")
    with opened(tmp_path / "r") as nb:
        nb.restore("tag:wanted")
        (tmp_path / "r" / "b").write_bytes(b"newest")

        report = nb.undo_restore()

        assert report.code is not None
        assert set(report.code.conflicts) == {"b"}
        assert (tmp_path / "r" / "b").read_bytes() == b"newest"
        assert (tmp_path / "r" / "a").read_bytes() == b"later"


def test_code_that_was_not_captured_cannot_be_restored(tmp_path):
    with holdfast.open("memory:") as store:
        nb = Notebook(store.session("x"))
        nb.checkpoint("no code")
        for what in ("code", "everything"):
            with pytest.raises(InvalidInputError):
                nb.restore("@", what=what)  # type: ignore[arg-type]
        nb.workspace = Workspace(repository(tmp_path / "r", {"a": b"a"}))
        with pytest.raises(InvalidInputError):
            nb.restore("@", what="code")
