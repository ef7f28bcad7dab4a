"""Document: a state that is saved by what changed in it, by a writer of its own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.values import identical

import holdfast
import holdfast.aio
from holdfast import BackendError, ConflictError, InvalidInputError
from holdfast.objects.document.document import Change
from holdfast.testing.faults import Fault, FaultyBackend, failing, io_failed

STATE: dict[str, Any] = {"messages": [{"n": n, "text": "x" * 100} for n in range(500)], "context": {"k": 0}}


@pytest.fixture
def document(session):
    session.save(STATE)
    return session.document()


def test_a_default_is_copied_and_saved_with_the_first_save(session):
    default: list[Any] = [[]]
    document = session.document(default=default)
    default[0].append(1)
    document.append(2)
    document.save()

    assert isinstance(document, list)
    assert session.load() == [[], 2]
    assert session.document(default={"not": "used"}) == [[], 2]


@pytest.mark.parametrize("value", ["text", 5, None, (1, 2), {1}, b"bytes"])
def test_only_dicts_and_lists_can_be_documents(session, value):
    session.save(value)
    with pytest.raises(InvalidInputError) as caught:
        session.document()
    assert "save()" in caught.value.hint
    with pytest.raises(InvalidInputError):
        session.document("tag:none", default=value)


def test_a_document_made_from_a_head_that_has_moved_is_a_conflict_and_keeps_its_changes(
    document, session, store
):
    store.session("s").save({"by": "another"})
    document["messages"].append("mine")
    for _ in range(2):
        with pytest.raises(ConflictError):
            document.save()
    assert document.changes() == [Change("add", ("messages", 500))]
    document["context"]["k"] = 2
    checkpoint = document.save(on_conflict="fork")

    assert checkpoint.branch == "main-1"
    assert document.changes() == []
    assert store.session("s", branch="main-1").load() == document
    document["context"]["k"] = 3
    assert document.save().branch == "main-1"
    assert store.session("s").load() == {"by": "another"}


def test_a_document_and_its_session_share_one_expectation(document, session, store):
    document["x"] = 1
    first = document.save()
    second = session.save({"n": 2})
    assert second.prev == first.id
    document["x"] = 2
    third = document.save()
    assert third.prev == second.id
    store.session(session.id).save({"n": 3})
    for save in (document.save, lambda: session.save({"n": 4})):
        document["x"] = 3
        with pytest.raises(ConflictError):
            save()


def test_expect_and_parent_and_key_are_those_of_a_save(document, session):
    head = session.checkpoint()
    document["n"] = 1
    with pytest.raises(ConflictError):
        document.save(expect=None)
    first = document.save(expect=head, key="k")
    assert document.save(key="k").id == first.id
    document["n"] = 2
    with pytest.raises(ConflictError):
        document.save(key="k")
    beside = document.save(parent=head)
    assert (beside.branch, beside.parents) == ("main-1", (head.id,))
    with pytest.raises(InvalidInputError):
        document.save(status="nonsense")
    with pytest.raises(InvalidInputError):
        document.save(on_conflict="nonsense")


@pytest.mark.parametrize("reply_lost", [False, True])
def test_a_save_that_fails_loses_nothing(backend, clock, reply_lost):
    faulty = FaultyBackend(backend)
    store = holdfast.Store(faulty, clock=clock)
    store.session("s").save(STATE)
    document = store.session("s").document()
    document["messages"].insert(0, {"n": -1})
    failure: dict[str, Any] = {"after" if reply_lost else "before": failing(io_failed())}
    faulty.plan(Fault("commit", **failure), Fault("reader", nth=2, before=failing(io_failed())))
    with pytest.raises(BackendError):
        document.save()
    assert document.changes() == [Change("add", ("messages", 0))]
    faulty.plan()
    document["messages"].append({"n": 501})

    document.save()
    # Whether the first one was stored was not known; the next one looks, and goes on from there.
    assert len(store.session("s").log()) == (3 if reply_lost else 2)
    assert identical(store.session("s").load(document.save()), document.plain())


@dataclass
class Plan:
    steps: list[str] = field(default_factory=list)


def test_objects_in_a_document_are_saved_when_they_change(backend, clock):
    store = holdfast.Store(backend, types=[Plan], clock=clock)
    document = store.session("s").document(default={"plan": Plan(), "log": ["x" * 50] * 1000})
    document.save()
    document["plan"].steps.append("one")
    document.save(check=True)

    assert store.session("s").load()["plan"] == Plan(["one"])
    assert store.session("s").document()["plan"].steps == ["one"]


def test_what_is_changed_while_a_save_is_under_way_is_kept_for_the_next(tmp_path):
    async def main() -> None:
        async with holdfast.aopen(tmp_path / "a.db", durability="process") as store:
            session = store.session("x")
            document = await session.document(default={"a": 0, "bulk": list(range(5_000)), "b": 0})
            running = True

            async def change() -> None:
                while running:
                    document["a"] += 1
                    document["bulk"].append(document["a"])
                    document["b"] += 1
                    await asyncio.sleep(0)

            changing = asyncio.create_task(change())
            saved = []
            for _ in range(60):
                expected = (document["a"], len(document["bulk"]))
                saved.append((await document.save(), expected))
            running = False
            await changing
            for checkpoint, (a, length) in saved:
                loaded = await session.load(checkpoint)
                assert (loaded["a"], loaded["b"], len(loaded["bulk"])) == (a, a, length)
            await document.save(check=True)
            assert await session.load() == document

    asyncio.run(main())


def test_an_async_save_that_fails_or_is_cancelled_loses_nothing(backend, clock):
    faulty = FaultyBackend(backend)

    async def main() -> None:
        store = holdfast.AsyncStore(faulty, clock=clock)
        session = store.session("s")
        document = await session.document(default=STATE)
        await document.save()
        faulty.plan(Fault("commit", before=failing(io_failed())))
        document["messages"].append("first")
        failed = asyncio.create_task(document.save())
        await asyncio.sleep(0)
        document["messages"].append("second")
        with pytest.raises(BackendError):
            await failed
        assert document.changes() == [Change("add", ("messages", 500), 2)]
        await document.save()
        for number in range(10):
            document["messages"].insert(number, number)
            task = asyncio.create_task(document.save())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await document.save(on_conflict="fork", check=True)
        assert document.changes() == []
        newest = max(await store.find(), key=lambda checkpoint: checkpoint.seq)
        assert identical(await session.load(newest), document.plain())

    asyncio.run(main())
