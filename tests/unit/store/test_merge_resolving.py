"""What may decide on the conflicts of a merge, awaited or not, and what is told of rules that decided nothing."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import anyio
import pytest

import holdfast
import holdfast.aio
import holdfast.reports
from holdfast import ConflictError, ErrorCode, InvalidInputError


@pytest.fixture
def risky(session):
    """A branch beside main: both changed `a` and `notes`, and it alone `b`."""
    session.save({"a": 1, "b": 1, "notes": ["x"], "same": 0})
    beside = session.fork(name="risky")
    beside.save({"a": 3, "b": 2, "notes": ["t"], "same": 0})
    session.save({"a": 2, "b": 1, "notes": ["o"], "same": 0})
    return beside


def awaited(session: holdfast.Session, resolve: Any) -> holdfast.reports.MergeReport:
    async def main() -> holdfast.reports.MergeReport:
        return await holdfast.aio.AsyncSession(session).merge("risky", resolve=resolve)

    return anyio.run(main)


async def ask(conflict: Any) -> Any:
    # Only where an event loop runs.
    await asyncio.sleep(0)
    return conflict.theirs


class Asking:
    async def __call__(self, conflict: Any) -> Any:
        return await ask(conflict)


@pytest.mark.parametrize(
    "resolve",
    [
        ask,
        Asking(),
        partial(ask),
        lambda conflict: ask(conflict) if conflict else None,
        {"a": ask, "notes": "theirs"},
        {"notes[*]": Asking(), "": lambda conflict: conflict.theirs},
    ],
)
def test_what_has_to_be_awaited_decides_where_the_merge_is_awaited(session, risky, resolve):
    report = awaited(session, resolve)
    assert [each.how for each in report.resolved] == ["theirs", "theirs"]
    assert session.load() == {"a": 3, "b": 2, "notes": ["t"], "same": 0}


def test_an_error_of_what_is_awaited_is_its_own_and_nothing_is_written(session, risky):
    async def choose(_: Any) -> Any:
        raise ZeroDivisionError

    head = session.checkpoint()
    with pytest.raises(ZeroDivisionError):
        awaited(session, choose)
    assert session.checkpoint().id == head.id


@pytest.mark.parametrize("resolve", [ask, Asking(), {"a": partial(ask)}])
def test_where_the_merge_is_not_awaited_it_is_refused(session, risky, resolve):
    with pytest.raises(InvalidInputError) as caught:
        session.merge("risky", resolve=resolve)
    assert caught.value.code is ErrorCode.BAD_ARGUMENT
    assert "AsyncSession" in caught.value.hint


def test_a_path_that_is_nowhere_is_refused_and_nothing_is_written(session, risky):
    head = session.checkpoint()
    for rest in ({}, {"": "theirs"}):
        with pytest.raises(InvalidInputError) as caught:
            session.merge("risky", resolve={"nots": "ours", **rest})
        assert caught.value.hint == "did you mean notes? the conflicts are at a, notes[0]"
    assert session.checkpoint().id == head.id


def test_standing_rules_may_decide_nothing(session, risky):
    rules: dict[str, Any] = {"beliefs.*": "ours", "same": "ours", "b": "ours", "a": "theirs", "notes": "ours"}
    report = session.merge("risky", resolve=rules)
    assert report.checkpoint is not None
    assert report.unused == ("same", "b")
    assert report.to_dict()["unused"] == ["same", "b"]
    assert session.load() == {"a": 3, "b": 2, "notes": ["o"], "same": 0}


def test_a_path_that_is_nowhere_is_told_where_there_is_no_conflict(session, risky):
    session.merge("risky", resolve="ours")
    rules: dict[str, Any] = {"nots": "ours", "*.x": "ours", "": "theirs"}
    assert session.merge("risky", resolve=rules).unused == ("nots",)
    risky.save({"a": 3, "b": 3, "notes": ["t"], "same": 0})
    assert session.merge("risky", resolve=rules).unused == ("nots",)
    # Theirs, as ours is in it already.
    assert risky.merge("main", resolve=rules).unused == ("nots",)
    assert session.merge("risky", resolve="ours").unused == ()


def test_a_head_that_moved_is_told_with_what_helps_a_merge(session, store, risky):
    store.session("s").save({"a": 9}, "another writer")
    with pytest.raises(ConflictError) as caught:
        session.merge("risky")
    assert caught.value.code is ErrorCode.BRANCH_MOVED
    assert "merge again" in caught.value.hint
    assert "on_conflict" not in caught.value.hint
    assert caught.value.details["branch"] == "main"
    session.load()
    assert session.merge("risky", resolve="ours").checkpoint is not None
