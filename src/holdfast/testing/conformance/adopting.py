"""Taking over rows of another store as they are: what a copy is made of."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import ErrorCode, HoldfastError, StateError
from holdfast.storage.copy_rows import Adoption
from holdfast.storage.ports import Backend
from holdfast.storage.records import BranchRow, CheckpointRow, Query, SessionRow
from holdfast.testing.conformance.changes import heads, session_row
from holdfast.testing.conformance.collecting import collect, mark_roots, sweep_all, there
from holdfast.testing.conformance.contract import Contract, commit_all, found, read_row
from holdfast.testing.rows import (
    START,
    batch,
    checkpoint_id,
    chunk,
    contents,
    edit,
    history,
    row,
    save,
    state_chunk,
)

LOG = history(4)


def owner(**fields: Any) -> SessionRow:
    """A session as another store has it."""
    plain: dict[str, Any] = {
        "id": "work",
        "agent": "scout",
        "project": "acme",
        "created_at": START - 5,
        "last_seq": 12,
        "log_count": 4,
        "log_tip": LOG[-1].hash,
        "current": "idea",
    }
    return SessionRow(**(plain | fields))


def made(label: str, seq: int, **fields: Any) -> CheckpointRow:
    """A checkpoint as another store has it, but for the position."""
    return row(label, **({"seq": seq, "stored_at": START + seq, "stored_bytes": 7 * seq} | fields))


def head(name: str, label: str, *, session: str = "work") -> BranchRow:
    """A branch as another store has it."""
    return BranchRow(session=session, name=name, head=checkpoint_id(label), moved_at=START + 99)


def adoption(*rows: CheckpointRow, expected: SessionRow | None = None, **fields: Any) -> Adoption:
    """A batch with these checkpoints and their chunks."""
    plain: dict[str, Any] = {
        "session": owner(),
        "expected": expected,
        "chunks": tuple(state_chunk(each.id) for each in rows),
        "checkpoints": rows,
    }
    return Adoption(**(plain | fields))


FIRST = made("a", 3, tags=("t", "u"), key="k", pinned=True, edited_message="said better")
SECOND = made("b", 7, prev=checkpoint_id("a"), skipped=2, hidden=2)
THIRD = made("c", 12, prev=checkpoint_id("a"), parents=(checkpoint_id("b"),))


def whole() -> Adoption:
    """A session with gaps in its seq, a removed checkpoint and a log that was cut."""
    return adoption(
        FIRST,
        SECOND,
        THIRD,
        branches=(head("main", "c"), head("idea", "a")),
        operations=LOG[2:],
        whole=True,
    )


def refused(backend: Backend, bad: Adoption) -> HoldfastError:
    """Adopt what must be refused; the error, once it is sure that nothing has changed."""
    before = contents(backend)
    with pytest.raises(HoldfastError) as caught:
        backend.adopt(bad)
    assert contents(backend) == before
    with backend.reader() as reader:
        assert not reader.present([each.hash for each in bad.chunks if each.data.startswith(b"new")])
    return caught.value


class AdoptionContract(Contract):
    """What is adopted is as it was where it comes from, and protected like anything else."""

    def test_what_is_adopted_comes_out_as_it_was_put_in(self, backend: Backend) -> None:
        """Session, branches, log and rows, with numbers, times, removed ones and gaps; but for the position."""
        (other,) = commit_all(backend, save("x", session="other", tags=("t",), key="k"))
        backend.adopt(whole())
        with backend.reader() as reader:
            assert reader.session("work") == owner()
            assert list(reader.branches("work")) == [head("idea", "a"), head("main", "c")]
            assert list(reader.operations("work")) == list(LOG[2:])
            rows = reader.checkpoints(Query(session="work", include_hidden=True, oldest_first=True))
            assert [each._replace(position=0) for each in rows] == [FIRST, SECOND, THIRD]
            assert [each.id for each in reader.checkpoints(Query(tag="t"))] == [FIRST.id, other.id]
            assert [each.id for each in reader.checkpoints(Query(session="work", key="k"))] == [FIRST.id]
            assert reader.checkpoint(other.id) == other
            pieces = [state_chunk(each) for each in "abc"]
            assert dict(reader.chunks([each.hash for each in pieces])) == {
                each.hash: each.data for each in pieces
            }
        assert [each.position for each in rows] == sorted(each.position for each in rows)
        assert rows[0].position > other.position

    def test_commits_go_on_from_what_was_adopted(self, backend: Backend) -> None:
        """With seq, the log and the position."""
        backend.adopt(whole())
        (new,) = commit_all(backend, save("d", after="c"))
        assert (new.seq, session_row(backend).last_seq) == (13, 13)
        assert new.position > read_row(backend, THIRD.id).position
        following = history(5)[4:]
        backend.commit(batch(operations=following))
        assert session_row(backend).log_tip == following[0].hash

    @pytest.mark.parametrize("way", ["there already", "not there", "another"])
    def test_a_session_that_is_not_as_expected_is_left_alone(self, backend: Backend, way: str) -> None:
        """Whoever wrote since it was read is not overwritten."""
        expected = None if way == "there already" else owner()
        if way != "not there":
            backend.commit(save("a"))
        bad = adoption(THIRD, expected=expected, chunks=(chunk(b"new and not to be seen"),), branches=())
        assert refused(backend, bad).code is ErrorCode.SESSION_CHANGED

    def test_any_change_of_the_session_is_noticed(self, backend: Backend) -> None:
        """Each field of the row counts."""
        backend.adopt(whole())
        for changed in ({"agent": None}, {"last_seq": 11}, {"log_tip": b""}, {"current": "main"}):
            other = owner(**changed)
            assert refused(backend, adoption(expected=other)).code is ErrorCode.SESSION_CHANGED

    def test_a_chunk_that_it_counts_on_has_to_be_there(self, backend: Backend) -> None:
        """Otherwise nothing of it is written."""
        backend.commit(save("x", session="other"))
        bad = adoption(
            FIRST, chunks=(chunk(b"new one"),), found=(state_chunk("x").hash, state_chunk("a").hash)
        )
        assert refused(backend, bad).code is ErrorCode.CHUNKS_GONE

    def test_rows_of_another_session_are_refused(self, backend: Backend) -> None:
        """Whatever kind of row."""
        strange = [
            adoption(made("x", 1, session="other")),
            adoption(branches=(head("main", "a", session="other"),)),
            adoption(operations=history(1, session="other")),
            adoption(expected=owner(id="other")),
        ]
        for bad in strange:
            assert refused(backend, bad).code is ErrorCode.BAD_ARGUMENT

    def test_a_row_takes_the_place_of_the_one_that_is_there(self, backend: Backend) -> None:
        """It is found by what it says now, and no more by what it said; given its position, it keeps it."""
        backend.adopt(whole())
        place = read_row(backend, FIRST.id).position
        changed = FIRST._replace(tags=("v",), pinned=False, hidden=4, position=place)
        backend.adopt(adoption(changed, expected=owner(), chunks=()))
        assert read_row(backend, FIRST.id) == changed
        assert found(backend, Query(tag="t", include_hidden=True)) == []
        assert found(backend, Query(tag="v", include_hidden=True)) == [FIRST.id]
        assert found(backend, Query(session="work", include_hidden=True)) == [THIRD.id, SECOND.id, FIRST.id]
        assert contents(backend).stats.checkpoints == 1

    def test_a_row_without_a_position_comes_last(self, backend: Backend) -> None:
        """Also one that was there; and no position is given twice."""
        backend.adopt(whole())
        last = read_row(backend, THIRD.id).position
        backend.adopt(adoption(THIRD, expected=owner(), chunks=()))
        moved = read_row(backend, THIRD.id)
        assert moved.position > last
        backend.adopt(adoption(expected=owner(), removals=(THIRD.id,), chunks=()))
        (new,) = commit_all(backend, save("x", session="other"))
        assert new.position > moved.position

    def test_a_key_may_pass_from_one_to_another(self, backend: Backend) -> None:
        """In one batch, in any order."""
        backend.adopt(whole())
        rows = (
            made("d", 13, key="k"),
            FIRST._replace(key=None, position=read_row(backend, FIRST.id).position),
        )
        backend.adopt(adoption(*rows, expected=owner(), session=owner(last_seq=13)))
        assert found(backend, Query(session="work", key="k")) == [checkpoint_id("d")]

    def test_what_it_removes_is_gone(self, backend: Backend) -> None:
        """With tags and key, visible or not; what belongs to another session or is gone already is left alone."""
        (other,) = commit_all(backend, save("x", session="other"))
        backend.adopt(whole())
        gone = (FIRST.id, SECOND.id, other.id, checkpoint_id("nobody"))
        backend.adopt(adoption(expected=owner(), removals=gone, branches=(head("main", "c"),)))
        assert found(backend, Query(include_hidden=True)) == [THIRD.id, other.id]
        assert found(backend, Query(tag="t", include_hidden=True)) == []
        again = made("e", 13, key="k")
        backend.adopt(adoption(again, expected=owner(), session=owner(last_seq=13)))
        assert found(backend, Query(key="k")) == [again.id]

    def test_branches_are_replaced_or_left_as_they_are(self, backend: Backend) -> None:
        """None is not the same as none."""
        backend.commit(save("x", session="other"))
        backend.adopt(whole())
        backend.adopt(adoption(expected=owner()))
        assert list(heads(backend)) == ["idea", "main"]
        backend.adopt(adoption(expected=owner(), branches=(head("new", "c"),)))
        assert heads(backend) == {"new": THIRD.id}
        backend.adopt(adoption(expected=owner(), branches=()))
        assert heads(backend) == {}
        assert list(heads(backend, "other")) == ["main"]

    def test_the_end_of_a_log_is_replaced(self, backend: Backend) -> None:
        """From a number on; other sessions keep theirs."""
        backend.commit(batch(session="other", operations=history(4, session="other")))
        backend.adopt(whole())
        other = history(6)[3:]
        backend.adopt(adoption(expected=owner(), operations=other, cuts_log_from=4))
        with backend.reader() as reader:
            assert list(reader.operations("work")) == [LOG[2], *other]
            assert len(reader.operations("other")) == 4
        backend.adopt(adoption(expected=owner(), cuts_log_from=1))
        with backend.reader() as reader:
            assert list(reader.operations("work")) == []

    @pytest.mark.parametrize("way", ["brought", "found", "brought again"])
    def test_a_collection_that_is_under_way_takes_nothing_of_it(self, backend: Backend, way: str) -> None:
        """What it brings and what it found is stamped."""
        if way != "brought":
            (gone,) = commit_all(backend, save("a"))
            backend.commit(batch(edits=(edit(gone, hidden=1),), removals=(gone.id,), operations=history(1)))
            backend.erase_session("work")
        with backend.collection() as collection:
            mark_roots(backend, collection)
            batch_of = adoption(FIRST)
            if way == "found":
                batch_of = adoption(FIRST, chunks=(), found=(state_chunk("a").hash,))
            backend.adopt(batch_of)
            sweep_all(collection)
        assert there(backend, [state_chunk("a")])

    def test_adopted_rows_keep_their_chunks(self, backend: Backend) -> None:
        """A later collection finds them; what came ahead of its row, and has none, goes."""
        ahead = chunk(b"came ahead")
        backend.adopt(adoption(FIRST, chunks=(state_chunk("a"), ahead)))
        collect(backend)
        assert there(backend, [state_chunk("a"), ahead]) == [state_chunk("a").data]

    def test_present_says_which_chunks_are_there(self, backend: Backend) -> None:
        """None of which it is not asked for."""
        commit_all(backend, save("a"), save("b", after="a"))
        with backend.reader() as reader:
            asked = [state_chunk("a").hash, state_chunk("nobody").hash]
            assert set(reader.present(asked)) == {state_chunk("a").hash}
            assert set(reader.present([])) == set()

    def test_an_adopted_session_is_known_until_somebody_writes_to_it(self, backend: Backend) -> None:
        """Partial or whole, for exactly the row that was left; erasing forgets it."""
        backend.commit(save("x", session="other"))
        self._is(backend, session_row(backend, "other"), None)
        backend.adopt(whole()._replace(whole=False))
        self._is(backend, owner(), "partial")
        backend.adopt(adoption(expected=owner(), whole=True))
        self._is(backend, owner(), "whole")
        self._is(backend, owner(last_seq=11), None)
        self._is(backend, owner(id="other"), None)
        backend.commit(save("d", after="c"))
        self._is(backend, session_row(backend), None)
        backend.erase_session("work")
        self._is(backend, owner(), None)

    def test_what_is_no_copy_is_not_known_as_adopted(self, backend: Backend) -> None:
        """Nor is what was one before."""
        backend.adopt(whole())
        backend.adopt(adoption(expected=owner(), chunks=(), whole=None))
        self._is(backend, owner(), None)

    def test_what_was_adopted_outlives_the_process(self, backend: Backend) -> None:
        """All of it, and that it was adopted."""
        backend.adopt(whole())
        before = contents(backend)
        again = self.reopen(backend)
        try:
            assert contents(again) == before
            self._is(again, owner(), "whole")
        finally:
            again.close()

    def test_a_closed_backend_adopts_nothing(self, backend: Backend) -> None:
        """As it does nothing else."""
        backend.close()
        with pytest.raises(StateError) as caught:
            backend.adopt(whole())
        assert caught.value.code is ErrorCode.STORE_CLOSED

    @staticmethod
    def _is(backend: Backend, session: SessionRow, expected: str | None) -> None:
        with backend.reader() as reader:
            assert reader.adopted(session) == expected
