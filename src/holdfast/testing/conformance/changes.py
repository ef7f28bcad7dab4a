"""What changes after a save: branch heads, edits of checkpoints, the operation log and its place in the session."""

from __future__ import annotations

import pytest

from holdfast.errors import ConflictError
from holdfast.storage.ports import Backend
from holdfast.storage.records import CheckpointId, Guard, Move, Query, SessionRow
from holdfast.testing.conformance.contract import Contract, commit_all, found, read_row
from holdfast.testing.rows import START, batch, checkpoint_id, contents, edit, history, operation, save


def move(branch: str, expected: str | None, head: str | None) -> Move:
    """A move between checkpoints named by their labels."""
    return Move(
        branch=branch,
        expected=checkpoint_id(expected) if expected else None,
        head=checkpoint_id(head) if head else None,
    )


def heads(backend: Backend, session: str = "work") -> dict[str, CheckpointId]:
    """The branches of a session with their heads, in the order in which the backend gives them."""
    with backend.reader() as reader:
        return {each.name: each.head for each in reader.branches(session)}


def session_row(backend: Backend, session: str = "work") -> SessionRow:
    """The row of a session that must be there."""
    with backend.reader() as reader:
        found = reader.session(session)
    assert found is not None
    return found


class ChangeContract(Contract):
    """Branches move, annotations change, and each change goes into the log in the same commit."""

    def test_a_branch_is_made_moved_and_removed(self, backend: Backend) -> None:
        """Each step names the head it starts from."""
        backend.commit(save("a"))
        assert heads(backend) == {"main": checkpoint_id("a")}
        backend.commit(save("b", after="a"))
        assert heads(backend) == {"main": checkpoint_id("b")}
        backend.commit(batch(moves=(move("main", "b", "a"),)))
        assert heads(backend) == {"main": checkpoint_id("a")}
        backend.commit(batch(moves=(move("main", "a", None),)))
        assert heads(backend) == {}

    def test_a_removed_branch_can_be_made_again(self, backend: Backend) -> None:
        """Nothing of the old one is in the way."""
        commit_all(backend, save("a"), batch(moves=(move("main", "a", None),)), save("b"))
        assert heads(backend) == {"main": checkpoint_id("b")}

    def test_a_branch_knows_when_it_moved(self, backend: Backend) -> None:
        """moved_at is the time of the batch."""
        commit_all(backend, save("a"), save("b", after="a", at=START + 60))
        with backend.reader() as reader:
            branch = reader.branch("work", "main")
        assert branch is not None
        assert (branch.session, branch.name) == ("work", "main")
        assert (branch.head, branch.moved_at) == (checkpoint_id("b"), START + 60)

    def test_branches_come_by_name(self, backend: Backend) -> None:
        """Whatever the order in which they were made."""
        backend.commit(save("a"))
        for name in ("zeta", "alpha", "main-2"):
            backend.commit(batch(moves=(move(name, None, "a"),)))
        assert list(heads(backend)) == ["alpha", "main", "main-2", "zeta"]

    def test_a_branch_belongs_to_its_session(self, backend: Backend) -> None:
        """Two sessions have two branches of one name."""
        commit_all(backend, save("a"), save("x", session="other"), save("b", after="a"))
        assert heads(backend) == {"main": checkpoint_id("b")}
        assert heads(backend, "other") == {"main": checkpoint_id("x")}

    def test_several_branches_move_in_one_batch(self, backend: Backend) -> None:
        """All of them, at one moment."""
        commit_all(backend, save("a"), save("b", after="a"))
        backend.commit(
            batch(moves=(move("main", "b", "a"), move("kept", None, "b"), move("more", None, "a")))
        )
        assert heads(backend) == {
            "kept": checkpoint_id("b"),
            "main": checkpoint_id("a"),
            "more": checkpoint_id("a"),
        }

    @pytest.mark.parametrize(
        "change",
        [
            {"prev": checkpoint_id("b"), "skipped": 3},
            {"prev": None, "skipped": 7},
            {"hidden": 5},
            {"tags": ("a", "b", "it's")},
            {"pinned": True},
            {"edited_message": "said better"},
            {"edited_message": ""},
            {"added_metadata": '{"reviewed":true}'},
        ],
        ids="-".join,
    )
    def test_an_edit_changes_what_it_names_and_nothing_else(
        self, backend: Backend, change: dict[str, object]
    ) -> None:
        """Seq, times and all the writer said stay; the other checkpoints stay too."""
        _, second, third = commit_all(
            backend, save("a"), save("b", after="a", tags=("old",)), save("c", after="b", tags=("old",))
        )
        backend.commit(batch(edits=(edit(third, **change),)))
        assert read_row(backend, third.id) == third._replace(**change)  # type: ignore[arg-type]
        assert read_row(backend, second.id) == second

    def test_an_edit_can_take_everything_back(self, backend: Backend) -> None:
        """An edit has all the new values: what it does not set is gone."""
        (plain,) = commit_all(backend, save("a"))
        full = {
            "tags": ("x", "y"),
            "pinned": True,
            "edited_message": "m",
            "added_metadata": "{}",
            "hidden": 1,
        }
        backend.commit(batch(edits=(edit(plain, **full),)))
        backend.commit(batch(edits=(edit(plain),)))
        assert read_row(backend, plain.id) == plain
        assert found(backend, Query(tag="x")) == []

    def test_a_removed_checkpoint_can_still_be_read_by_id(self, backend: Backend) -> None:
        """Hiding is not erasing."""
        (gone,) = commit_all(backend, save("a"))
        backend.commit(batch(edits=(edit(gone, hidden=1),), operations=history(1)))
        assert read_row(backend, gone.id).hidden == 1

    def test_a_seq_is_never_used_again(self, backend: Backend) -> None:
        """Not even that of a removed checkpoint."""
        _, second = commit_all(backend, save("a"), save("b", after="a"))
        backend.commit(batch(edits=(edit(second, hidden=1),), moves=(move("main", "b", "a"),)))
        assert backend.commit(save("c", after="a")).checkpoints[0].seq == 3

    def test_operations_come_back_in_order(self, backend: Backend) -> None:
        """Oldest first, every field as it was given."""
        entries = history(5)
        commit_all(backend, save("a"), batch(operations=entries[:2]), batch(operations=entries[2:]))
        with backend.reader() as reader:
            assert list(reader.operations("work")) == list(entries)
            assert list(reader.operations("work", after=3)) == list(entries[3:])
            assert list(reader.operations("work", after=5)) == []

    def test_an_operation_keeps_its_text(self, backend: Backend) -> None:
        """Any canonical JSON, any kind."""
        entry = operation(1, kind="it's", at=START + 1, data='{"\N{SNOWMAN}":"\\u0000\\""}')
        commit_all(backend, save("a"), batch(operations=(entry,)))
        with backend.reader() as reader:
            assert list(reader.operations("work")) == [entry]

    def test_each_session_has_its_own_log(self, backend: Backend) -> None:
        """Entries of one are not seen in the other."""
        mine, theirs = history(2), history(1, session="other")
        commit_all(backend, batch(operations=mine), batch(session="other", operations=theirs))
        with backend.reader() as reader:
            assert list(reader.operations("work")) == list(mine)
            assert list(reader.operations("other")) == list(theirs)
            assert list(reader.operations("nobody")) == []

    def test_the_session_row_has_the_count_and_the_tip_of_its_log(self, backend: Backend) -> None:
        """So that a missing last entry shows."""
        entries = history(3)
        backend.commit(save("a"))
        backend.commit(batch(operations=entries[:1]))
        assert (session_row(backend).log_count, session_row(backend).log_tip) == (1, entries[0].hash)
        backend.commit(batch(operations=entries[1:]))
        assert (session_row(backend).log_count, session_row(backend).log_tip) == (3, entries[2].hash)

    def test_a_save_leaves_the_log_alone(self, backend: Backend) -> None:
        """A checkpoint row is its own entry."""
        entries = history(1)
        commit_all(backend, save("a"), batch(operations=entries), save("b", after="a"))
        assert (session_row(backend).log_count, session_row(backend).log_tip) == (1, entries[0].hash)
        assert session_row(backend).last_seq == 2

    def test_a_change_and_its_log_entry_arrive_together(self, backend: Backend) -> None:
        """One batch, one moment: a guard on the log refuses the second of two equal changes."""
        (first,) = commit_all(backend, save("a"))
        change = batch(
            edits=(edit(first, tags=("golden",)),), operations=history(1), guard=Guard(log_count=0)
        )
        backend.commit(change)
        after = contents(backend)
        with pytest.raises(ConflictError):
            backend.commit(change)
        assert contents(backend) == after
        assert after.checkpoints[0].tags == ("golden",)

    def test_stats_count_what_is_there(self, backend: Backend) -> None:
        """Sessions, branches, checkpoints, removed ones, chunks and their bytes."""
        first, _, _ = commit_all(backend, save("a"), save("b", after="a"), save("x", session="other"))
        backend.commit(batch(edits=(edit(first, hidden=1),), operations=history(1)))
        with backend.reader() as reader:
            stats = reader.stats()
        assert (stats.sessions, stats.branches) == (2, 2)
        assert (stats.checkpoints, stats.hidden) == (2, 1)
        assert stats.chunks == 3
        assert stats.chunk_bytes == sum(each.size_bytes for each in contents(backend).checkpoints)
        assert stats.stored_bytes > 0
