"""What a commit builds on and takes away: what it relies on, rows that go for good, the branch in use, a cut log."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import ConflictError, ErrorCode, HoldfastError, InvalidInputError
from holdfast.storage.ports import Backend
from holdfast.storage.records import Batch, CheckpointId, CheckpointRow, Guard, Operation, Query
from holdfast.testing.conformance.changes import session_row
from holdfast.testing.conformance.contract import Contract, commit_all, found, read_row
from holdfast.testing.conformance.refusals import refused
from holdfast.testing.rows import (
    batch,
    checkpoint_id,
    contents,
    edit,
    history,
    operation,
    removal,
    row,
    save,
    state_chunk,
)


def relying(label: str, on: CheckpointRow | CheckpointId) -> Batch:
    """A batch that saves the same state as another checkpoint and leaves its chunks out."""
    name = on.id if isinstance(on, CheckpointRow) else on
    made = row(label, root=state_chunk(name).hash)
    return batch(made, chunks=(), relies_on=name)


class RemovalContract(Contract):
    """A row keeps its chunks alive, and what is removed for good leaves nothing behind but its number."""

    def test_chunks_can_be_left_out_where_the_checkpoint_that_has_them_is_there(
        self, backend: Backend
    ) -> None:
        """Of the same session or of another one."""
        first, other = commit_all(backend, save("a"), save("x", session="other"))
        (second,) = commit_all(backend, relying("b", first))
        (third,) = commit_all(backend, relying("c", other))
        assert (second.root, third.root) == (first.root, other.root)
        assert second.stored_bytes == 0

    def test_a_batch_that_relies_on_what_is_not_there_is_refused(self, backend: Backend) -> None:
        """With chunks-gone, and nothing of it stays behind."""
        backend.commit(save("a"))
        error = refused(backend, relying("b", checkpoint_id("never saved")))
        assert isinstance(error, ConflictError)
        assert error.code is ErrorCode.CHUNKS_GONE
        assert error.details["checkpoint"] == checkpoint_id("never saved").hex()

    def test_a_batch_can_rely_on_many_and_is_refused_where_one_of_them_is_gone(
        self, backend: Backend
    ) -> None:
        """Of any session; with chunks-gone, and nothing of it stays behind."""
        first, second, other = commit_all(
            backend, save("a"), save("b", after="a"), save("x", session="other")
        )
        wanted: tuple[CheckpointId, ...] = (first.id, second.id, other.id)
        copies = [
            row(label, session="copy", root=state_chunk(each.id).hash)
            for label, each in zip("uvw", (first, second, other), strict=True)
        ]
        backend.commit(batch(edits=(edit(first, hidden=1),)))
        made = backend.commit(batch(*copies, session="copy", chunks=(), also_relies_on=wanted)).checkpoints
        assert [each.root for each in made] == [first.root, second.root, other.root]
        for gone in (first, other):
            backend.commit(removal(gone, session=gone.session))
            again = row("z", session="copy", root=gone.root)
            error = refused(backend, batch(again, session="copy", chunks=(), also_relies_on=wanted))
            assert isinstance(error, ConflictError)
            assert error.code is ErrorCode.CHUNKS_GONE
            assert error.details["checkpoint"] == gone.id.hex()
            wanted = tuple(each for each in wanted if each != gone.id)

    def test_a_hidden_checkpoint_can_be_relied_on(self, backend: Backend) -> None:
        """Its row is there, and keeps its chunks."""
        (first,) = commit_all(backend, save("a"))
        backend.commit(batch(edits=(edit(first, hidden=1),)))
        backend.commit(relying("b", first))

    def test_a_checkpoint_that_was_removed_for_good_cannot_be_relied_on(self, backend: Backend) -> None:
        """Though its chunks may still be there."""
        (first,) = commit_all(backend, save("a"))
        backend.commit(removal(first))
        assert refused(backend, relying("b", first)).code is ErrorCode.CHUNKS_GONE

    def test_what_it_relies_on_is_checked_after_the_guard_and_before_the_moves(
        self, backend: Backend
    ) -> None:
        """A changed session explains why something is gone; what is gone explains more than a moved branch."""
        backend.commit(save("a"))
        gone = relying("b", checkpoint_id("never saved"))
        both = gone._replace(guard=Guard(log_count=9))
        assert refused(backend, both).code is ErrorCode.SESSION_CHANGED
        both = gone._replace(moves=save("b").moves)
        assert refused(backend, both).code is ErrorCode.CHUNKS_GONE

    def test_a_repeated_batch_is_settled_though_what_it_relied_on_is_gone(self, backend: Backend) -> None:
        """Its checkpoint is there: whatever else it says is ignored."""
        (first,) = commit_all(backend, save("a"))
        receipt = backend.commit(relying("b", first))
        backend.commit(removal(first))
        assert backend.commit(relying("b", first)) == receipt

    def test_what_is_removed_for_good_is_found_no_more(self, backend: Backend) -> None:
        """By no question, hidden or not; the others stay as they are."""
        first, second, third = commit_all(
            backend, save("a", tags=("t",)), save("b", after="a", key="k", tags=("t",)), save("c", after="b")
        )
        backend.commit(removal(second))
        for query in (
            Query(),
            Query(session="work"),
            Query(tag="t"),
            Query(key="k"),
            Query(id_prefix=second.id.hex()),
        ):
            assert second.id not in found(backend, query._replace(include_hidden=True))
        with backend.reader() as reader:
            assert reader.checkpoint(second.id) is None
            stats = reader.stats()
        assert (stats.checkpoints, stats.hidden) == (2, 0)
        assert found(backend, Query(tag="t")) == [first.id]
        assert (read_row(backend, first.id), read_row(backend, third.id)) == (first, third)

    def test_its_chunks_wait_for_a_collection(self, backend: Backend) -> None:
        """A view that was opened before may still read them, and so may whoever saves them again."""
        (first,) = commit_all(backend, save("a"))
        backend.commit(removal(first))
        with backend.reader() as reader:
            assert dict(reader.chunks([first.root])) == {first.root: state_chunk("a").data}

    def test_what_is_visible_is_not_removed(self, backend: Backend) -> None:
        """Only what was taken out of history before, or is by the same batch."""
        first, second = commit_all(backend, save("a"), save("b", after="a"))
        error = refused(backend, batch(removals=(first.id,)))
        assert isinstance(error, InvalidInputError)
        # One that may go does not take the other with it.
        half = batch(edits=(edit(first, hidden=1),), removals=(first.id, second.id))
        assert isinstance(refused(backend, half), InvalidInputError)

    def test_what_the_writer_saw_is_no_proof(self, backend: Backend) -> None:
        """Rows may have changed since they were read, or be gone: what is in the store counts."""
        first, second, third = commit_all(backend, save("a"), save("b", after="a"), save("c", after="b"))
        backend.commit(batch(edits=(edit(first, tags=("newer",)),), operations=history(1)))
        backend.commit(batch(edits=(edit(first, pinned=True),), seen=(first,)))
        assert read_row(backend, first.id) == first._replace(pinned=True)
        backend.commit(batch(edits=(edit(second, hidden=1),), removals=(second.id,), seen=(second,)))
        again = batch(edits=(edit(second, pinned=True), edit(third, pinned=True)), seen=(second, third))
        assert isinstance(refused(backend, again), HoldfastError)
        assert read_row(backend, third.id) == third

    def test_what_the_writer_says_it_saw_of_what_it_saves_is_saved(self, backend: Backend) -> None:
        """A row that is new is written, whoever says to have read it: the branch has a head that is there."""
        backend.commit(save("a"))
        following = save("b", after="a")
        (second,) = backend.commit(following._replace(seen=following.checkpoints)).checkpoints
        with backend.reader() as reader:
            branch = reader.branch("work", "main")
        assert branch is not None
        assert branch.head == second.id
        assert read_row(backend, second.id) == second

    def test_what_the_writer_saw_hidden_and_is_visible_is_not_removed(self, backend: Backend) -> None:
        """As after an undo."""
        (first,) = commit_all(backend, save("a"))
        hidden = first._replace(hidden=1)
        assert isinstance(refused(backend, batch(removals=(first.id,), seen=(hidden,))), InvalidInputError)

    def test_what_was_hidden_before_is_removed(self, backend: Backend) -> None:
        """In a later batch that says nothing else about it."""
        (first,) = commit_all(backend, save("a"))
        backend.commit(batch(edits=(edit(first, hidden=1),), operations=history(1)))
        backend.commit(batch(removals=(first.id,)))
        assert found(backend, Query(include_hidden=True)) == []

    def test_what_the_same_batch_shows_again_is_not_removed(self, backend: Backend) -> None:
        """The edits count before the removals."""
        (first,) = commit_all(backend, save("a"))
        backend.commit(batch(edits=(edit(first, hidden=1),)))
        shown = batch(edits=(edit(first, hidden=0),), removals=(first.id,))
        assert isinstance(refused(backend, shown), InvalidInputError)

    def test_what_the_same_batch_saves_is_visible(self, backend: Backend) -> None:
        """It is not removed before anybody saw it."""
        assert isinstance(
            refused(backend, save("a")._replace(removals=(checkpoint_id("a"),))), InvalidInputError
        )

    def test_a_checkpoint_of_another_session_is_not_removed(self, backend: Backend) -> None:
        """A batch writes to one session."""
        (other,) = commit_all(backend, save("x", session="other"))
        backend.commit(batch(session="other", edits=(edit(other, hidden=1),)))
        assert isinstance(refused(backend, batch(removals=(other.id,))), InvalidInputError)

    def test_one_that_is_gone_is_no_error(self, backend: Backend) -> None:
        """Whatever else the batch says is done."""
        first, second = commit_all(backend, save("a"), save("b", after="a"))
        backend.commit(removal(first))
        backend.commit(batch(edits=(edit(second, hidden=1),), removals=(first.id, second.id)))
        backend.commit(batch(removals=(checkpoint_id("never saved"),), operations=history(1)))
        assert found(backend, Query(include_hidden=True)) == []
        assert session_row(backend).log_count == 1

    def test_key_and_tags_of_what_is_removed_are_free_again(self, backend: Backend) -> None:
        """The same key names another checkpoint from now on."""
        (first,) = commit_all(backend, save("a", key="mine", tags=("t",)))
        backend.commit(removal(first))
        (second,) = commit_all(backend, save("b", after="a", key="mine", tags=("t",)))
        assert found(backend, Query(key="mine")) == [second.id]
        assert found(backend, Query(tag="t")) == [second.id]
        assert refused(backend, save("c", after="b", key="mine")).code is ErrorCode.KEY_TAKEN

    def test_seq_and_position_are_never_given_twice(self, backend: Backend) -> None:
        """Not even when the newest rows go, and all of them."""
        rows = commit_all(backend, save("a"), save("x", session="other"), save("b", after="a"))
        backend.commit(removal(rows[2]))
        (third,) = commit_all(backend, save("c", after="b"))
        assert third.seq == 3
        assert third.position > rows[2].position
        backend.commit(removal(rows[0], third))
        backend.commit(removal(rows[1], session="other"))
        (fourth,) = commit_all(backend, save("d", after="c"))
        assert fourth.seq == 4
        assert fourth.position > third.position

    def test_seq_and_position_go_on_after_reopening(self, backend: Backend) -> None:
        """Also where the newest row is gone."""
        first, second = commit_all(backend, save("a"), save("b", after="a"))
        backend.commit(removal(second))
        again = self.reopen(backend)
        try:
            (third,) = commit_all(again, save("c", after="b"))
        finally:
            again.close()
        assert third.seq == 3
        assert third.position > second.position > first.position

    def test_what_was_removed_can_be_saved_again(self, backend: Backend) -> None:
        """It is not there any more, so that this is no repetition: it gets new numbers."""
        (first,) = commit_all(backend, save("a"))
        backend.commit(removal(first))
        (again,) = commit_all(backend, batch(row("a")))
        assert again.id == first.id
        assert again.seq == 2
        assert again.position > first.position

    def test_people_are_on_main_until_they_switch(self, backend: Backend) -> None:
        """A save leaves them where they are, and so does a batch that says nothing about it."""
        backend.commit(save("a"))
        assert session_row(backend).current == "main"
        backend.commit(batch(switch_to="idea", operations=history(1)))
        assert session_row(backend).current == "idea"
        backend.commit(save("b", after="a"))
        backend.commit(batch(operations=(operation(2, previous=history(1)[0].hash),)))
        assert session_row(backend).current == "idea"
        backend.commit(batch(switch_to="main"))
        assert session_row(backend).current == "main"

    def test_a_switch_concerns_its_session(self, backend: Backend) -> None:
        """One that it makes, if there is none yet; no other one."""
        backend.commit(save("a"))
        backend.commit(batch(session="new", switch_to="idea"))
        assert session_row(backend, "new").current == "idea"
        assert session_row(backend).current == "main"

    def test_a_refused_batch_switches_nothing(self, backend: Backend) -> None:
        """All or nothing."""
        backend.commit(save("a"))
        refused(backend, save("b")._replace(switch_to="idea"))
        assert session_row(backend).current == "main"

    def test_a_log_that_is_cut_has_only_what_came_with_the_cut(self, backend: Backend) -> None:
        """Numbers and hashes go on, so that the next entry and every guard fit as before."""
        entries = history(4)
        theirs = history(2, session="other")
        commit_all(backend, save("a"), batch(operations=entries[:2]))
        commit_all(backend, batch(session="other", operations=theirs))
        backend.commit(batch(operations=entries[2:3], cuts_log_from=1, guard=Guard(log_count=2)))
        assert self._log(backend) == [entries[2]]
        assert (session_row(backend).log_count, session_row(backend).log_tip) == (3, entries[2].hash)
        backend.commit(batch(operations=entries[3:], guard=Guard(log_count=3)))
        assert self._log(backend) == list(entries[2:])
        assert self._log(backend, after=3) == [entries[3]]
        assert self._log(backend, "other") == list(theirs)

    def test_a_log_is_cut_from_a_number_on(self, backend: Backend) -> None:
        """What is older stays, and what comes with the cut takes the place of what went."""
        entries = history(7)
        theirs = history(4, session="other")
        commit_all(backend, batch(operations=entries[:4]), batch(session="other", operations=theirs))
        backend.commit(batch(operations=entries[4:5], cuts_log_from=3, guard=Guard(log_count=4)))
        assert self._log(backend) == [*entries[:2], entries[4]]
        assert self._log(backend, after=2) == self._log(backend, after=4) == [entries[4]]
        assert (session_row(backend).log_count, session_row(backend).log_tip) == (5, entries[4].hash)
        # From a number that went before, as the next one of a run does it; two at once, which both stay.
        backend.commit(batch(operations=entries[5:], cuts_log_from=3, guard=Guard(log_count=5)))
        assert self._log(backend) == [*entries[:2], *entries[5:]]
        assert self._log(backend, "other") == list(theirs)

    def test_a_cut_that_begins_after_the_end_takes_nothing(self, backend: Backend) -> None:
        """The entries that come with it are not meant."""
        entries = history(3)
        backend.commit(batch(operations=entries[:2]))
        backend.commit(batch(operations=entries[2:], cuts_log_from=3))
        assert self._log(backend) == list(entries)

    def test_a_log_can_be_cut_to_nothing(self, backend: Backend) -> None:
        """What was counted stays counted."""
        entries = history(3)
        backend.commit(batch(operations=entries[:2]))
        backend.commit(batch(cuts_log_from=1))
        assert self._log(backend) == []
        assert (session_row(backend).log_count, session_row(backend).log_tip) == (2, entries[1].hash)
        backend.commit(batch(operations=entries[2:]))
        assert self._log(backend) == [entries[2]]

    def test_a_refused_batch_cuts_nothing(self, backend: Backend) -> None:
        """All or nothing."""
        backend.commit(save("a"))
        backend.commit(batch(operations=history(2)))
        refused(backend, save("b")._replace(cuts_log_from=1))
        refused(backend, save("b")._replace(cuts_log_from=2))
        assert self._log(backend) == list(history(2))

    @pytest.mark.parametrize("what", ["removals", "switch_to", "cuts_log_from"])
    def test_a_repeated_batch_takes_nothing_away(self, backend: Backend, what: str) -> None:
        """Its checkpoint is there already, so that it changes nothing."""
        first, hidden = commit_all(backend, save("a"), save("b", after="a"))
        backend.commit(batch(edits=(edit(hidden, hidden=1),), operations=history(1)))
        before = contents(backend)
        more: dict[str, Any] = {"removals": (hidden.id,), "switch_to": "idea", "cuts_log_from": 1}
        again = batch(row("a", parents=first.parents))
        backend.commit(again._replace(**{what: more[what]}))
        assert contents(backend) == before

    @staticmethod
    def _log(backend: Backend, session: str = "work", *, after: int = 0) -> list[Operation]:
        with backend.reader() as reader:
            return list(reader.operations(session, after=after))
