"""`holdfast list`: the checkpoints of a session, newest first, without touching any state.

Without filters an empty answer is an answer. With filters it is an error, because a script that asked for something
should not take silence for success; the same goes for a session that is not there.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._completing import RefArgument, complete_tag
from holdfast.cli._figures import newest_shown
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._input import STATUSES, moment_of
from holdfast.cli._opening import missing_session, naming_candidates, open_existing, session_of, why_empty
from holdfast.cli._paging import paging
from holdfast.cli._render import checkpoint_rows, document
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import escape_controls
from holdfast.errors import ErrorCode, NotFoundError
from holdfast.settings.near import close_names, did_you_mean

if TYPE_CHECKING:
    from holdfast import Checkpoint, Store

_PAGE = 1000
"""Rows per question: a listing of any length runs in little memory, and starts to appear at once."""
_SCREEN = 50
"""Rows on a terminal unless --limit says otherwise; a pipe gets all of them."""

HELP = """List checkpoints, newest first: all of the session, or with --branch the history of one branch.

With REF it is the history that leads to that checkpoint; with A..B what leads to B and not to A.

\b
Examples:
  holdfast list
  holdfast list --tag verified --since 2h
  holdfast list @~2..@
  holdfast list --all-sessions --status failed --json
  holdfast list --sessions
"""


@click.command("list", cls=HoldfastCommand, short_help="List checkpoints, newest first", help=HELP)
@click.argument("ref", metavar="[REF]", type=RefArgument(), required=False)
@click.option("--tag", metavar="TAG", shell_complete=complete_tag, help="With this tag")
@click.option("--status", type=click.Choice(STATUSES), help="With this status")
@click.option("--trigger", metavar="T", help="Saved for this reason; auto finds every auto:<event>")
@click.option("--step", type=int, metavar="N", help="With this step number")
@click.option("--since", metavar="TIME", help="Saved at or after: 30m, 2d, '2 hours ago', 2026-11-15")
@click.option("--until", metavar="TIME", help="Saved at or before such a time")
@click.option("--agent", metavar="NAME", help="Of sessions of this agent")
@click.option("--project", metavar="NAME", help="Of sessions of this project")
@click.option("--all-sessions", is_flag=True, help="Of every session, not only the current one")
@click.option("--sessions", is_flag=True, help="The sessions themselves, oldest first")
@click.option(
    "--limit", type=click.IntRange(min=0), metavar="N", help="At most so many; 0 for all  [terminal: 50]"
)
@pass_settings
def command(
    settings: Settings,
    ref: str | None,
    *,
    all_sessions: bool,
    sessions: bool,
    limit: int | None,
    **filters: Any,
) -> None:
    """Print the checkpoints that match, or the sessions."""
    if ref is not None and (all_sessions or sessions):
        raise click.UsageError(
            "a REF is of one session: it goes neither with --all-sessions nor with --sessions"
        )
    if all_sessions and settings.typed & {"session", "branch"}:
        raise click.UsageError("--all-sessions cannot be used with --session or --branch")
    filters = {name: value for name, value in filters.items() if value is not None}
    if sessions:
        from holdfast.cli._sessions import list_sessions

        list_sessions(settings, filters, limit=limit, alone=not all_sessions)
        return
    asked = dict(filters)
    for option in filters.keys() & {"since", "until"}:
        filters[option] = moment_of(settings, option, filters[option])
    if limit is None:
        limit = _SCREEN if settings.for_people() else 0
    with open_existing(settings) as store:
        found = _matching(store, settings, None if all_sessions else settings.session, filters, ref)
        first = next(found, None)
        if first is None:
            _explain_nothing(store, settings, asked, ref, all_sessions=all_sessions)
        rows = chain([] if first is None else [first], found)
        _write(store, settings, rows, limit, all_sessions=all_sessions)


def _matching(
    store: Store, settings: Settings, session: str | None, filters: dict[str, Any], ref: str | None
) -> Iterator[Checkpoint]:
    """What matches, page by page: newer checkpoints that arrive meanwhile do not shift the pages."""
    wanted: set[str] | None = None
    if session is not None and (settings.branch is not None or ref is not None):
        with naming_candidates(store, settings):
            history = session_of(store, settings).log(ref or "@")
        if not filters:
            yield from history
            return
        # `find` knows the branch a checkpoint was born on; a branch's history also has what it grew from.
        wanted = {checkpoint.id for checkpoint in history}
    last: Checkpoint | None = None
    while True:
        page = store.find(session=session, **filters, before=last, limit=_PAGE)
        yield from (checkpoint for checkpoint in page if wanted is None or checkpoint.id in wanted)
        if len(page) < _PAGE:
            return
        last = page[-1]


def _explain_nothing(
    store: Store, settings: Settings, asked: dict[str, Any], ref: str | None, *, all_sessions: bool
) -> None:
    """Raise where an empty list is an error; say why it is empty where it is not."""
    known = [info.id for info in store.sessions()]
    named = "session" in settings.typed
    if not all_sessions and settings.session not in known and (known or named or asked):
        raise missing_session(store, settings.session)
    if not asked:
        settings.say(escape_controls(_nothing_there(store, settings, ref, all_sessions=all_sessions)))
        return
    listed = " ".join(f"--{name} {value}" for name, value in asked.items())
    listed += f" in {ref}" if ref else ""
    near: list[str] = []
    if "tag" in asked:
        everything = _matching(store, settings, None if all_sessions else settings.session, {}, ref)
        near = close_names(asked["tag"], {tag for checkpoint in everything for tag in checkpoint.tags})
    raise NotFoundError(
        f"no checkpoint matches {listed}",
        code=ErrorCode.CHECKPOINT_MISSING,
        hint=did_you_mean(near) or "holdfast list without filters shows what there is",
        candidates=near,
    )


def _nothing_there(store: Store, settings: Settings, ref: str | None, *, all_sessions: bool) -> str:
    if ref is None or ".." not in ref:
        return f"nothing is in {ref}" if ref else why_empty(store, None if all_sessions else settings)
    from holdfast.store.wording import nothing_in

    session = session_of(store, settings)
    return nothing_in(ref, lambda other: bool(session.log(other, limit=1)))


def _write(
    store: Store, settings: Settings, rows: Iterator[Checkpoint], limit: int, *, all_sessions: bool
) -> None:
    shown = islice(rows, limit) if limit else rows
    if settings.json:
        checkpoints = [checkpoint.to_dict() for checkpoint in shown]
        session = None if all_sessions else settings.session
        more = next(rows, None) is not None
        document({"store": store.url, "session": session, "checkpoints": checkpoints, "more": more})
        return
    listed = list(shown) if settings.for_people() else shown
    here = None
    if settings.for_people() and not all_sessions:
        from holdfast.cli._placing import branches_here

        here = branches_here(store, listed)
    if listed:
        with paging(settings):
            checkpoint_rows(settings, listed, sessions=all_sessions, here=here)
    if settings.for_people() and next(rows, None) is not None:
        settings.say(newest_shown(limit))
