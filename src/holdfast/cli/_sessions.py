"""`holdfast list --sessions`: the sessions of a store, oldest first."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli._opening import open_existing
from holdfast.cli._paging import paging
from holdfast.cli._render import Column, data, document, table, time_column
from holdfast.cli._settings import Settings
from holdfast.cli._terminal import escape_field, iso
from holdfast.errors import ErrorCode, NotFoundError
from holdfast.settings.near import close_names, did_you_mean

_COLUMNS = [
    Column("SESSION", lambda s: s.id, most=40, style=lambda _: "yellow"),
    Column("SAVES", lambda s: f"{s.saves:,}", right=True),
    Column("AGENT", lambda s: s.agent or "", most=24),
    Column("PROJECT", lambda s: s.project or "", most=24),
]


def list_sessions(settings: Settings, filters: dict[str, Any], *, limit: int | None, alone: bool) -> None:
    """Print the sessions, those of an agent or project where `filters` says so."""
    others = [f"--{name}" for name in filters if name not in ("agent", "project")]
    others += [f"--{name}" for name in ("session", "branch") if name in settings.typed]
    if not alone:
        others.append("--all-sessions")
    if others:
        raise click.UsageError(f"{others[0]} does not go with --sessions: only --agent and --project do")
    with open_existing(settings) as store:
        url = store.url
        found = store.sessions(**filters)
        known = found or store.sessions()
    if filters and not found:
        raise _nothing(filters, known)
    shown = found[-limit:] if limit else found
    if settings.json:
        document({"store": url, "sessions": [_record(each) for each in shown]})
        return
    with paging(settings):
        if not settings.for_people():
            for each in shown:
                data("\t".join("" if v is None else escape_field(str(v)) for v in _record(each).values()))
        elif shown:
            columns = [_COLUMNS[0], time_column(settings), *_COLUMNS[1:]]
            for line in table(settings, columns, shown):
                data(line, color=True)
    if not shown:
        settings.say("no sessions yet: holdfast create MESSAGE saves a first checkpoint")


def _record(session: Any) -> dict[str, Any]:
    # Written out: the order is that of the columns in a pipe.
    return {
        "id": session.id,
        "agent": session.agent,
        "project": session.project,
        "created_at": iso(session.created_at),
        "saves": session.saves,
        "branch": session.branch,
    }


def _nothing(filters: dict[str, str], known: list[Any]) -> NotFoundError:
    near = [
        name
        for field, asked in filters.items()
        for name in close_names(asked, {getattr(each, field) or "" for each in known})
    ]
    return NotFoundError(
        "no session of " + " and ".join(f"{field} {asked!r:.60}" for field, asked in filters.items()),
        code=ErrorCode.SESSION_MISSING,
        hint=did_you_mean(near) or "holdfast list --sessions shows all of them",
        candidates=near,
    )
