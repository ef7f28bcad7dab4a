"""Commands that draw a session: tree, timeline."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.app import command
from holdfast.cli.commands.look import LIMIT, SCREEN, TIME_RANGE, branches_here, labels_of, pages, why_empty
from holdfast.cli.graph import columns_of, draw, side_by_side, signs_for
from holdfast.cli.inputs import moment_of
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import ID, MESSAGE, SEQ, STATUS, Column, data, document, rows, say_cut, table
from holdfast.cli.paging import paging
from holdfast.cli.terminal import escape_controls, lasted, pad, paint, text_width
from holdfast.errors import ErrorCode, NotFoundError

if TYPE_CHECKING:
    from holdfast import Checkpoint, Store
    from holdfast.reports import Moment, Tree

_TREE_SCREEN = 1000
"""Checkpoints on a terminal unless --limit says otherwise: folded, they rarely fill one. A pipe gets all of them."""
_FOLD_KEEPS = 2
"""Rows that stay at either end of a stretch that is folded: enough to see what it begins and ends with."""

_TAGS = Column("tags", kind="list", width=24, style="cyan")
_STEP = Column("step", kind="count")
_USED = (
    Column("tokens", kind="count", spare=True),
    Column("cost_usd", kind="cost", header="COST", spare=True),
)


def _explain_nothing(store: Store, cmd: Invocation) -> None:
    """Raise where it is an error that a session has nothing to draw; say so where it is not."""
    if store.sessions() or "session" in cmd.typed:
        cmd.check_session(store)
    if cmd.branch is not None:
        cmd.session_of(store).checkpoint()  # says what is missing, and what there is instead
    cmd.say(escape_controls(why_empty(store, cmd, cmd.session)))


@command(
    "tree",
    """Draw the lineage of the session, newest first: where branches part and meet.

    @ is the head of the branch in use, a diamond is pinned, ~ stands for what is not there: what was removed, or lies
    elsewhere.

    \b
    Examples:
      holdfast tree
      holdfast tree --all --limit 0
      holdfast tree --labels
      holdfast tree --branch main --json
    """,
)
@click.option("--all", "everything", is_flag=True, help="On a terminal: every checkpoint, nothing folded")
@click.option(
    "--limit", type=click.IntRange(min=0), metavar="N", help="The newest N; 0 for all  [terminal: 1000]"
)
@click.option(
    "--labels",
    is_flag=True,
    help="On a terminal: call those without a message by what they changed; reads states",
)
def tree(cmd: Invocation, *, everything: bool, limit: int | None, labels: bool) -> None:
    """Print the lineage."""
    # Who says how many rows wants that many labels.
    most = SCREEN if limit is None else None
    if limit is None:
        limit = _TREE_SCREEN if cmd.for_people() else 0
    fold = None if everything else _FOLD_KEEPS
    drawn = cmd.for_people() and cmd.fields is None and cmd.format is None
    with cmd.open_session() as (store, session):
        found = session.tree(limit=limit or None)
        if not found.nodes:
            _explain_nothing(store, cmd)
        elif cmd.branch is not None and not any(node.current for node in found):
            session.checkpoint()  # a branch that is not there is an error that names what is
        url = store.url
        named = labels_of(store, _own_rows(found, fold), most) if labels and drawn else {}
    if cmd.json:
        document({"store": url, **found.to_dict()})
    elif drawn and found.nodes:
        with paging(cmd):
            for line in _picture(cmd, found, named, fold=fold):
                data(line, color=True)
        if found.more:
            say_cut(cmd, limit)
    else:
        lanes = {node.checkpoint.id: lane for node, lane in zip(found, found.lanes(), strict=True)}
        columns = (
            Column("id", "checkpoint.id"),
            Column("prev", "checkpoint.prev"),
            Column("merged", lambda node: node.checkpoint.parents[1:]),
            Column("branches"),
            Column("lane", lambda node: lanes[node.checkpoint.id]),
            Column("message", "checkpoint.message"),
            *(Column(name, f"checkpoint.{name}") for name in ("status", "step", "tokens", "cost_usd")),
        )
        rows(cmd, found, columns)


def _own_rows(found: Tree, fold: int | None) -> Iterator[Checkpoint]:
    """The checkpoints that have a row of their own."""
    for row in found.rows(fold=fold) if found.nodes else ():
        if row.kind == "checkpoint":
            yield found.nodes[row.points[0]].checkpoint


def _picture(cmd: Invocation, found: Tree, labels: Mapping[str, str], *, fold: int | None) -> Iterator[str]:
    """The lines of the drawing: the graph, and beside it the columns of a checkpoint or what a row stands for."""
    signs, on = signs_for(sys.stdout), cmd.paints(sys.stdout)
    nodes = {node.checkpoint.id: node for node in found}

    def sign(row: Any) -> str:
        if row.kind != "checkpoint":
            return signs.folded
        node = found.nodes[row.points[0]]
        return signs.of(node.checkpoint, current=node.current)

    def heads(checkpoint: Checkpoint) -> str:
        node = nodes[checkpoint.id]
        # No branch can be called that: names begin with a letter or a digit.
        return "(no branch)" if node.tip and not node.on_branch else ",".join(node.branches)

    lines = list(draw(found.rows(fold=fold), signs, sign))
    graphs = {
        found.nodes[row.points[0]].checkpoint.id: text
        for text, row in lines
        if row is not None and row.kind == "checkpoint"
    }
    columns = [
        Column("graph", lambda c: graphs[c.id], header="", width=1000),
        ID,
        SEQ,
        Column("created_at", kind="time", header="AGE", style="dim"),
        Column("branches", heads, header="BRANCH", width=24, style="blue"),
        STATUS._replace(varied=True),
        _STEP,
        _TAGS,
        *_USED,
        _message(labels),
    ]
    width = max(text_width(text) for text in graphs.values())
    written = iter(table(cmd, columns, [nodes[each].checkpoint for each in graphs]))
    yield next(written)
    for text, row in lines:
        if row is None:
            yield text
        elif row.kind == "checkpoint":
            yield next(written)
        else:
            yield f"{pad(text, width)}  {paint(_beside(found, row), 'dim', on=on)}"


def _message(labels: Mapping[str, str]) -> Column:
    def said(c: Checkpoint) -> str:
        words = [c.message or labels.get(c.id, "")]
        if c.skipped:
            words.append(f"({c.skipped:,} removed below)")
        elif c.parents and c.prev is None:
            words.append(f"({c.parents[0][:8]} from elsewhere)")
        return " ".join(filter(None, words))

    return MESSAGE._replace(value=said, style=lambda c: "dim" if not c.message and c.id in labels else None)


def _beside(found: Tree, row: Any) -> str:
    """What stands beside a row that is no checkpoint."""
    if row.kind == "older":
        return "older ones"
    removed = sum(found.nodes[at].skipped for at in row.points)
    return f"{len(row.points):,} checkpoints" + (f", {removed:,} removed between them" if removed else "")


@command(
    "timeline",
    """Show what was saved when: newest first, day by day, with the time between checkpoints.

    \b
    Examples:
      holdfast timeline
      holdfast timeline --since 2026-11-15 --limit 0
      holdfast timeline --all-sessions --json
    """,
)
@TIME_RANGE[0]
@TIME_RANGE[1]
@click.option("--all-sessions", is_flag=True, help="Of every session, side by side")
@LIMIT
@click.option(
    "--labels", is_flag=True, help="Call those without a message by what they changed; reads states"
)
def timeline(
    cmd: Invocation,
    *,
    since: str | None,
    until: str | None,
    all_sessions: bool,
    limit: int | None,
    labels: bool,
) -> None:
    """Print the timeline."""
    from holdfast.reports import Moment, Timeline

    if all_sessions and cmd.typed & {"session", "branch"}:
        raise click.UsageError("--all-sessions excludes --session and --branch")
    if limit is None:
        limit = SCREEN if cmd.for_people() else 0
    session = None if all_sessions else cmd.session
    asked = {name: text for name, text in (("since", since), ("until", until)) if text is not None}
    bounds = {name: moment_of(cmd, name, text) for name, text in asked.items()}
    with cmd.open() as store:
        on_branch = None
        if cmd.branch is not None:
            on_branch = {each.id for each in cmd.session_of(store).log()}
        matching = (
            each for each in pages(store, session, **bounds) if on_branch is None or each.id in on_branch
        )
        # One more than is shown: it says whether there are more, and how long before the last one it was.
        found = list(islice(matching, limit + 1) if limit else matching)
        if not found:
            _explain_empty(store, cmd, asked, session)
        head = None if session is None or not found else _head(store, cmd)
        in_use = None if session is None else cmd.session_of(store).branch
        url = store.url
        here = None if session is None else branches_here(store, found)
        # They come by sequence number; writers with clocks that differ may have saved in another order.
        ordered = sorted(found, key=lambda each: (each.created_at, each.position), reverse=True)
        places = columns_of([_lane_name(each, here) for each in ordered], in_use)
        more = bool(limit) and len(ordered) > limit
        shown = ordered[: limit or None]
        called = labels_of(store, shown, None) if labels else {}
    moments = []
    for number, each in enumerate(shown):
        earlier = ordered[number + 1] if number + 1 < len(ordered) else None
        gap = None if earlier is None else (each.created_at - earlier.created_at).total_seconds()
        label = (each.message or called.get(each.id, "")[1:-1] or None) if labels else None
        source: Any = None if label is None else "message" if each.message else "changes"
        moments.append(Moment(each, gap, places[number][0], label, source))
    if cmd.for_people() and cmd.fields is None and cmd.format is None:
        with paging(cmd):
            _draw_timeline(cmd, moments, [going for _, going in places], head, here, called)
    else:
        rows(
            cmd, moments, _moment_columns(labels=labels), lambda: Timeline(url, session, tuple(moments), more)
        )
    if more and cmd.for_people():
        say_cut(cmd, limit)


def _lane_name(each: Checkpoint, here: Mapping[str, str | None] | None) -> str:
    return each.session if here is None else here.get(each.id) or f"({each.branch})"


def _head(store: Store, cmd: Invocation) -> str | None:
    try:
        return cmd.session_of(store).checkpoint().id
    except NotFoundError:  # the branch in use was deleted: nothing is its head
        return None


def _explain_empty(store: Store, cmd: Invocation, asked: Mapping[str, str], session: str | None) -> None:
    given = " ".join(f"--{name} {text}" for name, text in asked.items())
    if not given and session is None:
        cmd.say("no checkpoints yet: holdfast create MESSAGE saves one")
    elif not given:
        _explain_nothing(store, cmd)
    else:
        if session is not None:
            cmd.check_session(store)
        raise NotFoundError(
            f"no checkpoint matches {given}",
            code=ErrorCode.CHECKPOINT_MISSING,
            hint="holdfast timeline without a time range shows what there is",
        )


def _moment_columns(*, labels: bool) -> list[Column]:
    columns = [
        Column("id", "checkpoint.id", kind="id", style="yellow"),
        Column("seq", "checkpoint.seq", kind="seq"),
        Column("created_at", "checkpoint.created_at", kind="time", header="AGE", style="dim"),
        Column("gap", lambda row: None if row.gap_seconds is None else f"{row.gap_seconds:.6f}"),
        Column("session", "checkpoint.session"),
        Column("branch", "checkpoint.branch"),
        Column("lane", kind="count"),
        Column("tags", "checkpoint.tags"),
        Column(
            "message", lambda row: row.checkpoint.message if row.label is None else row.label, width=10_000
        ),
    ]
    return [*columns, *([Column("label_from")] if labels else [])]


def _draw_timeline(
    cmd: Invocation,
    moments: list[Moment],
    going: list[frozenset[int]],
    head: str | None,
    here: Mapping[str, str | None] | None,
    called: Mapping[str, str],
) -> None:
    if not moments:
        return
    signs, on = signs_for(sys.stdout), cmd.paints(sys.stdout)
    lanes, gaps = {}, {}
    for each, others in zip(moments, going, strict=False):
        made = each.checkpoint
        lanes[made.id] = side_by_side(each.lane, others, signs.of(made, current=made.id == head), signs)
        gaps[made.id] = "" if each.gap_seconds is None else f"+{lasted(timedelta(seconds=each.gap_seconds))}"
    branch: Callable[[Checkpoint], str] = lambda c: c.branch if here is None else _lane_name(c, here)  # noqa: E731
    columns = [
        Column("lanes", lambda c: lanes[c.id], header="", width=1000),
        Column("time", lambda c: c.created_at.astimezone().strftime("%H:%M:%S")),
        Column("gap", lambda c: gaps[c.id], kind="right", style="dim"),
        ID,
        SEQ,
        *([Column("session", width=24)] if here is None else []),
        Column("branch", branch, header="SAVED ON" if here is None else "BRANCH", width=16, style="blue"),
        _TAGS,
        _message(called),
    ]
    written = iter(table(cmd, columns, [each.checkpoint for each in moments]))
    data(next(written), color=True)
    day = None
    for each, line in zip(moments, written, strict=True):
        local = each.checkpoint.created_at.astimezone()
        if local.date() != day:
            day = local.date()
            data(paint(f"{local:%A %Y-%m-%d}, UTC{local.isoformat()[-6:]}", "bold", on=on), color=True)
        data(line, color=True)
