"""Commands that go back: restore, undo, redo, delete, clear."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import click

from holdfast.cli.app import command
from holdfast.cli.completion import RefArgument
from holdfast.cli.invocation import DRY_RUN, YES, Invocation
from holdfast.cli.output import Column, change, counted, document, record, rows, say_cut
from holdfast.errors import ConflictError, ErrorCode, NotFoundError

if TYPE_CHECKING:
    from holdfast import Session, Store

_SCREEN = 20
"""Operations on a terminal unless --limit says otherwise; a pipe gets all of them."""

_OPERATIONS = (
    Column("number", header="OPERATION", kind="count", style="yellow"),
    Column("kind", terminal=False),
    Column("at", kind="time", header="DONE", style="dim"),
    Column("undoable", lambda row: row.undoable, header="UNDO"),
    Column("summary", header="WHAT", width=10_000),
)
_UNDONE = (
    Column("number", header="OPERATION", kind="count", style="yellow"),
    Column("kind", terminal=False),
    Column("at", kind="time", header="DONE", style="dim"),
    Column("summary", header="WHAT", width=10_000),
    Column("head", lambda row: None if row.head is None else row.head.id, kind="id", header="HEAD NOW"),
)


def number_of(session: Session, checkpoint: str) -> str:
    """A checkpoint as people call it; one that somebody removed meanwhile by its id."""
    try:
        return f"#{session.checkpoint(checkpoint).seq}"
    except NotFoundError:
        # What was asked for is done, and must not end with an error because of how it is told.
        return checkpoint[:12]


@command(
    "restore",
    """Go back: the state of REF becomes the newest one of the branch, as a new checkpoint.

    Nothing is lost: what was the head stays right behind it. REF is as for show; "@{2 hours ago}" is one too.

    \b
    Examples:
      holdfast restore @-
      holdfast restore tag:verified
      holdfast restore main~2 --dry-run
    """,
)
@click.argument("ref", type=RefArgument())
@DRY_RUN
def restore(cmd: Invocation, *, ref: str, dry_run: bool) -> None:
    """Restore, and print the row of the new checkpoint."""
    from holdfast.reports import CheckpointChange, RestorePlan

    with cmd.open_session(dry_run=dry_run) as (store, session):
        source = session.checkpoint(ref)
        # Another object: one that has seen the head would insist on it.
        writer = cmd.session_of(store)
        made = writer.restore(source)
        before = number_of(writer, made.parents[0])
        url = store.url
    plan = RestorePlan(made.session, made.branch, source.id, made.parents[0])
    report = CheckpointChange(url, dry_run, changed=True, plan=plan, checkpoint=None if dry_run else made)
    text = f"session {made.session}, branch {made.branch}: restore the state of #{source.seq} after {before}"
    change(cmd, report, text, made, built_on=source)


@command(
    "delete",
    """Remove a checkpoint from history. A branch whose newest one it is moves back by one.

    Undo brings it back, until gc has removed it for good. One that is pinned, or where branches part, needs --force.

    \b
    Examples:
      holdfast delete @
      holdfast delete "#2" --dry-run
      holdfast delete tag:verified --force
    """,
)
@click.argument("ref", type=RefArgument())
@click.option("--force", is_flag=True, help="Also if it is pinned, or branches part there")
@DRY_RUN
def delete(cmd: Invocation, *, ref: str, force: bool, dry_run: bool) -> None:
    """Delete, and print the row of what was removed."""
    from holdfast.reports import CheckpointChange, DeletePlan

    with cmd.open_session(dry_run=dry_run) as (store, session):
        target = session.checkpoint(ref)
        moved = tuple(each.name for each in session.branches() if each.head.id == target.id)
        removed = session.delete(target, force=force)
        before = None if removed.prev is None else number_of(session, removed.prev)
        url = store.url
    text = f"session {session.id}: remove #{removed.seq} from history"
    if moved:
        text += f"; branch {', '.join(moved)} " + (
            "goes with it: it has no other checkpoint" if before is None else f"moves back to {before}"
        )
    plan = DeletePlan(session.id, removed.id, moved, removed.prev if moved else None)
    report = CheckpointChange(url, dry_run, changed=True, plan=plan, checkpoint=None if dry_run else removed)
    change(cmd, report, text, removed)


@command(
    "clear",
    """Remove every checkpoint and every branch of the session from history. The session itself stays, empty.

    One undo brings all of it back, until gc has removed it for good. Where a checkpoint is pinned it needs --force.

    \b
    Examples:
      holdfast clear --dry-run
      holdfast clear --session default --yes
    """,
)
@click.option("--force", is_flag=True, help="Also those that are pinned")
@YES
@DRY_RUN
def clear(cmd: Invocation, *, force: bool, yes: bool, dry_run: bool) -> None:
    """Say what goes, ask, and clear."""
    from holdfast.reports import ChangeReport, ClearPlan

    # Tried first: what cannot be done is not asked about.
    with cmd.open_session(dry_run=True) as (store, session):
        cmd.check_session(store)
        branches = tuple(each.name for each in session.branches())
        removed, url = session.clear(force=force), store.url
    what = f"{counted(removed, 'checkpoint')} and {counted(len(branches), 'branch', 'branches')}"
    cmd.say_plan(
        f"session {session.id}: "
        + (f"remove {what} from history" if removed else "there is nothing to remove"),
        dry_run=dry_run,
    )
    if removed and not dry_run:
        cmd.confirm(f"{what} of session {session.id} will be removed", yes=yes)
        with cmd.open_session() as (store, session):
            # Counted anew: what was saved while somebody was thinking goes too.
            removed = session.clear(force=force)
    report = ChangeReport(url, dry_run, bool(removed), ClearPlan(session.id, removed, branches))
    if dry_run and not cmd.json:
        return
    plan = report.plan.to_dict()
    record(
        cmd,
        report,
        [("session", session.id), ("checkpoints", f"{removed:,} removed")],
        plan,
    )
    if removed and not dry_run:
        cmd.say_undo()


@command(
    "undo",
    """Take back the newest operation of the session: a restore, fork, switch, tag, delete and so on, never a save.

    Run it again to take back the one before. redo brings it back.

    \b
    Examples:
      holdfast undo --list
      holdfast undo --dry-run
      holdfast undo
    """,
)
@click.option("--list", "listed", is_flag=True, help="Only list what was done, newest first")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="With --list: at most so many; 0 for all  [terminal: 20]",
)
@DRY_RUN
def undo(cmd: Invocation, *, listed: bool, limit: int | None, dry_run: bool) -> None:
    """Undo, and print the operation; or print the operations."""
    if listed and dry_run:
        raise click.UsageError("--list excludes --dry-run: it changes nothing")
    if limit is not None and not listed:
        raise click.UsageError("--limit goes with --list")
    if listed:
        _list_operations(cmd, limit)
    else:
        _reverse(cmd, "undo", dry_run=dry_run)


@command(
    "redo",
    """Bring back what the last undo took, until something else is done.

    \b
    Examples:
      holdfast redo --dry-run
      holdfast redo
    """,
)
@DRY_RUN
def redo(cmd: Invocation, *, dry_run: bool) -> None:
    """Redo, and print the operation."""
    _reverse(cmd, "redo", dry_run=dry_run)


def _list_operations(cmd: Invocation, limit: int | None) -> None:
    from holdfast.reports import OperationList

    if limit is None:
        limit = _SCREEN if cmd.for_people() else 0
    with cmd.open_session() as (store, session):
        # One more than is shown: it says whether there are more.
        found = session.operations(limit=limit + 1 if limit else None)
        if not found:
            cmd.check_session(store)
        url = store.url
    more = bool(limit) and len(found) > limit
    shown = tuple(found[:limit] if limit else found)
    rows(cmd, shown, _OPERATIONS, lambda: OperationList(url, cmd.session, shown, more))
    if not shown:
        cmd.say("nothing was done yet that could be undone")
    if more and cmd.for_people():
        say_cut(cmd, limit)


def _reverse(cmd: Invocation, verb: Literal["undo", "redo"], *, dry_run: bool) -> None:
    from holdfast.reports import UndoPlan, UndoReport

    with cmd.open_session(dry_run=dry_run) as (store, session):
        with _a_way_on(store, session, verb):
            undone = session.undo() if verb == "undo" else session.redo()
        url, branch, head = store.url, session.branch, undone.head
    at_last = None if head is None else head.id
    plan = UndoPlan(session.id, undone.number, undone.kind, undone.at, undone.summary, branch, at_last)
    if cmd.json:
        document(UndoReport(url, dry_run, changed=True, plan=plan, head=head).to_dict())
        return
    back = "back " if verb == "undo" else ""
    now = f"branch {branch} is gone" if head is None else f"{branch} is {back}at #{head.seq}"
    done = {"undo": ("Undid", "would undo"), "redo": ("Redid", "would redo")}[verb][dry_run]
    cmd.say(f"{done} {undone.summary}; {now}")
    if dry_run:
        cmd.say("dry run: nothing was changed")
        return
    rows(cmd, [undone], _UNDONE)
    other, label = ("redo", "Redo: ") if verb == "undo" else ("undo", "Undo: ")
    cmd.say(f"holdfast {other}", label=label)


@contextmanager
def _a_way_on(store: Store, session: Session, verb: str) -> Iterator[None]:
    """Where an operation cannot be reversed, say which one, and what works all the same."""
    try:
        yield
    except (ConflictError, NotFoundError) as error:
        if error.code not in (ErrorCode.UNDO_BLOCKED, ErrorCode.UNDO_GONE):
            raise
        if (number := error.details.get("operation")) is not None:
            error.args = (f"{verb} stops at operation {number}: {error}", *error.args[1:])
        if store.find(session=session.id, limit=1):
            error.hint = "holdfast restore REF always works; holdfast timeline shows each REF ('#3' is one)"
        raise
