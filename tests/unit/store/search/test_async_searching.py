"""Searching from an event loop: the same answers, awaited; predicates of both kinds."""

from __future__ import annotations

import asyncio
import threading

import pytest

import holdfast


def test_all_of_it_can_be_awaited(tmp_path):
    async def work():
        async with holdfast.aopen(tmp_path / "store") as store:
            session = store.session("s")
            for n in range(12):
                await session.save({"n": n, "t": f"needle {n // 4}"})
            report = await session.bisect("n >= 5")
            blamed = await session.blame("t")
            changes = [change.checkpoint.seq async for change in session.history_of("t", oldest_first=True)]
            matches = [match.checkpoint.seq async for match in session.grep("needle 1", limit=2)]
            return report.found.seq, blamed.checkpoint.seq, changes, matches

    assert asyncio.run(work()) == (6, 9, [1, 5, 9], [5])


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


def test_errors_come_out_as_they_are(tmp_path):
    async def work(look):
        async with holdfast.aopen(tmp_path / "store") as store:
            session = store.session("s")
            await session.save({"n": 1})
            return await look(session)

    async def each(session):
        return [match async for match in session.grep("")]

    with pytest.raises(holdfast.InvalidInputError):
        asyncio.run(work(each))
    with pytest.raises(holdfast.NotFoundError):
        asyncio.run(work(lambda session: session.blame("m")))
