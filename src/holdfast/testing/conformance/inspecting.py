"""Looking at everything, and putting something else in its place: what a repair is made of."""

from __future__ import annotations

import pytest

from holdfast.errors import ErrorCode, StateError, UnsupportedError
from holdfast.storage.inspection import Rebuilt
from holdfast.storage.ports import Backend, Inspection
from holdfast.storage.records import Query
from holdfast.testing.conformance.contract import Contract, commit_all
from holdfast.testing.rows import batch, checkpoint_id, contents, edit, history, save, state_chunk


def filled(backend: Backend) -> None:
    """Two sessions, a removed checkpoint, tags, a log."""
    rows = commit_all(
        backend,
        save("a", agent="scout", tags=("t",)),
        save("x", session="other", key="k"),
        save("b", after="a"),
        save("c", after="b"),
    )
    backend.commit(batch(edits=(edit(rows[2], hidden=1),), operations=history(2)))


def everything(seen: Inspection) -> Rebuilt:
    """All of an inspection, as what a store is to hold."""
    sessions = list(seen.sessions())
    return Rebuilt(
        sessions=sessions,
        branches=list(seen.branches()),
        checkpoints=list(seen.checkpoints()),
        operations=[each for session in sessions for each in seen.operations(session.id)],
        chunks=set(seen.chunk_names()),
    )


class InspectionContract(Contract):
    """An inspection sees what a reader sees, and in a sound store nothing else."""

    def test_an_inspection_of_a_sound_store_finds_no_flaw(self, backend: Backend) -> None:
        """In an empty one neither."""
        for fill in (filled, lambda _backend: None):
            with backend.inspect() as seen:
                assert list(seen.flaws()) == []
                assert list(seen.lost()) == []
            fill(backend)

    def test_an_inspection_has_everything(self, backend: Backend) -> None:
        """Sessions, branches, checkpoints in order of arrival with the removed ones, logs, chunks."""
        filled(backend)
        shown = contents(backend)
        with backend.inspect() as seen:
            found = everything(seen)
            assert list(found.sessions) == list(shown.sessions)
            assert sorted(found.branches) == sorted(shown.branches)
            assert list(found.checkpoints) == list(reversed(shown.checkpoints))
            assert list(found.operations) == list(shown.operations)
            root = state_chunk("b")
            assert dict(seen.chunks([root.hash, state_chunk("nobody").hash])) == {root.hash: root.data}

    def test_an_inspection_is_one_moment(self, backend: Backend) -> None:
        """What is committed while it is open is not in it."""
        backend.commit(save("a"))
        with backend.inspect() as seen:
            assert len(list(seen.checkpoints())) == 1
            backend.commit(save("b", after="a"))
            assert len(list(seen.checkpoints())) == 1

    def test_a_plan_that_changes_nothing_changes_nothing(self, backend: Backend) -> None:
        """None says so."""
        filled(backend)
        before = contents(backend)
        assert self._rebuild(backend, lambda _seen: None) is None
        assert contents(backend) == before

    def test_what_is_planned_is_what_is_there_afterwards(self, backend: Backend) -> None:
        """Rows keep their numbers, and the next commit goes on from them."""
        filled(backend)
        before = contents(backend)

        def without_the_first(seen: Inspection) -> Rebuilt:
            found = everything(seen)
            kept = [row for row in found.checkpoints if row.id != checkpoint_id("x")]
            heads = [each for each in found.branches if each.session != "other"]
            return found._replace(checkpoints=kept, branches=heads)

        assert self._rebuild(backend, without_the_first)
        after = contents(backend)
        assert after.sessions == before.sessions
        assert list(after.checkpoints) == [row for row in before.checkpoints if row.id != checkpoint_id("x")]
        (row,) = commit_all(backend, save("d", after="c"))
        assert row.seq == 4
        assert row.position > max(each.position for each in before.checkpoints)
        with backend.reader() as reader:
            assert len(reader.checkpoints(Query(session="work", tag="t"))) == 1
            kept = state_chunk("c")
            assert dict(reader.chunks([kept.hash])) == {kept.hash: kept.data}

    def test_a_plan_that_fails_changes_nothing(self, backend: Backend) -> None:
        """Its error comes out as it is."""
        filled(backend)
        before = contents(backend)

        def failing(_seen: Inspection) -> Rebuilt:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            self._rebuild(backend, failing)
        assert contents(backend) == before

    def test_a_closed_backend_is_not_looked_at(self, backend: Backend) -> None:
        """Nor rebuilt."""
        backend.close()
        with pytest.raises(StateError) as caught, backend.inspect():
            pass
        assert caught.value.code is ErrorCode.STORE_CLOSED
        with pytest.raises(StateError):
            backend.rebuild(lambda _seen: None)

    @staticmethod
    def _rebuild(backend: Backend, plan: object) -> str | None:
        try:
            return backend.rebuild(plan)  # type: ignore[arg-type]
        except UnsupportedError as error:
            assert error.code is ErrorCode.NOT_SUPPORTED
            pytest.skip("this backend cannot be rebuilt, and says so")
