"""The tables of a run on PostgreSQL."""

from __future__ import annotations

from typing import Any

from bench.report import Row, ms, ratio, size, table, target_table
from bench.targets import Results, Target

_LABELS = {
    "saver": "PostgresSaver",
    "delta": "DeltaChannel(100)",
    "holdfast": "holdfast, plain dict",
    "document": "holdfast, Document",
}


def render(results: Results, targets: list[Target]) -> str:
    """The whole report."""
    parts = [_head(results["meta"])]
    for name, each in results["workloads"].items():
        parts += [_workload(name, each), _sizes(each)]
    if results.get("writers"):
        writers = results["writers"]
        count, whole = writers["count"], writers["whole"]
        title = f"{count} writers at once, each through W1 with {whole['steps']:,} steps"
        parts.append(
            _writers(f"{count} writers at once, states of about 100 messages", writers["contenders"])
        )
        parts.append(_writers(title, whole["contenders"]))
    if results.get("scale"):
        parts += [_scale(results["scale"]), _million(results["scale"])]
    if targets:
        parts.append(target_table(targets))
    return "\n\n".join(parts)


def scale_tables(scale: Results) -> tuple[str, str]:
    """The two tables of `scale` without their headings, for a page that has its own."""
    return _scale(scale).partition("\n\n")[2], _million(scale).partition("\n\n")[2]


def _head(meta: Results) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in meta["versions"].items())
    return (
        f"{meta['date']}, seed {meta['seed']}{', quick run' if meta['quick'] else ''}. {versions}.\n"
        f"{meta['machine']}. One fsync of 4 KB: {meta['sync']['wall']['median']:.2f} ms.\n"
        "Times are medians in ms, processor time of the client in parentheses; saves are those of the last tenth."
    )


def _over(mine: float | None, peer: float | None) -> str:
    return ratio(None if mine is None or not peer else mine / peer)


def _workload(name: str, workload: Results) -> str:
    content, all_of_them = workload["new_content"], workload["contenders"]
    title = (
        f"### {name} on PostgreSQL: {workload['about']}\n\nState at the end {size(workload['state_bytes'])} as JSON. "
        f"New content {size(content['raw'])} raw, {size(content['zstd3'])} as one zstd-3 frame.\n"
    )
    header = ["", "on disk", "/ raw", "/ Saver", "/ Delta", "save", "/ Saver", "/ Delta", "save p90"]
    header += ["load first", "middle", "newest", "/ Saver", "in a row", "/ Saver", "list", "/ Saver"]
    rows: list[Row] = []
    for each in all_of_them.values():
        peers = [all_of_them.get(peer) for peer in ("saver", "delta")]
        rows.append(
            [
                each["label"],
                size(each["bytes"]),
                ratio(each["bytes"] / content["raw"]),
                *(_over(each["bytes"], peer and peer["bytes"]) for peer in peers),
                ms(each["save"]),
                *(_over(_median(each["save"]), peer and _median(peer["save"])) for peer in peers),
                ms(each["save"], "p90"),
                *(ms(each["load"][point]) for point in ("first", "middle", "newest")),
                _over(_median(each["load"]["newest"]), peers[0] and _median(peers[0]["load"]["newest"])),
                ms(each["load_in_a_row"]),
                _over(_median(each["load_in_a_row"]), peers[0] and _median(peers[0]["load_in_a_row"])),
                ms(each["log"]),
                _over(_median(each["log"]), peers[0] and _median(peers[0]["log"])),
            ]
        )
    return f"{title}\n{table(header, rows)}"


def _median(figures: Results) -> float:
    return float(figures["wall"]["median"])


def _sizes(workload: Results) -> str:
    header = ["", "tables", "indexes", "all, after a vacuum", "WAL for a save", "opening"]
    rows = []
    for each in workload["contenders"].values():
        before, after = each["size"]["before_vacuum"], each["size"]["after_vacuum"]
        rows.append(
            [
                each["label"],
                size(before["tables"]),
                size(before["indexes"]),
                size(sum(after.values())),
                f"{each['log_bytes_per_save'] / 1e3:,.1f} KB",
                ms(each["open"]["newest"]),
            ]
        )
    return table(header, rows)


def _writers(title: str, crews: Results) -> str:
    peer = crews.get("saver", {}).get("per_second")
    header = ["", "saves/s", "/ Saver", "all turns", "median", "p90", "p99", "cpu, clients", "cpu, server"]
    header.append("WAL for a save")
    rows = []
    for name, each in crews.items():
        turns = " ".join(f"{speed:,.0f}" for speed in each["turns"])
        rows.append([_LABELS[name], *_speed(each, peer), turns, *_latency(each), *_costs(each)])
    return f"### {title}\n\n{table(header, rows)}"


def _speed(crew: Results, peer: float | None) -> Row:
    return [f"{crew['per_second']:,.0f}", _over(crew["per_second"], peer)]


def _latency(crew: Results) -> Row:
    return [f"{crew['latency'][name]:.2f}" for name in ("median", "p90", "p99")]


def _costs(crew: Results) -> Row:
    cpu = [f"{crew['cpu_ms_per_save'][side]:.2f}" for side in ("clients", "server")]
    return [*cpu, _kilobytes(crew, "log")]


def _kilobytes(crew: Results, *names: str) -> str:
    return f"{sum(crew['bytes_per_save'][name] for name in names) / 1e3:.2f} KB"


def _named(name: str) -> str:
    kind, _, count = name.partition("-")
    return f"{_LABELS[kind]}, {count} writer{'s' if count != '1' else ''}"


def _scale(scale: Results) -> str:
    header = ["", "saves/s", "median", "p90", "p99", "cpu, clients", "cpu, server"]
    header += ["WAL", "tables", "indexes"]
    rows: list[Row] = [
        [
            _named(name),
            _speed(each, None)[0],
            *_latency(each),
            *_costs(each),
            _kilobytes(each, "tables"),
            _kilobytes(each, "indexes"),
        ]
        for name, each in scale["contenders"].items()
    ]
    return f"### Writers and sizes; times in ms, bytes for each checkpoint\n\n{table(header, rows)}"


def _million(scale: Results) -> str:
    header = ["", "hours", "on disk", "WAL", "processor hours, clients", "server"]
    rows = [[_named(name), *_for_a_million(each)] for name, each in scale["contenders"].items()]
    return f"### A million checkpoints\n\n{table(header, rows)}"


def _for_a_million(crew: dict[str, Any]) -> Row:
    stored = crew["bytes_per_save"]
    return [
        f"{1e6 / crew['per_second'] / 3600:.2f}",
        # A million times so many bytes, in GB.
        f"{(stored['tables'] + stored['indexes']) / 1e3:.2f} GB",
        f"{stored['log'] / 1e3:.2f} GB",
        *(f"{crew['cpu_ms_per_save'][side] / 3.6:.2f}" for side in ("clients", "server")),
    ]
