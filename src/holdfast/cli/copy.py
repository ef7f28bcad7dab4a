"""`holdfast copy`: sessions of one store into another, only what is new."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._figures import counted, figures
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._opening import missing_session, open_existing
from holdfast.cli._planning import dry_run_option, say_dry_run, say_plan
from holdfast.cli._progress import progress
from holdfast.cli._render import document
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import size_text

if TYPE_CHECKING:
    from holdfast import CopyReport, Store

HELP = """Copy sessions from one store to another, whatever keeps the two: a file, a server.

SOURCE and TARGET are folders, files or URLs, as for --store. TARGET is made if it is not there. What it has already is
not sent again, so the same command brings it up to date, and goes on where it was interrupted. What is gone for good at
the source goes at the target. A session of TARGET that was written to by others is refused, before anything is written.

\b
Examples:
  holdfast copy .holdfast standby.db
  holdfast copy .holdfast standby.db --session default --dry-run
"""


class _CopyCommand(HoldfastCommand):
    """Takes --session more than once, and no --store: there are two."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        replaced = [param for param in self.shared if param.name == "session"]
        self.shared = [param for param in self.shared if param not in replaced]
        self.params = [param for param in self.params if param not in replaced]


@click.command("copy", cls=_CopyCommand, short_help="Copy sessions to another store", help=HELP)
@click.argument("source")
@click.argument("target")
@click.option(
    "--session", "sessions", multiple=True, metavar="ID", help="Only this session; may be given again"
)
@dry_run_option
@pass_settings
def command(
    settings: Settings, source: str, target: str, *, sessions: tuple[str, ...], dry_run: bool
) -> None:
    """Copy, and say what came of it."""
    if misplaced := settings.typed & {"store", "branch"}:
        raise click.UsageError(f"--{min(misplaced)} does not apply: name the stores as SOURCE and TARGET")
    if "session" in settings.typed:
        # Typed before the command.
        sessions = (settings.session, *sessions)
    settings.store = source
    with open_existing(settings, missing="name the store to copy as SOURCE") as store:
        for each in sessions:
            if not any(info.id == each for info in store.sessions()):
                raise missing_session(store, each)
        report = _copy(settings, store, target, sessions, dry_run=dry_run)
    _write(settings, report)


def _copy(
    settings: Settings, store: Store, target: str, sessions: tuple[str, ...], *, dry_run: bool
) -> CopyReport:
    import holdfast

    total = store.stats().checkpoints or None
    with progress(settings, "comparing" if dry_run else "copying", total, unit="checkpoints") as update:

        def told(what: str, done: int) -> None:
            if what == "copying checkpoints":
                update(done)

        wanted = list(sessions) or None
        if dry_run:
            return store.copy_to(target, sessions=wanted, dry_run=True, progress=told)
        with holdfast.open(target, durability=settings.durability, compress=settings.compress) as other:
            return store.copy_to(other, sessions=wanted, progress=told)


def _write(settings: Settings, report: CopyReport) -> None:
    if settings.json:
        document(report.to_dict())
        return
    say_plan(settings, f"{report.source} to {report.target}")
    by_status: dict[str, int] = {}
    for each in report.sessions:
        by_status[each.status] = by_status.get(each.status, 0) + 1
    would = "would be " if report.dry_run else ""
    said = ", ".join(f"{count:,} {status}" for status, count in by_status.items())
    size = size_text(report.bytes)
    lines = [
        ("sessions", said or "none"),
        ("checkpoints", f"{report.checkpoints:,} {would}copied"),
        ("size", f"about {size}") if report.dry_run else ("chunks", f"{report.chunks:,} sent, {size}"),
    ]
    if report.changed:
        lines.insert(2, ("changed", f"{counted(report.changed, 'checkpoint')} {would}brought up to date"))
    if report.removed:
        lines.append(("removed", f"{report.removed:,} {would}removed, gone for good at the source"))
    fields: dict[str, Any] = {
        "sessions": len(report.sessions),
        **{name: by_status.get(name, 0) for name in ("new", "updated", "unchanged", "ahead")},
        "checkpoints": report.checkpoints,
        "changed": report.changed,
        "removed": report.removed,
        # Which of them the target has already is only known once they are sent.
        **({} if report.dry_run else {"chunks": report.chunks}),
        "bytes": report.bytes,
    }
    figures(settings, fields, lines)
    ahead = [each.id for each in report.sessions if each.status == "ahead"]
    if ahead:
        settings.say(f"the target is ahead of the source, and was left alone: {', '.join(ahead[:5])}")
    if report.dry_run:
        say_dry_run(settings)
