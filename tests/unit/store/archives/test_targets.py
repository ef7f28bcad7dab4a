"""Where an export may go, and where an import may come from: what was hardly meant is refused, with a way on."""

from __future__ import annotations

import io
import os

import pytest
from tests.unit.store.archives.archive_samples import filled

import holdfast
from holdfast import BackendError, InvalidInputError, NotFoundError
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


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("name", [*FILES, "folder/", "folder/below/", "folder/c.json"])
def test_a_link_that_leads_in_a_circle_is_not_replaced(session, tmp_path, name, force):
    first, second = tmp_path / name.partition("/")[0], tmp_path / "other"
    first.symlink_to(second)
    second.symlink_to(first)
    error = refused(session, "@", f"{tmp_path}/{name}", force=force)
    assert str(error) == f"{first} is a link that leads in a circle"
    assert sorted(tmp_path.iterdir()) == sorted([first, second])
    assert first.is_symlink()


@pytest.mark.parametrize("below", ["", "below/"])
def test_a_folder_that_is_a_link_to_nothing_is_named_with_where_it_leads(session, tmp_path, below):
    (tmp_path / "link").symlink_to("nofolder")
    error = refused(session, "@", f"{tmp_path}/link/{below}")
    assert str(error) == f"{tmp_path}/link is a link to nofolder, which is not there"
    with holdfast.open("memory:") as store:
        kept = store.session("s", export_dir=tmp_path / "link" / below)
        with pytest.warns(HoldfastWarning, match="link is a link to nofolder, which is not there"):
            kept.save({"a": 1})
    (tmp_path / "nofolder").mkdir()
    assert session.export("@", f"{tmp_path}/link/{below}").checkpoints == 1


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


def test_each_hint_leads_on(session, tmp_path):
    folder = f"{tmp_path}/"
    error = refused(session, ["#1", "#2"], io.BytesIO(), format="json")
    assert str(error) == "2 checkpoints are not one JSON document"
    assert "jsonl" in error.hint
    assert "name a file" in refused(session, "@", io.BytesIO(), format="html").hint
    error = refused(session, path=io.BytesIO(), format="json", session=True)
    assert str(error) == "a whole session is not one JSON document"
    error = refused(session, path=folder, format="json", session=True)
    assert "goes into one file" in str(error)
    assert ".jsonl" in error.hint
    assert "ends with .html" in refused(session, "@", folder, format="html").hint
    assert "a folder ends with /" in refused(session, "@", tmp_path / "newfolder").hint
    session.export("@", tmp_path / "one.json")
    assert "is a file" in str(refused(session, "@", f"{tmp_path}/one.json/"))


def test_folders_in_a_folder_are_not_searched_and_the_hint_says_so(session, tmp_path):
    (tmp_path / "empty").mkdir()
    with holdfast.open("memory:") as other:
        for made, said in (([], "are not searched"), (["inner"], f"{tmp_path / 'inner'} has some")):
            for each in made:
                session.export("@", f"{tmp_path}/{each}/")
            with pytest.raises(NotFoundError, match="no archive in") as error:
                other.import_(tmp_path)
            assert said in error.value.hint
