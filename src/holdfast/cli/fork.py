"""`holdfast fork`: begin a new branch at a checkpoint, in this session or in another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli._completing import RefArgument, complete_session
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._opening import session_of
from holdfast.cli._planning import Outcome, dry_run_option, open_for, report
from holdfast.cli._settings import Settings, pass_settings
from holdfast.errors import ErrorCode, NotFoundError

if TYPE_CHECKING:
    from holdfast import Checkpoint, Session

HELP = """Begin a new branch at REF, which is @ (the newest) unless given.

NAME is what the branch is called; main-1, main-2 ... unless given. You stay on the branch you are on: holdfast switch
goes to the new one.

\b
Examples:
  holdfast fork
  holdfast fork @- risky-idea
  holdfast fork --name second-try --dry-run
  holdfast fork tag:verified --session-to experiment
"""


@click.command("fork", cls=HoldfastCommand, short_help="Begin a new branch at a checkpoint", help=HELP)
@click.argument("ref", type=RefArgument(), default="@")
@click.argument("name", required=False)
@click.option("--name", "name_too", metavar="NAME", help="The name again, for those who give no REF")
@click.option(
    "--session-to",
    metavar="ID",
    shell_complete=complete_session,
    help="Begin it in this session, new or not; there it is called main unless named",
)
@dry_run_option
@pass_settings
def command(
    settings: Settings,
    ref: str,
    name: str | None,
    *,
    name_too: str | None,
    session_to: str | None,
    dry_run: bool,
) -> None:
    """Fork, and print the row of the first checkpoint of the branch."""
    if name is not None and name_too is not None:
        raise click.UsageError("the name is there twice: as NAME and as --name")
    name = name if name_too is None else name_too
    with open_for(settings, dry_run=dry_run) as store:
        session = session_of(store, settings)
        source = session.checkpoint(ref) if name is not None else _meant(session, ref)
        forked = session.fork(source, name, session=session_to)
        # A rehearsed one is not in the store; what is told of it is known.
        made = source if dry_run else forked.checkpoint()
        url, here, there = store.url, session.branch, forked.branch
    elsewhere = forked.id != session.id
    into = f"session {forked.id}, " if elsewhere else ""
    text = f"session {session.id}; {into}branch {there} begins at #{source.seq}"
    plan = {"session": session.id, "source": source.id, "into": {"session": forked.id, "branch": there}}
    note = "" if elsewhere else f"still on {here}: holdfast switch {there} goes to it"
    aside = forked.id if elsewhere else None
    report(
        settings, url, Outcome(plan, text, made, session=aside, note=note, built_on=source), dry_run=dry_run
    )


def _meant(session: Session, ref: str) -> Checkpoint:
    """The checkpoint; whoever typed the name of the new branch in its place is told how to."""
    try:
        return session.checkpoint(ref)
    except NotFoundError as error:
        if error.code is ErrorCode.CHECKPOINT_MISSING and not error.details.get("candidates"):
            error.hint = f"for a new branch of that name at the newest checkpoint: holdfast fork @ {ref}"
        raise
