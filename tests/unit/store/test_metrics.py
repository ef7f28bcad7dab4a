"""Metrics: every save, load, conflict and removal counts, once, on every kind of store."""

from __future__ import annotations

import asyncio
import builtins
import sys
import threading
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import holdfast
from holdfast import BackendError, ConflictError, Keep, UnsupportedError
from holdfast.errors import ErrorCode
from holdfast.store.metrics import Metrics


def test_saves_are_counted_with_their_sizes_times_triggers_and_status(store, session):
    saved = [
        session.save({"n": 1}),
        session.save({"n": 2, "text": "x" * 5000}, trigger="auto:step"),
        session.save({"n": 3}, trigger="auto:tool.completed", status="paused"),
    ]
    figures = store.metrics()
    assert figures.checkpoint_save_count == 3
    assert figures.checkpoint_save_count_by == {
        ("manual", "running"): 1,
        ("auto", "running"): 1,
        ("auto", "paused"): 1,
    }
    assert figures.checkpoint_save_size_bytes.sum == sum(each.size_bytes for each in saved)
    assert figures.checkpoint_save_size_bytes.count == 3
    assert figures.checkpoint_save_stored_bytes == sum(each.stored_bytes for each in saved)
    assert figures.checkpoint_save_latency_ms.count == 3
    assert figures.checkpoint_save_latency_ms.sum > 0
    assert figures.checkpoint_save_failed_count == figures.checkpoint_conflict_count == 0


def test_documents_async_sessions_and_encoded_states_count_alike(backend):
    async def main():
        store = holdfast.AsyncStore(backend)
        session = store.session("s")
        await session.save({"n": 1})
        await session.save(session.encode({"n": 2}))
        document = await session.document()
        document["n"] = 3
        await document.save()
        assert await session.load() == {"n": 3}
        return store.metrics()

    figures = asyncio.run(main())
    assert figures.checkpoint_save_count == figures.checkpoint_save_latency_ms.count == 3
    assert figures.checkpoint_load_count == 2

    store = holdfast.Store(backend)
    session = store.session("s")
    document = session.document()
    document["n"] = 4
    document.save()
    session.save(session.encode({"n": 5}), on_conflict="fork")
    assert store.metrics().checkpoint_save_count == 2


def test_loads_are_counted_whatever_way_a_state_is_read(store, session):
    session.save({"n": [1, 2, 3]})
    session.load()
    session.load(path="n[0]")
    session.document()
    session.recover()
    assert session.load("nowhere", default=None) is None
    with pytest.raises(holdfast.NotFoundError):
        session.load("#9")
    session.checkpoint()
    session.log()
    figures = store.metrics()
    assert figures.checkpoint_load_count == figures.checkpoint_load_latency_ms.count == 4


def test_a_key_that_is_there_already_is_no_second_save(store, session):
    session.save({"n": 0}, key="k")
    session.save({"n": 0}, key="k")
    assert store.metrics().checkpoint_save_count == 1
    with pytest.raises(ConflictError):
        session.save({"n": 1}, key="k")
    assert store.metrics().checkpoint_save_failed_count_by == {"key-taken": 1}
    # Nobody had moved the branch.
    assert store.metrics().checkpoint_conflict_count == 0


def test_a_store_that_cannot_write_is_counted_by_the_code(store, session, monkeypatch):
    def commit(batch):
        raise BackendError("no room", code=ErrorCode.DISK_FULL, hint="make some")

    session.save({"n": 0})
    monkeypatch.setattr(store._backend, "commit", commit)
    for _ in range(2):
        with pytest.raises(BackendError):
            session.save({"n": 1})
    figures = store.metrics()
    assert figures.checkpoint_save_failed_count == 2
    assert figures.checkpoint_save_failed_count_by == {"disk-full": 2}
    assert (figures.checkpoint_save_count, figures.checkpoint_conflict_count) == (1, 0)


def test_removals_are_counted_by_what_removed_them(store, session):
    saved = [session.save({"n": n}) for n in range(10)]
    session.delete(saved[0])
    session.prune(Keep(last=6), dry_run=True, only=True)
    session.prune(Keep(last=6), only=True)
    assert store.metrics().checkpoint_pruned_count_by == {"delete": 1, "prune": 3}
    store.session("s", keep=Keep(last=4)).save({"n": 10})
    assert store.metrics().checkpoint_pruned_count_by == {"delete": 1, "prune": 3, "retention": 3}
    store.forget("s", saved[-1], dry_run=True)
    store.forget("s", saved[-1], clean=False)
    session.clear()
    figures = store.metrics()
    assert figures.checkpoint_pruned_count_by == {
        "delete": 1,
        "prune": 3,
        "retention": 3,
        "forget": 1,
        "clear": 3,
    }
    assert figures.checkpoint_pruned_count == 11


