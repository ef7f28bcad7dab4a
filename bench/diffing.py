"""What a diff costs beside loading both states: two states of 10 MB that differ in ten places.

python -m bench.diffing [--quick]

Prints the chunks and bytes that are read, and the time of loading both states over the time of the diff; the target is
at least 20. Both are timed in turns in one process, and the minimum counts: the machine may have other things to do.
"""

from __future__ import annotations

import argparse
import copy
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import holdfast
from holdfast.objects.diffing.states import changes_of_roots
from holdfast.objects.links import reachable
from holdfast.objects.registry import GLOBAL
from holdfast.storage.records import ChunkHash

_TARGET = 20
_MESSAGES = 10_000


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds; its ratios are no measurement")
    rounds = 5 if parser.parse_args().quick else 40
    draw = random.Random(8)
    words = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(2, 9))) for _ in range(3000)]

    def message(number: int) -> dict[str, Any]:
        text = " ".join(draw.choices(words, k=150))
        return {"id": f"m{number}", "role": "user", "content": text, "tokens": number, "meta": {"ok": True}}

    state = {"goal": "x", "score": 0.41, "messages": [message(number) for number in range(_MESSAGES)]}
    print(f"{'ten edits':24} {'chunks':>8} {'bytes':>8} {'load both':>11} {'diff':>9} {'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder, holdfast.open(Path(folder) / "store") as store:
        session = store.session("bench")
        first = session.save(state)
        for name, new in _edited(state, message, draw).items():
            _measure(store, name, first, session.save(new), rounds)
    return 0


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
    store: holdfast.Store, name: str, old: holdfast.Checkpoint, new: holdfast.Checkpoint, rounds: int
) -> None:
    session = store.session("bench")
    chunks, size, both = _read(store, old, new)
    loading = differing = float("inf")
    for _ in range(rounds):
        loading = min(loading, _spent(lambda: (session.load(old), session.load(new))))
        differing = min(differing, _spent(lambda: store.diff(old, new)))
    ratio = loading / differing
    print(
        f"{name:24} {chunks / both:8.2%} {size / (old.size_bytes + new.size_bytes):8.2%} "
        f"{loading * 1000:8.1f} ms {differing * 1000:6.2f} ms {ratio:7.1f}"
        + ("" if ratio >= _TARGET else f"  (target {_TARGET})")
    )


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

        changes_of_roots(one, other, read, GLOBAL)
        both = sum(len(list(reachable(root, reader.chunks))) for root in (one, other))
    return chunks, size, both


def _spent(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    raise SystemExit(main())
