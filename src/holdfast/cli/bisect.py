"""`holdfast bisect`: the first checkpoint where something holds, by an expression or by a command.

A command gets each state as JSON on stdin and says with its exit code whether it holds. What it prints goes to stderr:
stdout has the checkpoint that was found, and nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._completing import RefArgument
from holdfast.cli._figures import counted
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._labels import labels_of
from holdfast.cli._opening import naming_candidates, open_existing, session_of
from holdfast.cli._render import checkpoint_rows, document
from holdfast.cli._searching import numbered, say_notes
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import escape_controls, is_terminal, text_width
from holdfast.errors import ErrorCode, InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from holdfast import BisectReport, Checkpoint

HELP = """Find the first checkpoint where something holds.

EXPRESSION is over the state and runs no code. With --run, a command gets each state as JSON on stdin and ends with 0
where it holds, 125 where it cannot say, and another number up to 124 where it does not hold. Anything else ends the
search: a command that was not found (127), that cannot be run (126), or that a signal ended.

\b
Examples:
  holdfast bisect 'messages[-1].role == "tool" and score < 0.5'
  holdfast bisect 'len(beliefs) == 0' --good '#2' --bad tag:broken
  holdfast bisect 'any(m.role == "error" for m in messages)' --check sample
  holdfast bisect --run 'grep -q error' --timeout 30
"""

_MOST_TOLD = 20
"""Lines of progress where every state is tested."""

_MONOTONIC = {
    "assumed": "taken to hold ever since",
    "sampled": "holds ever since, as far as samples show",
    "checked": "holds ever since: each state was tested",
    "contradicted": "it is not monotonic",
}


@click.command(
    "bisect", cls=HoldfastCommand, short_help="Find the first checkpoint where it holds", help=HELP
)
@click.argument("expression", required=False)
@click.option("--run", "run_command", metavar="CMD", help="A command that judges each state, instead")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="For each run of CMD"
)
@click.option("--good", type=RefArgument(), metavar="REF", help="Where it does not hold yet  [the first]")
@click.option("--bad", type=RefArgument(), metavar="REF", help="Where it holds  [the newest]")
@click.option("--path", metavar="PATH", help="Load and judge this part of each state only")
@click.option(
    "--check",
    type=click.Choice(["ends", "sample", "all"]),
    default="ends",
    help="Test only the ends, some more states, or all  [default: ends]",
)
@pass_settings
def command(
    settings: Settings,
    expression: str | None,
    *,
    run_command: str | None,
    timeout: float | None,
    good: str | None,
    bad: str | None,
    path: str | None,
    check: Any,
) -> None:
    """Print the checkpoint."""
    if expression is not None and run_command is not None:
        raise click.UsageError("give an EXPRESSION, or --run CMD, not both")
    if expression is None and run_command is None:
        raise click.UsageError("give an EXPRESSION, or --run CMD")
    if run_command is not None and not run_command.strip():
        # A shell that has nothing to run ends with 0, as if it held everywhere.
        raise click.UsageError("--run needs a command, and this one is empty")
    if timeout is not None and run_command is None:
        raise click.UsageError("--timeout is for --run")
    predicate: Callable[[Any], Any] | str = expression or ""
    if run_command is not None:
        from holdfast.cli._judging import judged_by

        predicate = judged_by(run_command, timeout)
    with open_existing(settings) as store, naming_candidates(store, settings), _marking(settings):
        report = session_of(store, settings).bisect(
            predicate, good=good, bad=bad, path=path, check=check, progress=_teller(settings, check)
        )
        labels = labels_of(store, [report.found]) if settings.for_people() else {}
    if settings.json:
        document(report.to_dict())
        return
    checkpoint_rows(settings, [report.found], labels=labels)
    _say(settings, report)


@contextmanager
def _marking(settings: Settings) -> Iterator[None]:
    """Where the expression is wrong, show it with a mark under the place; where the command did not answer, say why."""
    try:
        yield
    except InvalidInputError as error:
        at = error.details.get("position")
        if error.code is ErrorCode.BAD_EXPRESSION and at is not None:
            text = str(error.details["expression"])
            settings.say("  " + escape_controls(text))
            settings.say("  " + " " * text_width(escape_controls(text[:at])) + "^")
        if type(error.__cause__).__name__ == "CommandStopped":
            raise _no_answer(error, error.__cause__) from error
        raise
    except NotFoundError as error:
        if error.details.get("skipped"):
            # Only a command skips states here: an expression always has an answer.
            error.hint = "let the command end with 0, or with 1 to 124, for some of them: 125 skips a state"
        raise


def _no_answer(error: InvalidInputError, stopped: Any) -> InvalidInputError:
    return InvalidInputError(
        f"the command did not answer for checkpoint #{error.details['seq']}: {stopped}",
        code=error.code,
        hint=stopped.hint,
        **error.details,
    )


def _teller(settings: Settings, check: str) -> Callable[[Checkpoint, bool | None, int], None] | None:
    if settings.json or settings.no_progress or not is_terminal(sys.stderr):
        return None
    told: list[bool | None] = []

    def tell(checkpoint: Checkpoint, holds: bool | None, between: int) -> None:  # noqa: FBT001 - as it is called
        again = told[-1:] == [holds]
        if (again and (holds is None or check == "all")) or (check == "all" and len(told) >= _MOST_TOLD):
            # Where every state is tested, or many cannot be, only what is new is worth a line.
            return
        told.append(holds)
        said = "skipped" if holds is None else "holds" if holds else "does not hold"
        steps = between.bit_length() - 1 if between > 1 else 0
        left = f"  about {counted(steps, 'more', 'more')}" if steps else ""
        settings.say(f"#{checkpoint.seq}  {said}{left}")

    return tell


def _say(settings: Settings, report: BisectReport) -> None:
    say_notes(settings, report.notes)
    if report.skipped:
        settings.say(f"it may also be one of those that were skipped: {numbered(report.skipped)}")
    if report.contradictions:
        where = numbered(report.contradictions)
        settings.say(f"it is the other way round at {where}", label="note: ", style="yellow")
    tested = f"{counted(report.loads, 'state')} of {counted(report.total, 'checkpoint')} loaded"
    settings.say(f"{tested}; {_MONOTONIC[report.monotonic]}")
    if report.monotonic == "assumed":
        settings.say("--check all tests each state")
    if report.before is not None:
        settings.say(f"holdfast diff {report.before.id[:12]} {report.found.id[:12]} shows what changed there")
