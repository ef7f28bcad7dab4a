"""`holdfast stats`: what is in the store, or with --session in one session.

No state is read. The figures of the store come from its own counts; those of a session are added up from its rows.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._figures import counted
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._opening import missing_session, open_existing
from holdfast.cli._render import data, document
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import age, escape_controls, escape_field, iso, paint, size_text

if TYPE_CHECKING:
    from holdfast import Checkpoint, Store

_PAGE = 1000

HELP = """Show what is in the store, or with --session what is in one session.

\b
Examples:
  holdfast stats
  holdfast stats --session default --json
"""


@click.command("stats", cls=HoldfastCommand, short_help="Show what is in the store", help=HELP)
@pass_settings
def command(settings: Settings) -> None:
    """Print the figures."""
    if settings.branch is not None:
        raise click.UsageError("--branch does not apply: stats counts a store or a session")
    with open_existing(settings) as store:
        url = store.url
        one = "session" in settings.typed
        figures = _of_session(store, settings.session) if one else _of_store(store)
    if settings.json:
        document({"store": url, "totals": None if one else figures, "session": figures if one else None})
    elif settings.for_people():
        on = settings.paints(sys.stdout)
        for label, text in _lines(url, figures):
            data(f"{paint(f'{label:11}', 'dim', on=on)}  {escape_controls(text)}", color=on)
    else:
        for name, value in {"store": url, **figures}.items():
            data(f"{name}\t{'' if value is None else escape_field(str(value))}")


def _of_store(store: Store) -> dict[str, Any]:
    found = store.stats()
    return {**found._asdict(), "ratio": _ratio(found.chunk_bytes, found.stored_bytes)}


def _of_session(store: Store, session: str) -> dict[str, Any]:
    info = next((each for each in store.sessions() if each.id == session), None)
    if info is None:
        raise missing_session(store, session)
    count = state_bytes = stored_bytes = 0
    newest = last = None
    while page := store.find(session=session, before=last, limit=_PAGE):
        newest = newest or page[0]
        last = page[-1]
        count += len(page)
        state_bytes += sum(each.size_bytes for each in page)
        stored_bytes += sum(each.stored_bytes for each in page)
    return {
        "id": info.id,
        "agent": info.agent,
        "project": info.project,
        "created_at": iso(info.created_at),
        "saves": info.saves,
        "checkpoints": count,
        "newest_at": _when(newest),
        "state_bytes": state_bytes,
        "stored_bytes": stored_bytes,
        "ratio": _ratio(state_bytes, stored_bytes),
    }


def _when(checkpoint: Checkpoint | None) -> str | None:
    return None if checkpoint is None else iso(checkpoint.created_at)


def _ratio(plain: int, stored: int) -> float | None:
    return round(plain / stored, 2) if stored else None


def _lines(url: str, figures: dict[str, Any]) -> list[tuple[str, str]]:
    """Label and text for people, in the order of importance."""
    smaller = "" if figures["ratio"] is None else f", {figures['ratio']:,.1f} times smaller"
    stored = f"{size_text(figures['stored_bytes'])} in the store{smaller}"
    lines = [("store", url)]
    if "id" in figures:
        from datetime import datetime

        newest = figures["newest_at"]
        origin = " ".join(f"{name} {figures[name]}" for name in ("agent", "project") if figures[name])
        removed = figures["saves"] - figures["checkpoints"]
        lines += [
            ("session", figures["id"] + (f" ({origin})" if origin else "")),
            ("checkpoints", f"{figures['checkpoints']:,}" + (f" ({removed:,} removed)" if removed else "")),
            ("newest", f"{newest} ({age(datetime.fromisoformat(newest))})" if newest else "none"),
            ("states", f"{size_text(figures['state_bytes'])} together, {stored}"),
        ]
        return lines
    hidden = f" ({figures['hidden']:,} removed, not yet collected)" if figures["hidden"] else ""
    lines += [
        ("sessions", f"{figures['sessions']:,}, with {counted(figures['branches'], 'branch', 'branches')}"),
        ("checkpoints", f"{figures['checkpoints']:,}{hidden}"),
        ("chunks", f"{figures['chunks']:,}: {size_text(figures['chunk_bytes'])}, {stored}"),
    ]
    if figures["file_bytes"] is not None:
        lines.append(("on disk", size_text(figures["file_bytes"])))
    return lines
