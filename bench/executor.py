"""Plans beside DBOS: the overhead of a step, the way back after kill -9, a fork, and many steps at once.

    python -m bench.executor              1,000 steps of 1 KB on the disk of bench/results; about a minute
    python -m bench.executor --steps 200  fewer

Each figure is taken in a process of its own. Bodies do nothing but return 1 KB, so that what is measured is the
overhead. Both are as durable as they are by default: a step that returned survives a power cut.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"
SIZE = 1000


def main() -> int:
    if len(sys.argv) > 2 and sys.argv[1] == "--part":
        return part(sys.argv[2], *sys.argv[3:])
    parser = argparse.ArgumentParser(prog="python -m bench.executor")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=RESULTS, help="where the stores are made")
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    rows = []
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="executor-") as folder:
        taken: dict[str, list[dict[str, float]]] = {"holdfast": [], "dbos": []}
        # By turns: what else the machine does meets both.
        for number in range(options.rounds):
            for who, found in taken.items():
                found.append(measured(who, Path(folder), options.steps, number))
        for who, found in taken.items():
            rows.append((who, {key: statistics.median(each[key] for each in found) for key in found[0]}))
        many = run("many", Path(folder) / "many", 10 * options.steps)
    table(rows, many, options.steps)
    return 0


def measured(who: str, folder: Path, steps: int, number: int) -> dict[str, float]:
    place = folder / f"{who}-{number}"
    place.mkdir()
    chain = run(f"{who}-chain", place / "chain", steps)
    killed = place / "killed"
    killed.mkdir()
    process = start(f"{who}-until", killed, steps, "--kill", str(steps // 2))
    process.wait()
    assert process.returncode == -signal.SIGKILL, process.returncode
    began = time.time()
    again = start(f"{who}-until", killed, steps)
    assert again.stdout is not None
    first = json.loads(again.stdout.readline())
    again.communicate()
    return {
        "ms_a_step": chain["seconds"] / steps * 1000,
        "cpu_ms_a_step": chain["cpu"] / steps * 1000,
        "first_new_step_ms": (first["at"] - began) * 1000,
        "fork_ms": chain["fork"] * 1000,
        "fork_kib": chain["fork_bytes"] / 1024,
    }


def table(rows: list[tuple[str, dict[str, float]]], many: dict[str, float], steps: int) -> None:
    names = list(rows[0][1])
    print(f"{steps} steps of {SIZE} bytes, median of the rounds")
    print("| | " + " | ".join(names) + " |\n|" + "---|" * (len(names) + 1))
    for who, found in rows:
        print(f"| {who} | " + " | ".join(f"{found[name]:.2f}" for name in names) + " |")
    ours, theirs = rows[0][1], rows[1][1]
    print("| ratio | " + " | ".join(f"{ours[name] / max(theirs[name], 1e-9):.2f}" for name in names) + " |")
    each = many["seconds"] / many["steps"] * 1000
    print(f"{many['steps']:.0f} steps, 100 at once: {many['seconds']:.1f} s, {each:.2f} ms a step")
    print(f"memory grew by {many['grew_mib']:.0f} MiB for {many['results_mib']:.0f} MiB of results")


def start(name: str, place: Path, *words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.executor", "--part", name, str(place), *map(str, words)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).resolve().parent.parent
    )


def run(name: str, place: Path, steps: int) -> dict[str, float]:
    process = start(name, place, steps)
    out, _ = process.communicate()
    assert process.returncode == 0, name
    found: dict[str, float] = json.loads(out.splitlines()[-1])
    return found


def part(name: str, place: str, steps: str, *words: str) -> int:
    kill = int(words[1]) if words else None
    who, _, what = name.partition("-")
    if name == "many":
        many(place, int(steps))
    else:
        {"holdfast": with_holdfast, "dbos": with_dbos}[who](what, Path(place), int(steps), kill)
    return 0


def said(**facts: float) -> None:
    print(json.dumps(facts), flush=True)


def size(folder: Path) -> int:
    files = [folder] if folder.is_file() else list(folder.rglob("*"))
    return sum(each.stat().st_size for each in files if each.is_file())


class Body:
    """What every step does: say that it is the first after a start, end the process, or return 1 KB."""

    def __init__(self, kill: int | None, *, tells: bool) -> None:
        self.kill, self.tells = kill, tells

    def __call__(self, number: int) -> str:
        if self.tells:
            self.tells = False
            said(at=time.time())
        if number == self.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"{number:010}" * (SIZE // 10)


def with_holdfast(what: str, place: Path, steps: int, kill: int | None) -> None:
    import holdfast
    from holdfast import Executor, Plan, action

    body = Body(kill, tells=what == "until" and kill is None)

    @action
    def step(number: int) -> str:
        return body(number)

    with holdfast.open(place / "store") as store:
        plan, before = Plan("chain"), ()
        for number in range(steps):
            before = (plan.step(step, number, id=f"s{number}", after=before),)
        executor = Executor(store.session("s"), workers=1, keep=None)
        began, cpu = time.perf_counter(), time.process_time()
        assert executor.run(plan).success
        seconds, used = time.perf_counter() - began, time.process_time() - cpu
        if what == "chain":
            before_bytes = store.stats().stored_bytes
            began = time.perf_counter()
            executor.fork(f"s{steps - 1}")
            fork = time.perf_counter() - began
            said(seconds=seconds, cpu=used, fork=fork, fork_bytes=store.stats().stored_bytes - before_bytes)


def with_dbos(what: str, place: Path, steps: int, kill: int | None) -> None:
    import logging

    from dbos import DBOS, SetWorkflowID

    place.mkdir(exist_ok=True)
    logging.disable(logging.CRITICAL)
    body = Body(kill, tells=what == "until" and kill is None)
    DBOS(
        config={
            "name": "bench",
            "system_database_url": f"sqlite:///{place}/dbos.sqlite",
            "log_level": "CRITICAL",
        }
    )

    @DBOS.step()
    def step(number: int) -> str:
        return body(number)

    @DBOS.workflow()
    def chain(count: int) -> int:
        for number in range(count):
            step(number)
        return count

    DBOS.launch()
    began, cpu = time.perf_counter(), time.process_time()
    if what == "until" and kill is None:
        DBOS.retrieve_workflow("w").get_result()
    else:
        with SetWorkflowID("w"):
            assert chain(steps) == steps
    seconds, used = time.perf_counter() - began, time.process_time() - cpu
    if what == "chain":
        before = size(place)
        began = time.perf_counter()
        handle = DBOS.fork_workflow("w", steps)
        fork = time.perf_counter() - began
        handle.get_result()
        said(seconds=seconds, cpu=used, fork=fork, fork_bytes=size(place) - before)
    DBOS.destroy()


def many(place: str, steps: int) -> None:
    import holdfast
    from holdfast import Executor, Plan, action

    @action(idempotent=True)
    def step(number: int) -> str:
        return f"{number:010}" * (SIZE // 10)

    with holdfast.open(Path(place) / "store") as store:
        plan = Plan("wide")
        for number in range(steps):
            plan.step(step, number, id=f"s{number}")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.perf_counter()
        assert Executor(store.session("s"), workers=100, keep=None).run(plan).success
        seconds = time.perf_counter() - began
        grew = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        said(steps=steps, seconds=seconds, grew_mib=grew / 1024, results_mib=steps * SIZE / 2**20)


if __name__ == "__main__":
    sys.exit(main())
