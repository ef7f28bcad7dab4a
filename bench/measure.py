"""Running one workload: every contender saves every step, then every checkpoint asked for is loaded again.

Contenders take turns in blocks of steps, in an order that rotates, so that a slow minute of the machine hits all of
them. Each has a state of its own. Then each reads, in a process of its own (`reading`). Loads open the store anew each
time; then checkpoints are loaded one after the other from a store that stays open. What is loaded is compared with what
was saved: a contender that gives back something else ends the run.
"""

from __future__ import annotations

import gc
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import orjson

from bench.contenders import Contender, Entry
from bench.reading import ReadingProcess
from bench.timing import Sample, summary, timed
from bench.workloads import Workload

_T = TypeVar("_T")

_BLOCKS = 20
_LATE = 25
"""Saves at the end of a run that count at least: of fewer, one collection of garbage would move the median."""
_ROUNDS = 3
"""Of reading, each in new processes."""
_LOADS = 9
"""In each round."""
_IN_A_ROW = 20


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
        for name, figures in _read(workload, readable, listing).items():
            results["contenders"][name] |= figures
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


def _turns(contenders: dict[str, _T], turn: int) -> Iterator[tuple[str, _T]]:
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


class _Readings:
    """What was measured of one contender's reading."""

    def __init__(self, workload: Workload) -> None:
        self.opening: dict[str, list[Sample]] = {point: [] for point in points(workload)}
        self.loading: dict[str, list[Sample]] = {point: [] for point in points(workload)}
        self.in_a_row: list[Sample] = []
        self.listing: list[Sample] = []

    def figures(self, listing: int) -> dict[str, Any]:
        """All of it, as it goes into the results."""
        found = {
            "open": {point: summary(samples) for point, samples in self.opening.items()},
            "load": {point: summary(samples) for point, samples in self.loading.items()},
            "load_in_a_row": summary(self.in_a_row),
        }
        return found | ({"log": summary(self.listing) | {"checkpoints": listing}} if listing else {})


def _read(workload: Workload, contenders: dict[str, Contender], listing: int) -> dict[str, dict[str, Any]]:
    found = {name: _Readings(workload) for name in contenders}
    with _readers(contenders) as readers:
        _compare(workload, readers)
    for number in range(_ROUNDS):
        # Others: where things come to lie in the memory of a process is chance, and makes a load up to a fifth longer.
        # And those that handed over whole states have had more memory than a load takes.
        with _readers(contenders) as readers:
            _loads(workload, readers, found)
            turns = dict(_turns(readers, number))
            _loads_in_a_row(workload, turns, found)
            if listing:
                _listings(turns, listing, found)
    return {name: each.figures(listing) for name, each in found.items()}


@contextmanager
def _readers(contenders: dict[str, Contender]) -> Iterator[dict[str, ReadingProcess]]:
    with ExitStack() as processes:
        yield {
            name: processes.enter_context(ReadingProcess(contender)) for name, contender in contenders.items()
        }


def _loads(workload: Workload, readers: dict[str, ReadingProcess], found: dict[str, _Readings]) -> None:
    for point, step in points(workload).items():
        for reader in readers.values():
            reader.begin(step)
        for turn in range(_LOADS):
            for name, reader in _turns(readers, turn):
                opening, loading = reader.load(step)
                found[name].opening[point].append(opening)
                found[name].loading[point].append(loading)


def _in_a_row(workload: Workload) -> range:
    total = len(workload.steps)
    return range(max(0, total - _IN_A_ROW), total + 1)


def _compare(workload: Workload, readers: dict[str, ReadingProcess]) -> None:
    """Each contender gives back what it was given: from a store opened anew, and from one that stays open."""
    row = _in_a_row(workload)
    expected = {step: workload.state_after(step) for step in {*points(workload).values(), *row}}
    for name, reader in readers.items():
        for given, steps in ((reader.states_anew, points(workload).values()), (reader.states, row)):
            for step, state in zip(steps, given(steps), strict=True):
                if state != expected[step]:
                    raise WrongStateError(
                        f"{workload.name}: {name} gave back another state for checkpoint {step}"
                    )


def _loads_in_a_row(
    workload: Workload, readers: dict[str, ReadingProcess], found: dict[str, _Readings]
) -> None:
    """The newest checkpoints, each once, oldest first, from a store that stays open.

    The first of them is not counted: it is a load from a store that was opened anew.
    """
    for name, reader in readers.items():
        found[name].in_a_row += reader.in_a_row(_in_a_row(workload))[1:]


def _listings(readers: dict[str, ReadingProcess], limit: int, found: dict[str, _Readings]) -> None:
    for name, reader in readers.items():
        count, sample = reader.log(limit)
        if count != limit:
            raise WrongStateError(f"{name} listed {count} of {limit} checkpoints")
        found[name].listing.append(sample)
