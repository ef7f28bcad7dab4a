"""`holdfast import`: files that export wrote, taken into a store."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._figures import counted, figures
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._importing import target
from holdfast.cli._planning import dry_run_option, say_dry_run, say_plan
from holdfast.cli._progress import progress
from holdfast.cli._render import document
from holdfast.cli._settings import Settings, pass_settings

if TYPE_CHECKING:
    from holdfast import ImportReport

HELP = """Take in checkpoints from a file or a folder that holdfast export wrote, or from stdin (-).

Everything is verified before anything is written: a file that was changed is refused. Each session comes in whole or
not at all, with the ids, keys, tags and lineage it had. What is there already is left alone, so the same command can be
run again. No branch that is there moves: what is new gets its own branch, main-1 if main is taken. The store is made if
it is not there.

Files of another program ({"version": "0.0.1", "id": ..., "snapshot": ...}) are taken in with their id as the key, into
the session that --session names.

\b
Examples:
  holdfast import checkpoints/
  holdfast import session.jsonl --dry-run
  holdfast import ckpt_abc123.json --session research-42
  ssh other holdfast export | holdfast import -
"""


@click.command("import", cls=HoldfastCommand, short_help="Take in files that export wrote", help=HELP)
@click.argument("path")
@dry_run_option
@pass_settings
def command(settings: Settings, path: str, *, dry_run: bool) -> None:
    """Import, and say what came of it."""
    if "branch" in settings.typed:
        raise click.UsageError("--branch does not apply: an archive says which branches there will be")
    source: Any = sys.stdin.buffer if path == "-" else path
    wanted = settings.session if "session" in settings.typed else None
    with (
        target(settings, lambda: _look_at(source), dry_run=dry_run) as (store, shown),
        progress(settings, "reading", unit="checkpoints") as update,
    ):
        report = store.import_(
            source, session=wanted, dry_run=dry_run, progress=lambda _what, done: update(done)
        )
    _write(settings, report._replace(target=shown))


def _look_at(source: Any) -> None:
    """What cannot be imported must not leave a new, empty store behind."""
    import holdfast

    # What comes through a pipe can be read once.
    if isinstance(source, str):
        with holdfast.open("memory:") as store:
            store.import_(source, dry_run=True)


def _write(settings: Settings, report: ImportReport) -> None:
    if settings.json:
        document(report.to_dict())
        return
    say_plan(settings, f"{report.source} to {report.target}")
    would = "would be " if report.dry_run else ""
    by_status = {name: sum(each.status == name for each in report.sessions) for name in _STATUSES}
    said = ", ".join(f"{number:,} {status}" for status, number in by_status.items() if number)
    branches = [f"{each.id}:{name}" for each in report.sessions for name in each.branches]
    removed = sum(each.removed for each in report.sessions)
    lines = [
        ("sessions", said),
        ("checkpoints", f"{report.checkpoints:,} {would}imported, {report.unchanged:,} there already"),
        ("branches", ", ".join(branches) or "none is new"),
    ]
    fields: dict[str, Any] = {
        "sessions": len(report.sessions),
        **by_status,
        "checkpoints": report.checkpoints,
        "unchanged_checkpoints": report.unchanged,
        "removed": removed,
        "branches": branches,
    }
    figures(settings, fields, lines)
    if removed:
        settings.say(
            f"{counted(removed, 'checkpoint')} of them {'was' if removed == 1 else 'were'} removed here, and stay so; "
            "holdfast undo brings back what was removed last"
        )
    if report.dry_run:
        say_dry_run(settings)


_STATUSES = ("new", "updated", "unchanged")
