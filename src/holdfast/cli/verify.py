"""`holdfast verify`: is everything that was saved still there, and still what was saved?

Damage is an answer, not a failure: everything that is wrong is named, and the exit code is 1.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._figures import counted
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._opening import missing_session, open_existing
from holdfast.cli._progress import progress
from holdfast.cli._render import Column, data, json_text, table
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import escape_field, paint

if TYPE_CHECKING:
    from holdfast.store.verifying import VerifyReport

HELP = """Check that everything in the store is as it was saved, and name each checkpoint that cannot be loaded.

Exit 0 if all is well, 1 if anything is damaged. With --session only that session is checked. Safe beside running
writers.

\b
Examples:
  holdfast verify
  holdfast verify --quick --session default
  holdfast verify --json
"""

DAMAGED = [
    Column("ID", lambda d: "?" if d.id is None else d.id[:8], style=lambda _: "yellow"),
    Column("SESSION", lambda d: "?" if d.session is None else d.session, most=24),
    Column("SEQ", lambda d: "?" if d.seq is None else f"#{d.seq}", right=True),
    Column("STATE", lambda d: "lost" if d.lost else "whole", style=lambda d: "red" if d.lost else "green"),
    Column("WHY", lambda d: d.why, most=10_000),
]
"""The columns for checkpoints that cannot be loaded."""

_PROBLEMS = [
    Column("KIND", lambda p: p.kind, style=lambda _: "red"),
    Column("WHAT", lambda p: p.what, most=40),
    Column("WHY", lambda p: p.why, most=10_000),
]


@click.command("verify", cls=HoldfastCommand, short_help="Check that nothing is damaged", help=HELP)
@click.option("--quick", is_flag=True, help="Rows, links, heads and logs; do not read the states")
@pass_settings
def command(settings: Settings, *, quick: bool) -> int:
    """Check, print what is wrong, and answer with the exit code."""
    if "branch" in settings.typed:
        raise click.UsageError("--branch does not apply: verify checks a store or a session")
    one = settings.session if "session" in settings.typed else None
    with open_existing(settings, damaged=True) as store:
        url = store.url
        with progress(settings, "checking") as update:
            report = store.verify(quick=quick, session=one, progress=lambda _what, done: update(done))
        # A session of which nothing is left to see is named by what is wrong with it, not as missing.
        if one is not None and report.ok and not report.sessions:
            raise missing_session(store, one)
    if settings.json:
        _write_json(url, report)
    elif settings.for_people():
        _write_tables(settings, report)
    else:
        _write_rows(report)
    if not report.ok:
        lost = sum(each.lost for each in report.damaged)
        whole = len(report.damaged) - lost
        settings.say(_advice(lost, whole), label="hint: ", style="cyan")
    return 0 if report.ok else 1


def _advice(lost: int, whole: int) -> str:
    brought = f"brings {counted(whole, 'checkpoint')} back" if whole else "puts what is whole in its place"
    names = f" and sets {counted(lost, 'checkpoint')} aside" if lost else ""
    return f"holdfast repair --dry-run shows how it {brought}{names}"


def _write_json(url: str, report: VerifyReport) -> None:
    plain = report.to_dict()
    for name, kind in (("problems", "problem"), ("damaged", "damaged")):
        for each in plain.pop(name):
            data(json_text({"type": kind, **each}, indent=None))
    counts = {"problems": len(report.problems), "damaged": len(report.damaged)}
    data(json_text({"type": "summary", "store": url, **plain, **counts}, indent=None))


def _write_tables(settings: Settings, report: VerifyReport) -> None:
    parts: list[tuple[list[Column], tuple[Any, ...]]] = [
        (_PROBLEMS, report.problems),
        (DAMAGED, report.damaged),
    ]
    for columns, found in parts:
        if found:
            for line in table(settings, columns, found):
                data(line, color=True)
            data("")
    on = settings.paints(sys.stdout)
    data(paint(_summary(report), "green" if report.ok else "red", on=on), color=on)


def _write_rows(report: VerifyReport) -> None:
    for problem in report.problems:
        _row("problem", problem.kind, problem.session, "", problem.what, problem.why)
    for each in report.damaged:
        _row("damaged", each.id, each.session, each.seq, "lost" if each.lost else "whole", each.why)
    _row("summary", "ok" if report.ok else "damaged", "", "", "", _summary(report))


def _row(*fields: object) -> None:
    data("\t".join("" if field is None else escape_field(str(field)) for field in fields))


def _summary(report: VerifyReport) -> str:
    looked = f"{counted(report.checkpoints, 'checkpoint')} of {counted(report.sessions, 'session')}"
    looked += ", no states" if report.quick else f", {counted(report.chunks, 'chunk')}"
    if report.ok:
        return f"{looked}: nothing is damaged"
    return (
        f"{looked}: {counted(len(report.problems), 'problem')}, "
        f"{counted(len(report.damaged), 'checkpoint')} cannot be loaded"
    )
