"""What an export writes, and where."""

from __future__ import annotations

import errno
import fcntl
import gzip
import json
import os
import subprocess
import sys

import pytest
from tests.unit.store.archive.archive_samples import filled

import holdfast
from holdfast import BackendError, ErrorCode, HoldfastWarning, InvalidInputError
from holdfast.store.archive import export


@pytest.fixture
def session():
    with holdfast.open("memory:") as store:
        yield filled(store)


def test_a_json_file_has_sorted_fields_and_the_state_in_its_own_order(session, tmp_path):
    session.save({"z": 1, "a": 2})
    session.export("@", tmp_path / "c.json")
    document = json.loads((tmp_path / "c.json").read_text())
    assert list(document) == sorted(document)
    assert list(document["state"]) == ["z", "a"]
    assert document["format"] == "holdfast-checkpoint"
    assert document["version"] == 1


def test_a_folder_gets_a_file_a_checkpoint_named_by_time_and_digits(session, tmp_path):
    report = session.export(["#1", "#2"], tmp_path)
    first = session.checkpoint("#1")
    names = sorted(each.name for each in tmp_path.iterdir())
    assert len(names) == report.checkpoints == 2
    assert f"{first.created_at:%Y%m%d-%H%M%S}-{first.id[:4]}.json.gz" in names
    assert json.loads(gzip.decompress((tmp_path / names[0]).read_bytes()))["session"] == "research/42"
    again = session.export(["#1", "#2"], tmp_path)
    assert (again.checkpoints, again.bytes) == (0, 0)
    assert again.files == report.files


@pytest.mark.parametrize(
    ("refs", "name", "options"),
    [
        (["#1", "#2"], "c.json", {}),
        ("@", "c.txt", {}),
        ("@", "c.json", {"format": "yaml"}),
        ("@", "c.json", {"session": True}),
        ("@", "folder/", {"session": True}),
        ("@", "folder/", {"format": "jsonl"}),
    ],
)
def test_what_does_not_fit_the_file_is_refused_before_anything_is_written(
    session, tmp_path, refs, name, options
):
    with pytest.raises(InvalidInputError):
        session.export(refs, f"{tmp_path}/{name}", **options)
    assert list(tmp_path.iterdir()) == []


def test_ids_and_names_never_become_paths(tmp_path):
    with holdfast.open("memory:") as store:
        session = store.session("../../etc/passwd", agent="/root")
        session.save({"a": 1}, key="../../../x", tags=["..\\y"])
        files = session.export("@", f"{tmp_path}/out/").files
    assert [each.parent for each in tmp_path.rglob("*.gz")] == [tmp_path / "out"]
    assert len(files) == 1


pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
FILES = ["c.json", "c.json.gz", "c.jsonl", "c.jsonl.gz", "c.html"]


def refused(exporter, *args, **options) -> InvalidInputError:
    with pytest.raises(InvalidInputError) as error:
        exporter.export(*args, **options)
    assert error.value.code is ErrorCode.BAD_ARGUMENT
    return error.value


@pipes
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_a_pipe_is_neither_waited_for_nor_replaced(session, tmp_path, name, force):
    path = tmp_path / name
    os.mkfifo(path)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / name).symlink_to(path)
    for each in (path, tmp_path / "links" / name):
        error = refused(session, "@", each, force=force)
        assert str(error) == f"{each} is no ordinary file"
        assert "stdout (-)" in error.hint
    assert path.is_fifo()


@pipes
def test_a_pipe_in_the_folder_of_a_session_stops_no_save(session, tmp_path):
    with holdfast.open("memory:") as store:
        kept = store.session("s", export_dir=tmp_path, export_format="jsonl")
        kept.save({"a": 1})
        [lines] = tmp_path.iterdir()
        lines.unlink()
        os.mkfifo(lines)
        with pytest.warns(HoldfastWarning, match="no ordinary file"):
            kept.save({"a": 2})
    [name] = [os.path.basename(each) for each in session.export("@", f"{tmp_path}/one/").files]
    (tmp_path / "two").mkdir()
    os.mkfifo(tmp_path / "two" / name)
    [path] = session.export("@", tmp_path / "two").files
    assert os.path.basename(path) != name


