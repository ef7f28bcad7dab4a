"""Commands about branches: branch, fork, switch, merge."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

from holdfast.cli.app import command
from holdfast.cli.completion import RefArgument, complete_branch, complete_session
from holdfast.cli.invocation import DRY_RUN, YES, Invocation
from holdfast.cli.output import Column, change, checkpoints, counted, data, document, rows
from holdfast.cli.pretty import NO_VALUE, json_line
from holdfast.cli.terminal import ellipsis_for, escape_controls, paint, shorten, terminal_width
from holdfast.errors import ErrorCode, NotFoundError

if TYPE_CHECKING:
    from holdfast import Checkpoint, MergeConflict
    from holdfast.reports import BranchInfo, BranchPlan, MergeReport

_COLUMNS = (
    Column("mark", lambda row: "*" if row.current else " ", header="", style="green", pipe=False),
    Column("name", header="BRANCH", width=40, style="blue"),
    Column("current", lambda row: "*" if row.current else "", terminal=False),
    Column("id", "head.id", kind="id", style="yellow"),
    Column("seq", "head.seq", kind="seq"),
    Column("moved_at", kind="time", header="MOVED", style="dim"),
    Column("message", "head.message", width=10_000),
)


@command(
    "branch",
    """List the branches of the session, rename one, or delete one. Checkpoints are never deleted by it.

    The branch in use, the last one, and one that alone leads to its newest checkpoint are deleted only with --force.

    \b
    Examples:
      holdfast branch
      holdfast branch --rename main trunk
      holdfast branch --delete main --force --yes --dry-run
    """,
)
@click.option(
    "--rename", nargs=2, metavar="OLD NEW", shell_complete=complete_branch, help="Give a branch another name"
)
@click.option("--delete", metavar="NAME", shell_complete=complete_branch, help="Delete a branch")
@click.option("--force", is_flag=True, help="With --delete: also one that is needed")
@YES
@DRY_RUN
def branch(
    cmd: Invocation,
    *,
    rename: tuple[str, str] | None,
    delete: str | None,
    force: bool,
    yes: bool,
    dry_run: bool,
) -> None:
    """Print the branches, as they are after the change if there was one."""
    if rename and delete is not None:
        raise click.UsageError("--rename excludes --delete")
    if force and delete is None:
        raise click.UsageError("--force goes with --delete")
    if dry_run and not rename and delete is None:
        raise click.UsageError("--dry-run goes with --rename or --delete")
    if rename:
        _rename(cmd, *rename, dry_run=dry_run)
    elif delete is not None:
        _delete(cmd, delete, force=force, yes=yes, dry_run=dry_run)
    else:
        with cmd.open_session() as (store, session):
            found, url = session.branches(), store.url
            if not found:
                cmd.check_session(store)
            if cmd.branch is not None and not any(each.current for each in found):
                session.checkpoint()  # says what is missing, and what there is instead
        _write(cmd, url, found)
        if not found:
            cmd.say("no branches: holdfast create MESSAGE saves a checkpoint on one")


def _write(
    cmd: Invocation,
    url: str,
    found: list[BranchInfo],
    plan: BranchPlan | None = None,
    *,
    dry_run: bool = False,
) -> None:
    from holdfast.reports import BranchList

    changed = plan is not None
    shown = [] if dry_run and not cmd.json else found
    rows(cmd, shown, _COLUMNS, lambda: BranchList(url, cmd.session, dry_run, changed, plan, tuple(found)))
    if changed and not dry_run:
        cmd.say_undo()


def _rename(cmd: Invocation, old: str, new: str, *, dry_run: bool) -> None:
    from holdfast.reports import BranchPlan

    with cmd.open_session(dry_run=dry_run) as (store, session):
        renamed = session.rename_branch(old, new)
        found, url = session.branches(), store.url
    cmd.say_plan(f"session {session.id}: rename branch {old} (#{renamed.head.seq}) to {new}", dry_run=dry_run)
    _write(cmd, url, found, BranchPlan("rename", old, new, renamed.head.id), dry_run=dry_run)


def _delete(cmd: Invocation, name: str, *, force: bool, yes: bool, dry_run: bool) -> None:
    from holdfast.reports import BranchPlan

    # Tried first: what cannot be done is not asked about.
    with cmd.open_session(dry_run=True) as (store, session):
        head = session.delete_branch(name, force=force)
        url = store.url
    cmd.say_plan(
        f"session {session.id}: delete branch {name} (#{head.seq}); its checkpoints stay", dry_run=dry_run
    )
    if not dry_run:
        cmd.confirm(f"branch {name} will be deleted", yes=yes)
    with cmd.open_session(dry_run=dry_run) as (store, session):
        head = session.delete_branch(name, force=force)
        # Deleting the branch in use puts people on another one: asked anew, the mark is at that.
        found = (session if cmd.branch is not None else cmd.session_of(store)).branches()
    _write(cmd, url, found, BranchPlan("delete", name, None, head.id), dry_run=dry_run)


@command(
    "fork",
    """Begin a new branch at REF, which is @ (the newest) unless given.

    NAME is what the branch is called; main-1, main-2 ... unless given. You stay on the branch you are on, unless
    --switch is given. Agents that open the session go on from the branch in use.

    \b
    Examples:
      holdfast fork
      holdfast fork @- risky-idea --switch
      holdfast fork --name second-try --dry-run
      holdfast fork tag:verified --session-to experiment
    """,
)
@click.argument("ref", type=RefArgument(), default="@")
@click.argument("name", required=False)
@click.option("--name", "name_too", metavar="NAME", help="The name again, for those who give no REF")
@click.option(
    "--session-to",
    metavar="ID",
    shell_complete=complete_session,
    help="Begin it in this session, new or not; there it is called main unless named",
)
@click.option("--switch", "go", is_flag=True, help="Go to the new branch: it is the one in use from now on")
@DRY_RUN
def fork(
    cmd: Invocation,
    *,
    ref: str,
    name: str | None,
    name_too: str | None,
    session_to: str | None,
    go: bool,
    dry_run: bool,
) -> None:
    """Fork, and print the row of the first checkpoint of the branch."""
    from holdfast.reports import BranchPlace, CheckpointChange, ForkPlan

    if name is not None and name_too is not None:
        raise click.UsageError("the name is there twice: as NAME and as --name")
    if go and session_to is not None:
        raise click.UsageError("--switch excludes --session-to: it is about a branch of this session")
    name = name if name_too is None else name_too
    with cmd.open_session(dry_run=dry_run) as (store, session):
        try:
            source = session.checkpoint(ref)
        except NotFoundError as error:
            if (
                name is None
                and error.code is ErrorCode.CHECKPOINT_MISSING
                and not error.details.get("candidates")
            ):
                error.hint = f"for a new branch of that name at the newest checkpoint: holdfast fork @ {ref}"
            raise
        stayed = session.branch
        forked = session.fork(source, name, session=session_to)
        if go and not dry_run:
            session.switch(forked.branch, remember=True)
        # A rehearsed one is not in the store; what is told of it is known.
        made = source if dry_run else forked.checkpoint()
        url = store.url
    elsewhere = forked.id != session.id
    into = f"session {forked.id}, " if elsewhere else ""
    plan = ForkPlan(session.id, source.id, BranchPlace(forked.id, forked.branch))
    change(
        cmd,
        CheckpointChange(url, dry_run, changed=True, plan=plan, checkpoint=None if dry_run else made),
        f"session {session.id}: new branch {into}{forked.branch} at #{source.seq}"
        + (", and switch to it" if go else ""),
        made,
        session=forked.id if elsewhere else None,
        note=""
        if elsewhere
        else f"now on {forked.branch}: holdfast switch {stayed} goes back"
        if go
        else f"still on {stayed}: holdfast switch {forked.branch} goes to the new branch",
        built_on=source,
    )


@command(
    "switch",
    """Go to the branch NAME: from now on commands use it where no --branch is given.

    \b
    Examples:
      holdfast switch main
      holdfast switch main --dry-run
    """,
)
@click.argument("name", shell_complete=complete_branch)
@DRY_RUN
def switch(cmd: Invocation, *, name: str, dry_run: bool) -> None:
    """Switch, and print the row of the branch's head."""
    from holdfast.reports import CheckpointChange, SwitchPlan

    with cmd.open_session(dry_run=dry_run) as (store, session):
        before = session.branch
        head = session.switch(name, remember=True)
        url = store.url
    changed = before != name
    if changed:
        cmd.say_keyed(head, "does not go to this branch")
    place = f"switch from {before} to {name}" if changed else f"already on {name}"
    report = CheckpointChange(
        url, dry_run, changed, SwitchPlan(session.id, before, name, head.id), None if dry_run else head
    )
    change(cmd, report, f"session {session.id}: {place} (#{head.seq})", head)


