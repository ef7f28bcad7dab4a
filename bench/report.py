"""The tables: one per workload, then long histories, memory and the targets. Markdown that reads well as it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import getitem
from typing import Any

from bench.targets import Results, Target

Row = Sequence[str]


def render(results: Results, targets: list[Target]) -> str:
    """The whole report."""
    parts = [_head(results["meta"])]
    parts += [_workload(name, each) for name, each in results["workloads"].items()]
    if results.get("history"):
        parts.append(_history(results["history"]))
    if results.get("memory"):
        parts.append(_memory(results["memory"]))
    if targets:
        parts.append(target_table(targets))
    return "\n\n".join(parts)


def ratio(value: float | None) -> str:
    """1/163 where small is meant, 1.31 x otherwise."""
    if value is None:
        return "-"
    return f"1/{1 / value:.3g}" if 0 < value < 0.95 else f"{value:.2f} x"


def size(value: float) -> str:
    """Bytes in MB."""
    return f"{value / 1e6:,.2f} MB"


def ms(figures: dict[str, Any] | None, which: str = "median") -> str:
    """Wall time, and the processor's in parentheses."""
    return "-" if figures is None else f"{figures['wall'][which]:.2f} ({figures['cpu'][which]:.2f})"


def table(header: Row, rows: list[Row]) -> str:
    """An aligned table: the first column to the left, figures to the right."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]

    def line(row: Row) -> str:
        cells = [
            row[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
        ]
        return f"| {' | '.join(cells)} |"

    rule = "|".join(["-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:])])
    return "\n".join([line(header), f"|{rule}|", *map(line, rows)])


def _head(meta: Results) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in meta["versions"].items())
    sync = meta["sync"]["wall"]["median"]
    return (
        f"{meta['date']}, seed {meta['seed']}{', quick run' if meta['quick'] else ''}. {versions}.\n"
        f"{meta['machine']}. One fsync of 4 KB: {sync:.2f} ms.\n"
        "Times are medians in ms, processor time in parentheses; saves are those of the last tenth of the run. Sizes\n"
        "are those of the closed store. (process): survives the end of the process, not a power cut."
    )


def _workload(name: str, workload: Results) -> str:
    content = workload["new_content"]
    title = (
        f"## {name}: {workload['about']}\n\nState at the end {size(workload['state_bytes'])} as JSON. New content "
        f"{size(content['raw'])} raw, {size(content['zstd3'])} as one zstd-3 frame.\n"
    )
    header = ["", "on disk", "/ raw", "/ Saver", "/ Delta", "save", "/ Saver", "/ Delta", "save p90"]
    header += ["load first", "middle", "newest", "/ Saver", "in a row", "/ Saver", "log"]
    rows = [_row(each, workload) for each in workload["contenders"].values()]
    return f"{title}\n{table(header, rows)}"


def _row(contender: Results, workload: Results) -> Row:
    label = contender["label"] + (" (process)" if contender["durability"] == "process" else "")
    if "missing" in contender:
        return [label, contender["missing"], *["-"] * 14]
    on_disk, save = contender["bytes"], contender["save"]
    loads = contender.get("load", {})
    peers = [workload["contenders"].get(name) for name in ("saver", "delta")]
    equals = [_equal(workload, name, contender["durability"]) for name in ("saver", "delta")]
    return [
        label,
        size(on_disk),
        ratio(on_disk / workload["new_content"]["raw"]),
        *(ratio(on_disk / peer["bytes"] if peer else None) for peer in peers),
        ms(save),
        *(
            ratio(save["wall"]["median"] / peer["save"]["wall"]["median"] if peer else None)
            for peer in equals
        ),
        ms(save, "p90"),
        *(ms(loads.get(point)) for point in ("first", "middle", "newest")),
        ratio(_loads(contender, peers[0], "load", "newest")),
        ms(contender.get("load_in_a_row")),
        ratio(_loads(contender, peers[0], "load_in_a_row")),
        ms(contender.get("log")),
    ]


def _equal(workload: Results, name: str, durability: str) -> Results | None:
    """The peer at the same durability: saves are compared with no other. Sizes and loads do not depend on it."""
    return workload["contenders"].get(name if durability == "power" else f"{name}-process")


def _loads(contender: Results, peer: Results | None, *keys: str) -> float | None:
    if peer is None or any(keys[0] not in each for each in (contender, peer)):
        return None
    ours, theirs = (reduce(getitem, keys, each) for each in (contender, peer))
    return ours["wall"]["median"] / theirs["wall"]["median"]


def _history(history: Results) -> str:
    cases: list[str] = []
    rows = []
    for name, each in history["contenders"].items():
        if "missing" not in each:
            cases = list(each["load"])
            ratios = [ratio(each[which]["wall"]) for which in ("newest", "oldest")]
            rows.append([name, *map(ms, each["load"].values()), *ratios])
    title = f"## Long history: {history['about']}\n"
    return (
        f"{title}\n{table(['', *(f'load, {case}' for case in cases), 'newest', 'oldest'], rows)}"
        if rows
        else title
    )


def _memory(memory: Results) -> str:
    rows = [
        [name, size(each["encoded"]), size(each["value"]), *_peaks(each)]
        for name, each in memory["contenders"].items()
        if "missing" not in each
    ]
    header = ["", "as JSON", "in memory", "save: peak on top", "/ JSON", "load: peak on top", "/ JSON"]
    return f"## Peak memory of a {memory['megabytes']} MB state\n\n{table(header, rows)}"


def _peaks(figures: Results) -> Iterator[str]:
    for action in ("save", "load"):
        yield size(figures[action]["peak"])
        yield ratio(figures[action]["ratio"])


def target_table(targets: list[Target]) -> str:
    """What was wanted, and how far it got."""
    rows = [
        [each.what, each.against, *map(ratio, (each.measured, each.cpu, each.at_least, each.aim)), each.mark]
        for each in targets
    ]
    return f"## Targets\n\n{table(['what', 'against', 'measured', 'cpu', 'at least', 'aim', ''], rows)}"
