"""What an import must not do: show a password, take locks of a store away, promise in a dry run what it cannot do."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from tests.integrations.langgraph.import_sources import config, fill, made

import holdfast
from holdfast.errors import ErrorCode
from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.integrations.langgraph.importing import import_langgraph


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with holdfast.open(tmp_path / "store.db") as opened:
        yield opened


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints.sqlite"


def refusal(source: Any, store: holdfast.Store, **options: Any) -> holdfast.HoldfastError:
    with pytest.raises(holdfast.HoldfastError) as raised:
        import_langgraph(source, store, **options)
    return raised.value


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("host=127.0.0.1 port=1 user=u password=xyzzy dbname=d", ErrorCode.SERVER_GONE),
        ("password=xyzzy host=127.0.0.1 port=1", ErrorCode.SERVER_GONE),
        ("host=h password='xyzzy", ErrorCode.BAD_URL),
        ("host=h password=xy xyzzy dbname=d", ErrorCode.BAD_URL),
        ("host=h pw=xyzzy", ErrorCode.BAD_URL),
        ("host=u:xyzzy@h", ErrorCode.BAD_URL),
        ("host=h port=xyzzy", ErrorCode.BAD_URL),
        ("dbname=postgresql://u:xyzzy@h/d", ErrorCode.BAD_URL),
        ("dbname='host=h password=xyzzy'", ErrorCode.BAD_URL),
        ("me:xyzzy@host/db", ErrorCode.BAD_URL),
        ("//me:xyzzy@host/db", ErrorCode.BAD_URL),
        ("host/db?user=me&password=xyzzy", ErrorCode.BAD_URL),
        ("sqlite:///postgresql://u:xyzzy@h/d", ErrorCode.BAD_URL),
        ("sqlite:///host=h password=xyzzy", ErrorCode.BAD_URL),
        ("~/postgres:u:xyzzy@h", ErrorCode.BAD_URL),
    ],
)
def test_a_password_is_never_repeated(source: str, code: ErrorCode, store: holdfast.Store) -> None:
    error = refusal(source, store)

    assert error.code is code
    shown: BaseException | None = error
    while shown is not None:
        assert "xyzzy" not in f"{shown}{shown!r}{json.dumps(error.to_dict())}"
        shown = shown.__cause__ or shown.__context__


@pytest.mark.parametrize("name", ["a=b.sqlite", "me:x@y.sqlite"])
def test_a_file_may_have_a_name_like_an_address(
    name: str, tmp_path: Path, store: holdfast.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fill("sqlite", tmp_path / name, ("chat",))

    assert import_langgraph(name, store).source == name


def test_keywords_of_libpq_lead_to_the_database(postgres_url: str, store: holdfast.Store) -> None:
    fill("postgres", postgres_url, ("chat",))
    parts = urlsplit(postgres_url)
    words = {
        "host": parts.hostname,
        "port": parts.port,
        "user": parts.username,
        "password": parts.password,
        "dbname": parts.path.lstrip("/"),
    }
    text = " ".join(f"{name}='{value}'" for name, value in words.items() if value)

    report = import_langgraph(text, store)

    assert [each.id for each in report.threads] == ["chat"]
    assert report.source.startswith("postgresql://")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/locks")
@pytest.mark.parametrize("end", ["", "-wal", "-shm"])
@pytest.mark.parametrize("which", ["the target", "another store"])
def test_a_file_of_an_open_store_keeps_its_locks(
    which: str, end: str, tmp_path: Path, store: holdfast.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    def look() -> set[tuple[str, ...]]:
        files = [os.stat(f"{kept_in}{each}") for each in ("", "-wal", "-shm")]
        names = {f"{os.major(each.st_dev):02x}:{os.minor(each.st_dev):02x}:{each.st_ino}" for each in files}
        words = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        return {tuple(each[1:]) for each in words if each[4] == str(os.getpid()) and each[5] in names}

    def locks() -> set[tuple[str, ...]]:
        # Other processes lock and unlock while it is read, and lines may come twice or not at all.
        seen = look()
        while (again := look()) != seen:
            seen = again
        return seen

    with holdfast.open(tmp_path / "other%.db") as other:
        held = store if which == "the target" else other
        kept_in = tmp_path / ("store.db" if which == "the target" else "other%.db")
        held.session().save(1)
        with held._backend.reader() as reader:
            reader.session("any")
            before = locks()

            error = refusal(f"~/{kept_in.name}{end}", store)

            assert before
            assert locks() == before
    assert error.code is ErrorCode.SOURCE_UNKNOWN
    assert "store" in str(error)


def test_metadata_beyond_what_a_record_holds_is_kept_in_the_state(
    source: Path, store: holdfast.Store
) -> None:
    large: dict[str, Any] = {f"m{number}": "ä" * 30_000 for number in range(60)} | {
        "label": "x",
        "list": ["y" * 9] * 9000,
    }

    def metadata(step: int) -> Any:
        return {"step": step, **large}

    with SqliteSaver.from_conn_string(str(source)) as saver:
        where = saver.put(config("t", checkpoint_ns=""), made(id="1"), metadata(1), {})

    for dry_run in (True, False, False):
        import_langgraph(source, store, dry_run=dry_run)
    ours = HoldfastSaver(store)
    ours.put(where, made(id="2"), metadata(2), {})

    for number, step in (("1", 1), ("2", 2)):
        found = ours.get_tuple(config("t", checkpoint_ns="", checkpoint_id=number))
        assert found is not None
        assert found.metadata == metadata(step)
    assert store.find(metadata={"label": "x", "step": 2})
    assert len(list(ours.list(None, filter={"m3": large["m3"]}))) == 2
    assert list(ours.list(None, filter={"m3": "other"})) == []


def test_a_dry_run_refuses_what_was_deleted_here_too(source: Path, store: holdfast.Store) -> None:
    fill("sqlite", source, ("chat",))
    import_langgraph(source, store)
    store.session("chat").delete("@")

    for dry_run in (True, False):
        error = refusal(source, store, dry_run=dry_run)
        assert error.code is ErrorCode.HISTORY_DIFFERS
        assert "deleted" in str(error)
        assert "nothing of the thread was written" in str(error)


def test_a_dry_run_refuses_a_record_that_cannot_be_saved(source: Path, store: holdfast.Store) -> None:
    # The names of metadata are in the record, wherever the values are.
    names: Any = {f"{number:03}{'n' * 30_000}": 1 for number in range(60)}
    with SqliteSaver.from_conn_string(str(source)) as saver:
        saver.put(config("t", checkpoint_ns=""), made(id="1"), names, {})

    tried, real = (refusal(source, store, dry_run=dry_run) for dry_run in (True, False))

    assert tried.code is ErrorCode.BAD_METADATA
    assert str(tried) == str(real)
