"""What tests of leases share: how long they last there, a renewal that hangs, and waiting for what has to come."""

from __future__ import annotations

import threading
import time

import pytest

from holdfast.errors import ConflictError
from holdfast.store import lease as leases

NAME = "heartbeat:s"
PATIENCE = 60.0
SHORT = 0.2
STEADY = 30.0
"""Seconds; with `often` it is renewed long before they are over, also on a machine that is busy with other things."""


@pytest.fixture
def often(monkeypatch):
    """A lease that lasts for long is renewed, and tried again after an error, within a moment all the same."""
    monkeypatch.setattr(leases, "_RENEWALS", 200)
    monkeypatch.setattr(leases, "_RETRIES", 300)


class Hanging:
    """A network that swallows what is sent, for as long as the test wants; then the renewal comes through after all."""

    def __init__(self):
        self.asked = threading.Event()
        self.goes_on = threading.Event()

    def __call__(self):
        self.asked.set()
        assert self.goes_on.wait(PATIENCE)


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.005)


def code_of(call, *args, **options):
    with pytest.raises(ConflictError) as refused:
        call(*args, **options)
    return refused.value.code
