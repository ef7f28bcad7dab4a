"""`holdfast branch`: list the branches of a session, rename one, or delete one.

A branch is a name for a checkpoint: deleting it leaves every checkpoint where it is. Still it is asked about, because
what no branch leads to any more is hard to find again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._completing import complete_branch
from holdfast.cli._confirming import confirm, say_undo, yes_option
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._opening import missing_session, open_existing, session_of
from holdfast.cli._paging import paging
from holdfast.cli._planning import dry_run_option, open_for, say_dry_run, say_plan
from holdfast.cli._render import Column, data, document, table
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import escape_field, iso

if TYPE_CHECKING:
    from holdfast import BranchInfo, Session, Store

HELP = """List the branches of the session, rename one, or delete one. Checkpoints are never deleted by it.

The branch in use, the last one, and one that alone leads to its newest checkpoint are deleted only with --force.

\b
Examples:
  holdfast branch
  holdfast branch --rename main trunk
  holdfast branch --delete main --force --yes --dry-run
"""


@click.command("branch", cls=HoldfastCommand, short_help="List, rename and delete branches", help=HELP)
@click.option(
    "--rename", nargs=2, metavar="OLD NEW", shell_complete=complete_branch, help="Give a branch another name"
)
@click.option("--delete", metavar="NAME", shell_complete=complete_branch, help="Delete a branch")
@click.option("--force", is_flag=True, help="With --delete: also one that is needed")
@yes_option
@dry_run_option
@pass_settings
def command(
    settings: Settings,
    *,
    rename: tuple[str, str] | None,
    delete: str | None,
    force: bool,
    yes: bool,
    dry_run: bool,
) -> None:
    """Print the branches, or the one that was renamed."""
    if rename and delete is not None:
        raise click.UsageError("--rename and --delete at once: one after the other")
    if force and delete is None:
        raise click.UsageError("--force goes with --delete")
    if rename:
        _rename(settings, *rename, dry_run=dry_run)
    elif delete is not None:
        _delete(settings, delete, force=force, yes=yes, dry_run=dry_run)
    elif dry_run:
        raise click.UsageError("--dry-run goes with --rename or --delete")
    else:
        with open_existing(settings) as store:
            found = _branches(store, settings)
            url = store.url
        _show(settings, url, found)


def _branches(store: Store, settings: Settings) -> list[BranchInfo]:
    found = session_of(store, settings).branches()
    if not found and settings.session not in (each.id for each in store.sessions()):
        raise missing_session(store, settings.session)
    if settings.branch is not None and not any(each.current for each in found):
        session_of(store, settings).checkpoint()  # says what is missing, and what there is instead
    return found


def _show(settings: Settings, url: str, found: list[BranchInfo]) -> None:
    if settings.json:
        document(_document(settings, url, None, found, dry_run=False))
    elif not found:
        settings.say("no branches: holdfast create MESSAGE saves a checkpoint on one")
    else:
        with paging(settings):
            _rows(settings, found)


def _rows(settings: Settings, found: list[BranchInfo]) -> None:
    if settings.for_people():
        columns = [
            Column("", lambda b: "*" if b.current else " ", style=lambda _: "green"),
            Column("BRANCH", lambda b: b.name, most=40, style=lambda _: "blue"),
            Column("ID", lambda b: b.head.id[:8], style=lambda _: "yellow"),
            Column("SEQ", lambda b: f"#{b.head.seq}", right=True),
            Column("MOVED", lambda b: settings.when(b.moved_at), right=True, style=lambda _: "dim"),
            Column("MESSAGE", lambda b: b.head.message, most=10_000),
        ]
        for line in table(settings, columns, found):
            data(line, color=True)
        return
    for each in found:
        mark = "*" if each.current else ""
        fields = [each.name, mark, each.head.id, str(each.head.seq), iso(each.moved_at), each.head.message]
        data("\t".join(escape_field(field) for field in fields))


def _rename(settings: Settings, old: str, new: str, *, dry_run: bool) -> None:
    with open_for(settings, dry_run=dry_run) as store:
        session = session_of(store, settings)
        renamed = session.rename_branch(old, new)
        found, url = session.branches(), store.url
    text = f"session {session.id}; branch {old}, at #{renamed.head.seq}, is called {new}"
    plan = {"action": "rename", "branch": old, "to": new, "head": renamed.head.id}
    if settings.json:
        document(_document(settings, url, plan, found, dry_run=dry_run))
        return
    say_plan(settings, text)
    if dry_run:
        say_dry_run(settings)
        return
    _rows(settings, [renamed])
    say_undo(settings)


def _delete(settings: Settings, name: str, *, force: bool, yes: bool, dry_run: bool) -> None:
    # Tried first: what cannot be done is not asked about.
    with open_for(settings, dry_run=True) as store:
        head = session_of(store, settings).delete_branch(name, force=force)
    say_plan(
        settings,
        f"session {settings.session}; branch {name}, at #{head.seq}, is deleted; its checkpoints stay",
    )
    if not dry_run:
        confirm(settings, f"branch {name} will be deleted", yes=yes)
    with open_for(settings, dry_run=dry_run) as store:
        session = session_of(store, settings)
        head = session.delete_branch(name, force=force)
        found, url = _left(session, settings, store), store.url
    plan = {"action": "delete", "branch": name, "to": None, "head": head.id}
    if settings.json:
        document(_document(settings, url, plan, found, dry_run=dry_run))
    elif dry_run:
        say_dry_run(settings)
    else:
        _rows(settings, found)
        say_undo(settings)


def _left(session: Session, settings: Settings, store: Store) -> list[BranchInfo]:
    # Deleting the branch in use puts people on another one: asked anew, the mark is at that.
    return session.branches() if settings.branch is not None else session_of(store, settings).branches()


def _document(
    settings: Settings, url: str, plan: dict[str, Any] | None, found: list[BranchInfo], *, dry_run: bool
) -> dict[str, Any]:
    branches = [
        {
            "name": each.name,
            "current": each.current,
            "moved_at": iso(each.moved_at),
            "head": each.head.to_dict(),
        }
        for each in found
    ]
    place = {"store": url, "session": settings.session, "dry_run": dry_run}
    return place | {"changed": plan is not None, "plan": plan, "branches": branches}
