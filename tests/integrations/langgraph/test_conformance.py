"""LangGraph's own conformance suite: every check, extended capabilities included, on both backends.

The suite calls the async methods only. The same checks run on the sync ones through a saver whose async methods call
those, so that neither half is left to the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability

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


@pytest.mark.parametrize("kind", [HoldfastSaver, SyncSaver], ids=["async", "sync"])
def test_all_81_checks_pass_on_sqlite(tmp_path, kind):
    assert report(lambda: kind(tmp_path / "store.db")) == ALL_PASS


@pytest.mark.parametrize("kind", [HoldfastSaver, SyncSaver], ids=["async", "sync"])
def test_all_81_checks_pass_on_postgresql(postgres_place, kind):
    assert report(lambda: kind(postgres_place)) == ALL_PASS


@pytest.mark.parametrize("kind", [HoldfastSaver, SyncSaver], ids=["async", "sync"])
def test_all_81_checks_pass_in_memory(kind):
    assert report(lambda: kind("memory:")) == ALL_PASS
