"""holdfast beside DoltLite: saves, loads, the log and the size of one conversation, at equal durability.

    python -m bench.doltlite [--quick] [--folder DIR] [--json FILE]

In a process of its own, because DoltLite takes the place of SQLite in it (bench/contenders/doltlite_rows.py).
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
from pathlib import Path
from typing import Any

import orjson

from bench.contenders.contract import POWER, Contender
from bench.contenders.holdfast_store import DocumentStore, PlainStore
from bench.measure import WrongStateError
from bench.timing import Sample, summary, timed
from bench.workloads import Workload, growing

LOADS = 15
LOG = 1_000


def main(arguments: list[str] | None = None) -> int:
    """Run it and print one table."""
    asked = argparse.ArgumentParser(prog="python -m bench.doltlite")
    asked.add_argument("--quick", action="store_true", help="200 steps instead of 1,000")
    asked.add_argument("--folder", type=Path, help="where the stores go; a real disk")
    asked.add_argument("--json", type=Path, help="all figures")
    given = asked.parse_args(arguments)
    import doltlite  # noqa: F401 - before sqlite3: from here on that is DoltLite

    from bench.contenders.doltlite_rows import DoltliteRows

    steps = 200 if given.quick else 1_000
    with tempfile.TemporaryDirectory(dir=given.folder) as place:
        figures = measured(growing(steps, 1), [DoltliteRows, PlainStore, DocumentStore], Path(place))
    print(table(figures))
    if given.json:
        given.json.write_bytes(orjson.dumps(figures, option=orjson.OPT_INDENT_2))
    return 0


def measured(workload: Workload, kinds: list[type[Contender]], folder: Path) -> dict[str, Any]:
    """Save in turns, step by step, then load and list."""
    contenders = [kind(_own(folder, kind), POWER) for kind in kinds]
    saves: dict[str, list[Sample]] = {each.label: [] for each in contenders}
    for each in contenders:
        each.start(workload.first_state())
    gc.collect()
    gc.freeze()
    last = len(workload.steps)
    for step in range(1, last + 1):
        for each in contenders:
            each.apply(workload.changes(step))
            taken = timed(each.save)[1]
            if step > last - last // 10:
                saves[each.label].append(taken)
    for each in contenders:
        each.close()
    loads: dict[str, dict[str, list[Sample]]] = {
        each.label: {"newest": [], "middle": [], "log": []} for each in contenders
    }
    for turn in range(LOADS):
        for each in contenders:
            for which, step in (("newest", last), ("middle", last // 2)):
                reader = each.reader()
                state, taken = timed(lambda: reader.load(each.names[step]))  # noqa: B023 - called at once
                loads[each.label][which].append(taken)
                reader.close()
                if not turn and state != workload.state_after(step):
                    raise WrongStateError(f"{each.label} gave back another state for checkpoint {step}")
            reader = each.reader()
            loads[each.label]["log"].append(timed(lambda: reader.log(LOG))[1])  # noqa: B023 - likewise
            reader.close()
    gc.unfreeze()
    return {
        "about": workload.about,
        "contenders": {
            each.label: {
                "save": summary(saves[each.label]),
                **{which: summary(taken) for which, taken in loads[each.label].items()},
                "bytes": each.size(),
            }
            for each in contenders
        },
    }


def _own(folder: Path, kind: type[Contender]) -> Path:
    own = folder / kind.__name__
    own.mkdir()
    return own


def table(figures: dict[str, Any]) -> str:
    """The figures as Markdown, each as a part of DoltLite's."""
    found: dict[str, Any] = figures["contenders"]
    base = next(iter(found.values()))
    lines = [
        figures["about"],
        "",
        "| | late save, ms | load newest | load middle | log of 1,000 | on disk, MB |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for label, each in found.items():
        cells = [
            f"{each[name]['wall']['median']:.2f} ({each[name]['wall']['median'] / base[name]['wall']['median']:.2f} x)"
            for name in ("save", "newest", "middle", "log")
        ]
        cells.append(f"{each['bytes'] / 1e6:.1f} ({each['bytes'] / base['bytes']:.2f} x)")
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
