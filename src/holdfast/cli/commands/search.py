"""Commands that search the states of a history: bisect, blame, history, grep."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.app import command
from holdfast.cli.commands.look import LIMIT, SCREEN, labels_of
from holdfast.cli.completion import RefArgument
from holdfast.cli.inputs import judged_by
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import Column, checkpoints, counted, data, document, raw, record, rows, say_cut
from holdfast.cli.paging import paging
from holdfast.cli.pretty import NO_VALUE, json_line, what_is_new
from holdfast.cli.terminal import (
    ellipsis_for,
    escape_controls,
    is_terminal,
    iso,
    paint,
    shorten,
    terminal_width,
    text_width,
)
from holdfast.errors import ErrorCode, HoldfastWarning, InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from holdfast import Checkpoint
    from holdfast.reports import BisectReport, Blame, GrepMatch, PathChange

_MOST_TOLD = 20
"""Lines of progress where every state is tested."""
_BARS = "▁▂▃▄▅▆▇█"
_BESIDE = 36
"""Columns that the others take beside the value."""


def _say_notes(cmd: Invocation, notes: Iterable[str]) -> None:
    told = list(notes)
    for note in told:
        cmd.say(escape_controls(note), label="note: ", style="yellow")
    if any("cannot be read" in note for note in told):
        cmd.say("holdfast verify says what is damaged")


def _numbers(found: Iterable[Checkpoint]) -> str:
    """The numbers of some checkpoints: `#5, #6, #9 and 3 more`."""
    seqs = sorted(each.seq for each in found)
    more = f" and {len(seqs) - 8:,} more" if len(seqs) > 8 else ""
    return ", ".join(f"#{seq}" for seq in seqs[:8]) + more


@contextmanager
def _notes_not_warnings() -> Iterator[None]:
    """A program is warned of states that were passed over; here the notes say it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HoldfastWarning)
        yield


@command(
    "bisect",
    """Find the first checkpoint where a condition is true.

    EXPRESSION is over the state and runs no code. With --run, a command gets each state as JSON on stdin and ends with
    0 where the condition is true, 125 where it cannot say, and another number up to 124 where it is not. Anything else
    ends the search: a command that was not found (127), that cannot be run (126), or that a signal ended.

    \b
    Examples:
      holdfast bisect 'messages[-1].role == "tool" and score < 0.5'
      holdfast bisect 'len(beliefs) == 0' --good '#2' --bad tag:broken
      holdfast bisect 'any(m.role == "error" for m in messages)' --check all
      holdfast bisect --run 'grep -q error' --timeout 30
    """,
)
@click.argument("expression", required=False)
@click.option("--run", "run_command", metavar="CMD", help="A command that judges each state, instead")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="For each run of CMD"
)
@click.option("--good", type=RefArgument(), metavar="REF", help="Where it is not true yet  [the first]")
@click.option("--bad", type=RefArgument(), metavar="REF", help="Where it is true  [the newest]")
@click.option("--path", metavar="PATH", help="Load and judge this part of each state only")
@click.option(
    "--check",
    type=click.Choice(["ends", "all"]),
    default="ends",
    help="Test only the ends and the halves, or all states  [default: ends]",
)
def bisect(
    cmd: Invocation,
    *,
    expression: str | None,
    run_command: str | None,
    timeout: float | None,
    good: str | None,
    bad: str | None,
    path: str | None,
    check: Any,
) -> None:
    """Print the checkpoint."""
    if expression is None and run_command is None:
        raise click.UsageError("give an EXPRESSION, or --run CMD")
    if expression is not None and run_command is not None:
        raise click.UsageError("EXPRESSION excludes --run")
    if run_command is not None and not run_command.strip():
        # A shell that has nothing to run ends with 0, as if it were true everywhere.
        raise click.UsageError("--run needs a command (got an empty one)")
    if timeout is not None and run_command is None:
        raise click.UsageError("--timeout goes with --run")
    predicate: Callable[[Any], Any] | str = expression or ""
    if run_command is not None:
        predicate = judged_by(run_command, timeout)
    with cmd.open_session() as (store, session), _explained(cmd):
        report = session.bisect(
            predicate, good=good, bad=bad, path=path, check=check, progress=_teller(cmd, check)
        )
        labels = labels_of(store, [report.found]) if cmd.for_people() else {}
    if cmd.json:
        document(report.to_dict())
        return
    checkpoints(cmd, [report.found], label=lambda each: labels.get(each.id, each.message))
    _tell_bisect(cmd, report)


