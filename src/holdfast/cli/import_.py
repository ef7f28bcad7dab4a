"""`holdfast import`: files that export wrote, taken into a store."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._figures import counted, figures
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._importing import target
from holdfast.cli._planning import dry_run_option, say_dry_run, say_plan
from holdfast.cli._progress import progress
from holdfast.cli._render import document
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._unimporting import say_way_back

if TYPE_CHECKING:
    from holdfast import ImportReport

HELP = """Take in checkpoints from a file or a folder that holdfast export wrote, or from stdin (-).

Everything is verified before anything is written: a file that was changed is refused, and then nothing is imported.
Checkpoints come with the ids, keys, tags and lineage they had. What is there already is left alone, so the same command
can be run again, and the files of one import may come in any order; folders in a folder are not searched.

No branch that is there moves: a head that is new gets its own branch, main-1 if main is taken. With --advance, a branch
moves forward where what came in goes on from its head. The last lines say how to take the import back. The store is
made if it is not there.

Files of another program ({"version": "0.0.1", "id": ..., "snapshot": ...}) are taken in with their id as the key, into
the session that --session names.

\b
Examples:
  holdfast import checkpoints/
  holdfast import session.jsonl --dry-run
  holdfast import session.jsonl --advance
  holdfast import ckpt_abc123.json --session research-42
  ssh other holdfast export | holdfast import -
"""


@click.command("import", cls=HoldfastCommand, short_help="Take in files that export wrote", help=HELP)
@click.argument("path")
@click.option("--advance", is_flag=True, help="Move branches forward where what came in goes on from them")
@dry_run_option
@pass_settings
def command(settings: Settings, path: str, *, advance: bool, dry_run: bool) -> None:
    """Import, and say what came of it."""
    if "branch" in settings.typed:
        raise click.UsageError("--branch does not apply: an archive says which branches there will be")
    # A program that imports nothing does not need it.
    from holdfast.store.archives.importing import ReadArchives

    source: Any = sys.stdin.buffer if path == "-" else path
    wanted = settings.session if "session" in settings.typed else None
    with ExitStack() as stack:
        with progress(settings, "reading", unit="checkpoints") as update:
            read: Any = ReadArchives(source, session=wanted, progress=lambda _what, done: update(done))
            stack.enter_context(read)
        store, shown = stack.enter_context(target(settings, lambda: _look_at(read), dry_run=dry_run))
        report = store.import_(read, advance=advance, dry_run=dry_run)
    _write(settings, report._replace(target=shown))
    if not settings.json:
        _say_heads(settings, report, advance=advance)
    if dry_run and not settings.json:
        say_dry_run(settings)
    elif not dry_run:
        say_way_back(settings, report)


def _look_at(read: Any) -> None:
    """What cannot be imported must not leave a new, empty store behind."""
    import holdfast

    with holdfast.open("memory:") as store:
        store.import_(read, dry_run=True)


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
    cut_off = sum(each.cut_off for each in report.sessions)
    missing = sum(each.parents_missing for each in report.sessions)
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
        "cut_off": cut_off,
        "branches": branches,
        "advanced": [f"{each.id}:{move.branch}" for each in report.sessions for move in each.advanced],
        "parents_missing": missing,
    }
    figures(settings, fields, lines)
    if removed:
        settings.say(
            f"{counted(removed, 'checkpoint')} of them {'was' if removed == 1 else 'were'} removed here, and stay so; "
            "holdfast undo brings back what was removed last"
        )
    _say_cut_off(settings, cut_off - missing, missing)


def _say_cut_off(settings: Settings, late: int, missing: int) -> None:
    """Where history begins because what came before is not there, or came too late."""
    if late:
        settings.say(
            f"{counted(late, 'checkpoint')} here {'was' if late == 1 else 'were'} made from what is new, and "
            "came before it: history still begins there; all files imported at once into another store are joined"
        )
    if missing:
        settings.say(
            f"{counted(missing, 'checkpoint')} of them {'follows' if missing == 1 else 'follow'} one that is neither "
            "here nor among the files: history begins there, and stays so when that one comes later; "
            "where it should be here, import it together with these into another store"
        )


def _say_heads(settings: Settings, report: ImportReport, *, advance: bool) -> None:
    """Which branches moved, or stayed where somebody may have wanted them to move."""
    moved = "would move" if report.dry_run else "moved"
    for each in report.sessions:
        for move in each.advanced:
            name = f"{each.id}:{move.branch}"
            settings.say(f"branch {name} {moved} forward from {move.before[:12]} to {move.after[:12]}")
        names = ", ".join(f"{each.id}:{name}" for name in each.could_advance)
        if names:
            settings.say(
                f"what came in goes on from {names}, which {'stays' if len(each.could_advance) == 1 else 'stay'}; "
                "with --advance the import moves it there"
            )
        if advance and each.parted:
            names = ", ".join(f"{each.id}:{name}" for name in each.parted)
            settings.say(
                f"{names} did not move: what came in does not go on from its head, because of a save here or of a "
                "checkpoint between them that did not come; it is on a branch beside it"
            )


_STATUSES = ("new", "updated", "unchanged")
