"""`holdfast ask`, `sql`, `reindex` and `why`: questions about runs."""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.app import command
from holdfast.cli.output import Column, document, json_text, record, rows

if TYPE_CHECKING:
    from holdfast.cli.invocation import Invocation

_BAR = 24
_NO_ROWS = "no rows: runs write them with sql=True, and holdfast reindex makes them for all others"
_CSV = click.option("--csv", "as_csv", is_flag=True, help="Write CSV with a header")


@dataclass(frozen=True)
class _Answer:
    """The rows of an answer, and what was asked."""

    question: str
    found: Sequence[Mapping[str, Any]]
    columns: Sequence[str]
    truncated: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The JSON document."""
        return {
            "question": self.question,
            "rows": [dict(each) for each in self.found],
            "truncated": self.truncated,
        }


def _write(cmd: Invocation, answer: _Answer, *, as_csv: bool, bar: str | None = None) -> None:
    if as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(answer.columns)
        writer.writerows([each[name] for name in answer.columns] for each in answer.found)
        return
    if cmd.json:
        document(answer.to_dict())
        return
    shown = [Column(name, _value(name), width=60) for name in answer.columns]
    most = max((each[bar] or 0 for each in answer.found), default=0) if bar is not None else 0
    if most and cmd.for_people() and cmd.fields is None and cmd.format is None:
        shown.insert(1, Column("bar", lambda row: "█" * round(_BAR * (row[bar] or 0) / most), width=_BAR))
    rows(cmd, answer.found, shown)
    if answer.truncated:
        cmd.say("there are more rows: --limit shows them")


def _value(name: str) -> Any:
    def get(row: Mapping[str, Any]) -> Any:
        value = row[name]
        return f"{value:.6g}" if isinstance(value, float) else value

    return get


def _ask(
    cmd: Invocation, question: str, *args: Any, as_csv: bool, bar: str | None = None, **named: Any
) -> None:
    from holdfast.agents import Questions

    with cmd.open() as store:
        found = getattr(Questions(store), question)(*args, **named)
    columns = list(found[0]) if found else []
    _write(cmd, _Answer(question.replace("_", "-"), found, columns), as_csv=as_csv, bar=bar)
    if not found:
        cmd.say(_NO_ROWS)


@command(
    "ask tool-calls",
    """List every checkpoint in which a tool was called, newest first.

\b
Examples:
  holdfast ask tool-calls search
  holdfast ask tool-calls search --json
""",
)
@click.argument("tool")
@click.option("--limit", type=click.IntRange(1), help="At most so many")
@_CSV
def tool_calls(cmd: Invocation, tool: str, limit: int | None, *, as_csv: bool) -> None:
    """Print them."""
    _ask(cmd, "tool_calls", tool, limit=limit, as_csv=as_csv)


@command("ask tokens", "Show tokens and cost of each execution, and their average.")
@_CSV
def tokens(cmd: Invocation, *, as_csv: bool) -> None:
    """Print them."""
    _ask(cmd, "tokens", as_csv=as_csv, bar="tokens")


@command("ask errors", "Show how often each tool was called and failed, and how long it took.")
@_CSV
def errors(cmd: Invocation, *, as_csv: bool) -> None:
    """Print them."""
    _ask(cmd, "errors", as_csv=as_csv, bar="error_rate")


@command("ask slowest", "List the tool calls that took longest.")
@click.option("--limit", type=click.IntRange(1), default=20, help="At most so many; 20")
@_CSV
def slowest(cmd: Invocation, limit: int, *, as_csv: bool) -> None:
    """Print them."""
    _ask(cmd, "slowest", limit=limit, as_csv=as_csv, bar="duration_ms")


@command("ask executions", "List executions, newest first.")
@click.option("--status", help="Only with this status: running, paused, completed, failed or interrupted")
@_CSV
def executions(cmd: Invocation, status: str | None, *, as_csv: bool) -> None:
    """Print them."""
    _ask(cmd, "executions", status, as_csv=as_csv)


@command(
    "sql",
    """Answer one SELECT over the views sessions, checkpoints, tags, executions, thoughts and tool_calls.

Nothing can be written, attached or read but these views. A question is stopped after --seconds.

\b
Examples:
  holdfast sql 'select tool_id, count(*) from tool_calls group by tool_id'
  holdfast sql 'select id, message from checkpoints where tokens > ?' 1000
""",
)
@click.argument("query")
@click.argument("parameters", nargs=-1, metavar="PARAMETERS")
@click.option("--seconds", type=click.FloatRange(0, min_open=True), default=5.0, help="Stop after so long; 5")
@click.option("--limit", type=click.IntRange(1), default=10_000, help="At most so many rows; 10,000")
@_CSV
def sql(
    cmd: Invocation, query: str, parameters: tuple[str, ...], seconds: float, limit: int, *, as_csv: bool
) -> None:
    """Print the answer."""
    with cmd.open() as store:
        found = store.sql(query, [_typed(each) for each in parameters], seconds=seconds, limit=limit)
    _write(cmd, _Answer(query, list(found), found.columns, found.truncated), as_csv=as_csv)


def _typed(text: str) -> str | int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@command("reindex", "Make the rows of runs again from the checkpoints that there are.")
def reindex(cmd: Invocation) -> None:
    """Do it, and say how many."""
    from holdfast.agents import reindex as make_again

    with cmd.open() as store:
        wanted = cmd.session if "session" in cmd.typed else None
        if wanted is not None:
            cmd.check_session(store)
        count = make_again(store, wanted)
    record(cmd, {"executions": count}, [("executions", f"{count:,}")])


@command(
    "why",
    """Say where a value comes from: the checkpoint that set it, what else it changed, the thought and the tool call.

\b
Examples:
  holdfast why variables.answer
  holdfast why context.state.plan tag:broken
""",
)
@click.argument("path")
@click.argument("ref", default="@")
def why(cmd: Invocation, path: str, ref: str) -> None:
    """Print the answer."""
    from holdfast.agents import why as ask_why

    with cmd.open_session() as (store, session):
        found = ask_why(session, path, ref)
        made = found.checkpoint
        plain = store.json_form(found.to_dict() | {"checkpoint": None}) | {"checkpoint": made.to_dict()}
    lines = [
        ("path", found.path),
        ("value", json_text(plain["value"], indent=None)),
        ("before", json_text(plain["old"], indent=None)),
        ("set by", f"{made.id[:12]} #{made.seq} {made.message}"),
    ]
    if found.thought is not None:
        lines.append(("thought", f"{found.thought['type']}: {found.thought['content']}"))
    if found.tool_call is not None:
        lines.append(("tool call", f"{found.tool_call['tool_id']} ({found.tool_call.get('status')})"))
    fields = dict(lines)
    if found.changes is not None:
        lines += [("with it", each) for each in found.changes.summary().splitlines()]
    record(cmd, plain, lines, fields)
