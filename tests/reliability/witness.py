"""States that can be checked by whoever finds them, and a process that has never seen the store to check them in.

A state is made from a seed and a step, so that a reader can make it again and compare. Each checkpoint's metadata says
which one it must be.
"""

from __future__ import annotations

import os
import random
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import holdfast

SESSION = "witness"


def state_of(seed: int, step: int) -> dict[str, Any]:
    """A state of its own for each seed and step: small, or large enough for many pages."""
    source = random.Random(seed * 1_000_003 + step)
    size = source.choice([0, 10, 500, 20_000, 70_000])
    return {
        "seed": seed,
        "step": step,
        "noise": source.randbytes(size),
        "text": "again and again " * (step % 50),
    }


def save_step(session: holdfast.Session, seed: int, step: int, **options: Any) -> holdfast.Checkpoint:
    """Save the state of that step, and say in the metadata which it is."""
    return session.save(state_of(seed, step), step=step, metadata={"seed": seed}, **options)


def check_store(path: Path, acknowledged: Iterable[str]) -> list[str]:
    """Read everything back: each checkpoint whole and right, history unbroken, every acknowledged one there.

    Returns the ids that are there, oldest first.
    """
    with holdfast.open(path, create=False) as store:
        session = store.session(SESSION)
        there = session.log()
        assert there == store.find(session=SESSION), "the log and the list differ"
        for checkpoint in there:
            assert checkpoint.step is not None
            true_state = state_of(checkpoint.metadata["seed"], checkpoint.step)
            assert session.load(checkpoint) == true_state, "a state is not what was saved"
        assert [each.seq for each in there] == list(range(len(there), 0, -1))
        ids = [each.id for each in reversed(there)]
    lost = set(acknowledged) - set(ids)
    assert not lost, f"acknowledged, and not there: {sorted(lost)}"
    return ids


def in_new_process(work: Callable[[], object]) -> None:
    """Run `work` in a process that begins here, and fail if it fails there."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, (
        "the other process failed; its error is above"
    )
