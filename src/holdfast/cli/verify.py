"""`holdfast verify`: is everything that was saved still there, and still what was saved?

Damage is an answer, not a failure: everything that is wrong is named, and the exit code is 1. A pipe and `--json` get
all that was found: problems, and the checkpoints that they cost. People get each finding once: a checkpoint that is
lost has a line of its own, and what is wrong with its chunk is the reason on that line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from holdfast.cli._figures import counted
from holdfast.cli._first_page import WAY_OUT, is_beyond_repair
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._opening import missing_session, open_existing
from holdfast.cli._progress import progress
from holdfast.cli._render import Column, data, json_text, table
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import escape_field, paint
from holdfast.record import Record

if TYPE_CHECKING:
    from holdfast.store.verifying import DamagedCheckpoint, Problem, VerifyReport

HELP = """Check that everything in the store is as it was saved, and name each checkpoint that cannot be loaded.

Exit 0 if all is well, 1 if anything is damaged. With --session only that session is checked. Safe beside running
writers.

\b
Examples:
  holdfast verify
  holdfast verify --quick --session default
  holdfast verify --json
"""

_STYLES = {"lost": "red", "repairable": "green", "unreachable": "red", "damaged": "yellow"}


class _Finding(Record):
    """One line for people."""

    result: str
    """`lost`: its bytes are gone; `repairable`: a repair brings it back; `unreachable`: it is there, and the file
    cannot be repaired; `damaged`: something that is no checkpoint."""
    what: str
    why: str


FINDINGS = [
    Column("RESULT", lambda f: f.result, style=lambda f: _STYLES[f.result]),
    Column("WHAT", lambda f: f.what, most=48),
    Column("WHY", lambda f: f.why, most=10_000),
]
"""The columns for what people are told of damage."""


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
        beyond = is_beyond_repair(store, report.problems)
    if settings.json:
        _write_json(url, report)
    elif settings.for_people():
        _write_table(settings, report, beyond=beyond)
    else:
        _write_rows(report, beyond=beyond)
    if not report.ok:
        advice = (
            WAY_OUT
            if beyond
            else "holdfast repair --dry-run shows what a repair keeps and what it leaves out"
        )
        settings.say(advice, label="next: ", style="cyan")
    return 0 if report.ok else 1


def _write_json(url: str, report: VerifyReport) -> None:
    plain = report.to_dict()
    for name, kind in (("problems", "problem"), ("damaged", "damaged")):
        for each in plain.pop(name):
            data(json_text({"type": kind, **each}, indent=None))
    counts = {"problems": len(report.problems), "damaged": len(report.damaged)}
    data(json_text({"type": "summary", "store": url, **plain, **counts}, indent=None))


def _write_table(settings: Settings, report: VerifyReport, *, beyond: bool) -> None:
    if found := list(findings(report.problems, report.damaged, beyond=beyond)):
        for line in table(settings, FINDINGS, found):
            data(line, color=True)
        data("")
    on = settings.paints(sys.stdout)
    data(paint(_summary(report, beyond=beyond), "green" if report.ok else "red", on=on), color=on)


def findings(
    problems: tuple[Problem, ...], damaged: tuple[DamagedCheckpoint, ...], *, beyond: bool = False
) -> Iterator[_Finding]:
    """What is wrong, each thing once: what costs checkpoints is told with those."""
    told = {each.id for each in damaged if each.id is not None}
    for problem in problems:
        if problem.kind not in ("checkpoint", "chunk") or not (_costs_only(problem, told) and damaged):
            yield _Finding("damaged", problem.what, problem.why)
    for each in damaged:
        if each.lost:
            yield _Finding("lost", _name(each), each.why)
    # Those that come back are many where one page is damaged, all for the same reason.
    groups: dict[tuple[str | None, str], list[DamagedCheckpoint]] = {}
    for each in damaged:
        if not each.lost:
            groups.setdefault((each.session, each.why), []).append(each)
    for (session, why), group in groups.items():
        many = f"{counted(len(group), 'checkpoint')} of session {session or '?'}"
        yield _Finding(_outlook(beyond), _name(group[0]) if len(group) == 1 else many, why)


def _outlook(beyond: bool) -> str:  # noqa: FBT001 - one word for one fact
    return "unreachable" if beyond else "repairable"


def _costs_only(problem: Problem, told: set[str]) -> bool:
    """Whether all that a problem affects is named anyway; one of kind checkpoint without an id is, without it."""
    return set(problem.checkpoints) <= told and (bool(problem.checkpoints) or problem.kind == "checkpoint")


def _name(each: DamagedCheckpoint) -> str:
    number = "" if each.seq is None else f" #{each.seq}"
    return f"{'?' if each.id is None else each.id[:8]}{number} of session {each.session or '?'}"


def _write_rows(report: VerifyReport, *, beyond: bool) -> None:
    for problem in report.problems:
        _row("problem", problem.kind, problem.session, "", problem.what, problem.why)
    for each in report.damaged:
        _row("damaged", each.id, each.session, each.seq, "lost" if each.lost else _outlook(beyond), each.why)
    _row("summary", "ok" if report.ok else "damaged", "", "", "", _summary(report, beyond=beyond))


def _row(*fields: object) -> None:
    data("\t".join("" if field is None else escape_field(str(field)) for field in fields))


def _summary(report: VerifyReport, *, beyond: bool) -> str:
    # Rows that cannot be read are not among those that were counted.
    unreadable = sum(each.kind == "checkpoint" and not each.what.endswith(")") for each in report.problems)
    total = max(report.checkpoints + unreadable, len(report.damaged))
    looked = f"checked {counted(total, 'checkpoint')} of {counted(report.sessions, 'session')}"
    looked += ", without their states" if report.quick else f", {counted(report.chunks, 'chunk')}"
    if report.ok:
        return f"{looked}: nothing is damaged"
    lost = sum(each.lost for each in report.damaged)
    parts = [f"{total - len(report.damaged):,} fine", f"{lost:,} lost"]
    if back := len(report.damaged) - lost:
        parts.append(f"{back:,} unreachable" if beyond else f"{back:,} that a repair brings back")
    others = sum(each.kind not in ("checkpoint", "chunk") for each in report.problems)
    if others:
        parts.append(f"{counted(others, 'other thing')} damaged")
    return f"{looked}: {', '.join(parts)}"
