"""`holdfast repair`: what is whole of a damaged store takes its place; what was there is kept in a file beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli._confirming import confirm, yes_option
from holdfast.cli._figures import counted, figures
from holdfast.cli._first_page import refuse_beyond_repair
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._opening import open_existing
from holdfast.cli._planning import dry_run_option, say_dry_run
from holdfast.cli._progress import progress
from holdfast.cli._render import data, document, table
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import escape_controls
from holdfast.cli.verify import FINDINGS, findings

if TYPE_CHECKING:
    from holdfast import Store
    from holdfast.store.repairing import RepairReport

HELP = """Put what can still be read of a damaged store in its place, and name what is lost.

Checkpoints that can be read keep their ids and numbers; history leads past those that cannot. The store as it was stays
in a file beside it. A store in which nothing is damaged is left alone.

\b
Examples:
  holdfast repair --dry-run
  holdfast repair --yes
"""


@click.command("repair", cls=HoldfastCommand, short_help="Bring a damaged store back", help=HELP)
@dry_run_option
@yes_option
@pass_settings
def command(settings: Settings, *, dry_run: bool, yes: bool) -> None:
    """Show what is lost, ask, and repair."""
    if misplaced := settings.typed & {"session", "branch"}:
        raise click.UsageError(f"--{min(misplaced)} does not apply: repair is for the whole store")
    with open_existing(settings, damaged=True) as store:
        url = store.url
        report = _repair(settings, store, dry_run=True)
        refuse_beyond_repair(store, report.problems)
        _show_to_people(settings, report)
        if report.needed and not dry_run:
            confirm(settings, _danger(report), yes=yes)
            report = _repair(settings, store, dry_run=False)
        report = report._replace(dry_run=dry_run)
    if settings.json:
        document({"store": url, **report.to_dict()})
        return
    _write(settings, report)


def _repair(settings: Settings, store: Store, *, dry_run: bool) -> RepairReport:
    with progress(settings, "checking" if dry_run else "repairing") as update:
        return store.repair(dry_run=dry_run, progress=lambda _what, done: update(done))


def _danger(report: RepairReport) -> str:
    lost = f", {counted(len(report.lost), 'checkpoint')} left out" if report.lost else ""
    return f"the store will be written anew with {counted(report.kept, 'checkpoint')}{lost}"


def _show_to_people(settings: Settings, report: RepairReport) -> None:
    if settings.for_people() and report.lost:
        for line in table(settings, FINDINGS, list(findings((), report.lost))):
            data(line, color=True)
        data("")


def _write(settings: Settings, report: RepairReport) -> None:
    fields = {
        "needed": "yes" if report.needed else "no",
        "problems": len(report.problems),
        "kept": report.kept,
        "lost": [each.id or "?" for each in report.lost],
        "relinked": report.relinked,
        "moved": [f"{each.session} {each.branch}" for each in report.moved],
        "logs_cut": list(report.logs_cut),
        "kept_aside": report.kept_aside,
    }
    figures(settings, fields, _lines(report))
    if not report.needed:
        settings.say("nothing is damaged: there is nothing to repair")
    elif report.dry_run:
        say_dry_run(settings)
    elif report.kept_aside is not None:
        settings.say(escape_controls(report.kept_aside), label="the store as it was: ")


def _lines(report: RepairReport) -> list[tuple[str, str]]:
    would = "would be " if report.dry_run else ""
    lines = [("problems", f"{len(report.problems):,}"), ("checkpoints", f"{report.kept:,} can be read")]
    if not report.needed:
        return lines[1:]
    if report.lost:
        lines.append(("lost", f"{counted(len(report.lost), 'checkpoint')} {would}left out"))
    if report.relinked:
        lines.append(("history", f"leads past lost ones at {counted(report.relinked, 'place')}"))
    for each in report.moved:
        before, after = ("?" if each.before is None else each.before[:8]), each.after
        to = "is gone: nothing of it is left" if after is None else f"moves from {before} to {after[:8]}"
        lines.append(("branch", f"{each.branch} of session {each.session} {to}"))
    if report.logs_cut:
        lines.append(("undo", f"ends here for {', '.join(report.logs_cut)}: the operation log was damaged"))
    return lines
