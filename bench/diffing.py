"""What a diff costs beside loading both states: two states of 10 MB that differ in ten places.

python -m bench.diffing                  everything: half a minute
python -m bench.diffing --quick          fewer rounds; its ratios are no measurement
python -m bench.diffing --json PATH      where the figures go, beside the table

Prints the chunks and bytes that are read, and the time of loading both states over the time of the diff; the target is
at least 20. Both are timed in turns in one process, and the minimum counts: the machine may have other things to do.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import holdfast
from bench.environment import described
from bench.report import Row, table
from holdfast.objects.codec.registry import GLOBAL
from holdfast.objects.diff.diff import diff_roots
from holdfast.objects.tree.read import reachable
from holdfast.storage.records import ChunkHash

_RESULTS = Path(__file__).resolve().parent / "results"
_TARGET = 20
_MESSAGES = 10_000


def main() -> int:
    """Parse, measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.diffing", description="What a diff costs")
    parser.add_argument("--quick", action="store_true", help="fewer rounds; its ratios are no measurement")
    parser.add_argument("--json", type=Path, help="where the figures go; bench/results/ by default")
    options = parser.parse_args()
    rounds = 5 if options.quick else 40
    with tempfile.TemporaryDirectory() as folder:
        meta = described(quick=options.quick, seed=8, folder=Path(folder), packages=("holdfast", "apsw"))
        results = {
            "kind": "diff",
            "meta": meta,
            "rounds": rounds,
            "edits": _measure_all(rounds, Path(folder)),
        }
    print("\n\n".join(tables(results)))
    path = options.json or _RESULTS / f"diffing-{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=1), encoding="utf-8")
    print(f"\nAll figures: {path}")
    return 0


def tables(results: dict[str, Any]) -> list[str]:
    """What was read, and how long it took."""
    edits: list[Row] = [
        (
            name,
            f"{each['chunks_read']:,} of {each['chunks']:,}",
            f"{each['chunks_read'] / each['chunks']:.1%}",
            f"{each['bytes_read'] / each['bytes']:.1%}",
            f"{each['least_load_ms']:.1f}",
            f"{each['least_diff_ms']:.2f}",
            f"1/{each['ratio']:.0f}",
            "pass" if each["ratio"] >= _TARGET else f"SHORT by {_TARGET / each['ratio']:.2f} x",
        )
        for name, each in results["edits"].items()
    ]
    header = ("ten edits", "chunks read", "", "bytes", "load both", "diff", "/ load", f"at most 1/{_TARGET}")
    return [
        "### A diff of two states of 10 MB, beside loading both: ms of processor, least of all rounds",
        table(header, edits),
    ]


def _measure_all(rounds: int, folder: Path) -> dict[str, Any]:
    draw = random.Random(8)
    words = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(2, 9))) for _ in range(3000)]

    def message(number: int) -> dict[str, Any]:
        text = " ".join(draw.choices(words, k=150))
        return {"id": f"m{number}", "role": "user", "content": text, "tokens": number, "meta": {"ok": True}}

    state = {"goal": "x", "score": 0.41, "messages": [message(number) for number in range(_MESSAGES)]}
    with holdfast.open(folder / "store") as store:
        session = store.session("bench")
        first = session.save(state)
        return {
            name: _measure(store, first, session.save(new), rounds)
            for name, new in _edited(state, message, draw).items()
        }


def _edited(
    state: dict[str, Any], message: Callable[[int], dict[str, Any]], draw: random.Random
) -> dict[str, dict[str, Any]]:
    step, anywhere, apart = (copy.deepcopy(state) for _ in range(3))
    step.update(goal="y", score=0.63)
    for at in (7, 5_000, 9_990):
        step["messages"][at]["tokens"] = -1
    del step["messages"][3_000]
    step["messages"].insert(8_000, message(-1))
    step["messages"] += [message(-2), message(-3), message(-4)]
    for number in range(10):
        anywhere["messages"][draw.randrange(_MESSAGES)]["tokens"] = -1
        apart["messages"][number * _MESSAGES // 10 + 137]["tokens"] = -1
    return {"of one step": step, "anywhere": anywhere, "as far apart as can be": apart}


def _measure(
    store: holdfast.Store, old: holdfast.Checkpoint, new: holdfast.Checkpoint, rounds: int
) -> dict[str, Any]:
    session = store.session("bench")
    chunks, size, both = _read(store, old, new)
    loading = differing = float("inf")
    for _ in range(rounds):
        loading = min(loading, _spent(lambda: (session.load(old), session.load(new))))
        differing = min(differing, _spent(lambda: store.diff(old, new)))
    return {
        "chunks_read": chunks,
        "chunks": both,
        "bytes_read": size,
        "bytes": old.size_bytes + new.size_bytes,
        "least_load_ms": loading * 1000,
        "least_diff_ms": differing * 1000,
        "ratio": loading / differing,
    }


def _read(store: holdfast.Store, old: holdfast.Checkpoint, new: holdfast.Checkpoint) -> tuple[int, int, int]:
    """Chunks and bytes that a diff reads, and the chunks of both states."""
    chunks = size = 0
    one, other = (ChunkHash(bytes.fromhex(each.root)) for each in (old, new))
    # What is read is not for the users of a store to know; the benchmark looks over its shoulder.
    with store._reader() as reader:  # noqa: SLF001

        def read(names: Any) -> Any:
            nonlocal chunks, size
            found = reader.chunks(names)
            taken = {name: found[name] for name in names}
            chunks += len(taken)
            size += sum(map(len, taken.values()))
            return taken

        diff_roots(one, other, read, GLOBAL)
        both = sum(len(list(reachable(root, reader.chunks))) for root in (one, other))
    return chunks, size, both


def _spent(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    raise SystemExit(main())
