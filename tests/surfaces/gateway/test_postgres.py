"""The same servers over PostgreSQL: calls, events of other connections, live agents."""

from __future__ import annotations

import anyio
from tests.surfaces.gateway.conftest import Local

import holdfast
from holdfast.agents import Run, live_agents
from holdfast.gateway.events import EventLog


def test_calls_events_and_live_agents_over_postgresql(postgres_url):
    with holdfast.open(postgres_url) as store, holdfast.open(postgres_url) as other:
        gateway = Local(store)
        saved = gateway.call("checkpoint.create", session="a", state={"x": 1})
        told = gateway.call("checkpoint.list", session="a")
        assert told["checkpoints"][0]["id"] == saved["checkpoint"]["id"]
        password = postgres_url.partition("//")[2].partition("@")[0]
        assert password not in str(told)

        with Run(other.session("run"), task="t", live=True):
            assert [each.session for each in live_agents(store)] == ["run"]
            assert gateway.call("checkpoint.create", session="run", message="now")["live"]

        log = EventLog(store)

        async def listen():
            log.start()
            listener = log.listen(None, None)
            await anext(listener)
            made = other.session("a").save({"x": 2})
            with anyio.fail_after(30):
                text = await anext(listener)
            await listener.aclose()
            return made.id.encode() in text

        try:
            assert anyio.run(listen)
        finally:
            log.stop()
            gateway.service.close()
