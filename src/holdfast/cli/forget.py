"""`holdfast forget`: a session, or some checkpoints, out of the store's files at once and for good."""

from __future__ import annotations

import click

from holdfast.cli._completing import RefArgument
from holdfast.cli._confirming import confirm_by_name, confirm_option, store_name
from holdfast.cli._figures import counted, figures
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._opening import naming_candidates, open_existing, session_of
from holdfast.cli._planning import dry_run_option, say_dry_run, say_plan
from holdfast.cli._progress import progress
from holdfast.cli._render import document
from holdfast.cli._settings import Settings, pass_settings

_WHOLE_ID = 64

HELP = """Erase a session, or some of its checkpoints, from the files of the store: at once, for good, without an undo.

For what must not be anywhere any more, such as a password. With --session alone all of that session goes; with REFs
only those checkpoints, and the operation log of their session. What other checkpoints hold too stays with those.
Backups and exports are not reached.

\b
Examples:
  holdfast forget --session default --dry-run
  holdfast forget tag:verified "#2" --dry-run
"""


@click.command("forget", cls=HoldfastCommand, short_help="Erase a session or checkpoints for good", help=HELP)
@click.argument("refs", nargs=-1, metavar="[REF...]", type=RefArgument())
@dry_run_option
@confirm_option
@pass_settings
def command(settings: Settings, refs: tuple[str, ...], *, dry_run: bool, confirmed: str | None) -> None:
    """Say what goes, want the name of the store, and erase."""
    if not refs and "session" not in settings.typed:
        raise click.UsageError(
            "say what to forget: checkpoints by their refs, or a whole session with --session"
        )
    if not refs and "branch" in settings.typed:
        raise click.UsageError("--branch does not apply: a session is forgotten whole")
    with open_existing(settings) as store, naming_candidates(store, settings):
        url, session = store.url, session_of(store, settings)
        # Here, where the branch is known; one that was removed before is found by its whole id alone.
        wanted = [ref if _is_whole(ref) else session.checkpoint(ref).id for ref in refs]
        report = store.forget(session.id, *wanted, dry_run=True)
        what = f"{counted(report.checkpoints, 'checkpoint')} of session {session.id}"
        if not refs:
            what = f"all of session {session.id}, {counted(report.checkpoints, 'checkpoint')},"
        one = refs and report.checkpoints == 1
        say_plan(settings, f"{what} {'is' if one else 'are'} erased, and the session's operation log with it")
        if not dry_run:
            danger = f"{what} will be erased at once and for good; nothing brings it back"
            confirm_by_name(settings, danger, name=store_name(url), confirmed=confirmed)
            with progress(settings, "erasing"):
                report = store.forget(session.id, *wanted)
    fields = {"session": session.id, "checkpoints": report.checkpoints, "chunks": report.chunks}
    if settings.json:
        document({"store": url, "dry_run": dry_run, "whole_session": not refs, **fields})
        return
    would = "would be " if dry_run else ""
    lines = [("session", session.id), ("checkpoints", f"{report.checkpoints:,} {would}erased")]
    if not dry_run:
        lines.append(("chunks", f"{report.chunks:,} that nothing else needed"))
    figures(settings, fields, lines)
    if dry_run:
        say_dry_run(settings)


def _is_whole(ref: str) -> bool:
    return len(ref) == _WHOLE_ID and all(each in "0123456789abcdefABCDEF" for each in ref)
