"""Where an export may go, and where an import may come from: what was hardly meant is refused, with a way on."""

from __future__ import annotations

import os

import pytest
from tests.unit.store.archive.archive_samples import filled

import holdfast
from holdfast import BackendError, InvalidInputError
from holdfast.errors import ErrorCode, HoldfastWarning

pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
FILES = ["c.json", "c.json.gz", "c.jsonl", "c.jsonl.gz", "c.html"]


@pytest.fixture
def session():
    with holdfast.open("memory:") as store:
        yield filled(store)


def refused(exporter, *args, **options) -> InvalidInputError:
    with pytest.raises(InvalidInputError) as error:
        exporter.export(*args, **options)
    assert error.value.code is ErrorCode.BAD_ARGUMENT
    return error.value


def test_an_empty_path_is_not_the_current_folder(session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "empty" in str(refused(session, "@", ""))
    assert list(tmp_path.iterdir()) == []
    session.export("@", ".")
    with holdfast.open("memory:") as other:
        with pytest.raises(InvalidInputError, match="empty") as error:
            other.import_("")
        assert error.value.hint == "name a file or a folder; the current folder is ."
        assert other.import_(".").checkpoints == 1


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


@pytest.mark.parametrize("end", [".json", ".jsonl", "/"])
def test_what_cannot_be_looked_at_is_an_error_of_ours(session, tmp_path, end):
    with pytest.raises(BackendError, match="cannot be written: File name too long"):
        session.export("@", f"{tmp_path}/{'x' * 300}{end}")


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