@contextmanager
def _explained(cmd: Invocation) -> Iterator[None]:
    """Where the expression is wrong, mark the place; where the command did not answer, say why."""
    try:
        yield
    except InvalidInputError as error:
        at = error.details.get("position")
        if error.code is ErrorCode.BAD_EXPRESSION and at is not None:
            text = str(error.details["expression"])
            cmd.say("  " + escape_controls(text))
            cmd.say("  " + " " * text_width(escape_controls(text[:at])) + "^")
        stopped = error.__cause__
        if type(stopped).__name__ == "CommandStopped":
            raise InvalidInputError(
                f"the command did not answer for checkpoint #{error.details['seq']}: {stopped}",
                code=error.code,
                hint=getattr(stopped, "hint", ""),
                **error.details,
            ) from error
        raise
    except NotFoundError as error:
        if error.details.get("skipped"):
            # Only a command skips states here: an expression always has an answer.
            error.hint = "let the command end with 0, or with 1 to 124, for some of them: 125 skips a state"
        raise


def _teller(cmd: Invocation, check: str) -> Callable[[Checkpoint, bool | None, int], None] | None:
    if cmd.json or cmd.no_progress or not is_terminal(sys.stderr):
        return None
    told: list[bool | None] = []

    def tell(checkpoint: Checkpoint, holds: bool | None, between: int) -> None:  # noqa: FBT001 - as it is called
        again = told[-1:] == [holds]
        if (again and (holds is None or check == "all")) or (check == "all" and len(told) >= _MOST_TOLD):
            # Where every state is tested, or many cannot be, only what is new is worth a line.
            return
        told.append(holds)
        said = "skipped" if holds is None else "true" if holds else "not true"
        steps = between.bit_length() - 1 if between > 1 else 0
        cmd.say(f"#{checkpoint.seq}  {said}" + (f"  about {counted(steps, 'step')} left" if steps else ""))

    return tell


def _tell_bisect(cmd: Invocation, report: BisectReport) -> None:
    _say_notes(cmd, report.notes)
    found = report.found
    if report.skipped:
        cmd.say(f"it may also be one of those that were skipped: {_numbers(report.skipped)}")
    if report.contradictions:
        cmd.say(
            f"it is the other way round at {_numbers(report.contradictions)}", label="note: ", style="yellow"
        )
    stays = {
        "assumed": f"assumes it stays true from #{found.seq} on; --check all tests each state",
        "checked": f"it stays true from #{found.seq} on: each state was tested",
        "contradicted": "it does not stay true",
    }[report.monotonic]
    cmd.say(f"loaded {report.loads:,} of {counted(report.total, 'state')}; {stays}")
    if report.before is not None:
        cmd.say(f"holdfast diff {report.before.id[:12]} {found.id[:12]} shows what changed there")