_CONFLICT = 5
_SHOWN = 20
"""So many conflicts are drawn for people, and named if they were decided: more than that nobody reads there."""
_SIDES: tuple[Literal["base", "ours", "theirs"], ...] = ("base", "ours", "theirs")
_STYLES = {"base": "dim", "ours": "green", "theirs": "cyan"}


def _side(conflict: MergeConflict, side: Literal["base", "ours", "theirs"]) -> str:
    return NO_VALUE if conflict.encoded(side) is None else json_line(conflict.plain(side))


_CONFLICTS = (
    Column("path", width=10_000),
    Column("kind"),
    Column("base", lambda row: _side(row, "base")),
    Column("ours", lambda row: _side(row, "ours")),
    Column("theirs", lambda row: _side(row, "theirs")),
)


@command(
    "merge",
    """Bring REF, usually a branch, into the branch you are on.

    What only one side changed since they parted is taken from it. Where both changed the same, nothing is written until
    you say whose counts: for all with --ours or --theirs, for a part with --resolve. Conflicts end with exit code 5.

    \b
    Examples:
      holdfast merge risky-idea
      holdfast merge risky-idea --dry-run
      holdfast merge risky-idea --theirs
      holdfast merge risky-idea --resolve messages=ours --resolve 'beliefs.*.confidence=theirs'
    """,
)
@click.argument("ref", type=RefArgument(), metavar="REF")
@click.option("--ours", is_flag=True, help="Where both changed the same, take what this branch has")
@click.option("--theirs", is_flag=True, help="Where both changed the same, take what REF has")
@click.option(
    "--resolve",
    "rules",
    multiple=True,
    metavar="PATH=SIDE",
    help="Take SIDE, ours or theirs, at PATH and in it; * is any step; can be repeated, the first that fits counts",
)
@click.option(
    "--from-session", metavar="ID", shell_complete=complete_session, help="The session that REF is in"
)
@click.option("-m", "--message", default="", help="What happened; says what was merged unless given")
@DRY_RUN
def merge(
    cmd: Invocation,
    *,
    ref: str,
    ours: bool,
    theirs: bool,
    rules: Sequence[str],
    from_session: str | None,
    message: str,
    dry_run: bool,
) -> int:
    """Merge, and print the row of the new checkpoint, or the conflicts."""
    if ours and theirs:
        raise click.UsageError("--ours excludes --theirs")
    resolve: dict[str, Any] = {}
    for rule in rules:
        path, equals, side = rule.rpartition("=")
        if not equals or side not in ("ours", "theirs"):
            raise click.UsageError(f"--resolve must be PATH=ours or PATH=theirs (got {rule!r:.80})")
        resolve.setdefault(path, side)
    if ours or theirs:
        # An empty path stands for the whole state: it decides where no other does.
        resolve[""] = "ours" if ours else "theirs"
    with cmd.open_session() as (store, session):
        meant: Any = ref
        if from_session is not None:
            cmd.check_session(store, from_session, "--from-session")
            other = store.session(from_session, branch=store.current_branch(from_session))
            meant = other.checkpoint(ref)
        report = session.merge(meant, resolve=resolve, message=message, dry_run=dry_run)
        url = store.url
    if cmd.json:
        document(_merge_document(report, url, session.branch))
    elif report.conflicts:
        _tell_conflicts(cmd, report)
    else:
        _tell_merge(cmd, report, session.branch)
    return _CONFLICT if report.conflicts else 0


