"""`holdfast diff`: what differs between two checkpoints.

People get both checkpoints, a summary, and the changes, drawn and coloured. A pipe gets one change a line: what
happened, where, where it was before, the old value and the new one, both as JSON. `--json` is one document with all of
it, `--patch` a JSON patch (RFC 6902) that makes one state the other.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import click

from holdfast.cli._completing import RefArgument, complete_session
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._missing_part import explaining
from holdfast.cli._opening import missing_session, naming_candidates, open_existing, session_of
from holdfast.cli._paging import paging
from holdfast.cli._render import data, document, json_text
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import ellipsis_for, escape_controls, escape_field, paint, terminal_width
from holdfast.cli._values import NO_VALUE, json_line
from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.record import Record

if TYPE_CHECKING:
    from holdfast import Change, Checkpoint, Diff, Session, Store

HELP = """Show what differs between two checkpoints.

A and B are refs; without them it is what the newest checkpoint changed, with A alone everything since A.

\b
Examples:
  holdfast diff
  holdfast diff @~3
  holdfast diff '#1..@' --stat
  holdfast diff '#1' @ --side-by-side
  holdfast diff @~1 @ --patch
"""

_Form = Literal["unified", "side-by-side"]
_FOLD = 3


class _Sides(Record):
    """What is compared."""

    old: Checkpoint
    new: Checkpoint
    path: str | None
    diff: Diff

    @property
    def equal(self) -> str:
        """What is said where nothing differs: of the states, or of the part that was looked at."""
        return "the states are equal" if self.path is None else f"{self.path} is equal in both states"


class _Layout(Record):
    """How changes are drawn."""

    form: _Form | None
    fold: int
    words: bool
    full: bool


@click.command("diff", cls=HoldfastCommand, short_help="Show what differs between checkpoints", help=HELP)
@click.argument("a", type=RefArgument(), required=False)
@click.argument("b", type=RefArgument(), required=False)
@click.option("--path", metavar="PATH", help="Only this part of both states: messages, beliefs.b7")
@click.option("--stat", is_flag=True, help="Only how many changes there are, part by part")
@click.option("--patch", is_flag=True, help="A JSON patch (RFC 6902) that makes A's state B's")
@click.option("--unified", is_flag=True, help="One side below the other  [terminal: default]")
@click.option("--side-by-side", "beside", is_flag=True, help="Both sides beside each other")
@click.option(
    "--fold",
    type=click.IntRange(min=0),
    default=_FOLD,
    metavar="N",
    help="Unchanged lines to leave around a change",
)
@click.option("--words", is_flag=True, help="Changed words in one line instead of two lines")
@click.option("--full", is_flag=True, help="Cut no value short, however long")
@click.option(
    "--exit-code", is_flag=True, help="End with 1 where there is a difference, with 0 where there is none"
)
@click.option(
    "--from-session", metavar="ID", shell_complete=complete_session, help="The session that A is in"
)
@click.option("--to-session", metavar="ID", shell_complete=complete_session, help="The session that B is in")
@pass_settings
def command(  # noqa: PLR0913 - one for each option
    settings: Settings,
    a: str | None,
    b: str | None,
    *,
    path: str | None,
    stat: bool,
    patch: bool,
    unified: bool,
    beside: bool,
    fold: int,
    words: bool,
    full: bool,
    exit_code: bool,
    from_session: str | None,
    to_session: str | None,
) -> int:
    """Print the difference."""
    if patch and stat:
        raise click.UsageError("--patch excludes --stat")
    if unified and beside:
        raise click.UsageError("--unified excludes --side-by-side")
    form: _Form | None = "unified" if unified else "side-by-side" if beside else None
    if form is not None and (patch or stat):
        raise click.UsageError(f"--{form} draws changes: it excludes --patch and --stat")
    a, b = _refs(a, b, from_session, to_session)
    with open_existing(settings) as store, naming_candidates(store, settings):
        sessions = (
            _session(store, settings, from_session, "--from-session"),
            _session(store, settings, to_session, "--to-session"),
        )
        old, new = (session.checkpoint(ref) for session, ref in zip(sessions, (a, b), strict=True))
        with explaining(sessions[1], new):
            sides = _Sides(old, new, path, store.diff(old, new, path=path, whole=patch or full))
        if patch:
            _write_patch(sides.diff)
        elif settings.json:
            _write_json(sides, stat=stat)
        else:
            _write(settings, sides, _Layout(form, fold, words, full), stat=stat)
    return int(exit_code and bool(sides.diff))


def _refs(a: str | None, b: str | None, one: str | None, other: str | None) -> tuple[str, str]:
    """Both refs as they were meant; of two sessions it is their newest checkpoints."""
    if a is None:
        return ("@" if one != other else "@~1"), "@"
    left, dots, right = a.partition("..")
    if b is None and dots and not left:
        raise InvalidInputError(
            f"{a!r:.100} does not say what to compare with",
            code=ErrorCode.BAD_REF,
            hint="name both ends, A..B; or A alone, for all that has changed since",
        )
    if b is None and dots:
        return left, right or "@"
    return a, "@" if b is None else b


def _session(store: Store, settings: Settings, name: str | None, option: str) -> Session:
    if name is None or name == settings.session:
        return session_of(store, settings)
    if name not in (info.id for info in store.sessions()):
        raise missing_session(store, name, option)
    return store.session(name, branch=store.current_branch(name))


def _write(settings: Settings, sides: _Sides, layout: _Layout, *, stat: bool) -> None:
    if stat:
        _write_stat(settings, sides)
    elif settings.for_people() or layout.form is not None:
        _draw(settings, sides, layout)
    else:
        for change in sides.diff:
            data("\t".join(_fields(change)))


def _fields(change: Change) -> Iterator[str]:
    yield change.op
    yield escape_field(change.path)
    yield NO_VALUE if change.old_path is None else escape_field(change.old_path)
    yield NO_VALUE if change.op == "add" else _one_line(change, "old")
    yield NO_VALUE if change.op == "remove" else _one_line(change, "new")


def _one_line(change: Change, side: Literal["old", "new"]) -> str:
    return escape_field(json_line(change.described()[side]))


def _draw(settings: Settings, sides: _Sides, layout: _Layout) -> None:
    from holdfast.cli._diff_drawing import IN_A_PIPE, NARROWEST, Pen, side_by_side, unified
    from holdfast.cli._diffing import Rows
    from holdfast.cli._notation import Limits

    people = settings.for_people()
    mark, width = ellipsis_for(sys.stdout), terminal_width()
    beside = layout.form == "side-by-side"
    narrow = beside and people and width < NARROWEST
    if narrow:
        settings.say(f"the terminal has {width} columns: both sides are below each other")
        beside = False
    if not people:
        width = IN_A_PIPE if beside else 100
    room = (width - 3) // 2 if beside else width
    limits = None if layout.full or not people else Limits(lines=40)
    short = not layout.full and (people or beside)
    rows = Rows(fold=layout.fold, width=room - 2, limits=limits, short=short, mark=mark)
    pen = Pen(
        settings.paints(sys.stdout), width if beside or short else None, mark, layout.full, rows.was_cut
    )
    with paging(settings):
        for line in _header(settings, sides):
            data(line, color=pen.color)
        drawn = rows.of(sides.diff)
        for line in side_by_side(drawn, pen) if beside else unified(drawn, pen, words=layout.words):
            data(line, color=pen.color)
    if rows.cut:
        settings.say("long values are cut short; --full shows all of them, --json all of them as JSON")


def _header(settings: Settings, sides: _Sides) -> Iterator[str]:
    on = settings.paints(sys.stdout)
    for sign, style, c in (("---", "red", sides.old), ("+++", "green", sides.new)):
        place = f"#{c.seq}" if sides.old.session == sides.new.session else f"{c.session} #{c.seq}"
        when = settings.when(c.created_at) if settings.for_people() else c.created_at.isoformat()
        words = escape_controls(f"{place}  {when}  {c.message}".rstrip())
        yield f"{paint(sign, style, on=on)} {paint(c.id[:8], 'yellow', on=on)} {words}"
    said = sides.diff.summary() or sides.equal
    yield paint(escape_controls(said), "bold", on=on)


def _write_stat(settings: Settings, sides: _Sides) -> None:
    stat = sides.diff.stat()
    if not settings.for_people():
        for part in stat.parts:
            data("\t".join([escape_field(part.path), *(str(count) for count in part[1:])]))
        return
    from holdfast.cli._render import Column, table

    columns = [
        Column("ADDED", lambda p: f"+{p.added:,}" if p.added else "", right=True, style=lambda _: "green"),
        Column(
            "REMOVED", lambda p: f"-{p.removed:,}" if p.removed else "", right=True, style=lambda _: "red"
        ),
        Column("CHANGED", lambda p: f"{p.replaced:,}" if p.replaced else "", right=True),
        Column("MOVED", lambda p: f"{p.moved:,}" if p.moved else "", right=True),
        Column("PART", lambda p: p.path or "the state itself", most=10_000),
    ]
    if not stat.parts:
        settings.say(escape_controls(sides.equal))
        return
    with paging(settings):
        for line in table(settings, columns, stat.parts):
            data(line, color=True)
    total = stat.total
    settings.say(f"{total.total:,} in all: +{total.added:,} -{total.removed:,}, {total.replaced:,} changed")


def _write_json(sides: _Sides, *, stat: bool) -> None:
    diff = sides.diff
    head: dict[str, Any] = {
        "a": sides.old.to_dict(),
        "b": sides.new.to_dict(),
        "path": sides.path,
        "summary": diff.summary(),
        "stat": diff.stat().to_dict(),
    }
    if stat:
        document(head)
        return
    from holdfast.cli._tagged import tagged_json

    changes = tagged_json([change.described() for change in diff], depth=1)
    data("".join([json_text(head)[: -len("\n}")], ',\n  "changes": ', *changes, "\n}"]))


def _write_patch(diff: Diff) -> None:
    from holdfast.cli._tagged import tagged_json

    data("".join(tagged_json([each.described() for each in diff.operations()])))
