"""`store.load_each`: many states in order, a page and a view at a time, each chunk read once."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.unit.store.damage import chunk_of, spoil

import holdfast
from holdfast import ErrorCode, IntegrityError, InvalidInputError, NotFoundError
from holdfast.backends.postgres import PostgresBackend
from holdfast.backends.sqlite import SqliteBackend
from holdfast.objects.tree import nodes
from holdfast.testing.faults import Fault, FaultyBackend


def saved(store: Any, count: int, name: str = "s", *, shared: int = 0) -> tuple[list[Any], list[Any]]:
    """So many checkpoints, oldest first, with their states; `shared` items are the same in all of them."""
    session = store.session(name)
    common = [{"text": f"message {n} " * 10} for n in range(shared)]
    states = [{"n": n, "common": common} for n in range(count)]
    return [session.save(state, key=f"{name} {n}") for n, state in enumerate(states)], states


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 100])
def test_states_come_in_the_order_of_the_checkpoints(store, count):
    checkpoints, states = saved(store, count)
    assert list(store.load_each(checkpoints)) == states
    assert list(store.load_each(reversed(checkpoints))) == states[::-1]
    assert list(store.load_each(iter(checkpoints[:1] * 3))) == states[:1] * 3


def test_chunks_that_states_share_are_read_once(store):
    """Forty states of the same few hundred chunks: little more is read than for one."""
    read: list[int] = []

    def count(found: Any) -> Any:
        read.append(len(found))
        return found

    counting = FaultyBackend(store._backend, [Fault("chunks", nth=None, after=count)])
    checkpoints, states = saved(store, 40, shared=4000)
    watched = holdfast.Store(counting)
    assert list(watched.load_each(checkpoints[:1])) == states[:1]
    of_one = sum(read)
    assert of_one > 10
    read.clear()
    assert list(watched.load_each(checkpoints)) == states
    assert sum(read) < of_one + 40 * 4


@pytest.mark.parametrize("which", ["root", "run"])
def test_one_bad_read_is_the_matter_of_one_state(store, which):
    checkpoints, states = saved(store, 5, shared=2000)
    spoiled: list[Any] = []

    def spoil_once(found: Any) -> Any:
        found = dict(found)
        for name, data in found.items():
            if not spoiled and data[0] == (nodes.TREE if which == "root" else nodes.LEAF):
                spoiled.append(name)
                # The root is read with those of the page, and once more for itself.
                found[name] = data[:-1] + bytes((data[-1] ^ 1,))
        return found

    faulty = FaultyBackend(store._backend, [Fault("chunks", nth=None, after=spoil_once)])
    each = holdfast.Store(faulty).load_each(checkpoints)
    if which == "run":
        with pytest.raises(IntegrityError):
            next(each)
        states = states[1:]
    assert list(each) == states
    assert len(spoiled) == 1


@pytest.fixture(params=["sqlite", "postgres"])
def durable(request, tmp_path):
    """A store that can be damaged, and where it is."""
    place: Any
    if request.param == "postgres":
        place = request.getfixturevalue("postgres_store")
        store = holdfast.Store(PostgresBackend.open(place, durability="process", create=True, timeout=5.0))
    else:
        place = tmp_path / "store.db"
        store = holdfast.Store(SqliteBackend.open(place, durability="process", create=True, timeout=5.0))
    yield store, place
    store.close()


@pytest.mark.parametrize("how", ["stamped", "gone"])
def test_damage_is_raised_when_its_turn_comes_and_the_next_call_goes_on(durable, how):
    store, place = durable
    checkpoints, states = saved(store, 6)
    number = chunk_of(place, checkpoints[2].id)
    if how == "gone":
        spoil(place, "DELETE FROM chunks WHERE number = ?", number)
    else:
        spoil(place, "UPDATE chunks SET data = zeroblob(20) WHERE number = ?", number)
    each = holdfast.Store(store._backend).load_each(checkpoints)
    assert [next(each), next(each)] == states[:2]
    with pytest.raises(IntegrityError):
        next(each)
    assert list(each) == states[3:]


def test_a_removed_checkpoint_is_loaded_until_it_is_gone_for_good(store):
    checkpoints, states = saved(store, 3)
    store.session("s").delete(checkpoints[1])
    assert list(store.load_each(checkpoints)) == states
    store.gc(keep_days=0)
    each = store.load_each(checkpoints)
    assert next(each) == states[0]
    with pytest.raises(NotFoundError) as caught:
        next(each)
    assert caught.value.code is ErrorCode.CHECKPOINT_MISSING
    assert caught.value.details["checkpoint"] == checkpoints[1].id
    assert next(each) == states[2]
    assert next(each, "the end") == "the end"


def test_the_async_twin_passes_over_nothing_when_a_page_is_cancelled(store):
    checkpoints, states = saved(store, 3)

    async def main() -> None:
        each = holdfast.AsyncStore(store._backend).load_each(checkpoints)
        task = asyncio.ensure_future(anext(each))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [state async for state in each] == states

    asyncio.run(main())


@pytest.mark.parametrize("given", [5, None, "abc"])
def test_something_else_than_checkpoints_is_refused_at_once(store, given):
    with pytest.raises(InvalidInputError) as caught:
        store.load_each(given)
    assert "s.log()" in caught.value.hint
    with pytest.raises(InvalidInputError):
        store.load_each(store.session("s").save({}))


def test_threads_that_share_one_get_each_state_once(store):
    checkpoints, states = saved(store, 150)
    each = store.load_each(checkpoints)
    taken: list[int] = []

    def take():
        taken.extend(state["n"] for state in each)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [state["n"] for state in states]
