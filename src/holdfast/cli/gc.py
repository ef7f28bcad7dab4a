"""`holdfast gc`: free what nothing needs any more.

Removed checkpoints stay for two weeks, so that a removal can be undone. gc is what ends that. Where it would, it says
of how many checkpoints and which sessions, and wants the name of the store; where it only frees room, it just does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli._confirming import confirm_by_name, confirm_option, store_name
from holdfast.cli._figures import counted, figures
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._opening import open_existing
from holdfast.cli._planning import dry_run_option, say_dry_run, say_plan
from holdfast.cli._progress import progress
from holdfast.cli._render import document
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import size_text

if TYPE_CHECKING:
    from holdfast import Store
    from holdfast.store.collecting import GcReport

_NAMED = 5
"""Sessions in a sentence: enough to recognise one's own, few enough for a line."""

HELP = """Remove for good what was deleted or pruned long enough ago, and free the room that nothing needs.

Undo cannot bring back what gc removed: where there is such a thing, the name of the store has to be typed, or given
with --confirm. Safe beside running writers.

\b
Examples:
  holdfast gc
  holdfast gc --keep-days 30 --dry-run
"""


@click.command("gc", cls=HoldfastCommand, short_help="Free what nothing needs any more", help=HELP)
@click.option(
    "--keep-days",
    type=click.FloatRange(min=0, max=1_000_000),
    default=14,
    metavar="N",
    help="Removed checkpoints stay for N days  [default: 14]",
)
@dry_run_option
@confirm_option
@pass_settings
def command(settings: Settings, *, keep_days: float, dry_run: bool, confirmed: str | None) -> None:
    """Say what goes, ask where undo ends, and carry it out."""
    if misplaced := settings.typed & {"session", "branch"}:
        raise click.UsageError(f"--{min(misplaced)} does not apply: gc is for the whole store")
    with open_existing(settings) as store:
        url, name = store.url, store_name(store.url)
        report = _collect(settings, store, keep_days, dry_run=True)
        say_plan(settings, _sentence(report))
        if not dry_run:
            if report.checkpoints:
                confirm_by_name(settings, _danger(report), name=name, confirmed=confirmed)
            report = _collect(settings, store, keep_days, dry_run=False)
    _write(settings, url, report, keep_days)


def _collect(settings: Settings, store: Store, keep_days: float, *, dry_run: bool) -> GcReport:
    label = "looking for what can go" if dry_run else "collecting"
    with progress(settings, label) as update:

        def told(_what: str, done: int) -> None:
            update(done)

        return store.gc(keep_days=keep_days, dry_run=dry_run, progress=told)


def _sentence(report: GcReport) -> str:
    parts = []
    if report.checkpoints:
        gone = counted(report.checkpoints, "removed checkpoint")
        parts.append(f"{gone} of {_sessions(report)} {'goes' if report.checkpoints == 1 else 'go'} for good")
    chunks = counted(report.chunks, "chunk")
    freed = f", {size_text(report.freed_bytes)}," if report.chunks else ""
    parts.append(f"{chunks}{freed} {'is' if report.chunks == 1 else 'are'} freed")
    if report.waiting:
        stays = "stays" if report.waiting == 1 else "stay"
        parts.append(f"{counted(report.waiting, 'removed checkpoint')} {stays} for now")
    return "; ".join(parts)


def _danger(report: GcReport) -> str:
    one = report.checkpoints == 1
    return (
        f"{counted(report.checkpoints, 'removed checkpoint')} of {_sessions(report)} will be gone for good, "
        f"and undo cannot bring {'it' if one else 'them'} back any more; {size_text(report.freed_bytes)} will be freed"
    )


def _sessions(report: GcReport) -> str:
    named = ", ".join(report.sessions[:_NAMED])
    more = len(report.sessions) - _NAMED
    word = "session" if len(report.sessions) == 1 else "sessions"
    return f"{word} {named}" + (f" and {more} more" if more > 0 else "")


def _write(settings: Settings, url: str, report: GcReport, keep_days: float) -> None:
    fields = {
        "checkpoints": report.checkpoints,
        "sessions": list(report.sessions),
        "waiting": report.waiting,
        "chunks": report.chunks,
        "freed_bytes": report.freed_bytes,
    }
    if settings.json:
        rest = {"dry_run": report.dry_run, "keep_days": keep_days}
        document({"store": url, **rest, **fields, "overtaken": report.overtaken})
        return
    would = "would be " if report.dry_run else ""
    lines = [
        ("checkpoints", f"{report.checkpoints:,} {would}removed for good"),
        ("chunks", f"{report.chunks:,} {would}freed, {size_text(report.freed_bytes)}"),
    ]
    if report.checkpoints:
        lines.insert(1, ("sessions", ", ".join(report.sessions)))
    if report.waiting:
        lines.append(("waiting", f"{report.waiting:,} removed ones that undo can still bring back"))
    figures(settings, fields, lines)
    if report.overtaken:
        settings.say("another collection began meanwhile; it, or holdfast gc later, removes what is left")
    if report.dry_run:
        say_dry_run(settings)
