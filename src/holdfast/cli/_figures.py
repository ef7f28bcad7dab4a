"""A few figures as the data of a command: sentences for people, a field and its value a line for programs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.cli._render import data
from holdfast.cli._terminal import escape_controls, escape_field, paint

if TYPE_CHECKING:
    from holdfast.cli._settings import Settings


LABEL = 13
"""Columns that a label takes on a terminal, with the gap behind it."""


def figures(settings: Settings, fields: Mapping[str, Any], lines: Sequence[tuple[str, str]]) -> None:
    """Write `fields` to a pipe, or `lines` of label and text to a terminal."""
    if settings.for_people():
        on = settings.paints(sys.stdout)
        for label, text in lines:
            data(f"{paint(f'{label:{LABEL - 2}}', 'dim', on=on)}  {escape_controls(text)}", color=on)
        return
    for name, value in fields.items():
        shown = ",".join(value) if isinstance(value, list | tuple) else "" if value is None else str(value)
        data(f"{name}\t{escape_field(shown)}")


def first_shown(count: int) -> str:
    """What is said where a list was cut that has no newest: `the first 50 are shown`."""
    shown = "only the first is shown" if count == 1 else f"the first {count:,} are shown"
    return f"{shown}; --limit 0 shows all"


def newest_shown(count: int) -> str:
    """What is said where a list was cut: `the 50 newest are shown`."""
    shown = "only the newest is shown" if count == 1 else f"the {count:,} newest are shown"
    return f"{shown}; --limit 0 shows all"


def counted(count: int, one: str, many: str | None = None) -> str:
    """`1 checkpoint`, `2,000 checkpoints`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
