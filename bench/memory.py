"""Peak memory of saving and of loading one large state, beyond the state itself.

Each measurement is a process of its own (`python -m bench.memory`), because a peak belongs to a whole process. The
state's own share is what building it added; the rest of the peak is what saving or loading it needed on top.
"""

from __future__ import annotations

import contextlib
import json
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import orjson

from bench.contenders import Entry, entries
from bench.messages import message, token
from bench.workloads import State

_MEGABYTE = 1_000_000
_ROOT = Path(__file__).resolve().parent.parent


def run(chosen: list[Entry], folder: Path, megabytes: int, seed: int) -> dict[str, Any]:
    """Every contender's figures, in bytes and as multiples of the encoded state. `folder` is removed afterwards."""
    results: dict[str, Any] = {"megabytes": megabytes, "contenders": {}}
    try:
        for entry in chosen:
            missing = entry.kind.missing()
            if missing:
                results["contenders"][entry.name] = {"missing": missing}
                continue
            saved = _child("save", entry.name, str(folder), str(megabytes), str(seed))
            loaded = _child("load", entry.name, str(folder), saved["name"])
            encoded = saved["encoded"]
            on_top = loaded["peak"] - saved["value"]
            results["contenders"][entry.name] = {
                "encoded": encoded,
                "value": saved["value"],
                "save": {"peak": saved["peak"], "ratio": saved["peak"] / encoded},
                "load": {"peak": on_top, "ratio": on_top / encoded},
            }
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return results


def _child(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.memory", *arguments]
    done = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def large_state(megabytes: int, seed: int) -> State:
    """Messages that all differ, made from a few hundred: making each from scratch would take longer than the rest."""
    rng = Random(seed)
    models = [orjson.dumps(message(rng, number)) for number in range(500)]
    messages: list[Any] = []
    size = 0
    while size < megabytes * _MEGABYTE:
        model = models[len(messages) % len(models)]
        messages.append(orjson.loads(model) | {"id": f"msg_{token(rng)}", "trace": token(rng, 32)})
        size += len(model) + 45
    return {"messages": messages}


def _resident() -> tuple[int, int]:
    """Bytes this process holds now, and the most it ever held."""
    status = Path("/proc/self/status")
    if status.exists():
        # ru_maxrss would do for the peak, but Linux carries over what the parent had when it started this process.
        held = dict(re.findall(r"(VmRSS|VmHWM):\s+(\d+) kB", status.read_text()))
        return int(held["VmRSS"]) * 1024, int(held["VmHWM"]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return most, most


def _forget_peak() -> None:
    """Let the peak start again from here, where the system can."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _save(name: str, folder: str, megabytes: str, seed: str) -> dict[str, Any]:
    (entry,) = entries(lambda each: each == name)
    contender = entry.make(Path(folder))
    before, _ = _resident()
    state = large_state(int(megabytes), int(seed))
    built, _ = _resident()
    _forget_peak()
    contender.start(state)
    _, peak = _resident()
    saved = contender.names[0]
    contender.close()
    return {
        "name": saved,
        "encoded": len(orjson.dumps(state)),
        "value": built - before,
        "peak": peak - built,
    }


def _load(name: str, folder: str, checkpoint: str) -> dict[str, Any]:
    (entry,) = entries(lambda each: each == name)
    reader = entry.make(Path(folder)).reader()
    before, _ = _resident()
    _forget_peak()
    state = reader.load(checkpoint)
    _, peak = _resident()
    assert state
    return {"peak": peak - before}


if __name__ == "__main__":
    action, *rest = sys.argv[1:]
    print(json.dumps({"save": _save, "load": _load}[action](*rest)))
