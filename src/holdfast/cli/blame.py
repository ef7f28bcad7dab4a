"""`holdfast blame`: which checkpoint set what is at a path, when, to what, and what was there before."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from holdfast.cli._completing import RefArgument
from holdfast.cli._figures import LABEL, counted, figures
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._missing_part import explaining
from holdfast.cli._opening import naming_candidates, open_existing, session_of
from holdfast.cli._render import data, json_text
from holdfast.cli._searching import looking_everywhere, numbered, say_notes
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import ellipsis_for, escape_controls, iso, shorten, terminal_width
from holdfast.cli._values import NO_VALUE, json_line, json_member, what_is_new

if TYPE_CHECKING:
    from holdfast import Blame, Checkpoint

HELP = """Show which checkpoint set what is at a path: when, to what, and what was there before.

Where the value came in by a merge, it is the one that set it on the merged branch; the merge is named as well.

It looks 1, 2, 4, 8 ... steps back and then halves, so a value that went away and came back in between may be passed
over; --exact looks into every state.

\b
Examples:
  holdfast blame score
  holdfast blame beliefs.b7.confidence
  holdfast blame 'messages[-1].role' tag:broken --exact
"""

_OPS = {"add": "added", "replace": "changed", "remove": "removed"}


@click.command(
    "blame", cls=HoldfastCommand, short_help="Show who set a value, and what was before", help=HELP
)
@click.argument("path")
@click.argument("ref", type=RefArgument(), default="@")
@click.option("--exact", is_flag=True, help="Look into every state, and miss no change")
@pass_settings
def command(settings: Settings, path: str, ref: str, *, exact: bool) -> None:
    """Print the answer."""
    with open_existing(settings) as store, naming_candidates(store, settings):
        session = session_of(store, settings)
        checkpoint = session.checkpoint(ref)
        with nullcontext() if exact else looking_everywhere("--exact"), explaining(session, checkpoint):
            found = session.blame(path, checkpoint, exact=exact)
    if settings.json:
        _write_json(found)
        return
    _write(settings, found)
    say_notes(settings, found.notes)
    if not found.certain and not exact and settings.for_people():
        settings.say(
            f"{counted(found.loads, 'state')} looked into; --exact sees changes that were taken back in between"
        )


def _write(settings: Settings, found: Blame) -> None:
    made, before = found.checkpoint, found.before
    fields = {
        "id": made.id,
        "seq": made.seq,
        "created_at": iso(made.created_at),
        "op": found.op,
        "path": found.path,
        "value": NO_VALUE if found.op == "remove" else json_line(found.value),
        "old": NO_VALUE if found.op == "add" else json_line(found.old),
        "before": "" if before is None else before.id,
        "certain": "yes" if found.certain else "no",
        "merges": [each.id for each in found.merges],
        "skipped": [each.id for each in found.skipped],
    }
    lines = [
        ("path", found.path),
        (f"{_OPS[found.op]} by", _named(made)),
        ("when", f"{settings.when(made.created_at)}  ({iso(made.created_at)})"),
        *((("on branch", made.branch),) if found.merges else ()),
        *(("came in by", _named(each)) for each in found.merges),
    ]
    room = max(20, terminal_width() - LABEL)
    if found.op != "remove":
        lines.append(("value", what_is_new(found.value, found.old, room)))
    if found.op != "add":
        at = "" if before is None else f"  (#{before.seq})"
        lines.append(("before", what_is_new(found.old, found.value, room - len(at)) + at))
    if made.skipped:
        lines.append(
            (
                "note",
                f"or by one of {counted(made.skipped, 'checkpoint')} before it that {_were(made.skipped)} removed",
            )
        )
    if found.skipped:
        lines.append(("note", f"or by one whose state cannot be read: {numbered(found.skipped)}"))
    figures(settings, fields, lines)


def _named(made: Checkpoint) -> str:
    step = "" if made.step is None else f"  step {made.step}"
    line = f"{made.id[:8]}  #{made.seq}{step}  {escape_controls(made.message)}".rstrip()
    return shorten(line, max(30, terminal_width() - LABEL), mark=ellipsis_for(sys.stdout))


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _write_json(found: Blame) -> None:
    head = {
        "path": found.path,
        "op": found.op,
        "checkpoint": found.checkpoint.to_dict(),
        "before": None if found.before is None else found.before.to_dict(),
        "certain": found.certain,
        "loads": found.loads,
        "merges": [each.to_dict() for each in found.merges],
        "skipped": [each.to_dict() for each in found.skipped],
        "notes": list(found.notes),
    }
    members = [json_member("value", found.value), json_member("old", found.old)]
    data("".join([json_text(head)[: -len("\n}")], *(f",\n  {each}" for each in members), "\n}"]))
