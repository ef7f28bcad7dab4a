"""What an export writes, and where."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
from pathlib import Path

import pytest
from tests.unit.store.archive.archive_samples import filled

import holdfast
from holdfast import BackendError, ErrorCode, HoldfastWarning, InvalidInputError, NotFoundError


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


def test_one_changed_value_changes_one_line_of_the_state(session, tmp_path):
    session.save({"a": [1, 2, 3], "b": {"c": "x"}})
    session.export("@", tmp_path / "one.json")
    session.save({"a": [1, 5, 3], "b": {"c": "x"}})
    session.export("@", tmp_path / "two.json")
    texts = [(tmp_path / name).read_text() for name in ("one.json", "two.json")]
    states = [text[text.index('\n  "state"') : text.index('\n  "status"')].splitlines() for text in texts]
    assert len(states[0]) == len(states[1])
    assert sum(a != b for a, b in zip(*states, strict=True)) == 1


def test_the_same_checkpoint_is_the_same_bytes_from_every_store(session, tmp_path):
    session.export("#3", tmp_path / "one.json.gz")
    session.export("@", tmp_path / "all.jsonl", session=True)
    with holdfast.open("memory:") as other:
        other.session("first").save(1)
        other.import_(tmp_path / "all.jsonl")
        other.session("research/42").export("#3", tmp_path / "two.json.gz")
    assert (tmp_path / "one.json.gz").read_bytes() == (tmp_path / "two.json.gz").read_bytes()


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


@pytest.mark.parametrize("links", [True, False])
def test_a_name_that_is_taken_in_the_last_moment_is_left_to_whoever_took_it(
    session, tmp_path, monkeypatch, links
):
    [name] = session.export("#1", f"{tmp_path}/", format="json").files
    first = tmp_path / name
    theirs = first.read_bytes().replace(session.checkpoint("#1").id.encode(), b"f" * 64)
    first.unlink()

    def link(here, there):
        # Another process had the same time and the same digits, and comes between the look and the link.
        if Path(there) == first and not first.exists():
            first.write_bytes(theirs)
        if links:
            return os_link(here, there)
        raise PermissionError(errno.EPERM, "no links here")

    os_link = os.link
    monkeypatch.setattr(os, "link", link)
    [longer] = session.export("#1", tmp_path, format="json").files
    if links:
        assert first.read_bytes() == theirs
        assert session.checkpoint("#1").id[:8] in longer
    assert session.checkpoint("#1").id in Path(longer).read_text()
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted({first.name, Path(longer).name})


def test_json_lines_are_appended_to_and_have_each_checkpoint_once(session, tmp_path):
    path = tmp_path / "log.jsonl"
    assert session.export("#1", path).checkpoints == 1
    assert session.export(["#2", "#1"], path).checkpoints == 1
    lines = path.read_text().splitlines()
    assert [json.loads(each)["message"] for each in lines] == ["step 0", "step 1"]


def test_a_range_and_an_open_stream_will_do(session):
    stream = io.BytesIO()
    assert session.export("#1..#4", stream).checkpoints == 3
    assert len(stream.getvalue().splitlines()) == 3
    one = io.BytesIO()
    session.export("@", one)
    assert json.loads(one.getvalue())["message"] == "step 4"


def test_a_file_that_is_there_is_not_written_over_unless_forced(session, tmp_path):
    path = tmp_path / "c.json"
    path.write_text("mine")
    with pytest.raises(InvalidInputError) as caught:
        session.export("@", path)
    assert caught.value.code is ErrorCode.PATH_EXISTS
    assert path.read_text() == "mine"
    session.export("@", path, force=True)
    assert json.loads(path.read_text())["message"] == "step 4"
    assert [each.name for each in tmp_path.iterdir()] == ["c.json"]


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


def test_a_range_with_nothing_in_it_is_told_beside_others_and_refused_alone(session, tmp_path):
    path = tmp_path / "c.json"
    with pytest.warns(HoldfastWarning) as told:
        assert session.export(["#3..#2", "#1", "#2..#2", "#3..#2"], path).checkpoints == 1
    assert [str(each.message) for each in told] == [
        "nothing is in #3..#2; did you mean #2..#3?",
        "nothing is in #2..#2",
    ]
    assert told[0].filename == __file__
    assert json.loads(path.read_text())["message"] == session.checkpoint("#1").message
    with pytest.raises(
        InvalidInputError, match=r"nothing is in #3\.\.#2; did you mean #2\.\.#3\?; nothing is in #2"
    ):
        session.export(["#3..#2", "#2..#2"], tmp_path / "d.json")


def test_what_is_not_there_is_not_exported(session, tmp_path):
    with pytest.raises(NotFoundError):
        session.export("#99", tmp_path / "c.json")
    with pytest.raises(NotFoundError):
        holdfast.open("memory:").session("nobody").export("@", tmp_path / "c.json")
    (tmp_path / "file").write_text("")
    with pytest.raises(BackendError):
        session.export("@", tmp_path / "file" / "c.json")


def test_ids_and_names_never_become_paths(tmp_path):
    with holdfast.open("memory:") as store:
        session = store.session("../../etc/passwd", agent="/root")
        session.save({"a": 1}, key="../../../x", tags=["..\\y"])
        files = session.export("@", f"{tmp_path}/out/").files
    assert [each.parent for each in tmp_path.rglob("*.gz")] == [tmp_path / "out"]
    assert len(files) == 1
