"""Code is captured and restored byte for byte in ugly folders, and nothing that nobody else has is ever lost."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.workspace.repositories import contents, git, git_state, repository

import holdfast
from holdfast import InvalidInputError, UnsupportedError
from holdfast.workspace.code import CodeState, Workspace
from holdfast.workspace.restore import apply_plan, plan_restore


def restored(workspace: Workspace, target: CodeState, **options):
    return apply_plan(plan_restore(workspace, target, workspace.capture(), **options))


def stored(state: CodeState) -> CodeState:
    """What comes out of a store: data made into a state again."""
    return CodeState.from_data(state.place(), state.changes())


def plain(folder: Path) -> Path:
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"first\r\nsecond\n")
    (folder / "kept").write_bytes(b"kept")
    return folder


def edited_file(folder: Path) -> None:
    (folder / "a.txt").write_bytes(b"third\r\n\xff\x00")


def deleted(folder: Path) -> None:
    (folder / "a.txt").unlink()


def untracked(folder: Path) -> None:
    (folder / "new folder").mkdir()
    (folder / "new folder" / "sp ace\tand\nline").write_bytes(b"x")
    (folder / os.fsdecode(b"not-utf8-\xff")).write_bytes(b"y")


def symlinks(folder: Path) -> None:
    (folder / "dangling").symlink_to("nowhere")
    (folder / "a.txt").unlink()
    (folder / "a.txt").symlink_to("kept")


def modes(folder: Path) -> None:
    (folder / "a.txt").chmod(0o755)
    (folder / "kept").write_bytes(b"other")
    (folder / "kept").chmod(0o444)


def folder_for_file(folder: Path) -> None:
    (folder / "a.txt").unlink()
    (folder / "a.txt").mkdir()
    (folder / "a.txt" / "inner").write_bytes(b"i")


CHANGES = [edited_file, deleted, untracked, symlinks, modes, folder_for_file]


@pytest.mark.parametrize("with_git", [True, False], ids=["git", "plain"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__)
@pytest.mark.parametrize("later", CHANGES, ids=lambda each: f"then_{each.__name__}")
def test_what_was_captured_comes_back_whatever_was_done_since_and_undo_gives_that_back(
    tmp_path, with_git, change, later
):
    folder = tmp_path / "work"
    if with_git:
        repository(folder, {"a.txt": b"first\r\nsecond\n", "kept": b"kept"})
    else:
        plain(folder)
    workspace = Workspace(folder)
    change(folder)
    wanted, then = workspace.capture(), contents(folder)
    for name in list(folder.iterdir()):
        if name.name not in (".git", "kept"):
            shutil.rmtree(name) if name.is_dir() and not name.is_symlink() else name.unlink()
    if not (folder / "a.txt").exists():
        (folder / "a.txt").write_bytes(b"first\r\nsecond\n")
    later(folder)
    safety, before = workspace.capture(), contents(folder)
    kept = git_state(folder) if with_git else None

    report = restored(workspace, stored(wanted))

    assert report.conflicts == {}
    assert contents(folder) == then
    undone = restored(workspace, stored(safety), unless_changed_since=stored(wanted))
    assert undone.conflicts == {}
    assert contents(folder) == before
    if with_git:
        assert git_state(folder) == kept


def test_a_clean_repository_has_no_changes_and_a_folder_without_git_is_all_changes(tmp_path):
    clean = Workspace(repository(tmp_path / "clean", {"a": b"a"})).capture()
    alone = Workspace(plain(tmp_path / "alone")).capture()

    assert clean.changes() is None
    assert clean.commit_hash == git(tmp_path / "clean", "rev-parse", "HEAD").strip()
    assert alone.commit_hash is None
    assert set((alone.changes() or {})["patches"]) == {"a.txt", "kept"}


def test_ignored_files_are_neither_captured_nor_touched(tmp_path):
    folder = repository(tmp_path / "r", {".gitignore": b"*.log\nout/\n", "a": b"a"})
    workspace = Workspace(folder)
    (folder / "late").write_bytes(b"captured before it was ignored")
    wanted = workspace.capture()
    (folder / "late").write_bytes(b"precious")
    (folder / "x.log").write_bytes(b"log")
    (folder / "out").mkdir()
    (folder / "out" / "big").write_bytes(b"out")
    (folder / ".gitignore").write_bytes(b"*.log\nout/\nlate\n")

    report = restored(workspace, wanted)

    # The file that was captured is ignored now, and nobody else has its bytes.
    assert set(report.conflicts) == {"late"}
    assert (folder / "late").read_bytes() == b"precious"
    assert (folder / "x.log").read_bytes() == b"log"
    assert (folder / "out" / "big").read_bytes() == b"out"


def test_head_moved_since_and_is_not_moved_back(tmp_path):
    folder = repository(tmp_path / "r", {"a": b"1", "b": b"1", "gone": b"g"})
    workspace = Workspace(folder)
    (folder / "a").write_bytes(b"edited")
    wanted, then = workspace.capture(), contents(folder)
    (folder / "b").write_bytes(b"2")
    (folder / "gone").unlink()
    (folder / "c").write_bytes(b"new")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "second")
    kept = git_state(folder)

    assert restored(workspace, wanted).conflicts == {}
    assert contents(folder) == then
    assert git_state(folder) == kept


def test_a_dirty_index_is_recorded_and_never_written(tmp_path):
    folder = repository(tmp_path / "r", {"a": b"1", "b": b"1"})
    (folder / "a").write_bytes(b"staged")
    (folder / "new").write_bytes(b"staged too")
    git(folder, "add", "-A")
    git(folder, "rm", "-q", "--cached", "b")
    (folder / "a").write_bytes(b"worktree")
    workspace = Workspace(folder)
    wanted, then, kept = workspace.capture(), contents(folder), git_state(folder)

    assert {path: bool(entry["index"]) for path, entry in wanted.patches.items()} == {
        "a": True,
        "b": False,
        "new": True,
    }
    (folder / "a").write_bytes(b"later")
    (folder / "new").unlink()
    (folder / "b").write_bytes(b"later")
    assert restored(workspace, wanted).conflicts == {}
    assert contents(folder) == then
    assert git_state(folder) == kept


def test_a_merge_that_is_under_way_is_recorded_and_left_alone(tmp_path):
    folder = repository(tmp_path / "r", {"a": b"1\n"})
    git(folder, "checkout", "-qb", "other")
    (folder / "a").write_bytes(b"2\n")
    git(folder, "commit", "-qam", "2")
    git(folder, "checkout", "-q", "main")
    (folder / "a").write_bytes(b"3\n")
    git(folder, "commit", "-qam", "3")
    with pytest.raises(Exception, match="merge"):
        git(folder, "merge", "other")
    workspace = Workspace(folder)
    wanted, then, kept = workspace.capture(), contents(folder), git_state(folder)
    (folder / "a").write_bytes(b"resolved\n")

    report = restored(workspace, wanted)

    assert wanted.repositories[""].under_way == "merge"
    assert any("merge is under way" in note for note in report.notes)
    assert contents(folder) == then
    assert git_state(folder) == kept
    assert (folder / ".git" / "MERGE_HEAD").exists()


def test_nested_repositories_are_captured_each_with_its_own_head(tmp_path):
    folder = repository(tmp_path / "r", {"a": b"a"})
    inner = repository(folder / "vendor" / "inner", {"i": b"i", "j": b"j"})
    empty = repository(folder / "empty", {})
    (inner / "i").write_bytes(b"edited inside")
    (empty / "first").write_bytes(b"f")
    workspace = Workspace(folder)
    wanted, then = workspace.capture(), contents(folder)
    (inner / "i").write_bytes(b"later")
    (inner / "k").write_bytes(b"k")
    (empty / "first").unlink()

    assert set(wanted.repositories) == {"", "vendor/inner", "empty"}
    assert wanted.repositories["vendor/inner"].commit == git(inner, "rev-parse", "HEAD").strip()
    assert set(wanted.patches) == {"vendor/inner/i", "empty/first"}
    assert restored(workspace, wanted).conflicts == {}
    assert contents(folder) == then


def test_line_ends_come_back_as_they_were_on_disk(tmp_path):
    folder = repository(tmp_path / "r", {".gitattributes": b"*.txt text eol=crlf\n", "a.txt": b"one\ntwo\n"})
    (folder / "a.txt").unlink()
    git(folder, "checkout", "-q", "a.txt")
    assert (folder / "a.txt").read_bytes() == b"one\r\ntwo\r\n"
    workspace = Workspace(folder)
    wanted, then = workspace.capture(), contents(folder)
    (folder / "a.txt").write_bytes(b"mixed\r\nends\n")
    second, mixed = workspace.capture(), contents(folder)

    restored(workspace, wanted)
    assert contents(folder) == then
    restored(workspace, second)
    assert contents(folder) == mixed


def test_edits_that_git_was_told_to_overlook_are_captured(tmp_path):
    folder = repository(tmp_path / "r", {"a": b"a", "b": b"b", "c": b"c"})
    git(folder, "update-index", "--skip-worktree", "a")
    git(folder, "update-index", "--assume-unchanged", "b", "c")
    (folder / "a").write_bytes(b"hidden")
    (folder / "b").write_bytes(b"hidden")

    assert set(Workspace(folder).capture().patches) == {"a", "b"}


def test_a_file_that_changes_while_restoring_is_left_alone_and_said(tmp_path):
    folder = repository(tmp_path / "r", {"a": b"a", "b": b"b"})
    workspace = Workspace(folder)
    wanted = workspace.capture()
    (folder / "a").write_bytes(b"edited")
    (folder / "b").write_bytes(b"edited")
    plan = plan_restore(workspace, wanted, workspace.capture())

    def interfere(action):
        if action.path == "b":
            (folder / "b").write_bytes(b"somebody is faster")

    report = apply_plan(plan, step=interfere)

    assert report.changed == [("M", "a")]
    assert set(report.conflicts) == {"b"}
    assert (folder / "b").read_bytes() == b"somebody is faster"


def test_nothing_is_written_through_a_link_to_elsewhere(tmp_path):
    folder = repository(tmp_path / "r", {"d/x": b"inside"})
    workspace = Workspace(folder)
    (folder / "d" / "x").write_bytes(b"edited")
    wanted = workspace.capture()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_bytes(b"outside")
    shutil.rmtree(folder / "d")
    (folder / "d").symlink_to(outside)

    report = apply_plan(plan_restore(workspace, wanted, workspace.capture()))

    # The link was captured and goes; the folder is back, and what it led to is as it was.
    assert report.conflicts == {}
    assert (folder / "d" / "x").read_bytes() == b"edited"
    assert (outside / "x").read_bytes() == b"outside"


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../out",
        "a/../../out",
        ".git/hooks/post-checkout",
        "sub/.GIT/config",
        ".git./x",
        ".holdfast/x",
        "",
    ],
)
def test_a_hostile_state_writes_nowhere_else(tmp_path, path):
    folder = repository(tmp_path / "r", {"a": b"a"})
    workspace = Workspace(folder)
    hostile = workspace.capture()
    hostile.patches[path] = {"kind": "file", "mode": 0o755, "content": b"#!/bin/sh\n"}
    before = contents(tmp_path)

    with pytest.raises(InvalidInputError) as raised:
        plan_restore(workspace, hostile, workspace.capture())

    assert raised.value.code == "bad-path"
    assert contents(tmp_path) == before


def test_what_is_too_large_or_holds_secrets_is_skipped_said_and_not_touched(tmp_path):
    folder = repository(tmp_path / "r", {"a": b"a"})
    (folder / "big").write_bytes(b"x" * 2000)
    (folder / ".env").write_bytes(b"TOKEN=1")
    os.mkfifo(folder / "pipe")
    workspace = Workspace(folder, max_file=1000)
    wanted = workspace.capture()

    assert set(wanted.skipped) == {"big", ".env"} | ({"pipe"} & set(wanted.skipped))
    (folder / ".env").write_bytes(b"TOKEN=2")
    assert set(restored(workspace, wanted).conflicts) <= {"big", ".env"}
    assert (folder / ".env").read_bytes() == b"TOKEN=2"
    total = Workspace(folder, max_total=1500).capture()
    assert "big" in total.skipped


def test_a_part_of_the_files_is_restored(tmp_path):
    folder = repository(tmp_path / "r", {"src/a": b"a", "src/b": b"b", "docs/c": b"c"})
    workspace = Workspace(folder)
    wanted = workspace.capture()
    for name in ("src/a", "src/b", "docs/c"):
        (folder / name).write_bytes(b"edited")

    report = restored(workspace, wanted, paths=["src", "docs/other"])

    assert [path for _, path in report.changed] == ["src/a", "src/b"]
    assert (folder / "docs" / "c").read_bytes() == b"edited"


def test_folders_that_cannot_be_a_workspace_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for folder in (tmp_path, "/", tmp_path / "missing"):
        with pytest.raises(InvalidInputError):
            Workspace(folder)
    broken = tmp_path / "broken"
    (broken / ".git").mkdir(parents=True)
    with pytest.raises(UnsupportedError) as raised:
        Workspace(broken).capture()
    assert raised.value.code == "workspace-unusable"


def test_a_capture_writes_nothing(tmp_path):
    folder = repository(tmp_path / "r", {"a": b"a", "b": b"b"})
    (folder / "a").write_bytes(b"edited")
    before = contents(folder), sorted(str(each) for each in (folder / ".git").rglob("*")), git_state(folder)

    Workspace(folder).capture()

    assert (
        contents(folder),
        sorted(str(each) for each in (folder / ".git").rglob("*")),
        git_state(folder),
    ) == before


def test_a_file_that_was_written_twice_in_one_instant_is_read_again(tmp_path):
    folder = repository(tmp_path / "r", {"a": b"a"})
    workspace = Workspace(folder)
    for n in range(20):
        (folder / "a").write_bytes(b"%02d" % n)
        assert workspace.capture().patches["a"]["content"] == b"%02d" % n


def test_a_store_in_the_folder_is_not_part_of_the_code(tmp_path):
    folder = repository(tmp_path / "r", {"a": b"a"})
    with holdfast.open(str(folder / "kept.db")) as store, holdfast.open(str(folder / ".holdfast")) as other:
        for each in (store, other):
            each.session("x").save({"n": 1})
        (folder / "data.db").write_bytes(b"not a store")
        assert set(Workspace(folder).capture().patches) == {"data.db"}
