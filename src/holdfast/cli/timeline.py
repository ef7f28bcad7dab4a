"""`holdfast timeline`: what was saved when, newest first, day by day, with the time that passed between checkpoints.

Branches stand side by side as lanes, so that it shows which was worked on when; with `--all-sessions` the lanes are
sessions. The order is that of the writers' clocks. A pipe gets ISO times and seconds, one checkpoint a line. With
`--labels` a program is told which words somebody wrote and which were made from a comparison: brackets would not do,
since a message may have them too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._drawing import columns_of, explain_nothing, side_by_side, signs_for
from holdfast.cli._figures import newest_shown
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._input import moment_of
from holdfast.cli._labels import label_of
from holdfast.cli._opening import missing_session, open_existing, session_of
from holdfast.cli._paging import paging
from holdfast.cli._placing import branches_here, label
from holdfast.cli._render import Column, branch_column, data, document, message_column, saved_on_column, table
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import escape_field, iso, lasted, paint
from holdfast.errors import ErrorCode, NotFoundError
from holdfast.record import Record

if TYPE_CHECKING:
    from holdfast import Checkpoint, Store

_PAGE = 1000
"""Rows per question: a long timeline is read in pages that newer checkpoints do not shift."""
_SCREEN = 50
"""Rows on a terminal unless --limit says otherwise; a pipe gets all of them."""

HELP = """Show what was saved when: newest first, day by day, with the time between checkpoints.

\b
Examples:
  holdfast timeline
  holdfast timeline --since 2026-11-15 --limit 0
  holdfast timeline --all-sessions --json
