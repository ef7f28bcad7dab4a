"""SIGKILL while saving, a hundred times: what was acknowledged is there and equal, the rest is absent or whole."""

from __future__ import annotations

import os
import random
import signal
import time
from functools import partial

import pytest
from tests.reliability.witness import SESSION, check_store, in_new_process, save_step

import holdfast

KILLS = 100
PARTS = 4
"""The kills are divided among so many stores, which can be tested at the same time."""


def save_for_ever(path, seed, acknowledge):
    """What the victim does: go on from where the store is, and say so only after save() has returned."""
    with holdfast.open(path, durability="power" if seed % 2 else "process") as store:
        session = store.session(SESSION)
        steps = session.checkpoint().step or 0 if session.exists("@") else 0
        while True:
            steps += 1
            saved = save_step(session, seed, steps)
            os.write(acknowledge, saved.id.encode() + b"\n")


def kill_while_saving(path, seed, source, work=save_for_ever):
    """Let a victim save, kill it at a random moment, and return the ids that it acknowledged."""
    read, write = os.pipe()
    victim = os.fork()
    if victim == 0:
        try:
            work(path, seed, write)
        finally:
            os._exit(1)
    os.close(write)
    wanted = source.randrange(1, 6) * 65
    said = b""
    # One save takes from 0.2 to 5 ms, so that the moment falls anywhere in one.
    while len(said) < wanted and (piece := os.read(read, 4096)):
        said += piece
    time.sleep(source.random() * 0.005)
    os.kill(victim, signal.SIGKILL)
    while piece := os.read(read, 4096):
        said += piece
    os.close(read)
    assert os.waitstatus_to_exitcode(os.waitpid(victim, 0)[1]) == -signal.SIGKILL, "it ended by itself"
    # The last line may have been cut off by the kill.
    return said.decode().split("\n")[:-1]


@pytest.mark.parametrize("part", range(PARTS))
def test_a_hundred_kills_lose_nothing_that_was_acknowledged(tmp_path, part):
    path = tmp_path / "store.db"
    base = random.randrange(2**32)
    print(f"seed {base}")
    source = random.Random(base)
    acknowledged = []
    for number in range(KILLS // PARTS):
        acknowledged += kill_while_saving(path, base + number, source)
        # Reading everything each time would take most of the time; the newest are what the kill was near to.
        in_new_process(partial(check_newest, path, acknowledged[-10:]))
    in_new_process(partial(check_everything, path, acknowledged))
    assert len(acknowledged) >= KILLS // PARTS


def check_newest(path, acknowledged):
    with holdfast.open(path, create=False) as store:
        session = store.session(SESSION)
        # Each kill may have left one that was not acknowledged.
        newest = [each.id for each in session.log(limit=2 * len(acknowledged) + 1)]
        assert set(acknowledged) <= set(newest)
        # At most one save was under way, so nothing but that one may follow the last acknowledged one.
        assert acknowledged[-1] in newest[:2]
        session.load()


def check_everything(path, acknowledged):
    there = check_store(path, acknowledged)
    assert [each for each in there if each in set(acknowledged)] == acknowledged
    assert len(there) - len(acknowledged) <= KILLS // PARTS
