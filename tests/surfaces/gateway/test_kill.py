"""kill -9 of the gateway in a save: what was acknowledged is there, the rest is there or not, and whole."""

from __future__ import annotations

import random
import signal
import threading

import httpx
from tests.surfaces.gateway.conftest import Served

import holdfast

KILLS = 6


def test_a_killed_gateway_loses_nothing_that_it_acknowledged(tmp_path):
    chance = random.Random(26)
    acknowledged: set[int] = set()
    sent = 0
    for _ in range(KILLS):
        served = Served(tmp_path)
        killer = threading.Timer(chance.uniform(0.05, 0.4), served.process.send_signal, [signal.SIGKILL])
        killer.start()
        try:
            while True:
                state = {"number": sent, "text": "x" * chance.randrange(100_000)}
                sent += 1
                told = served.call("checkpoint.create", session="a", state=state, key=f"k{sent - 1}")
                assert told["checkpoint"]["key"] == f"k{sent - 1}"
                acknowledged.add(sent - 1)
        except httpx.TransportError:
            pass
        killer.join()
        assert served.stop() == -signal.SIGKILL
    with holdfast.open(tmp_path / "s.db") as store:
        session = store.session("a")
        there = {session.load(each)["number"] for each in session.log()} if acknowledged else set()
        assert acknowledged <= there <= set(range(sent))
        assert store.verify().ok
    assert acknowledged
