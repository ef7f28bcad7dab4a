"""AsyncStore: the same answers, and a state that becomes bytes before the first await."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast
from holdfast import ConflictError


def test_awaiting_aopen_gives_a_store_to_close(tmp_path):
    async def main():
        store = await holdfast.aopen(tmp_path / "a.db")
        try:
            return await store.session().save({"n": 1})
        finally:
            await store.close()

    assert asyncio.run(main()).seq == 1


def test_no_save_is_torn_by_a_task_that_changes_the_state(tmp_path):
    """Both halves of the state always change together; a save that encoded late would see them apart."""

    async def main():
        async with holdfast.aopen(tmp_path / "a.db", durability="process") as store:
            state: dict[str, Any] = {"a": 0, "bulk": list(range(5_000)), "b": 0}
            running = True

            async def mutate():
                while running:
                    state["a"] += 1
                    state["bulk"].append(state["a"])
                    state["b"] += 1
                    await asyncio.sleep(0)

            mutator = asyncio.create_task(mutate())
            s = store.session("x")
            saved = []
            for _ in range(100):
                expected = (state["a"], len(state["bulk"]))
                saved.append((await s.save(state), expected))
            running = False
            await mutator
            assert state["a"] > 100
            for cp, (a, length) in saved:
                loaded = await s.load(cp)
                assert loaded["a"] == loaded["b"] == a
                assert len(loaded["bulk"]) == length

    asyncio.run(main())


def test_a_cancelled_save_is_whole_or_absent(tmp_path):
    async def main():
        async with holdfast.aopen(tmp_path / "a.db") as store:
            s = store.session("x")
            for n in range(20):
                task = asyncio.create_task(s.save({"n": n, "bulk": "x" * 10_000}))
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            kept = await store.session("x").log()
            for cp in kept:
                assert (await s.load(cp))["bulk"] == "x" * 10_000

    asyncio.run(main())


@pytest.mark.parametrize("before", [0, 1])
def test_saves_under_way_at_once_are_written_in_the_order_of_their_calls(tmp_path, before):
    async def main():
        async with holdfast.aopen(tmp_path / "a.db", durability="process") as store:
            s = store.session("x")
            for _ in range(before):
                await s.save({"n": 0}, step=0)
            await asyncio.gather(*(asyncio.create_task(s.save({"n": n}, step=n)) for n in range(1, 20)))
            return [cp.step for cp in await s.log()][: -before or None]

    assert asyncio.run(main()) == list(range(19, 0, -1))


def test_a_save_after_gc_says_that_it_has_to_be_made_again(tmp_path):
    # The state may have changed since the call that encoded it, so the save cannot send all of it by itself.
    async def main():
        async with holdfast.aopen(tmp_path / "store.db", durability="process") as store:
            s = store.session("s")
            await s.save({"m": []})
            await s.delete(await s.save({"m": ["x" * 100] * 2000}))
            await store.gc(keep_days=0)
            with pytest.raises(ConflictError) as caught:
                await s.save({"m": ["x" * 100] * 2001})
            assert caught.value.code is holdfast.ErrorCode.CHUNKS_GONE
            await s.save({"m": ["x" * 100] * 2001})

    asyncio.run(main())
