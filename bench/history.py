"""Does a long history make loading slower? The same kind of state, with few and with many checkpoints in the store."""

from __future__ import annotations

import gc
import shutil
from pathlib import Path
from typing import Any

from bench.contenders import Contender, Entry
from bench.measure import WrongStateError
from bench.timing import Sample, summary, timed
from bench.workloads import Workload

_LOADS = 31


def run(workload: Workload, entries: list[Entry], few: int, folder: Path) -> dict[str, Any]:
    """Load times with `few` checkpoints in the store and with all of the workload's. `folder` is removed afterwards."""
    many = len(workload.steps)
    results: dict[str, Any] = {"about": workload.about, "few": few, "many": many, "contenders": {}}
    try:
        for entry in entries:
            missing = entry.kind.missing()
            if missing:
                results["contenders"][entry.name] = {"missing": missing}
                continue
            short = _filled(workload, entry, few, folder / "few")
            long = _filled(workload, entry, many, folder / "many")
            _check(workload, short, few)
            _check(workload, long, many)
            results["contenders"][entry.name] = _compare(short, long)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return results


def _filled(workload: Workload, entry: Entry, steps: int, folder: Path) -> Contender:
    contender = entry.make(folder)
    contender.start(workload.first_state())
    for step in range(1, steps + 1):
        contender.apply(workload.changes(step))
        contender.save()
    contender.close()
    return contender


def _check(workload: Workload, contender: Contender, step: int) -> None:
    reader = contender.reader()
    if reader.load(contender.names[step]) != workload.state_after(step):
        raise WrongStateError(f"history: {contender.label} gave back another state for checkpoint {step}")
    reader.close()


def _compare(short: Contender, long: Contender) -> dict[str, Any]:
    """Loads in turns, so that both meet the same machine. The oldest one shows whether age matters."""
    few, many = len(short.names) - 1, len(long.names) - 1
    cases = {
        f"newest of {few}": (short, few),
        f"newest of {many}": (long, many),
        f"oldest of {many}": (long, 1),
    }
    samples: dict[str, list[Sample]] = {case: [] for case in cases}
    gc.collect()
    gc.freeze()
    for _ in range(_LOADS):
        for case, (contender, step) in cases.items():
            reader = contender.reader()
            samples[case].append(timed(lambda: reader.load(contender.names[step]))[1])  # noqa: B023 - called at once
            reader.close()
    gc.unfreeze()
    loads = {case: summary(each) for case, each in samples.items()}
    few_load, newest, oldest = loads.values()
    return {
        "load": loads,
        "bytes": {str(few): short.size(), str(many): long.size()},
        "newest": _over(newest, few_load),
        "oldest": _over(oldest, few_load),
    }


def _over(load: dict[str, Any], other: dict[str, Any]) -> dict[str, float]:
    return {clock: load[clock]["median"] / other[clock]["median"] for clock in ("wall", "cpu")}
