"""When a commit is refused: with which error, in which order of checks, and that nothing of it stays behind."""

from __future__ import annotations

import pytest

from holdfast.errors import ConflictError, ErrorCode, HoldfastError, InvalidInputError
from holdfast.storage.ports import Backend
from holdfast.storage.records import Batch, Guard, Move
from holdfast.testing.conformance.contract import Contract, commit_all
from holdfast.testing.rows import batch, checkpoint_id, contents, edit, history, row, save


def refused(backend: Backend, bad: Batch) -> HoldfastError:
    """Commit a batch that must be refused; the error, once it is sure that nothing has changed."""
    before = contents(backend)
    with pytest.raises(HoldfastError) as caught:
        backend.commit(bad)
    assert contents(backend) == before
    return caught.value


class RefusalContract(Contract):
    """The claim, the guard, the moves, the keys: checked in this order, before anything is visible."""

    def test_a_session_of_another_agent_is_refused(self, backend: Backend) -> None:
        """A given agent must be the session's."""
        backend.commit(save("a", agent="scout"))
        error = refused(backend, save("b", after="a", agent="other"))
        assert isinstance(error, InvalidInputError)
        assert error.code is ErrorCode.SESSION_MISMATCH

    def test_a_session_of_another_project_is_refused(self, backend: Backend) -> None:
        """A given project must be the session's; the agent, which was free, is not set on the way."""
        backend.commit(save("a", project="acme"))
        error = refused(backend, save("b", after="a", agent="scout", project="other"))
        assert error.code is ErrorCode.SESSION_MISMATCH

    def test_a_branch_that_exists_is_not_made_again(self, backend: Backend) -> None:
        """expected=None says that there is no such branch yet."""
        backend.commit(save("a"))
        error = refused(backend, save("b"))
        assert isinstance(error, ConflictError)
        assert error.code is ErrorCode.BRANCH_MOVED
        assert error.details["expected"] is None
        assert error.details["actual"] == checkpoint_id("a").hex()

    def test_a_branch_that_moved_on_is_not_moved_back(self, backend: Backend) -> None:
        """The expected head must be the head."""
        commit_all(backend, save("a"), save("b", after="a"))
        error = refused(backend, save("c", after="a"))
        assert error.code is ErrorCode.BRANCH_MOVED
        assert error.details["expected"] == checkpoint_id("a").hex()
        assert error.details["actual"] == checkpoint_id("b").hex()

    def test_a_branch_that_is_not_there_cannot_be_moved(self, backend: Backend) -> None:
        """An expected head that nobody has is a conflict too, in a session that exists and in one that does not."""
        backend.commit(save("a"))
        assert refused(backend, save("b", after="a", branch="gone")).code is ErrorCode.BRANCH_MOVED
        assert refused(backend, save("b", after="a", session="none")).code is ErrorCode.BRANCH_MOVED

    def test_a_branch_that_is_not_there_cannot_be_removed(self, backend: Backend) -> None:
        """Removal is a move like any other."""
        backend.commit(save("a"))
        gone = Move(branch="gone", expected=checkpoint_id("a"), head=None)
        assert refused(backend, batch(moves=(gone,))).code is ErrorCode.BRANCH_MOVED

    @pytest.mark.parametrize("bad_first", [True, False], ids=["bad-first", "bad-last"])
    def test_one_move_that_does_not_hold_stops_them_all(self, backend: Backend, *, bad_first: bool) -> None:
        """Also when it comes after one that does."""
        backend.commit(save("a"))
        good = Move(branch="new", expected=None, head=checkpoint_id("a"))
        bad = Move(branch="main", expected=checkpoint_id("x"), head=checkpoint_id("a"))
        moves = (bad, good) if bad_first else (good, bad)
        assert refused(backend, batch(moves=moves)).code is ErrorCode.BRANCH_MOVED

    def test_a_guard_sees_a_new_operation(self, backend: Backend) -> None:
        """log_count must be the session's."""
        commit_all(backend, save("a"), batch(operations=history(1)))
        error = refused(backend, save("b", after="a")._replace(guard=Guard(log_count=0)))
        assert isinstance(error, ConflictError)
        assert error.code is ErrorCode.SESSION_CHANGED

    def test_a_guard_with_last_seq_sees_a_new_checkpoint(self, backend: Backend) -> None:
        """On whichever branch it was saved."""
        commit_all(backend, save("a"), save("x", branch="elsewhere"))
        error = refused(backend, save("b", after="a")._replace(guard=Guard(log_count=0, last_seq=1)))
        assert error.code is ErrorCode.SESSION_CHANGED

    def test_a_guard_without_last_seq_does_not_mind_new_checkpoints(self, backend: Backend) -> None:
        """Only the log counts then."""
        commit_all(backend, save("a"), save("x", branch="elsewhere"))
        backend.commit(save("b", after="a")._replace(guard=Guard(log_count=0)))

    def test_a_guard_that_holds_lets_the_batch_through(self, backend: Backend) -> None:
        """Both numbers as they were read."""
        commit_all(backend, save("a"), batch(operations=history(1)))
        backend.commit(save("b", after="a")._replace(guard=Guard(log_count=1, last_seq=1)))

    def test_a_session_that_is_not_there_yet_counts_as_empty(self, backend: Backend) -> None:
        """A guard of zeros holds for it, any other does not."""
        assert (
            refused(backend, save("a")._replace(guard=Guard(log_count=1))).code is ErrorCode.SESSION_CHANGED
        )
        backend.commit(save("a")._replace(guard=Guard(log_count=0, last_seq=0)))

    def test_a_key_names_one_checkpoint_of_a_session(self, backend: Backend) -> None:
        """The error says which one has it."""
        backend.commit(save("a", key="mine"))
        error = refused(backend, save("b", after="a", key="mine"))
        assert isinstance(error, ConflictError)
        assert error.code is ErrorCode.KEY_TAKEN
        assert error.details["existing"] == checkpoint_id("a").hex()

    def test_another_session_may_use_the_same_key(self, backend: Backend) -> None:
        """Keys are unique within a session only, and checkpoints without a key never collide."""
        commit_all(backend, save("a", key="mine"), save("x", session="other", key="mine"))
        commit_all(backend, save("b", after="a"), save("c", after="b"))

    def test_a_refused_batch_leaves_nothing_behind(self, backend: Backend) -> None:
        """Chunks, rows, moves, edits, operations and the claim: all or nothing."""
        (first,) = commit_all(backend, save("a", key="mine"))
        whole = batch(
            row("b", parents=(first.id,)),
            row("c", parents=(first.id,), key="mine"),
            agent="scout",
            project="acme",
            moves=(Move(branch="new", expected=None, head=checkpoint_id("b")),),
            edits=(edit(first, tags=("golden",), pinned=True),),
            operations=history(2),
        )
        assert refused(backend, whole).code is ErrorCode.KEY_TAKEN

    def test_a_refused_batch_makes_no_session(self, backend: Backend) -> None:
        """A session appears with its first commit, not with its first attempt."""
        refused(backend, save("a", after="nothing", session="new"))
        with backend.reader() as reader:
            assert reader.session("new") is None

    def test_the_claim_is_checked_before_the_guard(self, backend: Backend) -> None:
        """The wrong session is the first thing to say."""
        backend.commit(save("a", agent="scout"))
        both = save("b", after="a", agent="other")._replace(guard=Guard(log_count=9))
        assert refused(backend, both).code is ErrorCode.SESSION_MISMATCH

    def test_the_guard_is_checked_before_the_moves(self, backend: Backend) -> None:
        """A changed session explains a moved branch."""
        backend.commit(save("a"))
        both = save("b")._replace(guard=Guard(log_count=9))
        assert refused(backend, both).code is ErrorCode.SESSION_CHANGED

    def test_the_moves_are_checked_before_the_keys(self, backend: Backend) -> None:
        """A moved branch comes before a taken key."""
        backend.commit(save("a", key="mine"))
        assert refused(backend, save("b", key="mine")).code is ErrorCode.BRANCH_MOVED