def _tell_merge(cmd: Invocation, report: MergeReport, branch: str) -> None:
    ours, theirs = report.ours, report.theirs
    if report.up_to_date:
        cmd.say_plan(f"session {ours.session}: {branch} already has all of {_named(theirs, ours)}")
    else:
        summary = report.changes.summary() if report.changes is not None else ""
        how = "fast-forward" if report.fast_forward else f"common ancestor {_met(report)}"
        said = summary or "state unchanged"
        cmd.say_plan(f"session {ours.session}: merging {_named(theirs, ours)} into {branch}; {how}; {said}")
        cmd.say_keyed(ours)
    _say_notes(cmd, report)
    for conflict, how in ((each.conflict, each.how) for each in report.resolved[:_SHOWN]):
        cmd.say(escape_controls(f"{conflict.path or 'the whole state'} ({conflict.kind}): {how}"))
    if len(report.resolved) > _SHOWN:
        cmd.say(f"and {len(report.resolved) - _SHOWN} more; --json has all of them")
    if report.dry_run:
        cmd.say("dry run: nothing was changed")
        return
    checkpoints(cmd, [report.checkpoint or ours])
    if report.checkpoint is not None:
        cmd.say_undo()


def _say_notes(cmd: Invocation, report: MergeReport) -> None:
    """Why more is asked than what both sides changed, and which rules decided nothing."""
    notes = []
    if not report.base_exact:
        notes.append("the common ancestor is gone for good, so all that differs is a conflict")
    elif len(report.bases) > 1:
        notes.append(f"several common ancestors: {_met(report)}; where they differ, it is a conflict")
    if report.unused:
        notes.append(f"no conflict at {', '.join(report.unused[:_SHOWN])}: --resolve decided nothing there")
    for note in notes:
        cmd.say(escape_controls(note), label="note: ", style="yellow")