@pytest.mark.parametrize("name", FILES)
def test_a_link_stays_a_link_whatever_is_written(session, tmp_path, name):
    (tmp_path / "real").mkdir()
    link, file = tmp_path / name, tmp_path / "real" / name
    link.symlink_to(file)
    for _ in range(2):
        report = session.export("@", link, force=True)
        assert report.files == (str(link),)
        assert link.is_symlink()
        assert file.stat().st_size == report.bytes
    assert [each.name for each in (tmp_path / "real").iterdir()] == [name]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("x.json", "html"),
        ("x.json", "json.gz"),
        ("x.json.gz", "json"),
        ("x.jsonl", "json"),
        ("x.html", "jsonl"),
    ],
)
def test_a_name_that_says_another_format_is_refused(session, tmp_path, name, kind):
    error = refused(session, "@", tmp_path / name, format=kind)
    assert str(error) == f"{name!r} ends with .{name.partition('.')[2]}, and the format is {kind}"
    assert list(tmp_path.iterdir()) == []
    session.export("@", tmp_path / "any", format=kind)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.jsonl"


def messages(path):
    return [json.loads(each).get("message") for each in path.read_text().splitlines()]


@pytest.mark.parametrize(
    "text", ['{"precious": 1}\n{"precious": 2}', "# a note", '{"half', '{"added": [1', " ", "\ufeff{}"]
)
def test_what_others_wrote_is_never_cut(session, path, text):
    path.write_text(text)
    session.export("#1", path)
    assert path.read_text().startswith(f"{text}\n{{")
    assert [each.name for each in path.parent.iterdir()] == ["log.jsonl"]


def test_force_replaces_lines_and_until_they_are_whole_the_old_ones_are_there(session, path, monkeypatch):
    session.export("#1", path)
    before = path.read_bytes()
    path.chmod(0o640)
    seen: list[bytes] = []
    real = os.fsync

    def looked(handle):
        seen.append(path.read_bytes())
        real(handle)

    monkeypatch.setattr(os, "fsync", looked)
    session.export(["#2", "#4"], path, force=True)
    assert seen[0] == before
    assert messages(path) == ["step 1", "step 3"]
    assert path.stat().st_mode & 0o777 == 0o640

    def full(_handle):
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BackendError) as caught:
        session.export("#1", path, force=True)
    assert caught.value.code is ErrorCode.DISK_FULL
    assert messages(path) == ["step 1", "step 3"]
    assert [each.name for each in path.parent.iterdir()] == ["log.jsonl"]


def test_half_a_line_of_ours_is_cut_off_before_another_is_appended(session, path):
    session.export("#1", path)
    session.export("#2", path.with_name("second.jsonl"))
    whole, second = path.read_bytes(), path.with_name("second.jsonl").read_bytes()
    # The id is in the longer ones, and does not count.
    for torn in (second[:1], second[:12], second[:500], second[:-2]):
        path.write_bytes(whole + torn)
        session.export("#2", path)
        assert messages(path) == ["step 0", "step 1"]
    # A whole line without a line break is what an editor leaves.
    path.write_bytes(whole.rstrip())
    session.export("#2", path)
    assert messages(path) == ["step 0", "step 1"]


PROGRAM = """
import os, sys, threading, holdfast
store = holdfast.open(sys.argv[1], durability="process")
def work(branch):
    session = store.session("s", branch=branch, export_dir=sys.argv[2], export_format="jsonl")
    for step in range(3):
        session.save({"text": os.urandom(500_000).hex(), "step": step})
threads = [threading.Thread(target=work, args=(branch,)) for branch in sys.argv[3:]]
for each in threads: each.start()
for each in threads: each.join()
"""


def test_processes_with_threads_that_append_to_one_file_lose_no_line(tmp_path):
    place, folder = tmp_path / "s.db", tmp_path / "out"
    with holdfast.open(place, durability="process") as store:
        session = store.session("s", export_dir=folder, export_format="jsonl")
        session.save({"first": 1})
        for name in "abcd":
            session.fork("#1", name)
        command = [sys.executable, "-W", "error", "-c", PROGRAM, str(place), str(folder)]
        others = [subprocess.Popen([*command, *names]) for names in ("ab", "cd")]
        for step in range(10):
            session.save({"step": step})
        assert [each.wait(60) for each in others] == [0, 0]
        saved = {each.id for each in store.find(session="s")}
    [path] = folder.iterdir()
    # One that two writers caught up with at once may be there twice.
    assert {json.loads(each)["id"] for each in path.read_bytes().splitlines()} == saved


def test_a_lock_that_nobody_lets_go_is_an_error_in_the_end_and_a_save_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(export, "_PATIENCE", 0.02)
    with holdfast.open("memory:") as store:
        session = store.session("s", export_dir=tmp_path, export_format="jsonl")
        session.save({"a": 1})
        [path] = tmp_path.iterdir()
        with path.open("rb") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            with pytest.warns(HoldfastWarning, match="another process has been writing"):
                session.save({"a": 2})
        assert session.load() == {"a": 2}
        assert len(path.read_text().splitlines()) == 1
        session.save({"a": 3})
        assert len(path.read_text().splitlines()) == 2
