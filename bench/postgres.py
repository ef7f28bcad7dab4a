"""The benchmark on a PostgreSQL server: `python -m bench.postgres`, from the root of the repository.

python -m bench.postgres                     everything; about ten minutes, and 8 GB of disk while it runs
python -m bench.postgres --quick             the same with fewer steps, in three minutes; its ratios are no measurement
python -m bench.postgres --only W1 writers   some parts: W1, writers (16 at once), scale (1, 8 and 32 at once)

One server is started for the run, and everyone commits on it with one flush of its log. What is measured is in
docs/benchmarks.md; docs/scale.md draws on `scale`.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.services.postgres import Server

    from bench.contenders.on_postgres import OnPostgres

_RESULTS = Path(__file__).resolve().parent / "results"
_PACKAGES = (
    "holdfast",
    "langgraph",
    "langgraph-checkpoint-postgres",
    "psycopg",
    "orjson",
    "zstandard",
    "lz4",
)
_PARTS = ("W1", "writers", "scale")
_KINDS = ("saver", "delta", "holdfast", "document")
_WRITERS = 16
_CREWS = (1, 8, 32)
_SCALE_SAVES = 3_200
_TURNS = 3


@dataclass(frozen=True)
class _Entry:
    """A contender that can be made on the server, in a new database."""

    name: str
    kind: type[OnPostgres]
    server: Server
    durability: str = "power"

    def make(self, _folder: Path) -> OnPostgres:
        return self.kind(self.server.fresh_database())


def main() -> int:
    """Parse, run, print, write."""
    options = _options()
    try:
        from bench.environment import described
        from bench.servers import running
    except ModuleNotFoundError as error:
        print(f"{error}. Install what the benchmark needs: pip install -e . --group bench", file=sys.stderr)
        return 2
    random.seed(options.seed)
    _RESULTS.mkdir(exist_ok=True)
    with running(options.folder) as server:
        meta = described(quick=options.quick, seed=options.seed, folder=server.folder, packages=_PACKAGES)
        ((version,),) = server.execute("SHOW server_version")
        meta["versions"]["PostgreSQL"] = version
        del meta["versions"]["sqlite3"]
        results: dict[str, Any] = {"meta": meta, "workloads": {}}
        try:
            _run(options, server, results)
        finally:
            # A run that breaks off after minutes still has figures to show.
            _write(results, options.json)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.postgres", description="holdfast and LangGraph's saver on a PostgreSQL server"
    )
    parser.add_argument("--quick", action="store_true", help="fewer steps: a check that everything runs")
    parser.add_argument("--only", nargs="+", default=_PARTS, choices=_PARTS, help="parts to run")
    parser.add_argument(
        "--json", type=Path, metavar="PATH", help="where the figures go (default: bench/results/)"
    )
    parser.add_argument(
        "--folder", type=Path, metavar="PATH", help="where the server keeps its files: a real disk"
    )
    parser.add_argument("--seed", type=int, default=20261115, help="another seed, another conversation")
    return parser.parse_args()


def _run(options: argparse.Namespace, server: Server, results: dict[str, Any]) -> None:
    from bench import measure
    from bench.contenders.on_postgres import KINDS
    from bench.workloads import growing

    if "W1" in options.only:
        steps = 200 if options.quick else 1_000
        workload = growing(steps, options.seed)
        _say(workload.name)
        entries: Any = [_Entry(name, kind, server) for name, kind in KINDS.items()]
        with tempfile.TemporaryDirectory() as folder:
            results["workloads"][workload.name] = measure.run(
                workload, entries, Path(folder, "none"), listing=steps
            )
    if "writers" in options.only:
        _say("writers")
        results["writers"] = _writers(options, server)
    if "scale" in options.only:
        _say("scale")
        results["scale"] = _scale(options, server)


def _writers(options: argparse.Namespace, server: Server) -> dict[str, Any]:
    """Everyone with 16 writers, in turns: with states of about 100 messages, and through all of W1."""
    from bench.writers import PIECE, Crew

    turns = 1 if options.quick else _TURNS
    sessions = 1 if options.quick else 2
    steps = 100 if options.quick else 1_000
    piece = {name: Crew(name, _WRITERS, sessions, options.seed, *PIECE) for name in _KINDS}
    whole = {name: Crew.through(steps, name, _WRITERS, options.seed) for name in _KINDS}
    return {
        "count": _WRITERS,
        "contenders": _in_turns(server, piece, turns),
        # Once: it takes minutes, in which a host has good and bad seconds for everyone.
        "whole": {"steps": steps, "contenders": _in_turns(server, whole, 1)},
    }


def _scale(options: argparse.Namespace, server: Server) -> dict[str, Any]:
    """Holdfast with 1, 8 and 32 writers, in turns."""
    from bench.writers import PIECE, Crew

    turns = 1 if options.quick else _TURNS
    first, last = PIECE
    crews = {
        f"{name}-{count}": Crew(
            name,
            count,
            1 if options.quick else max(1, _SCALE_SAVES // (last - first) // count),
            options.seed,
            *PIECE,
        )
        for name in ("holdfast", "document")
        for count in _CREWS
    }
    return {"contenders": _in_turns(server, crews, turns)}


def _in_turns(server: Server, crews: dict[str, Any], turns: int) -> dict[str, Any]:
    """For each crew the turn with the median throughput, and the throughput of all turns beside it."""
    from bench import writers

    found: dict[str, list[dict[str, Any]]] = {name: [] for name in crews}
    names = list(crews)
    for turn in range(turns):
        start = turn % len(names)
        for name in names[start:] + names[:start]:
            found[name].append(writers.run(server, crews[name]))
    made = {}
    for name, each in found.items():
        speeds = [one["per_second"] for one in each]
        middle = statistics.median_low(speeds)
        made[name] = next(one for one in each if one["per_second"] == middle) | {"turns": speeds}
    return made


def _say(name: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {name}", file=sys.stderr, flush=True)


def _write(results: dict[str, Any], path: Path | None) -> None:
    from bench.postgres_report import render
    from bench.targets import judge_postgres

    targets = judge_postgres(results)
    target = path or _RESULTS / f"postgres-{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    target.write_text(json.dumps(results | {"targets": [each.to_dict() for each in targets]}, indent=1))
    print(render(results, targets))
    print(f"\nAll figures: {target}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
