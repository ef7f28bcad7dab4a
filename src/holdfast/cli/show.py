"""`holdfast show`: one checkpoint, its record and its state.

People get a header and the state in Python's notation, cut where it is long. A pipe gets `field<TAB>value` lines, an
empty line and the whole state. `--json` gives both as one document, with tagged JSON for what JSON lacks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._completing import RefArgument
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._labels import labels_of
from holdfast.cli._notation import Limits, Notation
from holdfast.cli._opening import naming_candidates, open_existing, session_of
from holdfast.cli._paging import paging
from holdfast.cli._render import data, document, json_text
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._tagged import tagged_json
from holdfast.cli._terminal import (
    age,
    ellipsis_for,
    escape_controls,
    escape_field,
    iso,
    paint,
    terminal_width,
)
from holdfast.errors import IntegrityError

if TYPE_CHECKING:
    from holdfast import Checkpoint, Recovered, Session, Store
    from holdfast.store.verifying import DamagedCheckpoint

HELP = """Show a checkpoint and its state.

REF is @ (the newest, and the default), @~3, a branch, tag:NAME, #42, key:TEXT, or four or more digits of an id.

\b
Examples:
  holdfast show
  holdfast show @~3
  holdfast show tag:verified --state --json
  holdfast show @ --path 'messages[-20:]'
  holdfast show --recover
