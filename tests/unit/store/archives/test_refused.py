"""What an import refuses before it writes anything, each for its own reason."""

from __future__ import annotations

import gzip
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.unit.store.archives.archive_samples import STATE, filled, forged

import holdfast
from holdfast import ArchiveLimits, ErrorCode, HoldfastError, InvalidInputError
from holdfast.history.names import MAX_NAME, check_branch

NAME = "research/42"


@pytest.fixture
def store():
    with holdfast.open("memory:") as made:
        yield made


def reason(other: holdfast.Store, path: Path, **more: Any) -> str:
    """Why an import is refused; nothing may have been written."""
    before = [*other.sessions(), *other.find()]
    with pytest.raises(HoldfastError) as caught:
        other.import_(path, **more)
    assert [*other.sessions(), *other.find()] == before
    return str(caught.value.details["reason"])


def two(store, folder) -> tuple[Path, Path]:
    session = store.session("s")
    session.save({"n": 1}, key="k")
    session.save({"n": 2})
    session.export("#1", folder / "1.json")
    session.export("#2", folder / "2.json")
    return folder / "1.json", folder / "2.json"


def test_a_key_that_two_checkpoints_of_an_archive_have_is_refused_as_such(store, other, tmp_path):
    folder = tmp_path / "all"
    folder.mkdir()
    _, second = two(store, folder)
    forged(second, second, key="k")
    store.session("good").save({"good": 1})
    store.session("good").export("@", folder / "0.json")
    assert reason(other, folder) == "key-twice"


def test_the_key_of_a_file_of_another_program_counts_too(store, other, tmp_path):
    folder = tmp_path / "all"
    folder.mkdir()
    two(store, folder)
    foreign = {"version": "0.0.1", "id": "k", "timestamp": 1, "execution_id": "s", "snapshot": {"n": 9}}
    (folder / "f.json").write_text(json.dumps(foreign))
    assert reason(other, folder) == "key-twice"


def test_the_same_checkpoint_twice_is_passed_over_whatever_file_it_is_in(store, other, tmp_path):
    folder = tmp_path / "all"
    folder.mkdir()
    first, second = two(store, folder)
    (folder / "1.json.gz").write_bytes(gzip.compress(first.read_bytes()))
    store.session("s").export(["#2", "#1"], folder / "lines.jsonl")
    foreign = {"version": "0.0.1", "id": "f", "timestamp": 1, "execution_id": "x", "snapshot": {"n": 9}}
    for name in ("f.json", "g.json"):
        (folder / name).write_text(json.dumps(foreign))
    report = other.import_(folder)
    assert {each.id: each.checkpoints for each in report.sessions} == {"s": 2, "x": 1}
    # Twice under one name, and not the same: neither is the right one.
    (folder / "g.json").write_text(json.dumps(foreign | {"snapshot": {"n": 8}}))
    assert reason(other, folder) == "twice"
    (folder / "g.json").unlink()
    (folder / "3.json").write_text(second.read_text().replace('"n": 2', '"n": 3'))
    assert reason(other, folder) == "root-differs"
    (folder / "3.json").write_text(second.read_text().replace('"message": ""', '"message": "x"'))
    assert reason(other, folder) == "id-differs"
    store.session("s").tag("#2", "later")
    store.session("s").export("#2", folder / "3.json", force=True)
    assert reason(other, folder) == "twice"


@pytest.mark.parametrize(
    "when",
    [
        "0001-01-01T00:00:00.000000+23:00",
        "9999-12-31T23:59:59.999999-23:00",
        "9999-12-31T00:00:00.000001+00:00",
        "2026-01-01T01:00:00.000000+01:00",
        "2026-01-01T00:00:00+00:00",
        "2026-01-01 00:00:00.000000+00:00",
        "2026-01-01T00:00:00.000000Z",
        "2026-01-01T00:00:00.000000",
        "2026-01-01",
        "",
        7,
        None,
    ],
)
def test_a_time_that_is_none_or_would_not_come_back_as_it_is_written_is_refused(store, other, tmp_path, when):
    first, _ = two(store, tmp_path)
    first.write_text(json.dumps(json.loads(first.read_text()) | {"created_at": when}))
    assert reason(other, first) == "bad-field"


@pytest.mark.parametrize("when", ["0001-01-01T00:00:00.000000+00:00", "9999-12-31T00:00:00.000000+00:00"])
def test_work_goes_on_from_the_earliest_and_the_latest_time_there_can_be(store, other, tmp_path, when):
    first, _ = two(store, tmp_path)
    other.import_(forged(first, first, created_at=when))
    session = other.session("s")
    assert session.checkpoint().created_at.isoformat(timespec="microseconds") == when
    session.save({"n": 3})
    assert session.log()[0].created_at > session.log()[1].created_at
    session.export("@~1", tmp_path / "again.json")
    assert other.import_(tmp_path / "again.json").unchanged == 1


