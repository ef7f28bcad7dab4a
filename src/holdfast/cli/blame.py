"""`holdfast blame`: which checkpoint set what is at a path, when, to what, and what was there before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli._completing import RefArgument
from holdfast.cli._figures import counted, figures
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._missing_part import explaining
from holdfast.cli._opening import naming_candidates, open_existing, session_of
from holdfast.cli._render import data, json_text
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import iso
from holdfast.cli._values import json_line, json_member, one_line

if TYPE_CHECKING:
    from holdfast import Blame

HELP = """Show which checkpoint set what is at a path: when, to what, and what was there before.

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
        with explaining(session, checkpoint):
            found = session.blame(path, checkpoint, exact=exact)
    if settings.json:
        _write_json(found)
        return
    _write(settings, found)
    if not found.certain and settings.for_people():
        settings.say(
            f"{counted(found.loads, 'state')} looked into: a change that was taken back in between is not seen; "
            "--exact sees it"
        )


def _write(settings: Settings, found: Blame) -> None:
    made, before = found.checkpoint, found.before
    fields = {
        "id": made.id,
        "seq": made.seq,
        "created_at": iso(made.created_at),
        "op": found.op,
        "path": found.path,
        "value": "" if found.op == "remove" else json_line(found.value),
        "old": "" if found.op == "add" else json_line(found.old),
        "before": "" if before is None else before.id,
        "certain": "yes" if found.certain else "no",
    }
    step = "" if made.step is None else f"  step {made.step}"
    lines = [
        ("path", found.path),
        (f"{_OPS[found.op]} by", f"{made.id[:8]}  #{made.seq}{step}  {made.message}".rstrip()),
        ("when", f"{settings.when(made.created_at)}  ({iso(made.created_at)})"),
    ]
    if found.op != "remove":
        lines.append(("value", one_line(found.value)))
    if found.op != "add":
        at = "" if before is None else f"  (#{before.seq})"
        lines.append(("before", one_line(found.old) + at))
    if made.skipped:
        lines.append(
            (
                "note",
                f"or by one of {counted(made.skipped, 'checkpoint')} before it that {_were(made.skipped)} removed",
            )
        )
    figures(settings, fields, lines)


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
    }
    members = [json_member("value", found.value), json_member("old", found.old)]
    data("".join([json_text(head)[: -len("\n}")], *(f",\n  {each}" for each in members), "\n}"]))
