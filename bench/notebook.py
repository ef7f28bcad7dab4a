"""The notebook and the workspace: `python -m bench.notebook [--json PATH]`. About half a minute.

Capture of a repository of 6,500 files with 20 changed beside `git status`; a checkpoint of a notebook of 5,000 items
beside a Document's save of the same change; the brief; a debugging state of 1 MB saved and restored.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import holdfast
from bench.environment import described
from holdfast.agents import Notebook, Workspace

_FILES = 6_500
_CHANGED = 20
_ITEMS = 5_000
_ROUNDS = 15


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="PATH", help="write the figures there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results: dict[str, Any] = {
            "kind": "notebook",
            "meta": described(quick=False, seed=0, folder=Path(folder), packages=["apsw", "zstandard"]),
        }
        results |= (
            measure_capture(Path(folder)) | measure_notebook(Path(folder)) | measure_megabyte(Path(folder))
        )
    for each in tables(results):
        print(each)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=2), encoding="utf-8")
    return 0


def median_ms(work: Callable[[], Any], rounds: int = _ROUNDS) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def paired_ms(one: Callable[[], Any], other: Callable[[], Any], rounds: int = _ROUNDS) -> tuple[float, float]:
    """Both in turn, so that what else the machine does meets both."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for kept, work in zip(times, (one, other), strict=True):
            began = time.perf_counter()
            work()
            kept.append((time.perf_counter() - began) * 1000)
    return statistics.median(times[0]), statistics.median(times[1])


def measure_capture(folder: Path) -> dict[str, float]:
    root = folder / "repository"
    for n in range(_FILES):
        place = root / f"package{n % 65}" / f"module{n}.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"value = {n}\n" * 40)
    git = ["git", "-c", "user.name=b", "-c", "user.email=b@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], cwd=root, check=True)
    for n in range(_CHANGED):
        (root / f"package{n}" / f"module{n}.py").write_text(f"changed = {n}\n" * 40)
    status = ["git", "status", "--porcelain=v2", "--branch", "-z", "-uall", "--no-renames"]
    workspace = Workspace(root)
    assert len(workspace.capture().patches) == _CHANGED

    def run_status() -> None:
        subprocess.run(status, cwd=root, check=True, capture_output=True, env={"GIT_OPTIONAL_LOCKS": "0"})

    capture, plain = paired_ms(workspace.capture, run_status)
    return {"capture_ms": capture, "git_status_ms": plain}


def filled(session: Any) -> Notebook:
    nb = Notebook(session, auto=False)
    for n in range(_ITEMS // 5):
        h = nb.board.add(f"suspect {n}: the value of buffer {n} is read before it is written")
        nb.board.add_evidence(h, f"seen in run {n} with seed {n * 7}", strength=0.4)
        nb.beliefs.add(f"buffer {n} is written by kernel {n % 40}", confidence=0.6, reason=f"trace {n}")
        nb.gaps.add(f"who frees buffer {n}?", criticality="low")
        nb.notes.add(f"buffer {n} has {n * 64} bytes")
    nb.checkpoint("filled")
    return nb


def measure_notebook(folder: Path) -> dict[str, float]:
    with holdfast.open(str(folder / "store"), durability="process") as store:
        nb = filled(store.session("notebook"))
        document = store.session("document").document(default=nb._doc.plain())  # noqa: SLF001
        document.save("filled")
        count = [0]

        def notebook_save() -> None:
            count[0] += 1
            nb.notes.add(f"note {count[0]}")
            nb.checkpoint("one more")

        def document_save() -> None:
            count[0] += 1
            document["notes"][f"n9{count[0]:06}"] = {
                "id": f"n9{count[0]:06}", "text": f"note {count[0]}", "kind": "note", "done": False, "created_at": None,
            }  # fmt: skip
            document.save("one more")

        ours, theirs = paired_ms(notebook_save, document_save, 100)
        # As the command does: opened, and told.
        brief = median_ms(lambda: Notebook(store.session("notebook"), writable=False).brief(2000))
    return {"checkpoint_ms": ours, "document_ms": theirs, "brief_ms": brief}


def measure_megabyte(folder: Path) -> dict[str, float]:
    text = "the value of the buffer is read before it is written; " * 9
    with holdfast.open(str(folder / "megabyte")) as store:

        def first_save(n: int) -> float:
            nb = Notebook(store.session(f"m{n}"), auto=False)
            for each in range(1_800):
                nb.notes.add(f"{each} {text}")
            began = time.perf_counter()
            nb.checkpoint("all")
            return (time.perf_counter() - began) * 1000

        saves = [first_save(n) for n in range(5)]
        size = store.session("m0").checkpoint().size_bytes
        restores = []
        for n in range(5):
            began = time.perf_counter()
            nb = Notebook(store.session(f"m{n}"), auto=False)
            restores.append((time.perf_counter() - began) * 1000)
            assert len(nb.notes.all()) == 1_800
    return {
        "megabyte_bytes": size,
        "megabyte_save_ms": statistics.median(saves),
        "megabyte_restore_ms": statistics.median(restores),
    }


def tables(results: dict[str, Any]) -> list[str]:
    """The figures as Markdown."""
    r = results
    rows = [
        (
            "Capture of 6,500 files, 20 of them changed",
            r["capture_ms"],
            "`git status`",
            r["git_status_ms"],
            2.0,
        ),
        (
            "Checkpoint of a notebook of 5,000 items",
            r["checkpoint_ms"],
            "a Document's save",
            r["document_ms"],
            1.5,
        ),
        ("Opening 5,000 items and a brief of 2,000 tokens", r["brief_ms"], "the limit", 100.0, 1.0),
        (f"First save of {r['megabyte_bytes'] / 1e6:.2f} MB", r["megabyte_save_ms"], "the limit", 100.0, 1.0),
        (f"Restore of {r['megabyte_bytes'] / 1e6:.2f} MB", r["megabyte_restore_ms"], "the limit", 100.0, 1.0),
    ]
    text = ["| | median | beside | ratio | at most |", "|---|--:|---|--:|--:|"]
    text += [
        f"| {what} | {ms:.2f} ms | {beside}, {other:.2f} ms | {ms / other:.2f} | {most:.1f} |"
        for what, ms, beside, other, most in rows
    ]
    return ["\n".join(text)]


if __name__ == "__main__":
    sys.exit(main())
