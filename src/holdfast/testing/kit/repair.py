"""Rows as they are: looking at all of them, putting others in their place, and taking over those of another store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.errors import ErrorCode, HoldfastError, UnsupportedError
from holdfast.storage.copy_rows import Adoption
from holdfast.storage.inspection import Rebuilt
from holdfast.storage.ports import Backend, Inspection
from holdfast.storage.records import BranchRow, CheckpointRow, Query, SessionRow
from holdfast.testing.kit.contract import (
    Contract,
    cases,
    commit_all,
    found,
    heads,
    log,
    read_row,
    session_row,
)
from holdfast.testing.kit.gc import collect, mark_roots, sweep_all, there
from holdfast.testing.rows import (
    START,
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

LOG = history(6)
PLAN = Callable[[Inspection], Rebuilt | None]


def owner(**fields: Any) -> SessionRow:
    """A session as another store has it."""
    plain: dict[str, Any] = {
        "id": "work",
        "agent": "scout",
        "project": "acme",
        "created_at": START - 5,
        "last_seq": 12,
        "log_count": 4,
        "log_tip": LOG[3].hash,
        "current": "idea",
    }
    return SessionRow(**(plain | fields))


def made(label: str, seq: int, **fields: Any) -> CheckpointRow:
    """A checkpoint as another store has it, but for the position."""
    return row(label, **({"seq": seq, "stored_at": START + seq, "stored_bytes": 7 * seq} | fields))


def head(name: str, label: str, *, session: str = "work") -> BranchRow:
    """A branch as another store has it."""
    return BranchRow(session=session, name=name, head=checkpoint_id(label), moved_at=START + 99)


def adoption(*rows: CheckpointRow, **fields: Any) -> Adoption:
    """A batch with these checkpoints and their chunks, of a session that is there as `owner` has it."""
    chunks = tuple(state_chunk(each.id) for each in rows)
    plain = {"session": owner(), "expected": owner(), "chunks": chunks, "checkpoints": rows}
    return Adoption(**(plain | fields))


FIRST = made("a", 3, tags=("t", "u"), key="k", pinned=True, edited_message="said better")
SECOND = made("b", 7, prev=checkpoint_id("a"), skipped=2, hidden=2)
THIRD = made("c", 12, prev=checkpoint_id("a"), parents=(checkpoint_id("b"),))
WHOLE = adoption(
    FIRST,
    SECOND,
    THIRD,
    expected=None,
    branches=(head("main", "c"), head("idea", "a")),
    operations=LOG[2:4],
    whole=True,
)
"""A session with gaps in its seq, a removed checkpoint and a log that was cut."""

NEW = (chunk(b"new and not to be seen"),)
NOT_ADOPTED: dict[str, tuple[Adoption, ErrorCode]] = {
    "there already": (WHOLE, ErrorCode.SESSION_CHANGED),
    "not there": (
        adoption(session=owner(id="new"), expected=owner(id="new"), chunks=NEW),
        ErrorCode.SESSION_CHANGED,
    ),
    **{
        f"another {name}": (adoption(expected=owner(**{name: value}), chunks=NEW), ErrorCode.SESSION_CHANGED)
        for name, value in (("agent", None), ("last_seq", 11), ("log_tip", b""), ("current", "main"))
    },
    "a chunk that is not there": (
        adoption(chunks=NEW, found=(state_chunk("a").hash, chunk(b"nobody").hash)),
        ErrorCode.CHUNKS_GONE,
    ),
    "a row of another session": (adoption(made("x", 13, session="other")), ErrorCode.BAD_ARGUMENT),
    "a branch of another": (adoption(branches=(head("main", "a", session="other"),)), ErrorCode.BAD_ARGUMENT),
    "an entry of another": (adoption(operations=history(1, session="other")), ErrorCode.BAD_ARGUMENT),
    "another session expected": (adoption(expected=owner(id="other")), ErrorCode.BAD_ARGUMENT),
}


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


class RepairContract(Contract):
    """An inspection sees what a reader sees; what is planned or adopted comes out as it was put in."""

    def test_an_inspection_has_everything_and_finds_no_flaw(self, backend: Backend) -> None:
        """Sessions, branches, checkpoints in order of arrival with the removed ones, logs, chunks; of one moment."""
        with backend.inspect() as seen:
            assert (list(seen.flaws()), list(seen.lost())) == ([], [])
        filled(backend)
        shown = contents(backend)
        with backend.inspect() as seen:
            assert (list(seen.flaws()), list(seen.lost())) == ([], [])
            backend.commit(save("d", after="c"))
            all_of_it = everything(seen)
            root = state_chunk("b")
            assert dict(seen.chunks([root.hash, state_chunk("nobody").hash])) == {root.hash: root.data}
        assert list(all_of_it.sessions) == list(shown.sessions)
        assert sorted(all_of_it.branches) == sorted(shown.branches)
        assert list(all_of_it.checkpoints) == list(reversed(shown.checkpoints))
        assert list(all_of_it.operations) == list(shown.operations)

    @staticmethod
    def _rebuild(backend: Backend, plan: PLAN) -> str | None:
        try:
            return backend.rebuild(plan)
        except UnsupportedError as error:
            assert error.code is ErrorCode.NOT_SUPPORTED
            pytest.skip("this backend cannot be rebuilt, and says so")

    def test_what_is_planned_is_what_is_there_afterwards(self, backend: Backend) -> None:
        """Rows keep their numbers, and the next commit goes on from them. A plan of nothing, or that fails, is none."""

        def without_the_first(seen: Inspection) -> Rebuilt:
            all_of_it = everything(seen)
            kept = [row for row in all_of_it.checkpoints if row.id != checkpoint_id("x")]
            left = [each for each in all_of_it.branches if each.session != "other"]
            return all_of_it._replace(checkpoints=kept, branches=left)

        def failing(_seen: Inspection) -> Rebuilt:
            raise ZeroDivisionError

        filled(backend)
        before = contents(backend)
        assert self._rebuild(backend, lambda _seen: None) is None
        with pytest.raises(ZeroDivisionError):
            self._rebuild(backend, failing)
        assert contents(backend) == before
        assert self._rebuild(backend, without_the_first)
        after = contents(backend)
        assert after.sessions == before.sessions
        assert list(after.checkpoints) == [row for row in before.checkpoints if row.id != checkpoint_id("x")]
        (new,) = commit_all(backend, save("d", after="c"))
        assert new.seq == 4
        assert new.position > max(each.position for each in before.checkpoints)
        assert len(found(backend, session="work", tag="t")) == 1
        assert there(backend, [state_chunk("c")]) == [state_chunk("c").data]

    def test_what_is_adopted_comes_out_as_it_was_put_in(self, backend: Backend) -> None:
        """Session, branches, log and rows, with numbers, times, removed ones and gaps; but for the position."""
        (other,) = commit_all(backend, save("x", session="other", tags=("t",), key="k"))
        backend.adopt(WHOLE)
        with backend.reader() as reader:
            rows = reader.checkpoints(Query(session="work", include_hidden=True, oldest_first=True))
            assert list(reader.branches("work")) == [head("idea", "a"), head("main", "c")]
        assert (session_row(backend), log(backend)) == (owner(), list(LOG[2:4]))
        assert [each._replace(position=0) for each in rows] == [FIRST, SECOND, THIRD]
        assert found(backend, tag="t") == [FIRST.id, other.id]
        assert found(backend, session="work", key="k") == [FIRST.id]
        assert read_row(backend, other.id) == other
        assert len(there(backend, [state_chunk(each) for each in "abc"])) == 3
        assert other.position < rows[0].position < rows[1].position < rows[2].position
        (new,) = commit_all(backend, save("d", after="c"))
        assert (new.seq, new.position > rows[2].position) == (13, True)
        backend.commit(batch(operations=LOG[4:5]))
        assert session_row(backend).log_tip == LOG[4].hash

    @cases(("bad", "code"), NOT_ADOPTED)
    def test_what_does_not_fit_is_not_adopted(self, backend: Backend, bad: Adoption, code: ErrorCode) -> None:
        """Whoever wrote since it was read is not overwritten, each field of the session counts, and nothing is left."""
        backend.adopt(WHOLE)
        before = contents(backend)
        with pytest.raises(HoldfastError) as caught:
            backend.adopt(bad)
        assert caught.value.code is code
        assert contents(backend) == before
        assert there(backend, NEW) == []

    def test_a_row_takes_the_place_of_the_one_that_is_there(self, backend: Backend) -> None:
        """It is found by what it says now. With its position it keeps it, without it comes last."""
        backend.adopt(WHOLE)
        places = [read_row(backend, each.id).position for each in (FIRST, THIRD)]
        changed = FIRST._replace(tags=("v",), pinned=False, hidden=4, position=places[0])
        backend.adopt(adoption(changed, chunks=()))
        assert read_row(backend, FIRST.id) == changed
        assert found(backend, tag="t", include_hidden=True) == []
        assert found(backend, tag="v", include_hidden=True) == [FIRST.id]
        assert found(backend, session="work", include_hidden=True) == [THIRD.id, SECOND.id, FIRST.id]
        backend.adopt(adoption(THIRD, chunks=()))
        moved = read_row(backend, THIRD.id).position
        assert moved > places[1]
        backend.adopt(adoption(removals=(THIRD.id,)))
        (new,) = commit_all(backend, save("x", session="other"))
        assert new.position > moved

    def test_what_an_adoption_removes_is_gone(self, backend: Backend) -> None:
        """With tags and key, which may pass to another row; what is of another session or gone already stays so."""
        (other,) = commit_all(backend, save("x", session="other"))
        backend.adopt(WHOLE)
        passed = FIRST._replace(key=None, position=read_row(backend, FIRST.id).position)
        backend.adopt(adoption(made("d", 13, key="k"), passed, session=owner(last_seq=13)))
        assert found(backend, session="work", key="k") == [checkpoint_id("d")]
        gone = (FIRST.id, SECOND.id, checkpoint_id("d"), other.id, checkpoint_id("nobody"))
        backend.adopt(adoption(expected=owner(last_seq=13), session=owner(last_seq=13), removals=gone))
        assert found(backend, include_hidden=True) == [THIRD.id, other.id]
        assert found(backend, tag="t", include_hidden=True) == []

    def test_branches_and_the_end_of_a_log_are_replaced(self, backend: Backend) -> None:
        """Or left as they are: none is not the same as None; other sessions keep theirs."""
        theirs = history(4, session="other")
        commit_all(backend, save("x", session="other"), batch(session="other", operations=theirs))
        backend.adopt(WHOLE)
        backend.adopt(adoption())
        assert list(heads(backend)) == ["idea", "main"]
        backend.adopt(adoption(branches=(head("new", "c"),), operations=LOG[3:], cuts_log_from=4))
        assert (heads(backend), log(backend)) == ({"new": THIRD.id}, [LOG[2], *LOG[3:]])
        backend.adopt(adoption(branches=(), cuts_log_from=1))
        assert (heads(backend), log(backend)) == ({}, [])
        assert (list(heads(backend, "other")), log(backend, "other")) == (["main"], list(theirs))

    @pytest.mark.parametrize("way", ["brought", "found", "brought again"])
    def test_a_collection_that_is_under_way_takes_nothing_of_it(self, backend: Backend, way: str) -> None:
        """What it brings and what it found is stamped. What came ahead of its row, and has none, goes later."""
        if way != "brought":
            (gone,) = commit_all(backend, save("a"))
            backend.commit(removal(gone))
            backend.erase_session("work")
        ahead = chunk(b"came ahead")
        brought = {"found": (), "chunks": (state_chunk("a"), ahead)}
        with backend.collection() as collection:
            mark_roots(backend, collection)
            parts = {"found": (state_chunk("a").hash,), "chunks": (ahead,)} if way == "found" else brought
            backend.adopt(adoption(FIRST, expected=None, **parts))
            sweep_all(collection)
        assert len(there(backend, [state_chunk("a"), ahead])) == 2
        collect(backend)
        assert there(backend, [state_chunk("a"), ahead]) == [state_chunk("a").data]

    def test_an_adopted_session_is_known_until_somebody_writes_to_it(self, backend: Backend) -> None:
        """Partial or whole, for exactly the row that was left, in a process of its own too; erasing forgets it."""

        def adopted(session: SessionRow) -> str | None:
            with backend.reader() as reader:
                return reader.adopted(session)

        backend.commit(save("x", session="other"))
        backend.adopt(WHOLE._replace(whole=False))
        assert (adopted(owner()), adopted(session_row(backend, "other"))) == ("partial", None)
        backend.adopt(adoption(whole=True))
        assert (adopted(owner()), adopted(owner(last_seq=11)), adopted(owner(id="other"))) == (
            "whole",
            None,
            None,
        )
        backend.commit(save("d", after="c"))
        assert adopted(session_row(backend)) is None
        backend.erase_session("work")
        assert adopted(owner()) is None
        backend.adopt(WHOLE)
        backend.adopt(adoption(whole=None))
        assert adopted(owner()) is None
        backend.adopt(adoption(whole=True))
        before = contents(backend)
        backend = self.reopen(backend)
        try:
            assert (contents(backend), adopted(owner())) == (before, "whole")
        finally:
            backend.close()
