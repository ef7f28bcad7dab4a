"""What readers and writers see of each other: one moment per view, and no lost update between threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from holdfast.errors import ConflictError, IntegrityError
from holdfast.storage.ports import Backend
from holdfast.storage.records import Query
from holdfast.testing.conformance.contract import Contract, commit_all, found
from holdfast.testing.rows import batch, checkpoint_id, chunk, contents, edit, history, row, save, state_chunk

T = TypeVar("T")
PATIENCE = 60
"""Seconds until a thread that waits for another one is called stuck; a sound backend needs none of them."""


def elsewhere(work: Callable[[], T]) -> T:
    """Run `work` in another thread and wait for it."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - the test's own thread raises it
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "the other thread is stuck: a reader and a writer wait for each other"
    if errors:
        raise errors[0]
    return results[0]


class ViewContract(Contract):
    """A view shows one moment; writers in other threads neither disturb it nor wait for it."""

    def test_what_is_not_there_is_none_or_empty(self, backend: Backend) -> None:
        """Asking is never an error."""
        with backend.reader() as reader:
            assert reader.session("nobody") is None
            assert reader.branch("nobody", "main") is None
            assert reader.checkpoint(checkpoint_id("none")) is None
            assert list(reader.branches("nobody")) == []
            assert list(reader.sessions()) == []
            assert list(reader.operations("nobody")) == []
            assert dict(reader.chunks([])) == {}
            assert (reader.stats().sessions, reader.stats().checkpoints, reader.stats().chunks) == (0, 0, 0)

    def test_chunks_that_are_not_there_are_left_out(self, backend: Backend) -> None:
        """The others come, each once, however many are asked for."""
        pieces = [chunk(b"%d" % number) for number in range(1500)]
        backend.commit(batch(row("a", root=pieces[0].hash), chunks=tuple(pieces)))
        asked = [piece.hash for piece in pieces] + [chunk(b"absent").hash, pieces[7].hash]
        with backend.reader() as reader:
            assert dict(reader.chunks(iter(asked))) == {piece.hash: piece.data for piece in pieces}

    def test_a_view_does_not_change_while_others_commit(self, backend: Backend) -> None:
        """Saves, moves, edits and log entries of another thread come with the next view."""
        (first,) = commit_all(backend, save("a"))
        change = batch(edits=(edit(first, tags=("t",)),), operations=history(1))
        with backend.reader() as reader:
            assert [each.id for each in reader.checkpoints(Query())] == [first.id]
            elsewhere(lambda: commit_all(backend, save("b", after="a"), change, save("x", session="other")))
            head = reader.branch("work", "main")
            assert head is not None
            assert head.head == first.id
            assert list(reader.checkpoints(Query())) == [first]
            assert reader.checkpoint(checkpoint_id("b")) is None
            assert [each.id for each in reader.sessions()] == ["work"]
            assert list(reader.operations("work")) == []
            assert dict(reader.chunks([state_chunk("b").hash])) == {}
            assert (reader.stats().checkpoints, reader.stats().sessions) == (1, 1)
        assert found(backend, Query()) == [checkpoint_id("x"), checkpoint_id("b"), first.id]

    def test_a_view_begins_when_it_is_opened(self, backend: Backend) -> None:
        """Not with its first question: what is committed in between is not in it."""
        backend.commit(save("a"))
        with backend.reader() as reader:
            elsewhere(lambda: backend.commit(save("b", after="a")))
            assert [each.id for each in reader.checkpoints(Query())] == [checkpoint_id("a")]

    def test_a_new_view_sees_every_commit_before_it(self, backend: Backend) -> None:
        """From whichever thread it came."""
        elsewhere(lambda: backend.commit(save("a")))
        assert found(backend, Query()) == [checkpoint_id("a")]

    def test_two_threads_have_two_views(self, backend: Backend) -> None:
        """Each of its own moment."""
        backend.commit(save("a"))
        with backend.reader() as reader:
            elsewhere(lambda: backend.commit(save("b", after="a")))
            seen = elsewhere(lambda: found(backend, Query()))
            assert seen == [checkpoint_id("b"), checkpoint_id("a")]
            assert [each.id for each in reader.checkpoints(Query())] == [checkpoint_id("a")]

    def test_a_view_can_be_left_by_an_error(self, backend: Backend) -> None:
        """And the next one works."""
        backend.commit(save("a"))
        with pytest.raises(ZeroDivisionError), backend.reader():
            raise ZeroDivisionError
        backend.commit(save("b", after="a"))
        assert found(backend, Query()) == [checkpoint_id("b"), checkpoint_id("a")]

    def test_threads_that_write_to_their_own_sessions_all_succeed(self, backend: Backend) -> None:
        """Every commit is there, in one order of arrival."""

        def write(session: str) -> None:
            for number in range(20):
                after = f"{session} {number - 1}" if number else None
                backend.commit(save(f"{session} {number}", after=after, session=session))

        names = [f"session {number}" for number in range(4)]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, names))
        kept = contents(backend)
        assert len({each.position for each in kept.checkpoints}) == len(kept.checkpoints) == 80
        for name in names:
            seqs = [each.seq for each in kept.checkpoints if each.session == name]
            assert seqs == list(range(20, 0, -1))

    def test_of_threads_that_write_to_one_branch_one_wins_each_round(self, backend: Backend) -> None:
        """All read the same head, then all commit: one gets through, the others get a conflict and write nothing."""
        rounds, writers = 15, 4
        together = threading.Barrier(writers, timeout=PATIENCE)

        def write(writer: int) -> list[bool]:
            return [attempt(f"{writer} in round {number}") for number in range(rounds)]

        def attempt(label: str) -> bool:
            with backend.reader() as reader:
                branch = reader.branch("work", "main")
            mine = save(label, after=branch.head if branch else None)
            together.wait()
            try:
                backend.commit(mine)
            except ConflictError:
                return False
            finally:
                together.wait()
            return True

        with ThreadPoolExecutor(writers) as pool:
            wins = list(pool.map(write, range(writers)))
        assert [sum(each) for each in zip(*wins, strict=True)] == [1] * rounds
        rows = contents(backend).checkpoints
        assert [each.seq for each in rows] == list(range(rounds, 0, -1))
        assert [each.parents for each in rows] == [*((each.id,) for each in rows[1:]), ()]

    def test_readers_beside_writers_see_whole_commits(self, backend: Backend) -> None:
        """A head is always a checkpoint that is there, with its chunk, and seq has no gap."""
        backend.commit(save("0"))
        done = threading.Event()

        def write() -> None:
            try:
                for number in range(1, 60):
                    backend.commit(save(f"{number}", after=f"{number - 1}"))
            finally:
                done.set()

        def read() -> int:
            views = 0
            while not done.is_set() or views < 5:
                with backend.reader() as reader:
                    head, rows = reader.branch("work", "main"), reader.checkpoints(Query(session="work"))
                    roots = reader.chunks([each.root for each in rows])
                assert head is not None
                assert head.head == rows[0].id
                assert [each.seq for each in rows] == list(range(len(rows), 0, -1))
                assert set(dict(roots)) == {each.root for each in rows}
                views += 1
            return views

        with ThreadPoolExecutor(3) as pool:
            views = [pool.submit(read), pool.submit(read)]
            pool.submit(write).result()
            assert all(view.result() for view in views)

    def test_a_damaged_row_is_an_error_and_never_left_out(self, backend: Backend) -> None:
        """Whichever question comes across it."""
        first, second = commit_all(backend, save("a"), save("b", after="a"))
        self.spoil(backend, first.id)
        with backend.reader() as reader, pytest.raises(IntegrityError):
            reader.checkpoint(first.id)
        with backend.reader() as reader, pytest.raises(IntegrityError):
            reader.checkpoints(Query(session="work"))
        with backend.reader() as reader:
            assert reader.checkpoint(second.id) == second
