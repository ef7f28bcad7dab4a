"""LangGraph's own conformance suite: every check, extended capabilities included, on every backend.

The suite calls the async methods only. The same checks run on the sync ones through a saver whose async methods call
those, so that neither half is left to the other. What LangGraph's repository has added to the suite since its last
release, the capabilities of delta channels, is checked below in our own words.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from tests.integrations.langgraph.saver_data import checkpoint

from holdfast.integrations.langgraph import HoldfastSaver

CHECKS = {
    "put": 17,
    "put_writes": 10,
    "get_tuple": 10,
    "list": 16,
    "delete_thread": 5,
    "delete_for_runs": 7,
    "copy_thread": 8,
    "prune": 8,
}


class SyncSaver(HoldfastSaver):
    """Its async methods are the sync ones."""

    async def aput(self, *args, **options):
        return self.put(*args, **options)

    async def aput_writes(self, *args, **options):
        return self.put_writes(*args, **options)

    async def aget_tuple(self, config):
        return self.get_tuple(config)

    async def alist(self, config, **options):
        for each in self.list(config, **options):
            yield each

    async def adelete_thread(self, thread_id):
        self.delete_thread(thread_id)

    async def adelete_for_runs(self, run_ids):
        self.delete_for_runs(run_ids)

    async def acopy_thread(self, source_thread_id, target_thread_id):
        self.copy_thread(source_thread_id, target_thread_id)

    async def aprune(self, thread_ids, *, strategy="keep_latest"):
        self.prune(thread_ids, strategy=strategy)

    async def aget_delta_channel_history(self, **options):
        return self.get_delta_channel_history(**options)

    async def aget_delta_channel_keepset(self, **options):
        return self.get_delta_channel_keepset(**options)


def report(open_saver: Callable[[], HoldfastSaver]) -> dict[str, tuple[int, list[str]]]:
    """How many checks of each capability passed, and which did not."""

    @checkpointer_test(name="HoldfastSaver")
    async def fresh() -> AsyncIterator[HoldfastSaver]:
        with open_saver() as saver:
            yield saver

    found = asyncio.run(validate(fresh))
    return {name: (result.tests_passed, result.failures) for name, result in found.results.items()}


ALL_PASS: dict[str, tuple[int, list[str]]] = {name: (count, []) for name, count in CHECKS.items()}


def test_the_suite_has_the_81_checks_that_are_counted_here():
    assert sum(CHECKS.values()) == 81
    assert {each.value for each in Capability} == set(CHECKS)


@pytest.fixture(params=["sqlite", "postgresql", "memory"])
def place(request, tmp_path):
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_place")
    return tmp_path / "store.db" if request.param == "sqlite" else "memory:"


both_halves = pytest.mark.parametrize("kind", [HoldfastSaver, SyncSaver], ids=["async", "sync"])


@both_halves
def test_all_81_checks_pass(place, kind):
    assert report(lambda: kind(place)) == ALL_PASS


class Chain:
    """Checkpoints 0, 1, 2 ... of one thread, each the child of the one before, with a write of its number on it."""

    def __init__(self, saver: HoldfastSaver, stored: list[dict[str, Any]]) -> None:
        self.saver = saver
        self.stored = stored
        self.configs: list[Any] = []

    async def put(self) -> Chain:
        at: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        for step, values in enumerate(self.stored):
            versions: Any = dict.fromkeys(values, step + 1)
            new: Any = checkpoint(dict(values), id=f"{step}", channel_versions=versions)
            at = await self.saver.aput(at, new, {"source": "loop", "step": step, "parents": {}}, versions)
            self.configs.append(at)
            await self.saver.aput_writes(at, [("a", [step]), ("b", [step])], f"task {step}")
        return self

    async def history(self, at: int, *channels: str) -> Any:
        return await self.saver.aget_delta_channel_history(config=self.configs[at], channels=channels)

    async def keepset(self, at: int, *channels: str) -> set[str]:
        return await self.saver.aget_delta_channel_keepset(config=self.configs[at], channels=channels)

    async def rebuilt(self, at: int, channel: str) -> list[int]:
        """What a DeltaChannel that joins lists makes of the history."""
        found = (await self.history(at, channel))[channel]
        seed = found.get("seed", [])
        value = list(seed.value if isinstance(seed, _DeltaSnapshot) else seed)
        return value + [each for _, _, written in found["writes"] for each in written]


def on_chain(place: Any, kind: Any, stored: list[dict[str, Any]], check: Callable[[Chain], Any]) -> Any:
    async def script() -> Any:
        async with kind(place) as saver:
            return await check(await Chain(saver, stored).put())

    return asyncio.run(script())


SNAPSHOT = _DeltaSnapshot(["s"])


@both_halves
@pytest.mark.parametrize(
    ("stored", "history"),
    [
        # From the nearest stored value on, oldest first; its own writes count, those of the target do not.
        ([{"a": SNAPSHOT}, {}, {}, {}], (SNAPSHOT, [0, 1, 2])),
        ([{"a": SNAPSHOT}, {}, {"a": SNAPSHOT}, {}, {}], (SNAPSHOT, [2, 3])),
        # A plain value of a channel that was none of deltas before is a beginning like any other.
        ([{}, {"a": [10]}, {}, {}], ([10], [1, 2])),
        # With none on the way, there is no seed.
        ([{}, {}, {}], (None, [0, 1])),
        ([{}], (None, [])),
    ],
    ids=["first", "nearest", "plain", "none", "root"],
)
def test_the_history_of_a_delta_channel(place, kind, stored, history):
    async def check(chain: Chain) -> None:
        assert await chain.history(-1) == {}
        both = await chain.history(-1, "a", "b")
        found = both["a"]
        assert (found.get("seed"), [value[0] for _, _, value in found["writes"]]) == history
        assert ("seed" in found) == (history[0] is not None)
        # The other channel ends where it was stored itself: nowhere.
        assert [value[0] for _, _, value in both["b"]["writes"]] == list(range(len(stored) - 1))
        seed = [] if history[0] is None else history[0].value if history[0] is SNAPSHOT else history[0]
        assert await chain.rebuilt(-1, "a") == [*seed, *history[1]]

    on_chain(place, kind, stored, check)


@both_halves
def test_the_checkpoints_that_a_delta_channel_needs(place, kind):
    async def check(chain: Chain) -> None:
        assert await chain.keepset(5) == {"5"}
        assert await chain.keepset(5, "a") == {"3", "4", "5"}
        assert await chain.keepset(5, "b") == {"1", "2", "3", "4", "5"}
        assert (
            await chain.keepset(5, "a", "b") == await chain.keepset(5, "b", "a") == {"1", "2", "3", "4", "5"}
        )
        # One that has the value needs nothing else; where none has, all do.
        assert await chain.keepset(3, "a") == {"3"}
        assert await chain.keepset(2, "a") == {"0", "1", "2"}
        assert await chain.keepset(2, "c") == {"0", "1", "2"}
        nowhere: Any = {"configurable": {"thread_id": "none", "checkpoint_ns": ""}}
        assert await chain.saver.aget_delta_channel_keepset(config=nowhere, channels=["a"]) == set()

    stored: list[dict[str, Any]] = [{}, {"b": SNAPSHOT}, {}, {"a": SNAPSHOT}, {}, {}]
    on_chain(place, kind, stored, check)
