"""Files of JSON Lines: whatever stands in one stays, unless it is half a line of ours, which is put aside."""

from __future__ import annotations

import errno
import json
import os
from io import FileIO

import pytest
from tests.unit.store.archives.archive_samples import filled

import holdfast
from holdfast import BackendError, ErrorCode, HoldfastWarning, InvalidInputError
from holdfast.store.archives import lines
from holdfast.store.archives.lines import JsonLines, id_in_line


@pytest.fixture
def session():
    with holdfast.open("memory:") as store:
        yield filled(store)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.jsonl"


def messages(path):
    return [json.loads(each).get("message") for each in path.read_text().splitlines()]


def test_half_a_line_of_ours_is_put_aside_and_the_warning_says_where(session, path):
    session.export("#1", path)
    session.export("#2", path.with_name("second.jsonl"))
    whole, second = path.read_bytes(), path.with_name("second.jsonl").read_bytes()
    # The id is in the longer ones, and does not count.
    for torn in (second[:1], second[:12], second[:500], second[:-2]):
        path.write_bytes(whole + torn)
        with pytest.warns(HoldfastWarning, match="middle of a line") as told:
            session.export("#2", path)
        assert messages(path) == ["step 0", "step 1"]
        aside = path.with_name("log.jsonl.cut")
        assert str(aside) in str(told[0].message)
        assert told[0].filename == __file__
        assert aside.read_bytes().splitlines()[-1] == torn
    assert len(aside.read_bytes().splitlines()) == 4


def test_a_line_of_ours_that_only_lacks_its_line_break_is_kept_and_counts(session, path):
    session.export(["#1", "#2"], path)
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    assert session.export(["#2", "#3"], path).checkpoints == 1
    assert messages(path) == ["step 0", "step 1", "step 2"]
    assert [each.name for each in path.parent.iterdir()] == ["log.jsonl"]
    with holdfast.open("memory:") as other:
        assert other.import_(path).checkpoints == 3


@pytest.mark.parametrize(
    "text", ['{"precious": 1}\n{"precious": 2}', "# a note", '{"half', '{"added": [1', " ", "\ufeff{}"]
)
def test_what_others_wrote_is_never_cut(session, path, text):
    path.write_text(text)
    session.export("#1", path)
    assert path.read_text().startswith(f"{text}\n{{")
    assert [each.name for each in path.parent.iterdir()] == ["log.jsonl"]


def test_nothing_is_appended_to_a_whole_session(session, path):
    session.export(path=path, session=True)
    before = path.read_bytes()
    session.save({"newer": 1})
    # Whoever wrote it: other programs put blanks, and fields in another order.
    header, rest = before.split(b"\n", 1)
    fields = json.loads(header)
    other = json.dumps(dict(reversed(fields.items())), indent=None).encode()
    for text in (before, other + b"\n" + rest):
        path.write_bytes(text)
        with pytest.raises(InvalidInputError, match="whole session") as caught:
            session.export("@", path)
        assert caught.value.code is ErrorCode.PATH_EXISTS
        assert "force=True" in (caught.value.hint or "")
        assert path.read_bytes() == text
    session.export(path=path, session=True, force=True)
    with holdfast.open("memory:") as other_store:
        assert other_store.import_(path).checkpoints == 8


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


def test_a_line_that_does_not_fit_the_disk_leaves_nothing_of_itself(session, path, monkeypatch):
    session.export("#1", path)
    before = path.read_bytes()

    class Small(FileIO):
        def write(self, data, /):
            if path.stat().st_size > len(before):
                raise OSError(errno.ENOSPC, "no room")
            return super().write(memoryview(data)[:100])

    monkeypatch.setattr(lines, "FileIO", Small)
    with pytest.raises(BackendError) as caught:
        session.export("#2", path)
    assert caught.value.code is ErrorCode.DISK_FULL
    assert path.read_bytes() == before


def test_states_deeper_than_python_recurses_are_written_once_and_cut_out(tmp_path):
    deep: list = []
    for _ in range(3000):
        deep = [deep]
    with holdfast.open("memory:") as store:
        session = store.session("s", export_dir=tmp_path / "out", export_format="jsonl")
        session.save({"id": "0" * 64, "deep": deep})
        session.save({"a": 2})
        [path] = (tmp_path / "out").iterdir()
        assert session.export(["#1", "#2"], path).checkpoints == 0
        assert len(path.read_bytes().splitlines()) == 2
        session.delete("#1", force=True)
        [line] = path.read_bytes().splitlines()
        assert id_in_line(line) == session.checkpoint().id


def test_a_link_stays_a_link_and_the_file_it_leads_to_is_written(session, tmp_path):
    (tmp_path / "real").mkdir()
    link, real = tmp_path / "link.jsonl", tmp_path / "real" / "log.jsonl"
    link.symlink_to(real)
    session.export(["#1", "#2"], link)
    JsonLines(link).cut([session.checkpoint("#1").id])
    assert link.is_symlink()
    assert messages(real) == ["step 1"]


def test_lines_that_are_cut_out_take_nothing_of_others_along(session, path):
    mine = b'\xff\xfe not even text\n{"id": 7}\n\n'
    session.export("#1", path)
    path.write_bytes(mine + path.read_bytes() + b'{"half')
    JsonLines(path).cut([session.checkpoint("#1").id])
    assert path.read_bytes() == mine + b'{"half'
    JsonLines(path).cut(["", "f" * 64])
    assert path.read_bytes() == mine + b'{"half'


def test_what_another_writer_added_after_the_first_look_is_not_added_again(session, path, monkeypatch):
    one, two = session.checkpoint("#1").id, session.checkpoint("#2").id
    real = JsonLines.add

    def late(self, text, unless=None):
        if unless == one:
            # It comes in between, through another object, and cuts a line out as well: the file is another one.
            other = JsonLines(path)
            real(other, [f'{{"id": "{two}"}}\n'])
            other.cut(["e" * 64])
        return real(self, text, unless)

    path.write_text(f'{{"id": "{"e" * 64}"}}\n')
    monkeypatch.setattr(JsonLines, "add", late)
    assert session.export(["#1", "#2"], path).checkpoints == 1
    assert [id_in_line(each) for each in path.read_bytes().splitlines()] == [two, one]
