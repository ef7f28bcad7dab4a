"""What an import refuses before it writes anything, each for its own reason."""

from __future__ import annotations

import gzip
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.unit.store.archive.archive_samples import STATE, filled, forged

import holdfast
from holdfast import HoldfastError, InvalidInputError


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
        "2026-01-01T00:00:00.000000Z",
        7,
        None,
    ],
)
def test_a_time_that_is_none_or_would_not_come_back_as_it_is_written_is_refused(store, other, tmp_path, when):
    first, _ = two(store, tmp_path)
    first.write_text(json.dumps(json.loads(first.read_text()) | {"created_at": when}))
    assert reason(other, first) == "bad-field"


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


def test_limits_that_are_none_are_refused(other, tmp_path):
    with pytest.raises(InvalidInputError):
        other.import_(tmp_path, limits=7)
