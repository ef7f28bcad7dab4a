"""What `undo` and `redo` share: one reversal, and what is told of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from holdfast.cli._opening import session_of
from holdfast.cli._planning import head_of, open_for, say_dry_run, say_plan
from holdfast.cli._render import Column, data, document, table
from holdfast.cli._terminal import escape_field, iso
from holdfast.errors import ConflictError, ErrorCode, HoldfastError, NotFoundError

if TYPE_CHECKING:
    from holdfast import Session, Store, Undone
    from holdfast.cli._settings import Settings


def reverse(settings: Settings, verb: Literal["undo", "redo"], *, dry_run: bool) -> None:
    """Undo or redo one operation, and print it."""
    with open_for(settings, dry_run=dry_run) as store:
        session = session_of(store, settings)
        with _with_a_way_on(store, session, verb):
            undone = session.undo() if verb == "undo" else session.redo()
        url, branch = store.url, session.branch
    plan = {
        "session": session.id,
        "number": undone.number,
        "kind": undone.kind,
        "at": iso(undone.at),
        "summary": undone.summary,
        "branch": branch,
        "head": None if undone.head is None else undone.head.id,
    }
    if settings.json:
        head = None if undone.head is None else undone.head.to_dict()
        document(head_of(url, plan, dry_run=dry_run, changed=True) | {"head": head})
        return
    at = "is gone" if undone.head is None else f"is at #{undone.head.seq}"
    what = "is undone" if verb == "undo" else "is done again"
    say_plan(settings, f"session {session.id}; {undone.summary} {what}; then branch {branch} {at}")
    if dry_run:
        say_dry_run(settings)
        return
    _row(settings, undone)
    other, label = ("redo", "Redo: ") if verb == "undo" else ("undo", "Undo: ")
    settings.say(f"holdfast {other}", label=label)


@contextmanager
def _with_a_way_on(store: Store, session: Session, verb: str) -> Iterator[None]:
    """Where an operation cannot be reversed, say which one, and what leads on all the same."""
    try:
        yield
    except (ConflictError, NotFoundError) as error:
        if error.code not in (ErrorCode.UNDO_BLOCKED, ErrorCode.UNDO_GONE):
            raise
        if (number := _number(session, error)) is not None:
            error.args = (f"{verb} stops at operation {number}: {error}", *error.args[1:])
        if store.find(session=session.id, limit=1):
            error.hint += (
                "; holdfast restore REF always works, holdfast timeline shows each REF ('#3' is one)"
            )
        raise


def _number(session: Session, error: HoldfastError) -> int | None:
    """The number of the operation that stands in the way."""
    known = session.operations(limit=None)
    numbers = {each.number for each in known}
    if error.details.get("operation") in numbers:
        return int(error.details["operation"])
    # What gc took is not named by its number; the message begins with what was done, and it is the newest such.
    said = (each.number for each in known if each.summary and str(error).startswith(each.summary))
    ends = (each.number for each in known if each.kind in ("forget", "repair"))
    return next(said, None) or next(ends, None)


def _row(settings: Settings, undone: Undone) -> None:
    head = undone.head
    if settings.for_people():
        columns = [
            Column("OPERATION", lambda u: str(u.number), right=True, style=lambda _: "yellow"),
            Column("DONE", lambda u: settings.when(u.at), right=True, style=lambda _: "dim"),
            Column("HEAD NOW", lambda _: "" if head is None else f"{head.id[:8]} #{head.seq}"),
            Column("WHAT", lambda u: u.summary, most=10_000),
        ]
        for line in table(settings, columns, [undone]):
            data(line, color=True)
        return
    fields = [str(undone.number), undone.kind, iso(undone.at), undone.summary, head.id if head else ""]
    data("\t".join(escape_field(field) for field in fields))
