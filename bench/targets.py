"""What holdfast has set itself, and how far a run got.

Every target is a ratio that should be small: holdfast's figure over a peer's, or over the new content. `at least` is
the promise, `aim` the wish. A row is made only where the run has both figures; sizes against a peer are judged only at
the number of steps they were set for, because a peer that stores whole states falls behind with every step. Times are
judged by the wall; the ratio of processor times stands beside, for machines that have other things to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Results = dict[str, Any]

_PLAIN = "holdfast"
_DOCUMENT = "document"
_NAMES = {
    "saver": "SqliteSaver",
    "delta": "DeltaChannel",
    "bare": "bare SQLite",
    _PLAIN: "plain dict",
    _DOCUMENT: "Document",
}
_POSTGRES_NAMES = _NAMES | {"saver": "PostgresSaver"}


@dataclass(frozen=True)
class Target:
    """One ratio beside what it should be."""

    what: str
    against: str
    measured: float
    at_least: float | None
    aim: float | None
    cpu: float | None = None

    @property
    def mark(self) -> str:
        """Whether the aim or the promise is met, or by how much it is not."""
        if self.aim is not None and self.measured <= self.aim:
            return "aim met"
        if self.at_least is None:
            return f"{self.measured / (self.aim or 1):.2f} x the aim"
        if self.measured <= self.at_least:
            return "pass"
        return f"SHORT by {self.measured / self.at_least:.2f} x"

    def to_dict(self) -> dict[str, Any]:
        """For the JSON."""
        return {**vars(self), "mark": self.mark}


def judge(results: Results) -> list[Target]:
    """Every target the run has figures for."""
    workloads = results["workloads"]
    return [
        *_sizes(workloads),
        *_saves(workloads),
        *_loads(workloads),
        *_history(results.get("history")),
        *_log(workloads),
        *_memory(results.get("memory")),
    ]


def judge_postgres(results: Results) -> list[Target]:
    """The same for a run of `bench.postgres`."""
    made: list[Target] = []
    for name, workload in results["workloads"].items():
        for ours in (_PLAIN, _DOCUMENT):
            what = f"{name} on disk, {_NAMES[ours]}"
            size = _figure(workload, ours, "bytes")
            # A peer that stores whole states falls behind with every step: 1/60 is meant for 1,000.
            if workload["steps"] == 1000:
                ratio = _over(size, _figure(workload, "saver", "bytes"))
                made += _target(what, "PostgresSaver", ratio, 1 / 60, None)
            ratio = _over(size, _figure(workload, "delta", "bytes"))
            made += _target(what, "DeltaChannel", ratio, 1.0, None)
        timed: list[tuple[str, tuple[str, str], tuple[str, ...], float]] = [
            ("late save, plain dict", (_PLAIN, "saver"), ("save",), 1 / 8),
            ("late save, Document", (_DOCUMENT, "saver"), ("save",), 1 / 8),
            ("late save, Document", (_DOCUMENT, "delta"), ("save",), 1.5),
            ("load of the newest checkpoint", (_PLAIN, "saver"), ("load", "newest"), 1 / 2),
            ("loads in a row, store open", (_PLAIN, "saver"), ("load_in_a_row",), 1 / 2),
            ("list", (_PLAIN, "saver"), ("log",), 1 / 50),
        ]
        for what, sides, keys, limit in timed:
            made += _timed(f"{name} {what}", workload, sides, keys, (limit, None), _POSTGRES_NAMES)
    writers = results.get("writers") or {}
    whole = writers.get("whole") or {}
    made += _writing("about 100 messages", writers)
    made += _writing(f"W1-{whole.get('steps')}", whole)
    return made


def _writing(what: str, crews: Results) -> Iterator[Target]:
    found = crews.get("contenders", {})
    for ours in (_PLAIN, _DOCUMENT):
        if ours in found and "saver" in found:
            # Upside down, so that small is good here too: the time that a save takes of everyone's.
            measured = found["saver"]["per_second"] / found[ours]["per_second"]
            count = found[ours]["writers"]
            name = f"{count} writers, {what}, time for a save, {_NAMES[ours]}"
            yield from _target(name, "PostgresSaver", measured, 1 / 3, None)


def judge_graphs(results: Results) -> list[Target]:
    """The same for a run of `bench.graphs`."""
    made: list[Target] = []
    for database, names in (("sqlite", _NAMES), ("postgres", _POSTGRES_NAMES)):
        found = {"contenders": results["databases"].get(database, {})}
        title = "graph on SQLite" if database == "sqlite" else "graph on PostgreSQL"
        size = _figure(found, _PLAIN, "bytes")
        # A saver that stores whole states falls behind with every step: the limits are meant for 1,000.
        # PostgreSQL compresses those by itself, so that there is less to win on its disk, and no limit was set.
        if results["steps"] == 1000 and database == "sqlite":
            for peer, limit in (("saver", 1 / 100), ("delta", 1 / 2)):
                ratio = _over(size, _figure(found, peer, "bytes"))
                made += _target(f"{title}, on disk", names[peer], ratio, limit, None)
        for what, limit in (("put", 1 / 3), ("get_state", 1.0), ("list", 1 / 3), ("history", 1 / 3)):
            made += _timed(f"{title}, {what}", found, (_PLAIN, "saver"), (what,), (limit, None), names)
    return made


def _figure(workload: Results | None, name: str, *keys: str) -> float | None:
    """A figure of a contender, None where it has none."""
    found: Any = (workload or {}).get("contenders", {}).get(name, {})
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _over(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or not theirs else ours / theirs


def _target(
    what: str, against: str, measured: float | None, at_least: float | None, aim: float | None
) -> Iterator[Target]:
    if measured is not None:
        yield Target(what, against, measured, at_least, aim)


def _timed(
    what: str,
    workload: Results,
    sides: tuple[str, str],
    keys: tuple[str, ...],
    limits: tuple[float | None, float | None],
    names: dict[str, str] = _NAMES,
) -> Iterator[Target]:
    """Medians of one of ours over one of theirs."""
    wall, cpu = (
        _over(*(_figure(workload, side, *keys, clock, "median") for side in sides))
        for clock in ("wall", "cpu")
    )
    if wall is not None:
        yield Target(what, names[sides[1]], wall, *limits, cpu)


def _sizes(workloads: Results) -> Iterator[Target]:
    against_peers = {"W1-1000": (1 / 150, 1 / 2), "W1-3000": (1 / 500, 1 / 6)}
    for name, workload in workloads.items():
        for ours in (_PLAIN, _DOCUMENT):
            size = _figure(workload, ours, "bytes")
            what = f"{name} on disk, {_NAMES[ours]}"
            for peer, limit in zip(("saver", "delta"), against_peers.get(name, ()), strict=False):
                ratio = _over(size, _figure(workload, peer, "bytes"))
                yield from _target(what, _NAMES[peer], ratio, limit, None)
            ratio = _over(size, workload["new_content"]["raw"])
            if name.startswith("W1"):
                yield from _target(what, "raw new content", ratio, None, 1.5)
            elif name in ("W3", "W4"):
                yield from _target(what, "raw new content", ratio, 4.0, 2.0)


def _saves(workloads: Results) -> Iterator[Target]:
    limits = {
        ("W1", _PLAIN, "saver"): (1 / 2, 1 / 4),
        ("W1", _DOCUMENT, "delta"): (1.5, 1.0),
        ("W1", _DOCUMENT, "bare"): (None, 1.5),
        ("W2", _PLAIN, "saver"): (1 / 4, 1 / 6),
        ("W2", _DOCUMENT, "delta"): (1.5, 1.0),
    }
    for name, workload in workloads.items():
        for (kind, ours, peer), both in limits.items():
            if name.startswith(kind):
                yield from _timed(
                    f"{name} late save, {_NAMES[ours]}", workload, (ours, peer), ("save",), both
                )


def _loads(workloads: Results) -> Iterator[Target]:
    for name, workload in workloads.items():
        if name.startswith(("W1", "W2")):
            for point in ("first", "middle", "newest"):
                what = f"{name} load of the {point} checkpoint"
                yield from _timed(what, workload, (_PLAIN, "saver"), ("load", point), (2.0, 1.2))


def _history(history: Results | None) -> Iterator[Target]:
    if history:
        what = f"load with {history['many']:,} checkpoints in the store"
        for which in ("newest", "oldest"):
            wall, cpu = (_figure(history, "holdfast-process", which, clock) for clock in ("wall", "cpu"))
            if wall is not None:
                # "Flat" is the aim; 1.1 is as flat as a noisy machine can show.
                yield Target(f"{what}, {which}", f"{history['few']} checkpoints", wall, 1.3, 1.1, cpu)


def _log(workloads: Results) -> Iterator[Target]:
    for name, workload in workloads.items():
        yield from _timed(f"{name} log", workload, (_PLAIN, "saver"), ("log",), (1 / 50, 1 / 100))


def _memory(memory: Results | None) -> Iterator[Target]:
    for action in ("save", "load"):
        ratio = _figure(memory, _PLAIN, action, "ratio")
        what = f"peak memory beyond the value, {action} of {(memory or {}).get('megabytes')} MB"
        yield from _target(what, "its encoded size", ratio, 1.5, 0.5)
