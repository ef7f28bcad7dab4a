"""What readers and writers see of each other: one moment for each view, and no lost update between threads."""

from __future__ import annotations

import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Protocol

import pytest

from holdfast.errors import ConflictError, IntegrityError
from holdfast.storage.ports import Backend, Reader
from holdfast.storage.records import CheckpointId, ChunkHash, Query
from holdfast.testing.kit import contract
from holdfast.testing.kit.contract import Contract, commit_all, elsewhere, found, ids
from holdfast.testing.rows import (
    batch,
    checkpoint_id,
    chunk,
    contents,
    edit,
    history,
    removal,
    row,
    save,
    state_chunk,
)

FOREVER = 100_000.0
"""Seconds: nobody who waits so long in a test has been woken."""


class OpenFor(Protocol):
    """`ReadsAhead.reader_for` of a backend."""

    def __call__(
        self, session: str, name: str, known: ChunkHash | None = None
    ) -> AbstractContextManager[Reader]:
        """Open a view."""


def reader_for(backend: Backend) -> OpenFor:
    """How a backend opens views for loads; it need not."""
    opened: OpenFor | None = getattr(backend, "reader_for", None)
    if opened is None:
        pytest.skip(f"{backend.url} brings nothing along with a view, and need not")
    return opened


def first_answers(reader: Reader, session: str, name: str) -> list[object]:
    """What a load asks first, and some more."""
    branch = reader.branch(session, name)
    names = [] if branch is None else [branch.head]
    if len(name) == 64:
        names.append(CheckpointId(bytes.fromhex(name)))
    rows = [reader.checkpoint(each) for each in names]
    roots = [dict(reader.chunks([row.root])) for row in rows if row is not None]
    return [branch, rows, roots, reader.branch(session, "main"), list(reader.branches(session))]


