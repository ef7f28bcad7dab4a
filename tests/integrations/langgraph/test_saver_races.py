"""What HoldfastSaver does when something comes in between: a failure, another process, another task, a change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.integrations.langgraph.saver_data import FLOW, Counting, branches, checkpoint, config, id_of, put

from holdfast import ConflictError, ErrorCode, Store
from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.integrations.langgraph.reader import COUNTERS


def test_a_put_that_failed_does_not_change_what_the_next_one_follows():
    with HoldfastSaver("memory:") as saver:
        root = put(saver)
        left, right = put(saver, root, values={"a": "left"}), put(saver, root, values={"a": "right"})
        left = put(saver, left, values={"a": "left again"})
        with pytest.raises(ConflictError):
            # Its id is taken, and its parent is the head of the other branch.
            saver.put(right, checkpoint({"a": "other"}, id=id_of(root)), FLOW, {})
        last = put(saver, left, values={"a": "left at last"})
        heads = {each.head.key.rpartition(" ")[2]: each.name for each in branches(saver)}
        assert heads.keys() == {id_of(last), id_of(right)}
        log = saver.store.session("t", branch=heads[id_of(last)]).log()
        assert [saver.store.session("t").load(each)["channel_values"].get("a") for each in log] == [
            "left at last",
            "left again",
            "left",
            None,
        ]


class _Between(Counting):
    """A backend to which something happens right before it is read for the n-th time."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 0
        self.happens: Callable[[], None] | None = None

    def __getattr__(self, name: str) -> Any:
        if name == "reader" and self.happens is not None:
            self.left -= 1
            if not self.left:
                happens, self.happens = self.happens, None
                happens()
        return super().__getattr__(name)


@pytest.mark.parametrize("turn", [1, 2, 3])
def test_the_latest_is_found_while_another_process_replaces_it(turn):
    backend = _Between()
    saver = HoldfastSaver(Store(backend))
    other = HoldfastSaver(saver.store)
    first = put(saver, values={"a": 1})

    def replace() -> None:
        put(other, first, values={"a": 2})
        other.prune(["t"])
        other.store.gc()

    backend.left, backend.happens = turn, replace
    found: Any = saver.get_tuple(config())
    assert found.checkpoint["channel_values"]["a"] in (1, 2)
    assert saver.get_tuple(first) is None or turn == 3


@pytest.mark.parametrize("turn", range(1, 9))
def test_the_history_of_a_delta_channel_is_whole_while_another_process_prunes(turn):
    backend = _Between()
    saver = HoldfastSaver(Store(backend))
    other = HoldfastSaver(saver.store)
    counting: Any = {**FLOW, COUNTERS: {"d": [1, 1]}}
    first = put(saver, values={"d": [0]})
    saver.put_writes(first, [("d", 1)], "task")
    second = put(saver, first, values={"a": 1}, metadata=counting)
    saver.put_writes(second, [("d", 2)], "task")
    third = put(saver, second, values={"a": 2}, metadata=counting)

    def replace() -> None:
        whole = put(other, third, values={"d": [0, 1, 2]})
        put(other, whole, values={"a": 3}, metadata=counting)
        other.prune(["t"])
        other.store.gc()

    backend.left, backend.happens = turn, replace
    found = saver.get_delta_channel_history(config=config(), channels=["d"])["d"]
    assert (found.get("seed"), [value for _, _, value in found["writes"]]) in [
        ([0], [1, 2]),
        ([0, 1, 2], []),
    ]


@pytest.mark.parametrize("turn", range(1, 9))
def test_the_first_writes_of_two_savers_are_both_kept(turn):
    backend = _Between()
    saver = HoldfastSaver(Store(backend))
    other = HoldfastSaver(saver.store)
    made = put(saver, values={"a": 1})
    backend.left, backend.happens = turn, lambda: other.put_writes(made, [("a", "other")], "other")
    saver.put_writes(made, [("a", "mine")], "mine")
    backend.happens = None
    found: Any = saver.get_tuple(made)
    kept = {task for task, _, _ in found.pending_writes}
    assert "mine" in kept
    assert len(kept) == len(saver.store.session("t", branch="writes").log())


def _interrupted_put(tmp_path: Any, change: bool) -> Any:
    async def script() -> Any:
        with HoldfastSaver(tmp_path / "store.db") as saver, HoldfastSaver(tmp_path / "store.db") as other:
            log = [f"message {n} {'x' * 200}" for n in range(500)]
            at = saver.put(config(), checkpoint({"log": log}), FLOW, {})
            other.delete_thread("t")
            other.store.gc()
            log.append("before")
            task = asyncio.ensure_future(saver.aput(at, checkpoint({"log": log}, id="2"), FLOW, {}))
            await asyncio.sleep(0)
            if change:
                log.append("after")
            try:
                await task
            except ConflictError as conflict:
                return conflict, list(saver.list(config()))
            return None, [each.checkpoint["channel_values"]["log"][-1] for each in saver.list(config())]

    return asyncio.run(script())


def test_a_state_that_changed_meanwhile_and_has_to_be_sent_again_is_not_saved(tmp_path):
    conflict, found = _interrupted_put(tmp_path, change=True)
    assert conflict.code is ErrorCode.CHUNKS_GONE
    assert "put it again" in conflict.hint
    assert found == []
