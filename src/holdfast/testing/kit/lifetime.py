"""The life of a backend and the end of what is in it: opening again, forking, copying, erasing, closing."""

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
from holdfast.storage.records import Move, Query
from holdfast.testing.kit.contract import Contract, commit_all, found, heads, ids, log, refused, session_row
from holdfast.testing.kit.gc import collect, there
from holdfast.testing.kit.repair import WHOLE
from holdfast.testing.rows import batch, chunk, contents, edit, history, operation, row, save

SECRET = "the secret that nobody may find"  # noqa: S105 - it is to be looked for


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
    """A backend holds what it was given until it is closed, and a durable one beyond; what is erased is gone."""

    def test_the_url_names_the_place(self, backend: Backend) -> None:
        """Text for people, and the same each time."""
        assert backend.url == backend.url.strip() != ""

    def test_what_was_committed_is_there_after_reopening(self, backend: Backend) -> None:
        """Everything, counts go on, and the next process may commit the same batch again."""
        first, second = commit_all(
            backend, save("a", agent="scout", key="k"), save("b", after="a", tags=("t",))
        )
        backend.commit(
            batch(edits=(edit(first, hidden=1, pinned=True),), operations=history(2), switch_to="b")
        )
        before = contents(backend)
        with closing(self.reopen(backend)) as again:
            assert contents(again) == before
            assert again.commit(save("b", after="a", tags=("t",))).checkpoints == (second,)
            (third,) = commit_all(again, save("c", after="b"))
        assert (third.seq, third.position > second.position) == (3, True)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
    def test_a_forked_process_goes_on_using_its_backend(self, backend: Backend) -> None:
        """On both sides, and neither harms the other."""
        backend.commit(save("a"))

        def in_child() -> None:
            assert found(backend, session="work") == ids("a")
            backend.commit(save("x", session="of the child"))
            backend.close()

        in_a_forked_process(in_child)
        backend.commit(save("b", after="a"))
        assert found(backend, session="work") == ids("b", "a")

    def test_a_backup_is_one_moment_of_the_whole_store(self, backend: Backend, tmp_path: Path) -> None:
        """Beside a writer: whole commits up to some point. It takes new commits, which the original does not see."""
        (first,) = commit_all(backend, save("0"))
        backend.commit(batch(edits=(edit(first, tags=("t",)),), operations=history(1)))
        still, target = tmp_path / "still", tmp_path / "beside a writer"
        try:
            backend.backup(still)
        except UnsupportedError as error:
            assert error.code is ErrorCode.NOT_SUPPORTED
            assert not still.exists()
            pytest.skip("this backend has no backups, and says so")
        before = contents(backend)
        with closing(self.open_copy(still)) as copy:
            assert contents(copy) == before
            copy.commit(save("1", after="0"))
        assert contents(backend) == before
        stop = threading.Event()

        def write() -> None:
            number = 0
            while not stop.is_set() or number < 20:
                number += 1
                backend.commit(save(f"{number}", after=f"{number - 1}"))

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        try:
            backend.backup(target)
        finally:
            stop.set()
            writer.join()
        with closing(self.open_copy(target)) as copy, copy.reader() as reader:
            rows = reader.checkpoints(Query(session="work"))
            assert [each.head for each in reader.branches("work")] == [rows[0].id]
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

    def test_after_closing_everything_says_so(self, backend: Backend) -> None:
        """With StateError, code store-closed; whichever thread closed it, and however often."""
        backend.commit(save("a"))
        closer = threading.Thread(target=backend.close)
        closer.start()
        closer.join()
        backend.close()
        calls: list[Callable[[], object]] = [
            lambda: backend.commit(save("b", after="a")),
            lambda: backend.reader().__enter__(),
            lambda: backend.collection().__enter__(),
            lambda: backend.inspect().__enter__(),
            lambda: backend.rebuild(lambda _seen: None),
            lambda: backend.adopt(WHOLE),
            lambda: backend.erase_session("work"),
            backend.scrub,
            lambda: backend.wait_for_checkpoint(1, 0),
            lambda: backend.backup(Path("never written")),
        ]
        for call in calls:
            with pytest.raises(StateError) as caught:
                call()
            assert caught.value.code is ErrorCode.STORE_CLOSED

    def test_an_erased_session_is_gone_with_all_that_belongs_to_it(self, backend: Backend) -> None:
        """Others keep theirs, though they have the same branches, tags, keys and numbers; and its id is free again."""
        for name in ("before", "work", "after"):
            (first,) = commit_all(backend, save(name, session=name, tags=("t",), key="k", agent="scout"))
            entries = history(2, session=name)
            hidden = (edit(first, hidden=1),) if name == "work" else ()
            backend.commit(batch(session=name, operations=entries, switch_to="idea", edits=hidden))
        kept = contents(backend)
        backend.erase_session("work")
        backend.erase_session("nobody")
        left = contents(backend)
        for part in ("sessions", "branches", "checkpoints", "operations"):
            theirs = [each for each in getattr(kept, part) if "work" not in each]
            assert list(getattr(left, part)) == theirs
            assert len(theirs) in (2, 4)
        for query in ({"tag": "t"}, {"agent": "scout"}, {"key": "k"}):
            assert found(backend, **query, include_hidden=True) == ids("after", "before")
        assert (heads(backend), log(backend), left.stats.hidden) == ({}, [], 0)
        (new,) = commit_all(backend, save("b", agent="other", key="k"))
        assert (new.seq, heads(backend)) == (1, {"main": new.id})
        assert new.position > max(each.position for each in kept.checkpoints)
        fresh = session_row(backend)
        assert (fresh.agent, fresh.log_count, fresh.current) == ("other", 0, "main")

    def test_the_chunks_of_an_erased_session_wait_for_a_collection(self, backend: Backend) -> None:
        """Those that another session needs stay after it too; and nobody may rely on the checkpoint any more."""
        own, shared = chunk(b"only here"), chunk(b"in both sessions")
        (first, _) = commit_all(
            backend,
            batch(row("a", root=own.hash), chunks=(own, shared)),
            batch(row("x", session="other", root=shared.hash), session="other", chunks=(shared,)),
        )
        backend.erase_session("work")
        assert there(backend, [own, shared]) == [own.data, shared.data]
        relying = batch(row("b", root=own.hash), chunks=(), relies_on=first.id)
        assert refused(backend, relying).code is ErrorCode.CHUNKS_GONE
        collect(backend)
        assert there(backend, [own, shared]) == [shared.data]

    def test_a_scrubbed_store_is_the_same_to_every_question(self, backend: Backend) -> None:
        """And takes new commits."""
        first, second = commit_all(backend, save("a", tags=("t",)), save("b", after="a"))
        backend.commit(batch(edits=(edit(first, hidden=1),), removals=(first.id,), operations=history(1)))
        collect(backend)
        before = contents(backend)
        backend.scrub(dry_run=True)
        backend.scrub()
        assert contents(backend) == before
        (third,) = commit_all(backend, save("c", after="b"))
        assert (third.seq, third.position > second.position) == (3, True)

    def test_nothing_of_what_was_erased_is_left_in_the_files(self, backend: Backend) -> None:
        """Names, messages, metadata, tags, keys, the log and the state, of a session and of single checkpoints."""
        told = chunk(b"a state with " + SECRET.encode())
        name = f"session {SECRET}"
        texts = {
            "session": name,
            "branch": f"branch {SECRET}",
            "message": SECRET,
            "app_version": f"v {SECRET}",
        }
        more = {"metadata": f'{{"{SECRET}":1}}', "tags": (f"tag {SECRET}",), "key": f"key {SECRET}"}
        secret = row("a", root=told.hash, **texts, **more)
        said = f'{{"said":"{SECRET}"}}'
        move, entry = Move(secret.branch, None, secret.id), operation(1, session=name, data=said)
        backend.commit(batch(secret, session=name, chunks=(told,), moves=(move,), operations=(entry,)))
        entry = operation(1, data=said)
        first, second = backend.commit(
            batch(row("k"), row("l", message=f"also {SECRET}"), operations=(entry,))
        ).checkpoints
        backend.erase_session(name)
        last = operation(2, previous=entry.hash, data="{}")
        hide = (edit(second, hidden=1),)
        backend.commit(batch(edits=hide, removals=(second.id,), operations=(last,), cuts_log_from=1))
        collect(backend)
        backend.scrub()
        assert found(backend, include_hidden=True) == [first.id]
        for path in self.files(backend):
            assert SECRET.encode() not in path.read_bytes(), f"it is still in {path.name}"