class ReaderContract(Contract):
    """A view shows one moment; writers in other threads neither disturb it nor wait for it."""

    def test_what_is_not_there_is_none_or_empty(self, backend: Backend) -> None:
        """Asking is never an error."""
        with backend.reader() as reader:
            assert reader.session("nobody") is None
            assert reader.branch("nobody", "main") is None
            assert reader.checkpoint(checkpoint_id("none")) is None
            lists: list[Any] = [reader.branches("nobody"), reader.sessions(), reader.operations("nobody")]
            assert [list(each) for each in lists] == [[], [], []]
            assert dict(reader.chunks([])) == {}
            assert (reader.stats().sessions, reader.stats().checkpoints, reader.stats().chunks) == (0, 0, 0)

    def test_chunks_that_are_not_there_are_left_out(self, backend: Backend) -> None:
        """The others come, each once, however many are asked for; and `present` names them."""
        pieces = [chunk(b"%d" % number) for number in range(1500)]
        backend.commit(batch(row("a", root=pieces[0].hash), chunks=tuple(pieces)))
        asked = [piece.hash for piece in pieces] + [chunk(b"absent").hash, pieces[7].hash]
        with backend.reader() as reader:
            assert dict(reader.chunks(iter(asked))) == {piece.hash: piece.data for piece in pieces}
            assert set(reader.present(asked[-3:])) == {asked[-3], asked[-1]}
            assert set(reader.present([])) == set()

    def test_a_view_is_the_moment_at_which_it_was_opened(self, backend: Backend) -> None:
        """Not that of its first question. What other threads commit comes with the next view, at once."""
        (first,) = commit_all(backend, save("a"))
        change = batch(edits=(edit(first, tags=("t",)),), operations=history(1))
        with backend.reader() as reader:
            elsewhere(lambda: commit_all(backend, save("b", after="a"), change, save("x", session="other")))
            assert elsewhere(lambda: found(backend)) == ids("x", "b", "a")
            head = reader.branch("work", "main")
            assert head is not None
            assert head.head == first.id
            assert list(reader.checkpoints(Query())) == [first]
            assert reader.checkpoint(checkpoint_id("b")) is None
            assert [each.id for each in reader.sessions()] == ["work"]
            assert list(reader.operations("work")) == []
            assert dict(reader.chunks([state_chunk("b").hash])) == {}
            assert (reader.stats().checkpoints, reader.stats().sessions) == (1, 1)
        with pytest.raises(ZeroDivisionError), backend.reader():
            raise ZeroDivisionError
        assert found(backend) == ids("x", "b", "a")

    def test_a_view_for_a_load_answers_what_any_view_does(self, backend: Backend) -> None:
        """Branches come before ids; what is of another session, hidden or not there is as it always is."""
        opened = reader_for(backend)
        pieces = [chunk(b"a line that stays\n" * 60 + b"and one more\n" * number) for number in range(5)]
        for number, piece in enumerate(pieces):
            based = piece._replace(base=pieces[number - 1].hash if number else None)
            after = f"{number - 1}" if number else None
            backend.commit(save(f"{number}", after=after, root=piece.hash)._replace(chunks=(based,)))
        named = checkpoint_id("0").hex()
        [other, hidden] = commit_all(
            backend, save("elsewhere", session="other"), save("hidden", branch=named)
        )
        backend.commit(batch(edits=(edit(hidden, hidden=1),)))
        texts = ["main", checkpoint_id("2").hex(), named, hidden.id.hex(), other.id.hex(), "nothing", "\0"]
        places = [("work", text) for text in (*texts, checkpoint_id("nobody").hex())]
        for session, name in [*places, ("other", named), ("nobody", "main"), ("\ud800", "main")]:
            for known in (None, other.root, pieces[-1].hash, pieces[2].hash):
                with backend.reader() as reader:
                    expected = first_answers(reader, session, name)
                with opened(session, name, known) as reader:
                    assert first_answers(reader, session, name) == expected, (session, name)
        with opened("work", "main") as reader:
            elsewhere(lambda: commit_all(backend, save("late", after="4")))
            branch = reader.branch("work", "main")
            assert branch is not None
            assert branch.head == checkpoint_id("4")
            assert reader.checkpoint(checkpoint_id("late")) is None

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
            assert [each.seq for each in kept.checkpoints if each.session == name] == list(range(20, 0, -1))

    def test_of_threads_that_write_to_one_branch_one_wins_each_round(self, backend: Backend) -> None:
        """All read the same head, then all commit: one gets through, the others get a conflict and write nothing."""
        rounds, writers = 15, 4
        together = threading.Barrier(writers, timeout=contract.PATIENCE)

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
            wins = list(
                pool.map(lambda w: [attempt(f"{w} in round {n}") for n in range(rounds)], range(writers))
            )
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

    def test_what_is_there_already_is_not_waited_for(self, backend: Backend) -> None:
        """However long it might have waited; what was removed counts, and is never given again."""
        assert backend.wait_for_checkpoint(0, 0) == 0
        first, second = commit_all(backend, save("a"), save("x", session="other"))
        for after in (-1, 0, first.position):
            assert elsewhere(lambda at=after: backend.wait_for_checkpoint(at, FOREVER)) == second.position  # type: ignore[misc]
        for after in (second.position, second.position + 7):
            assert backend.wait_for_checkpoint(after, 0.01) == second.position
        backend.commit(removal(second, session="other"))
        backend.erase_session("work")
        assert backend.wait_for_checkpoint(0, 0) == second.position

    def test_a_commit_of_another_thread_ends_a_wait(self, backend: Backend) -> None:
        """In whichever session; and several who wait are all woken."""
        (first,) = commit_all(backend, save("a"))
        woken: queue.SimpleQueue[int] = queue.SimpleQueue()
        waiting = threading.Barrier(4, timeout=contract.PATIENCE)

        def wait() -> None:
            waiting.wait()
            woken.put(backend.wait_for_checkpoint(first.position, FOREVER))

        for _ in range(3):
            threading.Thread(target=wait, daemon=True).start()
        waiting.wait()
        # No checkpoint: nothing to be woken for. Whoever is, has come back by the end of the pause.
        backend.commit(batch(operations=history(1)))
        time.sleep(0.05)
        assert woken.empty()
        (second,) = commit_all(backend, save("x", session="other"))
        try:
            assert [woken.get(timeout=contract.PATIENCE) for _ in range(3)] == [second.position] * 3
        except queue.Empty:
            pytest.fail("nobody was woken")

    def test_a_turn_is_a_courtesy(self, backend: Backend) -> None:
        """Whoever has one commits as usual, an error comes out as it is, and commits of others go on meanwhile."""
        with backend.turn("work"), backend.turn("other"):
            commit_all(backend, save("a"))
            elsewhere(lambda: backend.commit(save("b", after="a")))
        with pytest.raises(ConflictError), backend.turn("work"):
            backend.commit(save("c", after="a"))
        assert found(backend) == ids("b", "a")
