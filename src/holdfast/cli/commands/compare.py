"""The commands that compare: diff, and diverge for two lines of work.

People get both checkpoints, a summary, and the changes, drawn and coloured. A pipe gets one change a line: what
happened, where, where it was before if that is elsewhere, the old value and the new one as JSON. `--json` is one
document with all of it, `--patch` a JSON patch (RFC 6902) that makes one state the other.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from holdfast.cli.app import command
from holdfast.cli.completion import RefArgument, complete_session
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import Column, counted, data, document, record, rows
from holdfast.cli.paging import paging
from holdfast.cli.pretty import NO_VALUE, Limits, json_line
from holdfast.cli.terminal import ellipsis_for, escape_controls, escape_json, paint, terminal_width
from holdfast.errors import ErrorCode, HoldfastError, InvalidInputError, NotFoundError
from holdfast.integrations.langgraph.rows import values_first
from holdfast.reports.text import json_form

if TYPE_CHECKING:
    from holdfast import Checkpoint, Session, Store
    from holdfast.reports import Diff

_CHANGES = (
    Column("op"),
    Column("path", width=40),
    Column("old_path", lambda row: NO_VALUE if row.old_path in (None, row.path) else row.old_path),
    Column("old", lambda row: NO_VALUE if row.op == "add" else json_line(row.described()["old"]), width=40),
    Column(
        "new", lambda row: NO_VALUE if row.op == "remove" else json_line(row.described()["new"]), width=10_000
    ),
)
_STAT = (
    Column("path", lambda row: row.path, header="PART", width=10_000),
    Column("added", lambda row: row.added, kind="count", style="green"),
    Column("removed", lambda row: row.removed, kind="count", style="red"),
    Column("replaced", lambda row: row.replaced, kind="count", header="CHANGED"),
    Column("moved", lambda row: row.moved, kind="count"),
)


class _Sides(NamedTuple):
    """What is compared."""

    old: Checkpoint
    new: Checkpoint
    path: str | None
    diff: Diff

    @property
    def equal(self) -> str:
        """What is said where nothing differs: of the states, or of the part that was looked at."""
        return "the states are equal" if self.path is None else f"{self.path} is equal in both states"


@command(
    "diff",
    """Show what differs between two checkpoints.

    A and B are refs; without them it is what the newest checkpoint changed, with A alone everything since A.

    \b
    Examples:
      holdfast diff
      holdfast diff @~3
      holdfast diff '#1..@' --stat
      holdfast diff '#1' @ --side-by-side
      holdfast diff @~1 @ --patch
    """,
)
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
    default=3,
    metavar="N",
    help="Unchanged lines to leave around a change",
)
@click.option("--words", is_flag=True, help="Changed words in one line instead of two lines")
@click.option("--full", is_flag=True, help="Cut no value short, however long")
@click.option(
    "--internals", is_flag=True, help="Of a graph also what LangGraph keeps for itself, as in --json"
)
@click.option(
    "--exit-code", is_flag=True, help="End with 1 where there is a difference, with 0 where there is none"
)
@click.option(
    "--from-session", metavar="ID", shell_complete=complete_session, help="The session that A is in"
)
@click.option("--to-session", metavar="ID", shell_complete=complete_session, help="The session that B is in")
def diff(  # noqa: PLR0913 - one for each option
    cmd: Invocation,
    *,
    a: str | None,
    b: str | None,
    path: str | None,
    stat: bool,
    patch: bool,
    internals: bool,
    exit_code: bool,
    from_session: str | None,
    to_session: str | None,
    **layout: Any,
) -> int:
    """Print the difference."""
    if layout["unified"] and layout["beside"]:
        raise click.UsageError("--unified excludes --side-by-side")
    drawn = layout["unified"] or layout["beside"]
    if (patch and stat) or (drawn and (patch or stat)):
        raise click.UsageError("--patch, --stat, and --unified or --side-by-side exclude each other")
    a, b = _refs(a, b, from_session, to_session)
    with cmd.open() as store:
        sessions = (
            _session(store, cmd, from_session, "--from-session"),
            _session(store, cmd, to_session, "--to-session"),
        )
        old, new = (session.checkpoint(ref) for session, ref in zip(sessions, (a, b), strict=True))
        found = store.diff(old, new, path=path)
        everything = internals or patch or cmd.json or path is not None
        sides = _Sides(old, new, path, found if everything else _values_first(cmd, found, new))
        if patch:
            data(escape_json(json.dumps(found.json_patch(), ensure_ascii=False, indent=2)))
        elif cmd.json:
            document(_document(sides, stat=stat))
        elif stat:
            rows(cmd, sides.diff.stat().parts, _STAT)
            if not found:
                cmd.say(escape_controls(sides.equal))
        elif drawn or (cmd.for_people() and cmd.fields is None and cmd.format is None):
            plain = drawn or layout["full"] or layout["words"] or path is not None
            said = None if plain else _as_run(sessions, old, new)
            for line in (said or "").splitlines():
                data(escape_controls(line))
            if not said:
                _draw(cmd, sides, layout)
        else:
            rows(cmd, sides.diff, _CHANGES)
    return int(exit_code and bool(found))


@command(
    "diverge",
    """Show where two lines of work differ first: two branches, sessions or executions.

    A and B are refs, the newest checkpoint of each line. They are compared step by step from where they part, or from
    their beginnings where they have no checkpoint in common.

    \b
    Examples:
      holdfast diverge main try-1
      holdfast diverge '#40'
      holdfast diverge @ @ --to-session other-run
    """,
)
@click.argument("a", type=RefArgument())
@click.argument("b", type=RefArgument(), default="@")
@click.option("--to-session", metavar="ID", shell_complete=complete_session, help="The session that B is in")
def diverge(cmd: Invocation, *, a: str, b: str, to_session: str | None) -> None:
    """Print where they part."""
    with cmd.open() as store:
        session, other = _session(store, cmd, None, ""), _session(store, cmd, to_session, "--to-session")
        try:
            found = session.diverge(a, other.checkpoint(b))
        except NotFoundError as error:
            if to_session is None and any(each.id == b for each in store.sessions()):
                error.hint = f"for a session of that name: holdfast diverge {a} @ --to-session {b}"
            raise
        summary = "" if found.diff is None else found.diff.summary()
    shown = {"last": found.last, "a": found.a, "b": found.b}
    lines = [(name, "" if each is None else f"#{each.seq}  {each.message}") for name, each in shown.items()]
    fields = {name: None if each is None else each.id for name, each in shown.items()}
    record(cmd, found, [*lines, ("differs", summary)], {**fields, "same": found.same, "summary": summary})
    if found.a is not None and found.b is not None:
        cmd.say(f"holdfast diff {found.a.id[:12]} {found.b.id[:12]} shows what differs there")
    elif not found.diverged:
        cmd.say("they do not differ")


def _values_first(cmd: Invocation, found: Diff, new: Checkpoint) -> Diff:
    shown = values_first(found, new.key)
    hidden = len(found.changes) - len(shown.changes)
    if hidden and cmd.for_people():
        cmd.say(f"{counted(hidden, 'change')} of LangGraph's own left out: --internals shows all")
    return shown


def _as_run(sessions: tuple[Session, Session], old: Checkpoint, new: Checkpoint) -> str | None:
    """What a run did between two of its checkpoints, in its own words; None where one of them is not a run's."""
    if "execution_id" not in old.metadata or "execution_id" not in new.metadata:
        return None
    from holdfast.agents import diff_checkpoints

    try:
        return diff_checkpoints(sessions[0].load(old), sessions[1].load(new)).summary()
    except (HoldfastError, LookupError, TypeError, AttributeError):  # it only looks like one
        return None


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


