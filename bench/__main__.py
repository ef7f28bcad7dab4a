"""Run the benchmarks: `python -m bench`, from the root of the repository.

python -m bench                      everything; about ten minutes, and 10 GB of disk while it runs
python -m bench --quick              the same with fewer steps, within a minute; its ratios are no measurement
python -m bench --only W1 holdfast   some workloads (W1 W2 W3 W4 history memory) and some contenders

`python -m bench.postgres` does the same on a PostgreSQL server.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_RESULTS = Path(__file__).resolve().parent / "results"
_PACKAGES = (
    "holdfast",
    "langgraph",
    "langgraph-checkpoint",
    "langgraph-checkpoint-sqlite",
    "orjson",
    "zstandard",
    "lz4",
    "apsw",
)
_EXTRA_PARTS = ("history", "memory")
_MEMORY_CONTENDERS = ("saver", "files", "holdfast")


def main() -> int:
    """Parse, run, print, write."""
    options = _options()
    try:
        from bench.contenders import entries
        from bench.environment import described

        chosen = _Choice(options.only)
        # Importing every contender now shows what is not installed before minutes have passed.
        entries(chosen.contender(lambda _: True))
    except ModuleNotFoundError as error:
        print(f"{error}. Install what the benchmark needs: pip install -e . --group bench", file=sys.stderr)
        return 2
    if chosen.unknown:
        print(
            f"Nothing is called {', '.join(chosen.unknown)}. There is: {', '.join(_Choice.names())}",
            file=sys.stderr,
        )
        return 2
    # LangGraph draws parts of its version strings from the global generator; a seed keeps even those bytes the same.
    random.seed(options.seed)
    _RESULTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.folder or _RESULTS, prefix="stores-") as folder:
        results: dict[str, Any] = {
            "meta": described(
                quick=options.quick, seed=options.seed, folder=Path(folder), packages=_PACKAGES
            ),
            "workloads": {},
        }
        try:
            _run(options, chosen, Path(folder), results)
        finally:
            # A run that breaks off after minutes still has figures to show.
            _write(results, options.json)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="holdfast beside its peers, in one run"
    )
    parser.add_argument("--quick", action="store_true", help="fewer steps: a check that everything runs")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="workloads and contenders to run"
    )
    parser.add_argument(
        "--json", type=Path, metavar="PATH", help="where the figures go (default: bench/results/)"
    )
    parser.add_argument(
        "--folder", type=Path, metavar="PATH", help="where the stores go while it runs: a real disk"
    )
    parser.add_argument("--seed", type=int, default=20261115, help="another seed, another conversation")
    return parser.parse_args()


class _Choice:
    """Which parts and contenders were asked for; all of a kind where none of it was named."""

    def __init__(self, only: list[str]) -> None:
        from bench.contenders import NAMES

        self.contenders = [name for name in only if name in NAMES]
        self.parts = [
            name for name in only if name.upper()[:2] in ("W1", "W2", "W3", "W4") or name in _EXTRA_PARTS
        ]
        self.unknown = [name for name in only if name not in self.contenders and name not in self.parts]

    @staticmethod
    def names() -> list[str]:
        from bench.contenders import NAMES

        return ["W1", "W2", "W3", "W4", *_EXTRA_PARTS, *NAMES]

    def part(self, name: str) -> bool:
        return not self.parts or any(name.upper().startswith(part.upper()) for part in self.parts)

    def contender(self, usual: Callable[[str], bool]) -> Callable[[str], bool]:
        """The contenders that were named, else the usual ones of this part."""
        return (lambda name: name in self.contenders) if self.contenders else usual


def _run(options: argparse.Namespace, chosen: _Choice, folder: Path, results: dict[str, Any]) -> None:
    from bench import history, measure, memory
    from bench.contenders import entries
    from bench.workloads import steady, suite

    quick, seed = options.quick, options.seed
    first_w1 = True
    for name, make in suite(quick=quick, seed=seed).items():
        if not chosen.part(name):
            continue
        _say(name)
        # Both durabilities of everyone are worth their time once: where the states are of a middling size.
        everyone = first_w1 and name.startswith("W1")
        contenders = entries(chosen.contender(lambda each, both=everyone: both or _usual(each)))
        workload = make()
        listing = min(1000, len(workload.steps)) if everyone else 0
        results["workloads"][name] = measure.run(workload, contenders, folder / name, listing=listing)
        first_w1 = first_w1 and not everyone
    if chosen.part("history"):
        _say("history")
        contenders = entries(chosen.contender(lambda each: each == "holdfast-process"))
        contenders = [each for each in contenders if each.kind.readable]
        workload = steady(1_000 if quick else 20_000, seed)
        results["history"] = history.run(workload, contenders, 100, folder / "history")
    if chosen.part("memory"):
        _say("memory")
        contenders = entries(chosen.contender(lambda each: each in _MEMORY_CONTENDERS))
        contenders = [each for each in contenders if each.name in _MEMORY_CONTENDERS]
        results["memory"] = memory.run(contenders, folder / "memory", 10 if quick else 100, seed)


def _usual(name: str) -> bool:
    return not name.endswith("-process") or name in ("holdfast-process", "document-process")


def _say(name: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {name}", file=sys.stderr, flush=True)


def _write(results: dict[str, Any], path: Path | None) -> None:
    from bench.report import render
    from bench.targets import judge

    targets = judge(results)
    target = path or _RESULTS / f"{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    target.write_text(json.dumps(results | {"targets": [each.to_dict() for each in targets]}, indent=1))
    print(render(results, targets))
    print(f"\nAll figures: {target}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
