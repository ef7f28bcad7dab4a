"""Copies: complete, private, of one moment, and never over anything."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from holdfast.backends.sqlite import SqliteBackend
from holdfast.errors import BackendError, ErrorCode, IntegrityError, InvalidInputError
from holdfast.testing.rows import contents, save

from .conftest import Open
from .test_sqlite_damage import fill, verified_pages


def test_a_copy_is_a_store_of_its_own(tmp_path: Path, store: SqliteBackend, open_store: Open) -> None:
    fill(store)
    expected = contents(store)
    store.backup(tmp_path / "copy.db")
    copy = open_store(tmp_path / "copy.db", create=False)
    assert contents(copy) == expected
    copy.commit(save("only here", after="n24"))
    assert contents(store) == expected
    copy.close()
    assert verified_pages(tmp_path / "copy.db") == (tmp_path / "copy.db").stat().st_size // 4096


def test_a_copy_is_durable_before_it_has_its_name(
    tmp_path: Path, store: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "copies").mkdir()
    target = tmp_path / "copies" / "copy.db"
    seen: list[tuple[bool, bool]] = []
    real = os.fsync

    def spy(descriptor: int) -> None:
        real(descriptor)
        seen.append((os.readlink(f"/proc/self/fd/{descriptor}").endswith(".tmp"), target.exists()))

    monkeypatch.setattr(os, "fsync", spy)
    store.backup(target)
    # The folder (for the temporary name), the pages, and the folder again once the copy has its name.
    assert seen == [(False, False), (True, False), (False, True)]


@pytest.mark.parametrize("kind", ["file", "folder", "dangling link", "the store itself"])
def test_a_copy_never_replaces_anything(tmp_path: Path, path: Path, store: SqliteBackend, kind: str) -> None:
    target = tmp_path / "copy.db"
    if kind == "file":
        target.write_text("precious")
    elif kind == "folder":
        target.mkdir()
    elif kind == "dangling link":
        target.symlink_to(tmp_path / "nowhere")
    else:
        target = path
    before = sorted(each.name for each in tmp_path.iterdir())
    with pytest.raises(InvalidInputError) as caught:
        store.backup(target)
    assert caught.value.code is ErrorCode.PATH_EXISTS
    assert sorted(each.name for each in tmp_path.iterdir()) == before
    assert kind != "file" or target.read_text() == "precious"


@pytest.mark.parametrize("links", [True, False], ids=["hard-links", "no-hard-links"])
def test_a_file_that_appears_meanwhile_is_not_replaced(
    tmp_path: Path, store: SqliteBackend, monkeypatch: pytest.MonkeyPatch, *, links: bool
) -> None:
    target = tmp_path / "copy.db"
    real = os.link

    def late(source: Path, name: Path) -> None:
        target.write_text("precious")
        if not links:
            raise OSError(errno.EPERM, "no hard links here")
        real(source, name)

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(InvalidInputError) as caught:
        store.backup(target)
    assert caught.value.code is ErrorCode.PATH_EXISTS
    assert target.read_text() == "precious"
    assert not list(tmp_path.glob(".*"))


def test_a_copy_without_room_is_no_copy(
    tmp_path: Path, store: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store.commit(save("a"))
    (tmp_path / "copies").mkdir()
    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(BackendError) as caught:
        store.backup(tmp_path / "copies" / "copy.db")
    monkeypatch.undo()
    assert caught.value.code is ErrorCode.DISK_FULL
    assert list((tmp_path / "copies").iterdir()) == []


def test_a_damaged_store_gives_no_copy(
    tmp_path: Path, path: Path, store: SqliteBackend, open_store: Open
) -> None:
    fill(store)
    store.close()
    spoiled = bytearray(path.read_bytes())
    spoiled[-5000] ^= 4
    path.write_bytes(spoiled)
    backend = open_store()
    with pytest.raises(IntegrityError) as caught:
        backend.backup(tmp_path / "copy.db")
    assert caught.value.code is ErrorCode.STORE_DAMAGED
    assert caught.value.details["path"] == str(path)
    assert not (tmp_path / "copy.db").exists()
    assert not list(tmp_path.glob(".*"))
    # A target that is taken is refused before anything is read.
    (tmp_path / "copy.db").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InvalidInputError):
        backend.backup(tmp_path / "copy.db")


def test_copies_beside_a_writer_are_each_one_moment(
    tmp_path: Path, store: SqliteBackend, open_store: Open
) -> None:
    stop = threading.Event()
    went_on = threading.Event()
    store.commit(save("0"))

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            store.commit(save(f"{number}", after=f"{number - 1}"))
            went_on.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(8):
            # Where disks are fast, all copies are made before the writer has its turn.
            went_on.clear()
            assert went_on.wait(60)
            store.backup(tmp_path / f"copy{number}.db")
    finally:
        stop.set()
        writer.join()
    lengths = []
    for number in range(8):
        kept = contents(open_store(tmp_path / f"copy{number}.db", create=False))
        assert kept.branches[0].head == kept.checkpoints[0].id
        assert kept.sessions[0].last_seq == len(kept.checkpoints) == kept.stats.chunks
        lengths.append(len(kept.checkpoints))
    assert lengths == sorted(lengths)
    assert lengths[-1] > lengths[0]