def _session(store: Store, cmd: Invocation, name: str | None, option: str) -> Session:
    if name is None or name == cmd.session:
        return cmd.session_of(store)
    cmd.check_session(store, name, option)
    return store.session(name, branch=store.current_branch(name))


def _document(sides: _Sides, *, stat: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "a": sides.old.to_dict(),
        "b": sides.new.to_dict(),
        "path": sides.path,
        "summary": sides.diff.summary(),
        "stat": sides.diff.stat().to_dict(),
    }
    return found if stat else found | {"changes": json_form([each.described() for each in sides.diff])}


def _draw(cmd: Invocation, sides: _Sides, layout: dict[str, Any]) -> None:
    from holdfast.cli.diff_view import IN_A_PIPE, NARROWEST, Pen, Rows, side_by_side, unified

    people, full = cmd.for_people(), layout["full"]
    mark, width, beside = ellipsis_for(sys.stdout), terminal_width(), layout["beside"]
    if beside and people and width < NARROWEST:
        cmd.say(f"the terminal has {width} columns: both sides are below each other")
        beside = False
    if not people:
        width = IN_A_PIPE if beside else 100
    room = (width - 3) // 2 if beside else width
    limits = None if full or not people else Limits(lines=40)
    short = not full and (people or beside)
    drawing = Rows(fold=layout["fold"], width=room - 2, limits=limits, short=short, mark=mark)
    pen = Pen(cmd.paints(sys.stdout), width if beside or short else None, mark, full, drawing.was_cut)
    with paging(cmd):
        for line in _header(cmd, sides):
            data(line, color=pen.color)
        drawn = drawing.of(sides.diff)
        for line in side_by_side(drawn, pen) if beside else unified(drawn, pen, words=layout["words"]):
            data(line, color=pen.color)
    if drawing.cut:
        cmd.say("long values are cut short; --full shows all of them, --json all of them as JSON")


def _header(cmd: Invocation, sides: _Sides) -> Iterator[str]:
    on = cmd.paints(sys.stdout)
    signs: tuple[tuple[str, Literal["red", "green"], Checkpoint], ...] = (
        ("---", "red", sides.old),
        ("+++", "green", sides.new),
    )
    for sign, style, c in signs:
        place = f"#{c.seq}" if sides.old.session == sides.new.session else f"{c.session} #{c.seq}"
        when = cmd.when(c.created_at) if cmd.for_people() else c.created_at.isoformat()
        words = escape_controls(f"{place}  {when}  {c.message}".rstrip())
        yield f"{paint(sign, style, on=on)} {paint(c.id[:8], 'yellow', on=on)} {words}"
    yield paint(escape_controls(sides.diff.summary() or sides.equal), "bold", on=on)
