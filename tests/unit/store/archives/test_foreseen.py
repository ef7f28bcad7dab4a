"""What people try with archives, and what they are told: a page, another version, a format without a folder."""

from __future__ import annotations

import json

import pytest

import holdfast
from holdfast import ErrorCode, InvalidInputError, UnsupportedError

FOREIGN = {"id": "k", "timestamp": 1, "execution_id": "s", "snapshot": {"n": 9}}


@pytest.fixture
def store(tmp_path):
    with holdfast.open(tmp_path / "s.db", durability="process") as made:
        yield made


def test_a_page_is_refused_as_a_page(store, tmp_path):
    session = store.session("s")
    session.save({"a": 1})
    session.export(path=tmp_path / "page.html", session=True)
    with pytest.raises(InvalidInputError) as caught:
        store.import_(tmp_path / "page.html")
    assert caught.value.code is ErrorCode.ARCHIVE_MALFORMED
    assert caught.value.details["reason"] == "not-json"
    assert "it is a page to look at" in str(caught.value)
    assert ".json, .json.gz or .jsonl" in caught.value.hint
    (tmp_path / "cut.json").write_text('{"half": ')
    with pytest.raises(InvalidInputError, match="no JSON"):
        store.import_(tmp_path / "cut.json")


@pytest.mark.parametrize("version", ["1.2.0", "0.1.0", "2", 3, "0.0.1.1"])
def test_a_later_version_of_another_programs_form_is_too_new(store, tmp_path, version):
    (tmp_path / "f.json").write_text(json.dumps(FOREIGN | {"version": version}))
    with pytest.raises(UnsupportedError) as caught:
        store.import_(tmp_path / "f.json")
    assert caught.value.code is ErrorCode.FORMAT_TOO_NEW
    assert f"in version {version} of its form" in str(caught.value)
    assert "reads 0.0.x" in str(caught.value)
    assert "upgrade holdfast" in caught.value.hint


@pytest.mark.parametrize("version", [None, True, -1, 1.5, 10**7, "new", "", "1.x", ["0.0.1"]])
def test_a_version_that_is_none_is_told_as_that(store, tmp_path, version):
    (tmp_path / "f.json").write_text(json.dumps(FOREIGN | {"version": version}))
    with pytest.raises(InvalidInputError) as caught:
        store.import_(tmp_path / "f.json")
    assert caught.value.code is ErrorCode.ARCHIVE_MALFORMED
    assert caught.value.details["reason"] == "version"


def test_a_format_for_files_without_a_folder_for_them_is_refused(store):
    with pytest.raises(InvalidInputError) as caught:
        store.session("s", export_format="json")
    assert caught.value.code is ErrorCode.BAD_ARGUMENT
    assert "export_dir" in caught.value.hint
    # Switched off is not forgotten.
    store.session("s", export_dir=False, export_format="json").save(1)
    store.session("s").fork("@", "aside").save(2)
