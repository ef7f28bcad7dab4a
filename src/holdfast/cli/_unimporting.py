"""The way back from an import: what it added can be taken away, and what moved can be moved back.

An import is no operation, as a save is none: it adds checkpoints. Only where it moved heads is there something to undo.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from holdfast.cli._terminal import escape_controls

if TYPE_CHECKING:
    from holdfast import ImportReport, SessionImport
    from holdfast.cli._settings import Settings

_MOST: Final = 5
"""Lines. Who imports a hundred sessions is not told how to forget each."""


def say_way_back(settings: Settings, report: ImportReport) -> None:
    """The last lines of an import that changed something: the commands that take it back."""
    lines = [line for each in report.sessions for line in _commands(each)]
    for line in lines[:_MOST]:
        settings.say(line, label="Undo: ")
    if len(lines) > _MOST:
        settings.say(f"and {len(lines) - _MOST:,} more like these", label="Undo: ")


def _commands(told: SessionImport) -> Iterator[str]:
    session = f"--session {_quoted(told.id)}"
    if told.status == "new":
        yield f"holdfast forget {session}"
        return
    if told.advanced:
        yield f"holdfast undo {session}"
    for name in told.branches:
        yield f"holdfast branch {session} --delete {_quoted(name)} --force"
    if told.checkpoints and not told.advanced and not told.branches:
        yield f"holdfast forget {session} REF, for each: no branch leads to what came in"


def _quoted(name: str) -> str:
    return shlex.quote(escape_controls(name))