def _met(report: MergeReport) -> str:
    return " and ".join(_named(each, report.ours) for each in report.bases)


def _named(checkpoint: Checkpoint, home: Checkpoint) -> str:
    place = f"session {checkpoint.session}" if checkpoint.session != home.session else checkpoint.branch
    return f"{place} (#{checkpoint.seq})"


def _tell_conflicts(cmd: Invocation, report: MergeReport) -> None:
    if cmd.for_people() and cmd.fields is None and cmd.format is None:
        _draw_conflicts(cmd, report.conflicts)
    else:
        rows(cmd, report.conflicts, _CONFLICTS)
    _say_notes(cmd, report)
    told = f"{counted(len(report.conflicts), 'conflict')} between {_named(report.ours, report.ours)} and "
    cmd.say(f"{told}{_named(report.theirs, report.ours)}: nothing was merged", label="error: ", style="red")
    path = escape_controls(report.conflicts[0].path)
    one = shlex.quote(f"{path}=theirs") if len(path) <= 40 else "PATH=theirs"
    cmd.say(f"--ours or --theirs decides all of them, --resolve {one} one", label="hint: ", style="cyan")
    cmd.say(ErrorCode.MERGE_CONFLICT, label="code: ")


def _draw_conflicts(cmd: Invocation, conflicts: Sequence[MergeConflict]) -> None:
    on, mark, width = cmd.paints(sys.stdout), ellipsis_for(sys.stdout), terminal_width()
    for conflict in conflicts[:_SHOWN]:
        path = shorten(escape_controls(conflict.path or "the whole state"), max(width - 20, 20), mark=mark)
        data(f"{paint(path, 'bold', on=on)}  {paint(conflict.kind, 'yellow', on=on)}", color=on)
        for side in _SIDES:
            text = _side(conflict, side)
            shown = shorten("(not there)" if text == NO_VALUE else text, max(width - 10, 20), mark=mark)
            data(f"  {paint(f'{side:<6}', _STYLES[side], on=on)}  {shown}", color=on)
    if len(conflicts) > _SHOWN:
        cmd.say(f"and {len(conflicts) - _SHOWN} more; --json has all of them")


def _merge_document(report: MergeReport, url: str, branch: str) -> dict[str, Any]:
    known = report.to_dict()
    plan: dict[str, Any] = {
        "session": report.ours.session,
        "branch": branch,
        **{side: known[side]["id"] for side in _SIDES},
        "bases": [each["id"] for each in known["bases"]],
        "base_exact": report.base_exact,
        "from_session": report.theirs.session,
        **{name: known[name] for name in ("up_to_date", "fast_forward", "changes")},
    }
    changed = not report.up_to_date and not report.conflicts
    rest = {name: known[name] for name in ("checkpoint", "conflicts", "resolved", "unused")}
    return {"store": url, "dry_run": report.dry_run, "changed": changed, "plan": plan, **rest}
