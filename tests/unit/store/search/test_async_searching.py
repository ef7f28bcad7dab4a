"""Searching from an event loop: the same answers, awaited; predicates of both kinds."""

from __future__ import annotations

import asyncio
import threading

import holdfast


def test_a_plain_predicate_runs_in_a_worker_and_an_async_one_in_the_loop(tmp_path):
    threads = []

    def plain(state):
        threads.append(threading.current_thread() is threading.main_thread())
        return state["n"] >= 3

    async def awaited(state):
        threads.append(threading.current_thread() is threading.main_thread())
        await asyncio.sleep(0)
        return state["n"] >= 3

    async def work(predicate):
        async with holdfast.aopen(tmp_path / "store") as store:
            session = store.session(predicate.__name__)
            for n in range(6):
                await session.save({"n": n})
            return (await session.bisect(predicate)).found.seq

    for predicate, in_loop in ((plain, False), (awaited, True)):
        threads.clear()
        assert asyncio.run(work(predicate)) == 4
        assert set(threads) == {in_loop}
