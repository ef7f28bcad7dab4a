"""The commands that give the thread back: nb compare, nb recovery, nb restore, brief."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from holdfast.cli.app import command
from holdfast.cli.commands.notebook import notebook_in, reading
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import data, document


@command(
    "nb compare",
    """What changed between two checkpoints, in the terms of debugging.

    \b
    Examples:
      holdfast nb compare @~1
      holdfast nb compare tag:hypothesis_confirmed @
    """,
)
@click.argument("one", metavar="FROM")
@click.argument("other", metavar="[TO]", default="@")
def compare(cmd: Invocation, *, one: str, other: str) -> None:
    """Compare them."""
    with reading(cmd) as nb:
        found = nb.compare(one, other)
    if cmd.json:
        document(_jsonable(found.to_dict()))
    else:
        for line in found.summary.splitlines():
            data(line)


@command(
    "nb recovery",
    """The steps that bring the session back to its newest checkpoint; with --run they are carried out.

    A command that fails stops there and says where; --from goes on with that step.

    \b
    Examples:
      holdfast nb recovery
      holdfast nb recovery --run --from 1
    """,
)
@click.option("--run", "do", is_flag=True, help="Carry the steps out")
@click.option(
    "--from", "start", type=click.IntRange(min=0), default=0, metavar="N", help="Begin with this step"
)
def recovery(cmd: Invocation, *, do: bool, start: int) -> None:
    """Show or carry out the recovery point."""
    with cmd.open_session() as (store, session):
        cmd.check_session(store)
        nb = notebook_in(session)
        point = nb.create_recovery_point()
        done = point.carry_out(nb, start=start) if do else []
    if cmd.json:
        document(_jsonable({**point.to_dict(), "done": done}))
        return
    for number, step in enumerate(point.recovery_instructions):
        for line in step.describe().splitlines():
            data(f"{number}  {line}")


@command(
    "nb restore",
    """Go back to a checkpoint: the notebook, the files, or both. Everything is saved first.

    HEAD, the index, the stash and ignored files are never touched. A file that changes meanwhile is left alone and
    listed. A restore that was killed is finished with --finish or taken back with --undo; --undo also takes back one
    that was done.

    \b
    Examples:
      holdfast nb restore @~1 --dry-run
      holdfast nb restore @~1 --what notebook
      holdfast nb restore --undo
    """,
)
@click.argument("ref", required=False)
@click.option(
    "--what", type=click.Choice(["all", "notebook", "code"]), default="all", show_default=True, help="What"
)
@click.option("--path", "paths", multiple=True, metavar="PATH", help="Only these files and folders")
@click.option("--finish", is_flag=True, help="Complete a restore that was interrupted")
@click.option("--undo", is_flag=True, help="Take back the last restore")
@click.option("-n", "--dry-run", is_flag=True, help="Show the plan, change nothing")
def restore(
    cmd: Invocation,
    *,
    ref: str | None,
    what: Any,
    paths: tuple[str, ...],
    finish: bool,
    undo: bool,
    dry_run: bool,
) -> int | None:
    """Restore; 1 if something was left alone."""
    if (ref is not None) + finish + undo != 1:
        raise click.UsageError("name a checkpoint, or give --finish or --undo")
    with cmd.open_session() as (store, session):
        cmd.check_session(store)
        nb = notebook_in(session)
        if dry_run:
            plan = nb.plan(ref or "@", paths=paths or None)
            _files(
                cmd,
                [(each.op, each.path) for each in plan.actions],
                plan.conflicts,
                plan.notes,
                plan.to_dict(),
            )
            return None
        report = (
            nb.finish_restore()
            if finish
            else nb.undo_restore()
            if undo
            else nb.restore(ref, what=what, paths=paths or None)
        )
    code = report.code
    _files(
        cmd,
        code.changed if code else [],
        code.conflicts if code else {},
        code.notes if code else [],
        report.to_dict(),
    )
    cmd.say(f"restored to {report.restored_to[:12]} ({report.message})")
    if not undo:
        cmd.say("holdfast nb restore --undo", label="Undo: ")
    return None if report.recovery_complete else 1


def _files(
    cmd: Invocation,
    changed: Sequence[tuple[str, str]],
    conflicts: dict[str, str],
    notes: list[str],
    whole: dict[str, Any],
) -> None:
    if cmd.json:
        document(_jsonable(whole))
        return
    for op, path in changed:
        data(f"{op}\t{os.fsencode(path).decode('utf-8', 'backslashreplace')}")
    for path, reason in conflicts.items():
        cmd.say(f"{path}: {reason}", label="left alone: ", style="yellow")
    for text in notes:
        cmd.say(text, label="note: ")


def _jsonable(value: Any) -> Any:
    """A report as JSON data; the bytes of files are left out."""
    if isinstance(value, dict):
        return {str(key): _jsonable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(each) for each in value]
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, datetime):
        return value.isoformat()
    return value


@command(
    "brief",
    """The thread of a debugging session in so many tokens: what was asked, believed, refuted, open, and what is next.

    The same notebook and budget give the same text. A token is counted as three bytes, more than most need.

    \b
    Examples:
      holdfast brief
      holdfast brief --budget 500
    """,
)
@click.option("--budget", type=int, default=2000, show_default=True, metavar="N", help="Tokens")
def brief(cmd: Invocation, *, budget: int) -> None:
    """Print the brief."""
    from holdfast.agents.notebook.brief import estimate_tokens

    with reading(cmd) as nb:
        text = nb.brief(budget)
        session = nb.session.id
    if cmd.json:
        document({"session": session, "budget": budget, "tokens": estimate_tokens(text), "text": text})
    else:
        data(text.rstrip("\n"))
