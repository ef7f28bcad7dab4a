"""The life of a backend: opening again, forking, copying, closing."""

from __future__ import annotations

import os
import threading
import traceback
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.errors import ErrorCode, InvalidInputError, StateError, UnsupportedError
from holdfast.storage.ports import Backend
from holdfast.storage.records import Query
from holdfast.testing.conformance.contract import Contract, commit_all, found
from holdfast.testing.rows import batch, checkpoint_id, contents, edit, history, save


def in_a_forked_process(work: Callable[[], None]) -> None:
    """Run `work` in a fork of this process, and fail here if it fails there."""
    with warnings.catch_warnings():
        # Python warns of forking beside threads; that it works is what is being tested.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:  # noqa: BLE001 - nothing may leave the child but its status
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, (
        "the forked process failed; its error is above"
    )


class LifetimeContract(Contract):
    """A backend holds what it was given until it is closed, and a durable one beyond."""

    def test_the_url_names_the_place(self, backend: Backend) -> None:
        """Text for people, and the same each time."""
        assert backend.url
        assert backend.url == backend.url.strip()

    def test_what_was_committed_is_there_after_reopening(self, backend: Backend) -> None:
        """Everything: sessions, branches, checkpoints, edits, the log, chunks."""
        first, _ = commit_all(backend, save("a", agent="scout", key="k"), save("b", after="a", tags=("t",)))
        backend.commit(
            batch(edits=(edit(first, hidden=1, pinned=True),), operations=history(2), switch_to="b")
        )
        before = contents(backend)
        with closing(self.reopen(backend)) as again:
            assert contents(again) == before

    def test_counts_go_on_after_reopening(self, backend: Backend) -> None:
        """Seq and position continue where they were."""
        (first,) = commit_all(backend, save("a"))
        with closing(self.reopen(backend)) as again:
            (second,) = commit_all(again, save("b", after="a"))
        assert second.seq == 2
        assert second.position > first.position

    def test_a_lost_reply_is_settled_after_reopening(self, backend: Backend) -> None:
        """The next process may commit the same batch again."""
        receipt = backend.commit(save("a"))
        with closing(self.reopen(backend)) as again:
            assert again.commit(save("a")) == receipt

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
    def test_a_forked_process_goes_on_using_its_backend(self, backend: Backend) -> None:
        """On both sides, and neither harms the other."""
        backend.commit(save("a"))

        def child() -> None:
            assert found(backend, Query()) == [checkpoint_id("a")]
            backend.commit(save("x", session="child"))
            assert found(backend, Query(session="child")) == [checkpoint_id("x")]

        in_a_forked_process(child)
        backend.commit(save("b", after="a"))
        assert found(backend, Query(session="work")) == [checkpoint_id("b"), checkpoint_id("a")]

    def test_a_backup_is_the_whole_store(self, backend: Backend, tmp_path: Path) -> None:
        """Opened as a store of its own, it has everything and takes new commits; the original does not see them."""
        first, _ = commit_all(backend, save("a"), save("b", after="a"))
        backend.commit(batch(edits=(edit(first, tags=("t",)),), operations=history(1)))
        before = contents(backend)
        target = self._backup(backend, tmp_path)
        with closing(self.open_copy(target)) as copy:
            assert contents(copy) == before
            copy.commit(save("c", after="b"))
        assert contents(backend) == before

    def test_a_backup_beside_a_writer_is_one_moment(self, backend: Backend, tmp_path: Path) -> None:
        """Whole commits up to some point, and nothing of a later one."""
        backend.commit(save("0"))
        stop = threading.Event()

        def write() -> None:
            number = 0
            while not stop.is_set() or number < 20:
                number += 1
                backend.commit(save(f"{number}", after=f"{number - 1}"))

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        try:
            target = self._backup(backend, tmp_path)
        finally:
            stop.set()
            writer.join()
        with closing(self.open_copy(target)) as copy, copy.reader() as reader:
            head, rows = reader.branch("work", "main"), reader.checkpoints(Query(session="work"))
            assert head is not None
            assert head.head == rows[0].id
            assert [each.seq for each in rows] == list(range(len(rows), 0, -1))
            assert len(dict(reader.chunks([each.root for each in rows]))) == len(rows)

    def test_a_backup_does_not_overwrite_anything(self, backend: Backend, tmp_path: Path) -> None:
        """What is there stays as it is."""
        target = tmp_path / "taken"
        target.write_text("mine")
        with pytest.raises((InvalidInputError, UnsupportedError)) as caught:
            backend.backup(target)
        assert caught.value.code in (ErrorCode.PATH_EXISTS, ErrorCode.NOT_SUPPORTED)
        assert target.read_text() == "mine"

    @staticmethod
    def _backup(backend: Backend, folder: Path) -> Path:
        target = folder / "copy"
        try:
            backend.backup(target)
        except UnsupportedError as error:
            assert error.code is ErrorCode.NOT_SUPPORTED
            assert not target.exists()
            pytest.skip("this backend has no backups, and says so")
        assert target.exists()
        return target

    def test_closing_twice_is_fine(self, backend: Backend) -> None:
        """Also without anything done in between."""
        backend.commit(save("a"))
        backend.close()
        backend.close()

    @pytest.mark.parametrize(
        "call",
        ["commit", "reader", "collection", "erase_session", "scrub", "wait_for_checkpoint", "backup"],
    )
    def test_after_closing_everything_says_so(self, backend: Backend, tmp_path: Path, call: str) -> None:
        """With StateError, code store-closed."""
        backend.commit(save("a"))
        backend.close()

        def read() -> None:
            with backend.reader():
                pass

        def collect() -> None:
            with backend.collection():
                pass

        calls: dict[str, Callable[[], object]] = {
            "commit": lambda: backend.commit(save("b", after="a")),
            "reader": read,
            "collection": collect,
            "erase_session": lambda: backend.erase_session("work"),
            "scrub": backend.scrub,
            "wait_for_checkpoint": lambda: backend.wait_for_checkpoint(1, 0),
            "backup": lambda: backend.backup(tmp_path / "late"),
        }
        with pytest.raises(StateError) as caught:
            calls[call]()
        assert caught.value.code is ErrorCode.STORE_CLOSED

    def test_another_thread_may_close(self, backend: Backend) -> None:
        """A thread that used the backend finds it closed."""
        backend.commit(save("a"))
        closer = threading.Thread(target=backend.close)
        closer.start()
        closer.join()
        with pytest.raises(StateError):
            backend.commit(save("b", after="a"))
