"""Files of JSON Lines: whatever stands in one stays, unless it is half a line of ours, which is put aside."""

from __future__ import annotations

import errno
import json
import os

import pytest
from tests.unit.store.archive.archive_samples import filled

import holdfast
from holdfast import BackendError, ErrorCode, HoldfastWarning, InvalidInputError


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
