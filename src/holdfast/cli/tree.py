"""`holdfast tree`: the lineage of a session, drawn: where lines part and meet, and which branch is where.

People get a graph beside a table; long stretches with nothing special about them are one row. A pipe gets a
checkpoint a line with its links and its lane, and no drawing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._drawing import draw, explain_nothing, signs_for
from holdfast.cli._figures import newest_shown
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._labels import PAGE, labels_of
from holdfast.cli._opening import open_existing, session_of
from holdfast.cli._paging import paging
from holdfast.cli._render import Column, data, document, message_column, table
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import age, escape_field, pad, paint, text_width

if TYPE_CHECKING:
    from holdfast import Checkpoint, Tree

_SCREEN = 1000
"""Checkpoints on a terminal unless --limit says otherwise: folded, they rarely fill one. A pipe gets all of them."""
_FOLD_KEEPS = 2
"""Rows that stay at either end of a stretch that is folded: enough to see what it begins and ends with."""

HELP = """Draw the lineage of the session, newest first: where branches part and meet.

@ is the head of the branch in use, a diamond is pinned, ~ stands for what is not there: what was removed, or lies
elsewhere.

\b
Examples:
  holdfast tree
  holdfast tree --all --limit 0
  holdfast tree --labels
  holdfast tree --branch main --json
"""


@click.command("tree", cls=HoldfastCommand, short_help="Draw where branches part and meet", help=HELP)
@click.option("--all", "everything", is_flag=True, help="On a terminal: every checkpoint, nothing folded")
@click.option(
    "--limit", type=click.IntRange(min=0), metavar="N", help="The newest N; 0 for all  [terminal: 1000]"
)
@click.option(
    "--labels",
    is_flag=True,
    help="On a terminal: call those without a message by what they changed; reads states",
)
@pass_settings
def command(settings: Settings, *, everything: bool, limit: int | None, labels: bool) -> None:
    """Print the lineage."""
    # Who says how many rows wants that many labels.
    most = PAGE if limit is None else None
    if limit is None:
        limit = _SCREEN if settings.for_people() else 0
    fold = None if everything else _FOLD_KEEPS
    with open_existing(settings) as store:
        session = session_of(store, settings)
        tree = session.tree(limit=limit or None)
        if not tree.nodes:
            explain_nothing(store, settings)
        elif settings.branch is not None and not any(node.current for node in tree):
            session.checkpoint()  # a branch that is not there is an error that names what is
        url = store.url
        named = labels_of(store, _shown(tree, fold), most) if labels and settings.for_people() else {}
    if settings.json:
        document({"store": url, **tree.to_dict()})
    elif settings.for_people():
        with paging(settings):
            for line in _picture(settings, tree, named, fold=fold):
                data(line, color=True)
        if tree.more:
            settings.say(newest_shown(limit))
    else:
        for line in _fields(tree):
            data(line)


def _fields(tree: Tree) -> Iterator[str]:
    for node, lane in zip(tree, tree.lanes(), strict=True):
        each = node.checkpoint
        fields = [
            each.id,
            each.prev or "",
            ",".join(each.parents),
            ",".join(node.branches),
            str(lane),
            each.message,
        ]
        yield "\t".join(escape_field(field) for field in fields)


def _shown(tree: Tree, fold: int | None) -> Iterator[Checkpoint]:
    """The checkpoints that have a row of their own."""
    for row in tree.rows(fold=fold) if tree.nodes else ():
        if row.kind == "checkpoint":
            yield tree.nodes[row.points[0]].checkpoint


def _picture(settings: Settings, tree: Tree, labels: Mapping[str, str], *, fold: int | None) -> Iterator[str]:
    """The lines of the drawing: the graph, and beside it the columns of a checkpoint or what a row stands for."""
    if not tree.nodes:
        return
    signs, on = signs_for(sys.stdout), settings.paints(sys.stdout)
    nodes = {node.checkpoint.id: node for node in tree}

    def sign(row: Any) -> str:
        if row.kind != "checkpoint":
            return signs.folded if row.kind == "folded" else signs.broken
        node = tree.nodes[row.points[0]]
        return signs.of(node.checkpoint, current=node.current)

    def heads(checkpoint: Checkpoint) -> str:
        node = nodes[checkpoint.id]
        # No branch can be called that: names begin with a letter or a digit.
        return "(no branch)" if node.tip and not node.on_branch else ",".join(node.branches)

    lines = list(draw(tree.rows(fold=fold), signs, sign))
    graphs = {
        tree.nodes[row.points[0]].checkpoint.id: text
        for text, row in lines
        if row is not None and row.kind == "checkpoint"
    }
    columns = [
        Column("", lambda c: graphs[c.id], most=10_000),
        Column("ID", lambda c: c.id[:8], style=lambda _: "yellow"),
        Column("SEQ", lambda c: f"#{c.seq}", right=True),
        Column("AGE", lambda c: age(c.created_at), right=True, style=lambda _: "dim"),
        Column("BRANCH", heads, most=24, style=lambda _: "blue"),
        Column("TAGS", lambda c: ",".join(c.tags), most=24, style=lambda _: "cyan"),
        message_column(labels),
    ]
    width = max(text_width(text) for text in graphs.values())
    written = iter(table(settings, columns, [nodes[each].checkpoint for each in graphs]))
    yield next(written)
    for text, row in lines:
        if row is None:
            yield text
        elif row.kind == "checkpoint":
            yield next(written)
        else:
            yield f"{pad(text, width)}  {paint(_said(row), 'dim', on=on)}"


def _said(row: Any) -> str:
    """What stands beside a row that is no checkpoint."""
    removed = f"{row.removed:,} removed"
    if row.kind == "folded":
        return f"{len(row.points):,} checkpoints" + (f", {removed} between them" if row.removed else "")
    return {
        "removed": removed,
        "elsewhere": "from another session",
        "late": "made from one that came later",
        "missing": "made from one that is not here",
        "older": "older ones",
    }[row.kind]
