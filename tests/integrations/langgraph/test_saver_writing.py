"""How HoldfastSaver writes: lines and branches, one commit for a put, threads and tasks at once."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest
from tests.integrations.langgraph.saver_data import (
    FLOW,
    branches,
    checkpoint,
    config,
    id_of,
    put,
)

from holdfast.integrations.langgraph import HoldfastSaver


@pytest.fixture
def saver():
    with HoldfastSaver("memory:") as saver:
        yield saver


def test_a_put_once_more_changes_nothing_and_its_child_follows_it(saver):
    first = put(saver, values={"a": 1})
    same = checkpoint({"a": 2})
    second = saver.put(first, same, FLOW, {})
    assert saver.put(first, same, FLOW, {}) == second
    third = put(saver, second, values={"a": 3})
    log = saver.store.session("t").log()
    assert [each.key.rpartition(" ")[2] for each in log] == [id_of(third), id_of(second), id_of(first)]


def test_two_children_of_one_checkpoint_are_on_two_branches_and_each_is_continued(tmp_path):
    with HoldfastSaver(tmp_path / "store.db") as saver:
        root = put(saver)
        left, right = put(saver, root, values={"a": "left"}), put(saver, root, values={"a": "right"})
        left = put(saver, left, values={"a": "left again"})
    with HoldfastSaver(tmp_path / "store.db") as saver:
        right = put(saver, right, values={"a": "right again"})
        left = put(saver, left, values={"a": "left still"})
        heads = {
            each.name: saver.store.session("t").load(each.head)["channel_values"]["a"]
            for each in branches(saver)
        }
        assert heads == {"main": "left still", "main-1": "right again"}
        # From the middle: a third one.
        put(saver, root, values={"a": "third"})
        assert {each.name for each in branches(saver)} == {"main", "main-1", "main-2"}


def test_threads_that_put_at_once_lose_nothing(tmp_path):
    with HoldfastSaver.open(tmp_path / "store.db", durability="process") as saver:
        root = put(saver)
        failed = []

        def work(name):
            try:
                at = root
                for n in range(20):
                    at = put(saver, at, values={"by": name, "n": n})
                    saver.put_writes(at, [("by", name)], f"{name} {n}")
            except BaseException as error:
                failed.append(error)

        workers = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for each in workers:
            each.start()
        for each in workers:
            each.join()
        assert failed == []
        found = list(saver.list(config()))
        assert len(found) == 81
        assert all(len(each.pending_writes or ()) == (each.parent_config is not None) for each in found)
        chains = Counter(each.checkpoint["channel_values"].get("by") for each in found)
        assert chains == {"a": 20, "b": 20, "c": 20, "d": 20, None: 1}
        assert len(branches(saver)) == 4
        assert saver.store.verify().ok


def test_what_is_put_is_the_state_at_the_call():
    async def script() -> Any:
        async with HoldfastSaver("memory:") as saver:
            values = {"log": ["before"]}
            task = asyncio.ensure_future(saver.aput(config(), checkpoint(values), FLOW, {}))
            writes = asyncio.ensure_future(
                saver.aput_writes(config(checkpoint="x"), [("log", values["log"])], "task")
            )
            await asyncio.sleep(0)
            values["log"].append("after")
            made = await task
            await writes
            await saver.aput(made, checkpoint({}, id="x"), FLOW, {})
            return [each async for each in saver.alist(config())]

    late, early = asyncio.run(script())
    assert early.checkpoint["channel_values"] == {"log": ["before"]}
    assert late.pending_writes == [("task", "log", ["before"])]
