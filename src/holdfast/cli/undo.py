"""`holdfast undo`: take back the newest operation of the session, or list what was done.

Operations are what people do: restore, fork, switch, tag, pin, annotate, delete, prune and so on. Saves are not among
them, and are never undone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli._figures import newest_shown
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._opening import missing_session, open_existing, session_of
from holdfast.cli._paging import paging
from holdfast.cli._planning import dry_run_option
from holdfast.cli._render import Column, data, document, table
from holdfast.cli._reversing import reverse
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import escape_field, iso

if TYPE_CHECKING:
    from holdfast import OperationInfo

_SCREEN = 20
"""Operations on a terminal unless --limit says otherwise; a pipe gets all of them."""

HELP = """Take back the newest operation of the session: a restore, fork, switch, tag, delete and so on, never a save.

Run it again to take back the one before. redo brings it back.

\b
Examples:
  holdfast undo --list
  holdfast undo --dry-run
  holdfast undo
"""


@click.command("undo", cls=HoldfastCommand, short_help="Take back what was done last", help=HELP)
@click.option("--list", "listed", is_flag=True, help="Only list what was done, newest first")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="With --list: at most so many; 0 for all  [terminal: 20]",
)
@dry_run_option
@pass_settings
def command(settings: Settings, *, listed: bool, limit: int | None, dry_run: bool) -> None:
    """Undo, and print the operation; or print the operations."""
    if listed and dry_run:
        raise click.UsageError("--list changes nothing: --dry-run does not go with it")
    if limit is not None and not listed:
        raise click.UsageError("--limit goes with --list")
    if not listed:
        reverse(settings, "undo", dry_run=dry_run)
        return
    if limit is None:
        limit = _SCREEN if settings.for_people() else 0
    with open_existing(settings) as store:
        # One more than is shown: it says whether there are more.
        found = session_of(store, settings).operations(limit=limit + 1 if limit else None)
        if not found and settings.session not in (each.id for each in store.sessions()):
            raise missing_session(store, settings.session)
        url = store.url
    more = bool(limit) and len(found) > limit
    _show(settings, url, found[:limit] if limit else found, more=more)


def _show(settings: Settings, url: str, found: list[OperationInfo], *, more: bool) -> None:
    if settings.json:
        listed = [each._asdict() | {"at": iso(each.at)} for each in found]
        document({"store": url, "session": settings.session, "operations": listed, "more": more})
    elif not found:
        settings.say("nothing was done yet that could be undone")
    elif settings.for_people():
        columns = [
            Column("OPERATION", lambda o: str(o.number), right=True, style=lambda _: "yellow"),
            Column("DONE", lambda o: settings.when(o.at), right=True, style=lambda _: "dim"),
            Column("UNDO", lambda o: "yes" if o.undoable else "-"),
            Column("WHAT", lambda o: o.summary, most=10_000),
        ]
        with paging(settings):
            for line in table(settings, columns, found):
                data(line, color=True)
        if more:
            settings.say(newest_shown(len(found)))
    else:
        for each in found:
            undoable = "yes" if each.undoable else "no"
            fields = [str(each.number), each.kind, iso(each.at), undoable, each.summary]
            data("\t".join(escape_field(field) for field in fields))