def test_eight_threads_lose_no_increment():
    metrics, each = Metrics(), 5000
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def count():
        for n in range(each):
            metrics.saved("auto:step", "running", n, 1, n * 1000, forked=n % 2 == 0)
            metrics.loaded(n)
            metrics.save_failed("disk-full", conflict=True)
            metrics.removed("s", "prune", ["a", "b"])
            metrics.resumed(3)

    threads = [threading.Thread(target=count) for _ in range(8)]
    try:
        for thread in threads:
            thread.start()
        looks = [metrics.snapshot() for _ in range(20)]
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    figures, total = metrics.snapshot(), 8 * each
    assert figures.checkpoint_save_count == figures.checkpoint_save_size_bytes.count == total
    assert figures.checkpoint_save_size_bytes.sum == 8 * sum(range(each))
    assert figures.checkpoint_save_latency_ms.sum == 8 * sum(range(each)) / 1000
    assert figures.checkpoint_save_stored_bytes == total
    assert figures.checkpoint_conflict_count == total + total // 2
    assert figures.checkpoint_load_count == total
    assert figures.checkpoint_save_failed_count == total
    assert figures.checkpoint_pruned_count == 2 * total
    assert (figures.checkpoint_resume_count, figures.steps_recovered) == (total, 3 * total)
    for look in looks:
        assert look.checkpoint_save_count == look.checkpoint_save_latency_ms.count


def busy_store():
    store = holdfast.open("memory:")
    session = store.session("s", keep=Keep(last=3))
    for n in range(8):
        session.save({"n": n, "text": "x" * 3**n}, trigger="auto:step" if n % 2 else "manual")
        session.load()
    store._parts.metrics.resumed(7)
    other = store.session("s")
    other.load()
    session.save({})
    with pytest.raises(ConflictError):
        other.save({"n": 1})
    return store


def parsed(text) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_prometheus_reads_the_same_numbers():
    with busy_store() as store:
        figures = store.metrics()
        text = figures.prometheus()
        registry = CollectorRegistry()
        registry.register(store.collector())
        assert generate_latest(registry).decode() == text
        store.session("more").save({})
        assert parsed(generate_latest(registry).decode()) != parsed(text)
    found = parsed(text)
    expected: dict[Any, float] = {}
    for name in (
        "checkpoint_conflict_count",
        "checkpoint_load_count",
        "checkpoint_resume_count",
        "steps_recovered",
    ):
        expected[f"holdfast_{name}_total", ()] = getattr(figures, name)
    expected["holdfast_checkpoint_save_stored_bytes_total", ()] = figures.checkpoint_save_stored_bytes
    for (trigger, status), count in figures.checkpoint_save_count_by.items():
        expected["holdfast_checkpoint_save_count_total", (("status", status), ("trigger", trigger))] = count
    for code, count in figures.checkpoint_save_failed_count_by.items():
        expected["holdfast_checkpoint_save_failed_count_total", (("code", code),)] = count
    for reason, count in figures.checkpoint_pruned_count_by.items():
        expected["holdfast_checkpoint_pruned_count_total", (("reason", reason),)] = count
    for name in ("checkpoint_save_size_bytes", "checkpoint_save_latency_ms", "checkpoint_load_latency_ms"):
        total_of = getattr(figures, name)
        expected[f"holdfast_{name}_sum", ()] = total_of.sum
        expected[f"holdfast_{name}_count", ()] = total_of.count
    assert found == expected
    kinds = {family.name: family.type for family in text_string_to_metric_families(text)}
    assert kinds["holdfast_checkpoint_save_count"] == "counter"
    assert kinds["holdfast_checkpoint_save_latency_ms"] == "summary"
    assert all(family.documentation for family in text_string_to_metric_families(text))


def test_without_the_library_it_says_what_to_install(monkeypatch):
    find = builtins.__import__

    def without(name, *args, **options):
        if name.startswith("prometheus_client"):
            raise ImportError(name)
        return find(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with holdfast.open("memory:") as store:
        for ask in (store.metrics().prometheus, store.collector):
            with pytest.raises(UnsupportedError, match="prometheus-client") as refused:
                ask()
            assert "holdfast[metrics]" in refused.value.hint
        assert store.metrics().to_dict()["checkpoint_save_count"] == 0