@command(
    "blame",
    """Show which checkpoint set what is at a path: when, to what, and what was there before.

    Where the value came in by a merge, it is the one that set it on the merged branch; the merge is named as well.

    \b
    Examples:
      holdfast blame score
      holdfast blame beliefs.b7.confidence
      holdfast blame 'messages[-1].role' tag:broken
    """,
)
@click.argument("path")
@click.argument("ref", type=RefArgument(), default="@")
def blame(cmd: Invocation, *, path: str, ref: str) -> None:
    """Print the answer."""
    with cmd.open_session() as (_, session):
        found = session.blame(path, ref)
    made, before = found.checkpoint, found.before
    fields = {
        "id": made.id,
        "seq": made.seq,
        "created_at": made.created_at,
        "op": found.op,
        "path": found.path,
        "value": NO_VALUE if found.op == "remove" else json_line(found.value),
        "old": NO_VALUE if found.op == "add" else json_line(found.old),
        "before": "" if before is None else before.id,
        "merges": [each.id for each in found.merges],
        "skipped": [each.id for each in found.skipped],
    }
    record(cmd, found, _blame_lines(cmd, found), fields)
    _say_notes(cmd, found.notes)


def _blame_lines(cmd: Invocation, found: Blame) -> Iterator[tuple[str, str]]:
    made, before, room = found.checkpoint, found.before, max(20, terminal_width() - 13)

    def named(each: Checkpoint) -> str:
        step = "" if each.step is None else f"  step {each.step}"
        line = f"{each.id[:8]}  #{each.seq}{step}  {escape_controls(each.message)}".rstrip()
        return shorten(line, max(30, room), mark=ellipsis_for(sys.stdout))

    yield "path", found.path
    yield {"add": "added by", "replace": "changed by", "remove": "removed by"}[found.op], named(made)
    yield "when", f"{cmd.when(made.created_at)}  ({iso(made.created_at)})"
    if found.merges:
        yield "on branch", made.branch
    for each in found.merges:
        yield "came in by", named(each)
    if found.op != "remove":
        yield "value", what_is_new(found.value, found.old, room)
    if found.op != "add":
        at = "" if before is None else f"  (#{before.seq})"
        yield "before", what_is_new(found.old, found.value, room - len(at)) + at
    if made.skipped:
        yield "note", f"or by one of {counted(made.skipped, 'removed checkpoint')} before it"
    if found.skipped:
        yield "note", f"or by one whose state cannot be read: {_numbers(found.skipped)}"


def _shown(change: PathChange) -> str:
    if change.op == "remove":
        return "(removed)"
    return what_is_new(change.value, change.old, max(20, terminal_width() - _BESIDE))


_CHANGES = (
    Column("id", "checkpoint.id", kind="id", style="yellow"),
    Column("seq", "checkpoint.seq", kind="seq"),
    Column("created_at", "checkpoint.created_at", kind="time", header="AGE", style="dim"),
    Column("op", terminal=False),
    Column("value", lambda row: NO_VALUE if row.op == "remove" else json_line(row.value), terminal=False),
    Column("old", lambda row: NO_VALUE if row.op == "add" else json_line(row.old), terminal=False),
    Column("step", "checkpoint.step", kind="count", pipe=False),
    Column("shown", _shown, header="VALUE", width=10_000, pipe=False),
)


@command(
    "history",
    """Show what was at a path over time: each change, newest first.

    \b
    Examples:
      holdfast history score
      holdfast history beliefs.b7.confidence --oldest-first
      holdfast history score '#2..#9' --csv
    """,
)
@click.argument("path")
@click.argument("ref", type=RefArgument(), default="@")
@click.option("--oldest-first", is_flag=True, help="From the beginning on")
@click.option("--csv", "as_csv", is_flag=True, help="Write CSV, with a header")
@LIMIT
def history(
    cmd: Invocation, *, path: str, ref: str, oldest_first: bool, as_csv: bool, limit: int | None
) -> None:
    """Print the changes."""
    from holdfast.reports import HistoryReport

    if as_csv and (cmd.json or cmd.fields or cmd.format):
        raise click.UsageError("--csv excludes --json, --fields and --format")
    people = cmd.for_people() and not as_csv
    if limit is None:
        limit = SCREEN if people else 0
    with cmd.open_session() as (_, session), _notes_not_warnings():
        # One more than is shown says whether there are more.
        found = session.history_of(path, ref, oldest_first=oldest_first, limit=limit + 1 if limit else None)
        # Where there is nothing at the path, that shows here, before anything is written.
        changes = list(found)
    more = bool(limit) and len(changes) > limit
    shown = tuple(changes[: limit or None])
    if as_csv:
        _write_csv(shown)
    else:
        if people and cmd.fields is None and cmd.format is None:
            _draw_curve(cmd, path, shown if oldest_first else shown[::-1])
        rows(cmd, shown, _CHANGES, lambda: HistoryReport(session.id, path, shown, found.notes))
    _say_notes(cmd, found.notes)
    if more and people:
        say_cut(cmd, limit, "first" if oldest_first else "newest")