"""


@click.command("show", cls=HoldfastCommand, short_help="Show a checkpoint and its state", help=HELP)
@click.argument("ref", type=RefArgument(), default="@")
@click.option("--state", "only_state", is_flag=True, help="Only the state")
@click.option("--record", "only_record", is_flag=True, help="Only the record; the state is not even read")
@click.option(
    "--path", metavar="PATH", help="A part of the state, read without the rest: messages[-20:], plan.steps[0]"
)
@click.option("--recover", is_flag=True, help="Where REF is damaged: the newest before it that is whole")
@click.option("--full", is_flag=True, help="On a terminal: the whole state, however long")
@pass_settings
def command(
    settings: Settings,
    ref: str,
    *,
    only_state: bool,
    only_record: bool,
    path: str | None,
    recover: bool,
    full: bool,
) -> None:
    """Print the record, the state, or both."""
    if only_record and (only_state or path is not None):
        raise click.UsageError("--record excludes --state and --path")
    if recover and (only_record or path is not None):
        raise click.UsageError("--recover reads whole states: it excludes --record and --path")
    if recover and only_state and settings.json:
        raise click.UsageError("--recover with --json says what was passed over: it excludes --state")
    only_state = only_state or path is not None
    damaged: tuple[DamagedCheckpoint, ...] | None = None
    with open_existing(settings, damaged=recover) as store, naming_candidates(store, settings):
        if recover:
            found = _recovered(store, settings, ref)
            checkpoint, state, damaged = found.checkpoint, found.state, found.damaged
        else:
            session = session_of(store, settings)
            checkpoint = session.checkpoint(ref)
            # By id, not by ref again: the branch may have moved since.
            state = None if only_record else _load(session, checkpoint, path)
        # One more comparison where a state is read anyway.
        named = not checkpoint.message and not only_state and not only_record and settings.for_people()
        label = labels_of(store, [checkpoint]).get(checkpoint.id, "") if named else ""
        here = _placed(store, checkpoint) if settings.for_people() and not only_state else {}
    if settings.json:
        _write_json(checkpoint, state, damaged, only_state=only_state, only_record=only_record)
        return
    cut = False
    with paging(settings):
        if not only_state:
            for line in (
                _header(settings, checkpoint, label, here) if settings.for_people() else _fields(checkpoint)
            ):
                data(line, color=settings.paints(sys.stdout))
        if not only_state and not only_record:
            data("")
        cut = not only_record and _write_notation(settings, state, full=full)
    if cut:
        settings.say("the state is cut short; --full shows all of it, --json all of it as JSON")


def _placed(store: Store, checkpoint: Checkpoint) -> dict[str, str | None]:
    # Only people are told, and only in the record.
    from holdfast.cli._placing import branches_here

    return branches_here(store, [checkpoint])


def _load(session: Session, checkpoint: Checkpoint, path: str | None) -> Any:
    if path is None:
        return session.load(checkpoint)
    # Only those who ask for a part can ask for one that is not there.
    from holdfast.cli._missing_part import explaining

    with explaining(session, checkpoint):
        return session.load(checkpoint, path=path)


def _recovered(store: Store, settings: Settings, ref: str) -> Recovered:
    """The newest checkpoint at or before `ref` that is whole; what was passed over is said."""
    try:
        session = session_of(store, settings)
    except IntegrityError:
        # The row that says which branch people are on is damaged too.
        session = store.session(settings.session)
    found = session.recover(ref)
    for each in found.damaged:
        name = f"#{each.seq}" if each.id is None else each.id[:8]
        settings.say(escape_controls(f"{name}: {each.why}"), label="damaged: ")
    if found.damaged:
        settings.say(f"#{found.checkpoint.seq} is the newest that is whole", label="shown: ")
    return found


def _write_json(
    checkpoint: Checkpoint,
    state: Any,
    damaged: tuple[DamagedCheckpoint, ...] | None,
    *,
    only_state: bool,
    only_record: bool,
) -> None:
    if only_state:
        data("".join(tagged_json(state)))
    elif only_record:
        document({"checkpoint": checkpoint.to_dict()})
    else:
        record = json_text(checkpoint.to_dict()).replace("\n", "\n  ")
        parts = ['{\n  "checkpoint": ', record, ',\n  "state": ', *tagged_json(state, depth=1)]
        if damaged is not None:
            passed = json_text([each._asdict() for each in damaged]).replace("\n", "\n  ")
            parts += [',\n  "damaged": ', passed]
        data("".join([*parts, "\n}"]))


def _header(settings: Settings, c: Checkpoint, label: str, here: Mapping[str, str | None]) -> Iterator[str]:
    from holdfast.cli._placing import told

    on = settings.paints(sys.stdout)
    origin = " ".join(
        f"{name} {value}" for name, value in (("agent", c.agent), ("project", c.project)) if value
    )
    used = (("tokens", c.tokens), ("USD", c.cost_usd), ("ms", c.duration_ms))
    counted = [f"{value:,.12g} {unit}" for unit, value in used if value is not None]
    lines = {
        "checkpoint": paint(c.id, "yellow", on=on),
        "message": c.message or label,
        "place": f"#{c.seq} of session {c.session}, {told(c, here)}" + (f" ({origin})" if origin else ""),
        "saved": f"{iso(c.created_at)} ({age(c.created_at)}), {c.trigger}",
        "status": c.status + (f", step {c.step}" if c.step is not None else ""),
        "tags": ", ".join(c.tags),
        "key": c.key or "",
        "metadata": json_text(c.metadata, indent=None) if c.metadata else "",
        "used": ", ".join(counted),
        "state": f"{c.size_bytes:,} bytes",
    }
    for name, text in lines.items():
        if text:
            shown = text if name == "checkpoint" else escape_controls(text)
            if name == "message" and not c.message:
                shown = paint(shown, "dim", on=on)
            yield f"{paint(f'{name:10}', 'dim', on=on)}  {shown}"


def _fields(checkpoint: Checkpoint) -> Iterator[str]:
    for name, value in checkpoint.to_dict().items():
        if name in ("created_at", "stored_at"):
            text = iso(getattr(checkpoint, name))
        elif name in ("tags", "parents"):
            text = ",".join(value)
        else:
            text = value if isinstance(value, str) else "" if value is None else json_text(value, indent=None)
        yield f"{name}\t{escape_field(text)}"


def write_state(settings: Settings, state: Any, ref: str) -> None:
    """Write the state of `ref` alone, in the form that was asked for; say where it was cut short."""
    if settings.json:
        data("".join(tagged_json(state)))
        return
    with paging(settings):
        cut = _write_notation(settings, state, full=False)
    if cut:
        settings.say(f"the state is cut short; holdfast show {ref} --full shows all of it")


def _write_notation(settings: Settings, state: Any, *, full: bool) -> bool:
    people = settings.for_people()
    limits = Limits() if people and not full else None
    notation = Notation(terminal_width() if people else 100, limits, mark=ellipsis_for(sys.stdout))
    for line in notation.lines(state):
        data(line)
    return bool(notation.cut)