"""


class _Moment(Record):
    """A checkpoint in a timeline."""

    checkpoint: Checkpoint
    gap: timedelta | None
    """The time since the one before it; None for the first of all, or where a filter hides what came before."""
    lane: int
    going: frozenset[int]
    """The other lanes that go on past it."""
    label: str | None = None
    """What to call it, where that was asked for."""

    @property
    def words(self) -> str:
        """Its message, or its label."""
        return self.checkpoint.message if self.label is None else self.label

    @property
    def label_from(self) -> str | None:
        """Where the label is from: a `message` that somebody wrote, or the `changes`; None where there is none."""
        if self.label is None:
            return None
        return "message" if self.checkpoint.message else "changes"


@click.command("timeline", cls=HoldfastCommand, short_help="Show what was saved when, day by day", help=HELP)
@click.option("--since", metavar="TIME", help="Saved at or after: 30m, 2d, '2 hours ago', 2026-11-15")
@click.option("--until", metavar="TIME", help="Saved at or before such a time")
@click.option("--all-sessions", is_flag=True, help="Of every session, side by side")
@click.option(
    "--limit", type=click.IntRange(min=0), metavar="N", help="At most so many; 0 for all  [terminal: 50]"
)
@click.option(
    "--labels", is_flag=True, help="Call those without a message by what they changed; reads states"
)
@pass_settings
def command(
    settings: Settings,
    *,
    since: str | None,
    until: str | None,
    all_sessions: bool,
    limit: int | None,
    labels: bool,
) -> None:
    """Print the timeline."""
    if all_sessions and settings.typed & {"session", "branch"}:
        raise click.UsageError("--all-sessions cannot be used with --session or --branch")
    if limit is None:
        limit = _SCREEN if settings.for_people() else 0
    asked = {"since": since, "until": until}
    bounds = {name: moment_of(settings, name, text) for name, text in asked.items() if text is not None}
    with open_existing(settings) as store:
        found = _matching(store, settings, bounds, all_sessions=all_sessions)
        # One more than is shown: it says whether there are more, and how long before the last one it was.
        rows = list(islice(found, limit + 1) if limit else found)
        if not rows:
            _explain(store, settings, asked, all_sessions=all_sessions)
        head = None if all_sessions or not rows else _head(store, settings)
        in_use = None if all_sessions else session_of(store, settings).branch
        url = store.url
        here = None if all_sessions else branches_here(store, rows)
        moments = _placed(rows, in_use, here)[: limit or None]
        if labels:
            moments = [each._replace(label=label_of(store, each.checkpoint)) for each in moments]
    more = bool(limit) and len(rows) > limit
    if settings.json:
        session = None if all_sessions else settings.session
        document(
            {"store": url, "session": session, "moments": [_plain(each) for each in moments], "more": more}
        )
    elif settings.for_people():
        with paging(settings):
            _picture(settings, moments, head, here)
        if more:
            settings.say(newest_shown(limit))
    else:
        for each in moments:
            fields = _fields(each) + ([each.label_from or ""] if labels else [])
            data("\t".join(escape_field(field) for field in fields))


def _matching(
    store: Store, settings: Settings, bounds: dict[str, Any], *, all_sessions: bool
) -> Iterator[Checkpoint]:
    """What was saved in that time, newest first: all of the session, or with --branch what leads to that branch."""
    wanted: set[str] | None = None
    if settings.branch is not None and not all_sessions:
        wanted = {checkpoint.id for checkpoint in session_of(store, settings).log()}
    last: Checkpoint | None = None
    session = None if all_sessions else settings.session
    while True:
        page = store.find(session=session, **bounds, before=last, limit=_PAGE)
        yield from (checkpoint for checkpoint in page if wanted is None or checkpoint.id in wanted)
        if len(page) < _PAGE:
            return
        last = page[-1]


def _head(store: Store, settings: Settings) -> str | None:
    try:
        return session_of(store, settings).checkpoint().id
    except NotFoundError:  # the branch in use was deleted: nothing is its head
        return None


def _explain(store: Store, settings: Settings, asked: dict[str, Any], *, all_sessions: bool) -> None:
    """Raise where an empty timeline is an error; say why it is empty where it is not."""
    given = " ".join(f"--{name} {text}" for name, text in asked.items() if text is not None)
    if all_sessions and not given:
        settings.say("no checkpoints yet: holdfast create MESSAGE saves one")
    elif not given:
        explain_nothing(store, settings)
    else:
        if not all_sessions and settings.session not in (info.id for info in store.sessions()):
            raise missing_session(store, settings.session)
        raise NotFoundError(
            f"no checkpoint matches {given}",
            code=ErrorCode.CHECKPOINT_MISSING,
            hint="holdfast timeline without a time range shows what there is",
        )


def _placed(
    rows: list[Checkpoint], first: str | None, here: Mapping[str, str | None] | None
) -> list[_Moment]:
    # They come by sequence number; writers with clocks that differ may have saved in another order.
    ordered = sorted(rows, key=lambda each: (each.created_at, each.position), reverse=True)
    labels = [each.session if here is None else label(each, here) for each in ordered]
    before: list[Checkpoint | None] = [*ordered[1:], None]
    return [
        _Moment(each, each.created_at - earlier.created_at if earlier else None, lane, going)
        for each, earlier, (lane, going) in zip(
            ordered, before[: len(ordered)], columns_of(labels, first), strict=True
        )
    ]


def _fields(moment: _Moment) -> list[str]:
    each = moment.checkpoint
    gap = "" if moment.gap is None else f"{moment.gap.total_seconds():.6f}"
    lane, tags = str(moment.lane), ",".join(each.tags)
    return [
        each.id,
        str(each.seq),
        iso(each.created_at),
        gap,
        each.session,
        each.branch,
        lane,
        tags,
        moment.words,
    ]


def _plain(moment: _Moment) -> dict[str, Any]:
    gap = None if moment.gap is None else moment.gap.total_seconds()
    made = {"checkpoint": moment.checkpoint.to_dict(), "gap_seconds": gap, "lane": moment.lane}
    return made if moment.label is None else made | {"label": moment.label, "label_from": moment.label_from}


def _picture(
    settings: Settings, moments: list[_Moment], head: str | None, here: Mapping[str, str | None] | None
) -> None:
    if not moments:
        return
    signs, on = signs_for(sys.stdout), settings.paints(sys.stdout)
    lanes = {
        each.checkpoint.id: side_by_side(
            each.lane, each.going, signs.of(each.checkpoint, current=each.checkpoint.id == head), signs
        )
        for each in moments
    }
    labels = {each.checkpoint.id: f"({each.label})" for each in moments if each.label}
    gaps = {each.checkpoint.id: "" if each.gap is None else f"+{lasted(each.gap)}" for each in moments}
    columns = [
        Column("", lambda c: lanes[c.id], most=10_000),
        Column("TIME", lambda c: c.created_at.astimezone().strftime("%H:%M:%S")),
        Column("GAP", lambda c: gaps[c.id], right=True, style=lambda _: "dim"),
        Column("ID", lambda c: c.id[:8], style=lambda _: "yellow"),
        Column("SEQ", lambda c: f"#{c.seq}", right=True),
        saved_on_column() if here is None else branch_column(here),
        Column("TAGS", lambda c: ",".join(c.tags), most=24, style=lambda _: "cyan"),
        message_column(labels),
    ]
    if here is None:
        columns.insert(5, Column("SESSION", lambda c: c.session, most=24))
    written = iter(table(settings, columns, [each.checkpoint for each in moments]))
    data(next(written), color=True)
    day = None
    for each, line in zip(moments, written, strict=True):
        local = each.checkpoint.created_at.astimezone()
        if local.date() != day:
            day = local.date()
            data(paint(f"{local:%A %Y-%m-%d}, UTC{local.isoformat()[-6:]}", "bold", on=on), color=True)
        data(line, color=True)
