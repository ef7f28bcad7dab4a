"""Running one workload: every contender saves every step, then every checkpoint asked for is loaded again.

Contenders take turns in blocks of steps, in an order that rotates, so that a slow minute of the machine hits all of
them. Each has a state of its own. Loads open the store anew each time; then checkpoints are loaded one after the other
from a store that stays open. What is loaded is compared with what was saved: a contender that gives back something else
ends the run.
"""

from __future__ import annotations

import gc
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from bench.contenders import Contender, Entry
from bench.timing import Sample, summary, timed
from bench.workloads import Workload

_BLOCKS = 20
_LATE = 25
"""Saves at the end of a run that count at least: of fewer, one collection of garbage would move the median."""
_LOADS = 25
_IN_A_ROW = 20
_ROWS = 3
_LISTINGS = 3


class WrongStateError(Exception):
    """A contender gave back something else than was saved."""


class UnequalError(Exception):
    """A contender does not run at the durability it is listed under."""


def run(workload: Workload, entries: list[Entry], folder: Path, *, listing: int = 0) -> dict[str, Any]:
    """All figures of one workload; `listing` checkpoints are listed, none if 0. `folder` is removed afterwards."""
    raw, squeezed = workload.new_content()
    newest = workload.state_after(len(workload.steps))
    results: dict[str, Any] = {
        "about": workload.about,
        "steps": len(workload.steps),
        "state_bytes": len(orjson.dumps(newest)),
        "new_content": {"raw": raw, "zstd3": squeezed},
        "contenders": {each.name: _header(each) for each in entries},
    }
    del newest
    present = {each.name: each.make(folder) for each in entries if each.kind.missing() is None}
    try:
        for name, samples in _saves(workload, present).items():
            late = samples[-max(_LATE, len(samples) // 10) :]
            results["contenders"][name]["save"] = summary(late)
            results["contenders"][name]["save_all"] = summary(samples)
        for name, contender in present.items():
            results["contenders"][name]["settings"] = _checked_settings(name, contender)
            contender.close()
            results["contenders"][name]["bytes"] = contender.size()
            results["contenders"][name] |= contender.more_figures()
        readable = {name: contender for name, contender in present.items() if contender.readable}
        for name, loads in _loads(workload, readable).items():
            results["contenders"][name] |= loads
        for name, samples in _loads_in_a_row(workload, readable).items():
            results["contenders"][name]["load_in_a_row"] = summary(samples)
        if listing:
            for name, samples in _listings(readable, listing).items():
                results["contenders"][name]["log"] = summary(samples) | {"checkpoints": listing}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return results


def _header(entry: Entry) -> dict[str, Any]:
    missing = entry.kind.missing()
    return {"label": entry.kind.label, "durability": entry.durability} | (
        {"missing": missing} if missing else {}
    )


def _checked_settings(name: str, contender: Contender) -> dict[str, Any]:
    """What the database says about its commits."""
    settings = contender.settings()
    if settings and settings != contender.equal_settings():
        raise UnequalError(f"{name} runs with {settings}, which is not durability {contender.durability!r}")
    return settings


def _turns(contenders: dict[str, Contender], turn: int) -> Iterator[tuple[str, Contender]]:
    """All contenders, another one first each turn."""
    items = list(contenders.items())
    start = turn % len(items) if items else 0
    yield from items[start:] + items[:start]


def _saves(workload: Workload, contenders: dict[str, Contender]) -> dict[str, list[Sample]]:
    samples: dict[str, list[Sample]] = {name: [] for name in contenders}
    for contender in contenders.values():
        contender.start(workload.first_state())
    # The states of all contenders live side by side: a collection would walk all of them in the middle of one's turn.
    gc.collect()
    gc.freeze()
    total = len(workload.steps)
    block = max(1, total // _BLOCKS)
    for turn, first in enumerate(range(1, total + 1, block)):
        for name, contender in _turns(contenders, turn):
            contender.turn_begins()
            for step in range(first, min(first + block, total + 1)):
                contender.apply(workload.changes(step))
                samples[name].append(timed(contender.save)[1])
            contender.turn_ends()
    gc.unfreeze()
    return samples


def points(workload: Workload) -> dict[str, int]:
    """The checkpoints that are loaded.

    The newest is the best case of DeltaChannel(100) in runs of hundreds (a snapshot), the middle one its worst (99
    writes to replay).
    """
    total = len(workload.steps)
    return {"first": 1, "middle": max(1, total // 2 - 1), "newest": total}


def _loads(workload: Workload, contenders: dict[str, Contender]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {name: {"load": {}, "open": {}} for name in contenders}
    for point, step in points(workload).items():
        expected = workload.state_after(step)
        opening: dict[str, list[Sample]] = {name: [] for name in contenders}
        loading: dict[str, list[Sample]] = {name: [] for name in contenders}
        gc.collect()
        gc.freeze()
        for turn in range(_LOADS):
            for name, contender in _turns(contenders, turn):
                reader, sample = timed(contender.reader)
                opening[name].append(sample)
                state, sample = timed(lambda: reader.load(contender.names[step]))  # noqa: B023 - called at once
                loading[name].append(sample)
                reader.close()
                if turn == 0 and state != expected:
                    raise WrongStateError(
                        f"{workload.name}: {name} gave back another state for checkpoint {step}"
                    )
                del state
        gc.unfreeze()
        for name in contenders:
            found[name]["load"][point] = summary(loading[name])
            found[name]["open"][point] = summary(opening[name])
    return found


def _loads_in_a_row(workload: Workload, contenders: dict[str, Contender]) -> dict[str, list[Sample]]:
    """The newest checkpoints, each once, oldest first, from a store that stays open.

    The first of them is not counted: it is a load from a store that was opened anew.
    """
    samples: dict[str, list[Sample]] = {name: [] for name in contenders}
    total = len(workload.steps)
    steps = range(max(0, total - _IN_A_ROW), total + 1)
    expected = {step: workload.state_after(step) for step in steps}
    gc.collect()
    gc.freeze()
    for turn in range(_ROWS):
        for name, contender in _turns(contenders, turn):
            reader = contender.reader()
            for step in steps:
                state, sample = timed(lambda: reader.load(contender.names[step]))  # noqa: B023 - called at once
                if step != steps[0]:
                    samples[name].append(sample)
                if turn == 0 and state != expected[step]:
                    raise WrongStateError(
                        f"{workload.name}: {name} gave back another state for checkpoint {step}"
                    )
                del state
            reader.close()
    gc.unfreeze()
    return samples


def _listings(contenders: dict[str, Contender], limit: int) -> dict[str, list[Sample]]:
    samples: dict[str, list[Sample]] = {name: [] for name in contenders}
    for turn in range(_LISTINGS):
        for name, contender in _turns(contenders, turn):
            reader = contender.reader()
            count, sample = timed(lambda: reader.log(limit))  # noqa: B023 - called at once
            reader.close()
            if count != limit:
                raise WrongStateError(f"{name} listed {count} of {limit} checkpoints")
            samples[name].append(sample)
    return samples