def _draw_curve(cmd: Invocation, path: str, ordered: Sequence[PathChange]) -> None:
    """The numbers as a curve above the table, oldest first, with a gap where there is none."""
    values = [_number(each.value) for each in ordered]
    numbers = [each for each in values if each is not None]
    if len(numbers) < 2:
        return
    low, high = min(numbers), max(numbers)
    words = f"always {low:g}" if low == high else f"{low:g} to {high:g}"
    width = terminal_width()
    name = shorten(escape_controls(path), max(20, width // 3), mark=ellipsis_for(sys.stdout))
    curve = sparkline(values, max(8, min(60, width - text_width(name) - len(words) - 4)))
    if curve:
        on = cmd.paints(sys.stdout)
        data(f"{name}  {paint(curve, 'cyan', on=on)}  {words}", color=on)


def _number(value: Any) -> float | None:
    """A number that can be drawn."""
    if type(value) not in (int, float) or abs(value) > sys.float_info.max or not math.isfinite(value):
        return None
    return float(value)


def sparkline(values: Sequence[float | None], width: int) -> str:
    """Numbers as a row of bars, oldest first; the mean of several where more are there than fit, none for a None."""
    try:
        _BARS.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):  # an old locale: no bars
        return ""
    count = min(width, len(values))
    bounds = [at * len(values) // count for at in range(count + 1)] if count else []
    groups = ([v for v in values[start:stop] if v is not None] for start, stop in pairwise(bounds))
    # Divided first: the sum may be larger than any float.
    means = [math.fsum(v / len(some) for v in some) if some else None for some in groups]
    known = [mean for mean in means if mean is not None]
    if not known:
        return ""
    # Halves: the way from the lowest float to the highest is longer than any float.
    low, span = min(known) / 2, max(known) / 2 - min(known) / 2
    level = [None if mean is None else int((mean / 2 - low) / span * 8) if span else 3 for mean in means]
    return "".join(" " if at is None else _BARS[min(7, at)] for at in level)


def _write_csv(changes: Sequence[PathChange]) -> None:
    data("id,seq,created_at,op,value,step")
    for each in changes:
        made = each.checkpoint
        head = [made.id, str(made.seq), iso(made.created_at), each.op]
        data(",".join([*head, _cell(each), raw(made.step)]))


def _cell(change: PathChange) -> str:
    """A value in CSV: a text in quotes, so that nothing else looks like it; a number as it is, the rest as JSON."""
    value: Any = change.value
    if change.op == "remove":
        return ""
    if type(value) is float and not math.isfinite(value):
        # JSON has no such numbers; every program that reads CSV knows these words.
        return str(value)
    text = value if isinstance(value, str) else json_line(value)
    text = escape_controls(text) if is_terminal(sys.stdout) else text.encode("utf-8", "replace").decode()
    if not isinstance(value, str) and not any(sign in text for sign in ',"\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'


_MATCHES = (
    Column("id", "checkpoint.id", kind="id", style="yellow"),
    Column("seq", "checkpoint.seq", kind="seq"),
    Column("created_at", "checkpoint.created_at", kind="time", header="AGE", style="dim"),
    Column("path", width=40, style="blue"),
    Column("text", width=10_000),
    Column("offset", kind="count"),
    Column("message", "checkpoint.message", pipe=False, terminal=False),
    Column("start", pipe=False, terminal=False),
    Column("stop", pipe=False, terminal=False),
)


@command(
    "grep",
    """Find where texts came into the states, newest checkpoint first.

    What each checkpoint changed is searched, on all branches unless REF says from where on. Ends with 1 where nothing
    matches.

    \b
    Examples:
      holdfast grep 'rate limit'
      holdfast grep timeout --path messages
      holdfast grep -i -E 'error|failed' '#2..#9'
    """,
)
@click.argument("pattern")
@click.argument("ref", type=RefArgument(), required=False)
@click.option("--path", metavar="PATH", help="Only in this part of each state")
@click.option("-E", "--regex", is_flag=True, help="PATTERN is a regular expression")
@click.option("-i", "--ignore-case", is_flag=True, help="Capital and small letters are the same")
@LIMIT
def grep(cmd: Invocation, *, pattern: str, ref: str | None, limit: int | None, **how: Any) -> int:
    """Print the matches."""
    from holdfast.reports import GrepReport

    if limit is None:
        limit = SCREEN if cmd.for_people() else 0
    with cmd.open_session() as (_, session), _notes_not_warnings():
        # One more than is shown says whether there are more.
        found = session.grep(pattern, ref, limit=limit + 1 if limit else None, **how)
        matches = list(found)
    more = bool(limit) and len(matches) > limit
    shown = tuple(matches[: limit or None])
    if cmd.for_people() and cmd.fields is None and cmd.format is None:
        with paging(cmd):
            _draw_matches(cmd, shown)
    else:
        rows(cmd, shown, _MATCHES, lambda: GrepReport(session.id, pattern, shown, more, found.notes))
    _say_notes(cmd, found.notes)
    if not shown:
        cmd.say(f"nothing matches {pattern!r:.80}")
    elif more:
        say_cut(cmd, limit, "first")
    return int(not shown)


def _draw_matches(cmd: Invocation, matches: Sequence[GrepMatch]) -> None:
    on, mark = cmd.paints(sys.stdout), ellipsis_for(sys.stdout)
    for _, group in groupby(matches, key=lambda match: match.checkpoint.id):
        some = list(group)
        c = some[0].checkpoint
        when = cmd.when(c.created_at)
        room = max(10, terminal_width() - len(f"{c.id[:8]}  #{c.seq}  {when}  "))
        message = shorten(escape_controls(c.message), room, mark=mark)
        data(
            f"{paint(c.id[:8], 'yellow', on=on)}  #{c.seq}  {paint(when, 'dim', on=on)}  {message}".rstrip(),
            color=on,
        )
        for match in some:
            data("  " + _match_line(match, terminal_width() - 2, mark, on=on), color=on)


def _match_line(match: GrepMatch, width: int, mark: str, *, on: bool) -> str:
    """The place and what is around the match, with the match itself in a colour."""
    place = shorten(escape_controls(match.path), max(20, width // 2), mark=mark)
    room = max(20, width - text_width(place) - 2)
    hit = shorten(escape_controls(match.text[match.start : match.stop]), room, mark=mark)
    left = room - text_width(hit)
    after = escape_controls(match.text[match.stop :])
    # A third of the room is for what comes before, and all that what comes after does not need.
    before, most = escape_controls(match.text[: match.start]), max(left // 3, left - text_width(after))
    if text_width(before) > most:
        while before and text_width(before) > most - text_width(mark):
            before = before[1:]
        before = mark + before if most >= text_width(mark) else ""
    after = shorten(after, max(0, left - text_width(before)), mark=mark)
    return f"{paint(place, 'blue', on=on)}  {before}{paint(hit, 'red', on=on)}{after}"
