"""The tables of a run of `bench.graphs`."""

from __future__ import annotations

from bench.report import Row, ms, ratio, size, table, target_table
from bench.targets import Results, Target

_TITLES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}


def render(results: Results, targets: list[Target]) -> str:
    """The whole report."""
    meta = results["meta"]
    versions = ", ".join(f"{name} {version}" for name, version in meta["versions"].items())
    head = (
        f"{meta['date']}, seed {meta['seed']}{', quick run' if meta['quick'] else ''}. {versions}.\n"
        f"{meta['machine']}. One fsync of 4 KB: {meta['sync']['wall']['median']:.2f} ms.\n"
        "Times are medians in ms, processor time in parentheses: of the calling thread for `put` and `put_writes`, "
        "of the process for the rest. `put` is that of the last tenth of the run."
    )
    return "\n\n".join([head, *tables(results), target_table(targets)])


def tables(results: Results) -> list[str]:
    """One for each database."""
    return [_database(name, each, results["steps"]) for name, each in results["databases"].items()]


def _database(name: str, found: Results, steps: int) -> str:
    header = ["", "on disk", "/ Saver", "/ Delta", "put", "/ Saver", "put_writes", "/ Saver"]
    header += [
        "get_state",
        "/ Saver",
        f"list of {steps:,}",
        "/ Saver",
        "history",
        "/ Saver",
        "the whole run, s",
    ]
    rows: list[Row] = []
    for each in found.values():
        saver, delta = found["saver"], found["delta"]
        row = [each["label"], size(each["bytes"])]
        row += [ratio(each["bytes"] / peer["bytes"]) for peer in (saver, delta)]
        for what in ("put", "put_writes", "get_state", "list", "history"):
            row += [ms(each[what]), ratio(each[what]["wall"]["median"] / saver[what]["wall"]["median"])]
        row.append(f"{each['run']['wall']['median'] / 1000:.1f}")
        rows.append(row)
    return f"### A graph of {steps:,} steps on {_TITLES[name]}\n\n" + table(header, rows)
