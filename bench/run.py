"""What a run costs: `python -m bench.run`, from the root of the repository.

python -m bench.run                  everything: about two minutes
python -m bench.run --quick          the same with fewer thoughts; its figures are no measurement
python -m bench.run --json PATH      where the figures go, beside the tables

Four questions. What does a thought cost beside the save of a Document that gets the same dict appended, in turns, in
processor time and on the clock. Does a late thought of a long run cost more than an early one. How much room does such
a run take, beside the bytes of its thoughts alone, with its tables and without. And how long does "every checkpoint in
which tool X was called" take among 100,000 calls, and by which plan.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

import holdfast
from bench.environment import described
from holdfast.agents import Questions, Run
from holdfast.agents.run.tables import EXECUTIONS, TOOL_CALLS

_RESULTS = Path(__file__).resolve().parent / "results"
_WORDS = Path(__file__).read_text(encoding="utf-8").split()


def main() -> int:
    """Parse, run, print, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.run", description="What a run costs")
    parser.add_argument("--quick", action="store_true", help="fewer thoughts: a check that everything runs")
    parser.add_argument("--folder", type=Path, help="where the stores go; a temporary folder by default")
    parser.add_argument("--json", type=Path, help="where the figures go; bench/results/ by default")
    options = parser.parse_args()
    thoughts, calls = (500, 2_000) if options.quick else (10_000, 100_000)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        results = {
            "kind": "run",
            "environment": described(quick=options.quick, seed=1, folder=Path(folder), packages=["apsw"]),
            "thought": beside_a_document(Path(folder), 200 if options.quick else 1000),
            "long": {
                name: long_run(Path(folder, name), thoughts, sql=name == "tables")
                for name in ("plain", "tables")
            },
            "question": question(Path(folder, "calls"), calls),
        }
    print(tables(results))
    path = options.json or _RESULTS / "run.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0


def sentence(random: Random, length: int = 100) -> str:
    """A text of about 600 characters, as a model writes it: words, not noise."""
    return " ".join(random.choice(_WORDS) for _ in range(length))


def beside_a_document(folder: Path, count: int) -> dict[str, Any]:
    """A thought with and without tables, and the same dict appended to a Document, in turns."""
    random = Random(1)
    with holdfast.open(folder / "thought") as store:
        document = store.session("document").document(default={"thoughts": []})
        contenders = {
            "document": lambda text: (
                document["thoughts"].append(
                    {"type": "reasoning", "content": text, "created_at": time.time_ns()}
                ),
                document.save(text[:120], step=len(document["thoughts"])),
            ),
            "thought": Run(store.session("run")).think,
            "thought with tables": Run(store.session("tables"), sql=True).think,
        }
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
        for _ in range(count):
            text = sentence(random)
            for name, work in contenders.items():
                wall, cpu = time.perf_counter(), time.process_time()
                work(text)
                times[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    return {
        name: {
            "wall_us": statistics.median(wall for wall, _ in found) * 1e6,
            "cpu_us": statistics.median(cpu for _, cpu in found) * 1e6,
        }
        for name, found in times.items()
    }


def long_run(folder: Path, count: int, *, sql: bool) -> dict[str, Any]:
    """Early and late thoughts of one run, and what is on the disk at its end."""
    random = Random(2)
    raw, times = 0, []
    with holdfast.open(folder, durability="process") as store:
        run = Run(store.session("long"), sql=sql)
        for _ in range(count):
            text = sentence(random)
            began = time.process_time()
            thought = run.think(text)
            times.append(time.process_time() - began)
            raw += len(json.dumps(thought))
    tenth = max(count // 10, 1)
    on_disk = sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
    early, late = statistics.median(times[tenth : 2 * tenth]), statistics.median(times[-tenth:])
    return {
        "thoughts": count,
        "early_us": early * 1e6,
        "late_us": late * 1e6,
        "late_to_early": late / early,
        "raw_bytes": raw,
        "disk_bytes": on_disk,
        "disk_to_raw": on_disk / raw,
    }


def question(folder: Path, count: int) -> dict[str, Any]:
    """Every checkpoint in which a tool was called, among many calls of a hundred tools."""
    with holdfast.open(folder, durability="process") as store:
        store.session("x").save({})
        execution = {
            "id": "e", "session": "x", "agent_id": "a", "task": "", "started_at": 0, "completed_at": None,
            "status": "running", "step_number": 0, "tokens_used": 0, "cost_usd": 0.0, "duration_ms": 0,
        }  # fmt: skip
        store.write([EXECUTIONS.insert(execution)])
        for first in range(0, count, 5000):
            store.write(
                [
                    TOOL_CALLS.insert(
                        {
                            "execution_id": "e",
                            "id": f"call_{n}",
                            "checkpoint_id": f"ckpt_{n}",
                            "tool_id": f"tool-{n % 100}",
                            "args_json": "{}",
                            "result_json": None,
                            "success": 1,
                            "error": None,
                            "status": "completed",
                            "started_at": n,
                            "completed_at": n + 1,
                            "thought_id": None,
                        }
                    )
                    for n in range(first, min(first + 5000, count))
                ]
            )
        began = time.perf_counter()
        found = Questions(store).tool_calls("tool-7")
        took = time.perf_counter() - began
        asked = "explain query plan select checkpoint_id from tool_calls where tool_id = 'tool-7'"
        plan = [row["detail"] for row in store.sql(asked)]
    return {"calls": count, "found": len(found), "ms": took * 1e3, "plan": plan}


def tables(results: dict[str, Any]) -> str:
    """The figures as Markdown."""
    thought, long, asked = results["thought"], results["long"], results["question"]
    base = thought["document"]
    lines = ["| a save of | processor µs | on the clock µs | x a Document save |", "|---|--:|--:|--:|"]
    lines += [
        f"| {name} | {each['cpu_us']:.0f} | {each['wall_us']:.0f} | {each['cpu_us'] / base['cpu_us']:.2f} |"
        for name, each in thought.items()
    ]
    lines += ["", "| run of | early µs | late µs | late / early | raw MB | disk MB | disk / raw |"]
    lines += ["|---|--:|--:|--:|--:|--:|--:|"]
    lines += [
        f"| {each['thoughts']:,} thoughts, {name} | {each['early_us']:.0f} | {each['late_us']:.0f} | "
        f"{each['late_to_early']:.2f} | {each['raw_bytes'] / 1e6:.1f} | {each['disk_bytes'] / 1e6:.1f} | "
        f"{each['disk_to_raw']:.2f} |"
        for name, each in long.items()
    ]
    lines += ["", f"Tool X among {asked['calls']:,} calls: {asked['found']:,} found in {asked['ms']:.1f} ms."]
    return "\n".join([*lines, f"Plan: `{'; '.join(asked['plan'])}`"])


if __name__ == "__main__":
    raise SystemExit(main())