def test_a_child_that_is_not_younger_than_its_parent_is_refused(store, other, tmp_path):
    first, second = two(store, tmp_path)
    then = json.loads(first.read_text())["created_at"]
    lines = tmp_path / "lines.jsonl"
    for when in ("1990-01-01T00:00:00.000000+00:00", then):
        child = forged(second, tmp_path / "child.json", created_at=when)
        texts = [json.dumps(json.loads(each.read_text())) for each in (first, child)]
        lines.write_text("\n".join(texts) + "\n")
        assert reason(other, lines) == "older-than-parent"
        # The parent may be in the store as well.
        assert reason(store, child) == "older-than-parent"


def test_what_is_told_to_come_before_it_counts_like_a_parent(store, other, tmp_path):
    first, second = two(store, tmp_path)
    before = json.loads(second.read_text())["id"]
    forged(first, tmp_path / "odd.json", prev=before, message="an ancestor of its own parent")
    texts = [json.dumps(json.loads((tmp_path / name).read_text())) for name in ("odd.json", "2.json")]
    (tmp_path / "lines.jsonl").write_text("\n".join(texts) + "\n")
    assert reason(other, tmp_path / "lines.jsonl") == "older-than-parent"


def test_a_line_cannot_be_led_back_to_what_comes_from_it(store, tmp_path):
    first, second = two(store, tmp_path)
    # The id is that of a checkpoint that is here; what comes before it is outside of the id.
    forged(first, first, prev=json.loads(second.read_text())["id"])
    assert json.loads(first.read_text())["id"] == store.session("s").checkpoint("#1").id
    assert reason(store, first) == "older-than-parent"


def test_thousands_of_lines_of_one_name_are_numbered_on_and_bounded(store, other, tmp_path):
    first, _ = two(store, tmp_path)
    data = json.loads(first.read_text()) | {"key": None}
    made = [
        forged(first, tmp_path / "x.json", **(data | {"nonce": f"{n:04x}"})).read_text() for n in range(60)
    ]
    (tmp_path / "many.jsonl").write_text("\n".join(made) + "\n")
    assert reason(other, tmp_path / "many.jsonl", limits=ArchiveLimits(branches=59)) == "too-many-branches"
    report = other.import_(tmp_path / "many.jsonl", limits=ArchiveLimits(branches=60))
    assert set(report.sessions[0].branches) == {"main", *(f"main-{n}" for n in range(1, 60))}


def test_a_free_name_is_found_in_one_step_however_many_are_taken():
    from holdfast.store.archives.numbering import free_name

    class Counted(set[str]):
        asked = 0

        def __contains__(self, name: object) -> bool:
            self.asked += 1
            return super().__contains__(name)

    taken, numbers = Counted(), dict[str, int]()
    names = [free_name("main", taken, numbers) for _ in range(500)]
    assert names[-1] == "main-499"
    assert taken.asked < 3 * 500


@pytest.mark.parametrize("length", [MAX_NAME, MAX_NAME - 1, MAX_NAME - 2])
def test_a_long_name_is_cut_so_that_the_number_fits(store, other, tmp_path, length):
    name = "b" * length
    store.session("s").save({"n": 1})
    line = store.session("s").fork("@", name)
    for step in range(3):
        line.save({"n": step})
        line.export("@", tmp_path / f"{step}.json")
    for step in (0, 2):
        other.import_(tmp_path / f"{step}.json")
    made = [each.name for each in other.session("s").branches()]
    assert name in made
    assert len(made) == 2
    assert all(check_branch(each) for each in made)
    other.session("s").export(path=tmp_path / "all.jsonl", session=True)
    with holdfast.open("memory:") as third:
        assert third.import_(tmp_path / "all.jsonl").checkpoints == 2


def test_links_in_a_folder_are_not_followed_and_one_that_a_person_names_is(store, other, tmp_path):
    first, _ = two(store, tmp_path)
    folder = tmp_path / "cloned"
    folder.mkdir()
    (folder / "x.json").symlink_to(first)
    assert reason(other, folder) == "symbolic-link"
    assert other.import_(folder / "x.json").checkpoints == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_is_refused_without_waiting_for_somebody_to_write(other, tmp_path, monkeypatch):
    folder = tmp_path / "cloned"
    folder.mkdir()
    os.mkfifo(folder / "x.json")
    assert reason(other, folder) == "not-a-file"
    assert reason(other, folder / "x.json") == "not-a-file"
    # One that takes the place of a file after the first look at it.
    (folder / "a.json").write_text("{}")
    looked_at = os.stat(folder / "a.json")
    monkeypatch.setattr(Path, "stat", lambda *_, **__: looked_at)
    assert reason(other, folder / "x.json") == "not-a-file"
    monkeypatch.setattr(Path, "iterdir", lambda path: iter([path / "link.json"]))
    (folder / "link.json").symlink_to(folder / "a.json")
    monkeypatch.setattr(Path, "stat", lambda path, **_: os.stat(folder) if path == folder else looked_at)
    assert reason(other, folder) == "symbolic-link"


