"""An import that is refused says which file it is about, by the path that leads there, and in words of files."""

from __future__ import annotations

import json
import os

import pytest
from tests.unit.store.archives.archive_samples import forged

import holdfast
from holdfast import HoldfastError, InvalidInputError


@pytest.fixture
def folder(tmp_path):
    """Two checkpoints with keys, each in a file."""
    made = tmp_path / "in" / "here"
    with holdfast.open("memory:") as store:
        session = store.session("s", agent="scout")
        for step in range(2):
            session.save({"step": step}, key=f"k{step}")
            session.export("@", made / f"{step}.json")
        session.export(path=tmp_path / "all.jsonl", session=True)
    return made


@pytest.fixture
def other():
    with holdfast.open("memory:") as made:
        yield made


def refused(store, path) -> HoldfastError:
    with pytest.raises(HoldfastError) as error:
        store.import_(path)
    return error.value


def test_a_file_in_a_folder_is_named_by_its_path(other, folder):
    (folder / "1.json").write_text("{")
    error = refused(other, folder)
    assert str(error).startswith(f"{folder / '1.json'} cannot be imported")
    assert error.details["file"] == str(folder / "1.json")
    (folder / "1.json").unlink()
    (folder / "1.json").symlink_to(folder / "0.json")
    assert refused(other, folder).details["file"] == str(folder / "1.json")


def test_a_session_that_was_cut_short_is_named_by_its_file(other, folder, tmp_path):
    lines = (tmp_path / "all.jsonl").read_text().splitlines(keepends=True)
    (folder / "few.jsonl").write_text("".join(lines[:-1]))
    # Whether another file follows it or not.
    for path in (folder / "few.jsonl", folder):
        error = refused(other, path)
        assert error.details["reason"] == "cut-short"
        assert str(error).startswith(f"{folder / 'few.jsonl'} was changed")


def test_a_key_that_is_taken_names_the_file_and_hints_at_what_an_importer_can_do(other, folder):
    other.session("s").save({"mine": 1}, key="k1")
    error = refused(other, folder)
    assert error.code is holdfast.ErrorCode.KEY_TAKEN
    assert str(folder / "1.json") in str(error)
    assert error.details["file"] == str(folder / "1.json")
    assert "new key" not in error.hint


def test_an_owner_that_is_another_one_and_a_parent_that_is_younger_name_the_file(other, folder):
    other.session("s", agent="mine").save({"mine": 1})
    assert refused(other, folder).details["file"] == str(folder / "0.json")
    with holdfast.open("memory:") as third:
        third.import_(folder / "0.json")
        child = forged(folder / "1.json", folder / "1.json", created_at="1990-01-01T00:00:00.000000+00:00")
        assert refused(third, child).details["file"] == str(child)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "it has no 'format'"),
        ('{"format": "x"}', "its 'format' is 'x'"),
        ("null", "it holds null"),
        ("[]", "it holds a list"),
        ("7", "it holds a number"),
    ],
)
def test_what_is_no_archive_is_told_in_words_of_json(other, tmp_path, text, said):
    (tmp_path / "x.json").write_text(text)
    assert said in str(refused(other, tmp_path / "x.json"))


def test_a_field_of_the_wrong_kind_is_told_in_words_of_json(other, folder):
    data = json.loads((folder / "0.json").read_text())
    (folder / "0.json").write_text(json.dumps(data | {"tags": None}))
    assert "its 'tags' is null, not a list" in str(refused(other, folder / "0.json"))


def test_a_session_that_is_not_its_own_leaves_a_way_on_in_both_languages(other, folder):
    from holdfast.cli._words import in_shell_words

    with pytest.raises(InvalidInputError) as error:
        other.import_(folder, session="mine")
    assert "leave session= out" in error.value.hint
    assert in_shell_words(error.value.hint) == "leave --session out, which is for files of other programs"
    other.session("s", agent="mine").save({"mine": 1})
    hint = refused(other, os.fspath(folder)).hint
    assert in_shell_words(hint) == "import it into another store (--store)"
