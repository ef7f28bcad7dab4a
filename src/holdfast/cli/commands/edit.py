"""The command that changes a state by hand: edit."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.app import command
from holdfast.cli.completion import RefArgument, complete_branch
from holdfast.cli.inputs import parse_json, parse_tags, value_of
from holdfast.cli.invocation import DRY_RUN, Invocation
from holdfast.cli.output import checkpoints, data, document
from holdfast.cli.pretty import Limits
from holdfast.cli.terminal import ellipsis_for, escape_controls, terminal_width
from holdfast.errors import ErrorCode, HoldfastError, InvalidInputError

if TYPE_CHECKING:
    from holdfast import Checkpoint, Session, Store
    from holdfast.reports import Diff


@command(
    "edit",
    """Edit the state of REF, which is @ (the newest) unless given, in your $EDITOR, and save it as a new checkpoint.

    You get the state as `show --state --json` prints it, and every type comes back. Where REF is not the newest of its
    branch, the checkpoint begins a new branch. A file that was left empty or unchanged saves nothing.

    \b
    Examples:
      holdfast edit
      holdfast edit @~3 --path plan.steps --branch second-try
      holdfast edit tag:verified --path "scores{1}" --dry-run
    """,
)
@click.argument("ref", type=RefArgument(), default="@")
@click.option("--path", metavar="PATH", help="Only this part: messages[-1].content")
@click.option(
    "--branch",
    "onto",
    metavar="NAME",
    shell_complete=complete_branch,
    help="Save onto this branch; one that is not there begins at REF",
)
@click.option("-m", "--message", metavar="TEXT", help="What to call it")
@click.option("--tags", multiple=True, metavar="A,B", help="Labels, separated by commas; can be repeated")
@DRY_RUN
def edit(
    cmd: Invocation,
    *,
    ref: str,
    path: str | None,
    onto: str | None,
    message: str | None,
    tags: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Let the state be edited, show what changed, and save it."""
    from holdfast.reports import SavePlan, SaveReport, StateSource
    from holdfast.reports.text import json_form, replace_part, tagged_json

    labels = tuple(parse_tags(tags))
    if not (os.environ.get("VISUAL") or os.environ.get("EDITOR") or sys.stdin.isatty()):
        # The editor that would be guessed waits for a person.
        raise InvalidInputError(
            "there is no terminal to edit in, and no $EDITOR",
            code=ErrorCode.BAD_ARGUMENT,
            hint="set EDITOR to a program that edits a file, or use holdfast create --patch",
        )
    with cmd.open() as store:
        session = cmd.session_of(store)
        source = session.checkpoint(ref)
        state = session.load(source)
        before = tagged_json(state if path is None else session.load(source, path=path))
        after = _edited(before)
        if after is None or not after.strip() or after.strip() == before:
            cmd.say("nothing was changed, and nothing is saved")
            return
        try:
            part = parse_json(after.encode("utf-8", "surrogateescape"), "the edited text")
            form = part if path is None else replace_part(json_form(state), path, part)
            edited = value_of(form, "the edited text")
            diff = _difference(state, edited)
        except HoldfastError as error:
            raise _kept(error, after) from error
        if not diff:
            cmd.say("nothing was changed, and nothing is saved")
            return
        # It is still the state of that step, with what it had cost by then.
        kept = {name: getattr(source, name) for name in ("step", "tokens", "cost_usd", "duration_ms")}
        kept |= {"message": message or f"edit of #{source.seq}" + ("" if path is None else f", {path}")}
        kept |= {"tags": labels, "status": "running"}
        plan = SavePlan(
            session=session.id,
            branch=onto or session.branch,
            message=kept["message"],
            tags=labels,
            step=source.step,
            status="running",
            metadata={},
            key=None,
            agent=None,
            project=None,
            state=StateSource("edit", source.id),
        )
        cmd.say_plan(f"session {session.id}: save the edited state of #{source.seq}", dry_run=dry_run)
        if not cmd.json:
            _draw(cmd, diff)
        cmd.say_keyed(source)
        saved = None if dry_run else _save(store, session, source, onto, edited, kept)
        if cmd.json:
            document(SaveReport(store.url, dry_run=dry_run, plan=plan, checkpoint=saved).to_dict())
        elif saved is not None:
            checkpoints(cmd, [saved])
            if saved.branch != session.branch:
                cmd.say(f"still on {session.branch}: holdfast switch {saved.branch} goes to the edited one")


def _edited(text: str) -> str | None:
    try:
        return click.edit(text + "\n", extension=".json")
    except click.ClickException as error:
        raise InvalidInputError(
            f"the editor ended with an error, and nothing is saved: {error.message}",
            code=ErrorCode.BAD_ARGUMENT,
            hint="set EDITOR to a program that edits a file, and ends with 0",
        ) from error


def _save(
    store: Store, session: Session, source: Checkpoint, onto: str | None, state: Any, kept: dict[str, Any]
) -> Checkpoint:
    if onto is None:
        return session.save(state, parent=source, **kept)
    if any(branch.name == onto for branch in session.branches()):
        return store.session(session.id, branch=onto).save(state, **kept)
    return session.fork(source, onto).save(state, **kept)


def _difference(old: Any, new: Any) -> Diff:
    """What changed; what cannot be saved is found here, before anything is."""
    import holdfast

    with holdfast.open("memory:") as trial:
        session = trial.session()
        return trial.diff(session.save(old), session.save(new))


def _draw(cmd: Invocation, diff: Diff) -> None:
    from holdfast.cli.diff_view import Pen, Rows, unified

    people = cmd.for_people()
    width = terminal_width() if people else 100
    mark = ellipsis_for(sys.stdout)
    drawing = Rows(
        fold=3, width=width - 2, limits=Limits(lines=40) if people else None, short=people, mark=mark
    )
    pen = Pen(cmd.paints(sys.stdout), width if people else None, mark, not people, drawing.was_cut)
    for line in unified(drawing.of(diff), pen, words=False):
        data(line, color=pen.color)


def _kept(error: HoldfastError, text: str) -> InvalidInputError:
    """The same error; what was typed is kept in a file."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", errors="surrogateescape", prefix="holdfast-edit-", suffix=".json", delete=False
    ) as file:
        file.write(text)
    hint = f"your text is kept in {escape_controls(file.name)}; {error.hint}"
    return InvalidInputError(str(error), code=error.code, hint=hint, **error.details)