def document(text: str) -> str:
    """What a JSON parser makes of a text: its texts and numbers, in their order."""
    return repr(json.loads(text, object_pairs_hook=lambda pairs: ["object", pairs]))


def variants(char: str) -> set[str]:
    if char == "\n":
        return {" ", "1"}
    return {char.swapcase() if char.isalpha() else "1" if char != "1" else "2"}


def test_each_character_of_a_file_counts_unless_the_document_stays_the_same(store, other):
    state = {
        "bytes": b"hi",
        "more": bytearray(b"\xff"),
        "money": STATE["money"],
        "when": STATE["when"],
        "far": 2**80,
        "odd": complex(0.1, float("-inf")),
        "nan": [float("nan"), float("inf")],
        "x": 0.1 + 0.2,
        "half": STATE["half"],
    }
    store.session("s").save(state, "m", tags=["t"], key="k", metadata={"n": 1.5, "t": "é"}, cost_usd=0.3)
    kept = io.BytesIO()
    store.session("s").export("@", kept)
    text = kept.getvalue().decode()
    meant = document(text)
    passed = set()
    for at, char in enumerate(text):
        for new in variants(char):
            changed = text[:at] + new + text[at + 1 :]
            try:
                other.import_(io.BytesIO(changed.encode()))
            except HoldfastError:
                continue
            assert document(changed) == meant, (at, char, new)
            passed.add((char, new))
    # Blanks between values; all else that a parser does not mind takes more than one character here.
    assert passed == {("\n", " ")}
    assert [each.id for each in other.find()] == [store.session("s").checkpoint().id]


@pytest.mark.parametrize(
    "tagged",
    [
        {"$type": "bytes", "$value": "aGl="},
        {"$type": "UUID", "$value": "0" * 31 + "A"},
        {"$type": "Decimal", "$value": "1e+5"},
        {"$type": "datetime", "$value": "2026-02-28 14:32:45"},
        {"$type": "time", "$value": "14:32:45,5"},
        {"$type": "date", "$value": "20260228"},
        {"$type": "int", "$value": "007"},
        {"$type": "complex", "$value": "(1+2J)"},
        {"$type": "float", "$value": "inf", "$bits": "fff8000000000123"},
        {"$type": "float", "$value": "nan", "$bits": "FFF8000000000123"},
        {"$type": "IPv6Address", "$value": "::A"},
        {"$type": "PurePosixPath", "$value": "a//b"},
        {"$type": "PureWindowsPath", "$value": "a/b"},
        {"$type": "timedelta", "$value": [0, 86_400, 0]},
    ],
)
def test_a_value_has_one_notation(store, other, tmp_path, tagged):
    filled(store).export("#1", tmp_path / "c.json")
    data = json.loads((tmp_path / "c.json").read_text())
    (tmp_path / "c.json").write_text(json.dumps(data | {"state": tagged}))
    assert reason(other, tmp_path / "c.json") == "bad-value"


def test_a_name_that_is_taken_goes_out_as_it_is_and_is_not_tried_again(store, other, tmp_path, monkeypatch):
    from holdfast.store.archives import bringing

    first, _ = two(store, tmp_path)
    calls = []

    def taken(batch: object) -> None:
        calls.append(batch)
        raise holdfast.ConflictError.key_taken("s", "k", existing=b"x")

    monkeypatch.setattr(other._backend, "adopt", taken)
    with pytest.raises(holdfast.ConflictError) as caught:
        other.import_(first)
    assert caught.value.code is ErrorCode.KEY_TAKEN
    assert len(calls) == 1
    calls.clear()

    def changed(batch: object) -> None:
        calls.append(batch)
        raise holdfast.ConflictError.session_changed("s")

    monkeypatch.setattr(other._backend, "adopt", changed)
    monkeypatch.setattr(bringing, "_ATTEMPTS", 5)
    with pytest.raises(holdfast.ConflictError):
        other.import_(first)
    assert len(calls) == 5


def test_limits_that_are_none_are_refused(other, tmp_path):
    with pytest.raises(InvalidInputError):
        other.import_(tmp_path, limits=7)
