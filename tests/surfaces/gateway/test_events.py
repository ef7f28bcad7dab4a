"""Live events: everything once and in order, for listeners that come late, that are slow, and that come back."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import Any

import anyio
import pytest

import holdfast
from holdfast.gateway import events
from holdfast.gateway.events import EventLog


class Listener:
    """Reads the events of a response."""

    def __init__(self, response):
        self._lines = response.iter_lines()

    def take(self, count):
        """The next events, as (id, type, data)."""
        found: list[tuple[int, str, Any]] = []
        event: dict[str, str] = {}
        while len(found) < count:
            line = next(self._lines)
            assert line != ": alive", "nothing comes any more"
            name, _, value = line.partition(": ")
            if line == "" and "data" in event:
                found.append((int(event["id"]), event["event"], json.loads(event["data"])))
                event = {}
            elif name:
                event[name] = value
        return found


@contextmanager
def listening(served, **headers):
    with served.client.stream("GET", headers.pop("path", "/v1/events"), headers=headers) as response:
        assert response.headers["content-type"] == "text/event-stream"
        yield Listener(response)


def test_a_listener_hears_what_other_processes_save(served):
    with holdfast.open(served.folder / "s.db") as store, listening(served) as listener:
        a, b = store.session("a"), store.session("b")
        ids = [a.save({"x": 1}).id, b.save({"x": 2}).id, a.restore(a.checkpoint()).id]
        heard = listener.take(3)
        assert [data["checkpoint"]["id"] for _, _, data in heard] == ids
        assert [kind for _, kind, _ in heard] == ["checkpoint.created"] * 2 + ["checkpoint.restored"]


def test_a_listener_that_comes_back_misses_nothing_also_after_a_restart(tmp_path):
    from tests.surfaces.gateway.conftest import Served

    served = Served(tmp_path)
    store = holdfast.open(tmp_path / "s.db")
    try:
        with listening(served) as listener:
            store.session("a").save({"at": 0})
            ((last, _, _),) = listener.take(1)
        store.session("a").save({"at": 1})
        served.stop()
        store.session("b").save({"at": 2})
        served = Served(tmp_path)
        with listening(served, **{"Last-Event-ID": str(last)}) as listener:
            store.session("a").save({"at": 3})
            assert [data["session"] for _, _, data in listener.take(3)] == ["a", "b", "a"]
        with listening(served, path="/v1/events?after=0&session=b") as listener:
            assert [data["session"] for _, _, data in listener.take(1)] == ["b"]
        assert served.client.get("/v1/events", headers={"Last-Event-ID": "x"}).status_code == 400
    finally:
        store.close()
        served.stop()


def test_a_slow_listener_reads_from_the_store_and_costs_no_memory(store, monkeypatch):
    monkeypatch.setattr(events, "_KEPT", 10)
    monkeypatch.setattr(events, "_PAGE", 7)
    store.session("a").save({"at": -1})
    log = EventLog(store)

    async def listen():
        log.start()
        listener = log.listen(None, None)
        await anext(listener)
        early = log.listen(0, None)
        await anext(early)
        for at in range(40):
            store.session("a").save({"at": at})
        with anyio.fail_after(30):
            heard = [await anext(listener) for _ in range(40)]
            all_of_it = [await anext(early) for _ in range(41)]
        assert len(log._entries) <= 10
        await listener.aclose()
        await early.aclose()
        return heard, all_of_it

    try:
        heard, all_of_it = anyio.run(listen)
    finally:
        log.stop()
    numbers = [int(each.split(b"\n")[0][4:]) for each in heard]
    assert numbers == list(range(numbers[0], numbers[0] + 40))
    assert all_of_it[1:] == heard
    assert log.listeners == 0


def test_large_metadata_does_not_fill_the_log(store, monkeypatch):
    monkeypatch.setattr(events, "_KEPT_BYTES", 10_000)
    log = EventLog(store)

    async def listen():
        log.start()
        listener = log.listen(0, None)
        await anext(listener)
        for at in range(10):
            store.session("a").save({"at": at}, metadata={"note": "x" * 4000})
        with anyio.fail_after(30):
            heard = [await anext(listener) for _ in range(10)]
        await listener.aclose()
        return heard

    try:
        heard = anyio.run(listen)
    finally:
        log.stop()
    assert len(heard) == 10
    assert sum(len(each.text) for each in log._entries) <= 10_000


def test_an_error_of_any_kind_does_not_end_the_events(store, monkeypatch, caplog):
    monkeypatch.setattr(events, "_RETRY_SECONDS", 0.01)
    store.session("a").save({})
    log, real, calls = EventLog(store), store.watch, []

    def watch(**given):
        calls.append(1)
        if len(calls) == 1:
            raise ZeroDivisionError
        return real(**given)

    monkeypatch.setattr(store, "watch", watch)

    async def listen():
        log.start()
        listener = log.listen(None, None)
        await anext(listener)
        made = store.session("a").save({"new": True})
        with anyio.fail_after(30):
            text = await anext(listener)
        await listener.aclose()
        return made.id.encode() in text

    try:
        assert anyio.run(listen)
    finally:
        log.stop()
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("count", [0, 1])
def test_it_begins_in_an_empty_store(store, count):
    for _ in range(count):
        store.session("a").save({})
    log = EventLog(store)

    async def listen():
        log.start()
        listener = log.listen(None, None)
        await anext(listener)
        made = store.session("a").save({"new": True})
        with anyio.fail_after(30):
            text = await anext(listener)
        await listener.aclose()
        return made.id.encode() in text

    try:
        assert anyio.run(listen)
    finally:
        log.stop()
