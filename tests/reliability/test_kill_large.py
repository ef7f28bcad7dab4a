"""SIGKILL while states of more than a megabyte are saved: many chunks, differences and streams, all or nothing.

A state is told from its step alone: each is the one before with a few changes. So a victim goes on from what it finds,
and a reader can make every state again by going through the steps.
"""

from __future__ import annotations

import os
import random
from functools import partial

import pytest
from tests.reliability.large_states import change, first_state
from tests.reliability.test_kill import kill_while_saving
from tests.reliability.witness import SESSION, in_new_process

import holdfast

KILLS = 8


def save_documents(path, seed, acknowledge):
    save_for_ever(path, seed, acknowledge, document=True)


def save_for_ever(path, seed, acknowledge, document=False):
    with holdfast.open(path, durability="power" if seed % 2 else "process") as store:
        session = store.session(SESSION)
        state = session.document() if document else session.load()
        while True:
            step = state["step"] + 1
            change(state, step)
            saved = state.save(step=step) if document else session.save(state, step=step)
            os.write(acknowledge, saved.id.encode() + b"\n")


@pytest.mark.parametrize("work", [save_for_ever, save_documents], ids=["plain", "document"])
def test_kills_of_large_saves_lose_nothing_that_was_acknowledged(tmp_path, work):
    path = tmp_path / "store.db"
    base = random.randrange(2**32)
    print(f"seed {base}")
    source = random.Random(base)
    with holdfast.open(path) as store:
        acknowledged = [store.session(SESSION).save(first_state(), step=0).id]
        assert store.stats().chunks > 30
    for number in range(KILLS):
        acknowledged += kill_while_saving(path, base + number, source, work)
        in_new_process(partial(check_newest, path, acknowledged[-1]))
    in_new_process(partial(check_everything, path, acknowledged))
    assert len(acknowledged) > KILLS


def check_newest(path, acknowledged):
    with holdfast.open(path, create=False) as store:
        session = store.session(SESSION)
        # At most one save was under way, so nothing but that one may follow the last acknowledged one.
        assert acknowledged in [each.id for each in session.log(limit=2)]
        assert session.load()["step"] == session.checkpoint().step
        # What a process wrote before it was killed hangs together; everything is read at the end.
        assert store.verify(quick=True).ok


def check_everything(path, acknowledged):
    with holdfast.open(path, create=False) as store:
        session = store.session(SESSION)
        there = session.log()[::-1]
        assert [each.id for each in there if each.id in set(acknowledged)] == acknowledged
        assert len(there) - len(acknowledged) <= KILLS
        state = first_state()
        for step, checkpoint in enumerate(there):
            assert checkpoint.step == step
            if step:
                change(state, step)
            assert session.load(checkpoint) == state, "a state is not what was saved"
        report = store.verify()
        assert report.ok, report
