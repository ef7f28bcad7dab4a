"""`Store.rehearsal` and `Store.current_branch`: what surfaces need, and people can use."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

import holdfast
from holdfast import InvalidInputError, Keep, NotFoundError, UnsupportedError


@dataclass
class Plan:
    goal: str


@pytest.fixture
def store(tmp_path):
    with holdfast.open(tmp_path / "store.db", types=[Plan], app_version="7") as opened:
        session = opened.session()
        for n in (1, 2, 3):
            session.save({"n": n, "plan": Plan("x")}, f"step {n}")
        session.pin("#1")
        yield opened


def everything(store):
    session = store.session()
    return (
        [each.to_dict() for each in store.find()],
        session.branches(),
        session.operations(limit=None),
        store.current_branch(),
    )


@pytest.mark.parametrize(
    "operation",
    [
        lambda session: session.save({"plan": Plan("y")}, "new"),
        lambda session: session.restore("#1"),
        lambda session: session.fork("#2", "side"),
        lambda session: session.tag("#2", "a"),
        lambda session: session.unpin("#1"),
        lambda session: session.annotate("@", message="other"),
        lambda session: session.delete("@"),
        lambda session: session.clear(force=True),
        lambda session: session.prune(Keep(last=1), only=True),
        lambda session: session.rename_branch("main", "trunk"),
        lambda session: session.delete_branch("main", force=True),
        lambda session: session.undo(),
        lambda session: session.document().save("doc"),
    ],
)
def test_an_operation_on_a_rehearsal_is_answered_and_changes_nothing(store, operation):
    before = everything(store)

    tried = operation(store.rehearsal().session())

    assert everything(store) == before
    done = operation(store.session())
    assert type(tried) is type(done)
    assert everything(store) != before


def test_it_fails_where_the_real_one_fails_and_knows_the_same_types(store):
    tried = store.rehearsal()

    with pytest.raises(NotFoundError):
        tried.session().restore("#9")
    with pytest.raises(InvalidInputError):
        tried.session().delete("#1")
    assert tried.session().load()["plan"] == Plan("x")
    assert tried.session().save({"p": Plan("z")}).app_version == "7"
    assert tried.url == store.url


def test_closing_it_leaves_the_real_one_open_and_what_only_writes_is_refused(store, tmp_path):
    tried = store.rehearsal()

    assert tried.gc(dry_run=True) == store.gc(dry_run=True)
    assert tried.verify().ok
    for refused in (
        tried.gc,
        lambda: tried.forget("default"),
        lambda: tried.backup(tmp_path / "copy.db"),
    ):
        with pytest.raises(UnsupportedError):
            refused()
    tried.close()
    assert store.session().checkpoint().seq == 3
    assert not (tmp_path / "copy.db").exists()


def test_the_async_twins(tmp_path):
    async def use():
        async with holdfast.aopen(tmp_path / "a.db") as store:
            await store.session().save(1)
            tried = store.rehearsal()
            await tried.session().clear()
            return await store.current_branch(), len(await store.find())

    assert asyncio.run(use()) == ("main", 1)
