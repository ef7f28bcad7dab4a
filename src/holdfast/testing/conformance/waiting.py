"""Waiting for a checkpoint: at once where there is a newer one, woken by whoever commits, and never for ever."""

from __future__ import annotations

import queue
import threading
import time

import pytest

from holdfast.errors import ConflictError
from holdfast.storage.ports import Backend
from holdfast.storage.records import Query
from holdfast.testing.conformance.contract import Contract, commit_all
from holdfast.testing.conformance.views import PATIENCE, elsewhere
from holdfast.testing.rows import batch, history, removal, save

FOREVER = 100_000.0
"""Seconds: nobody who waits so long in a test has been woken."""


class WaitingContract(Contract):
    """A position is a place in the order of arrival, so that whoever knows one can ask for what came after it."""

    def test_what_is_there_already_is_not_waited_for(self, backend: Backend) -> None:
        """However long it might have waited."""
        rows = commit_all(backend, save("a"), save("x", session="other"))
        for after in (-1, 0, rows[0].position):
            assert elsewhere(lambda at=after: backend.wait_for_checkpoint(at, FOREVER)) == rows[1].position  # type: ignore[misc]

    def test_it_comes_back_when_its_time_is_over(self, backend: Backend) -> None:
        """With the highest position there is, 0 in an empty store, though that is no news."""
        assert backend.wait_for_checkpoint(0, 0) == 0
        (row,) = commit_all(backend, save("a"))
        assert backend.wait_for_checkpoint(row.position, 0) == row.position
        assert backend.wait_for_checkpoint(row.position + 7, 0.01) == row.position

    def test_what_was_removed_counts(self, backend: Backend) -> None:
        """The highest position ever given: it will not be given again."""
        (first, second) = commit_all(backend, save("a"), save("b", after="a"))
        backend.commit(removal(second))
        assert backend.wait_for_checkpoint(first.position, 0) == second.position
        backend.erase_session("work")
        assert backend.wait_for_checkpoint(0, 0) == second.position

    def test_a_commit_of_another_thread_ends_it(self, backend: Backend) -> None:
        """In whichever session; and several who wait are all woken."""
        (first,) = commit_all(backend, save("a"))
        woken: queue.SimpleQueue[int] = queue.SimpleQueue()
        waiting = threading.Barrier(4, timeout=PATIENCE)

        def wait() -> None:
            waiting.wait()
            woken.put(backend.wait_for_checkpoint(first.position, FOREVER))

        for _ in range(3):
            threading.Thread(target=wait, daemon=True).start()
        waiting.wait()
        # No checkpoint: nothing to be woken for. Whoever is, has come back by the end of the pause.
        backend.commit(batch(operations=history(1)))
        time.sleep(0.05)
        (second,) = commit_all(backend, save("x", session="other"))
        assert [self._next(woken) for _ in range(3)] == [second.position] * 3

    @staticmethod
    def _next(woken: queue.SimpleQueue[int]) -> int | None:
        try:
            return woken.get(timeout=PATIENCE)
        except queue.Empty:
            return None

    def test_a_turn_is_a_courtesy(self, backend: Backend) -> None:
        """Whoever has one commits as usual, an error comes out as it is, and commits of others go on meanwhile."""
        with backend.turn("work"):
            commit_all(backend, save("a"))
            elsewhere(lambda: backend.commit(save("b", after="a")))
        with pytest.raises(ConflictError), backend.turn("work"):
            backend.commit(save("c", after="a"))
        with backend.reader() as reader:
            assert [row.seq for row in reader.checkpoints(Query())] == [2, 1]

    def test_turns_of_other_sessions_are_had_at_the_same_time(self, backend: Backend) -> None:
        """Also by the same thread."""
        with backend.turn("one"), backend.turn("two"):
            commit_all(backend, save("a", session="one"), save("b", session="two"))
