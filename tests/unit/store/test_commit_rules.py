"""What a commit refuses on every kind of store: nothing of such a batch is written."""

from __future__ import annotations

import pytest

from holdfast import ConflictError, ErrorCode, InvalidInputError
from holdfast.storage.records import Guard, Move
from holdfast.testing.rows import batch, checkpoint_id, contents, history, save


def test_a_branch_is_removed_only_from_the_head_that_is_expected(backend):
    backend.commit(save("a"))
    backend.commit(save("b", after="a"))
    before = contents(backend)
    with pytest.raises(ConflictError) as caught:
        backend.commit(batch(moves=(Move("main", checkpoint_id("a"), None),)))
    assert caught.value.code is ErrorCode.BRANCH_MOVED
    assert contents(backend) == before
    backend.commit(batch(moves=(Move("main", checkpoint_id("b"), None),)))
    assert not contents(backend).branches


def test_operations_that_do_not_follow_the_log_are_a_conflict(backend):
    entries = history(3)
    backend.commit(batch(operations=entries[:1]))
    before = contents(backend)
    for wrong in (entries[:1], entries[2:]):
        with pytest.raises(ConflictError) as caught:
            backend.commit(batch(operations=wrong, guard=Guard(log_count=1)))
        assert caught.value.code is ErrorCode.SESSION_CHANGED
    assert contents(backend) == before


def test_an_operation_of_another_session_is_refused(backend):
    backend.commit(save("a"))
    before = contents(backend)
    with pytest.raises(InvalidInputError) as caught:
        backend.commit(batch(operations=history(1, session="other")))
    assert caught.value.code is ErrorCode.BAD_ARGUMENT
    assert contents(backend) == before
