"""Asking before something is done that cannot simply be taken back.

Three levels of danger:

- mild: it can be undone. It is done, and `say_undo` says how to take it back.
- moderate (`confirm`): a question, y or N. `--yes` answers it beforehand.
- severe (`confirm_by_name`): the name of the store has to be typed. `--confirm NAME` does so beforehand; `--yes` is not
  enough, because people put it into scripts and forget it there.

Where nobody can be asked (no terminal, or `--json`) and the option is not there, the command ends with exit code 20 and
names the option. It never waits for an answer that cannot come.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._terminal import escape_controls, is_terminal, paint
from holdfast.errors import ErrorCode, InvalidInputError

if TYPE_CHECKING:
    from holdfast.cli._settings import Settings

_Command = Callable[..., Any]

_NOBODY = "nobody is there to be asked"


def yes_option(command: _Command) -> _Command:
    """Add `-y/--yes` to a command of moderate danger; it gets it as `yes`."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask")(command)


def confirm_option(command: _Command) -> _Command:
    """Add `--confirm NAME` to a command of severe danger; it gets it as `confirmed`."""
    text = "The name of the store, instead of being asked for it"
    return click.option("--confirm", "confirmed", metavar="NAME", help=text)(command)


def say_undo(settings: Settings, *, session: str | None = None) -> None:
    """Say how to take back what was just done, in `session` where that is another one than the one in use."""
    there = ""
    if session is not None:
        import shlex

        there = f" --session {shlex.quote(escape_controls(session))}"
    settings.say(f"holdfast undo{there}", label="Undo: ")


def confirm(settings: Settings, danger: str, *, yes: bool) -> None:
    """Go on only if the person says yes.

    Args:
        settings: How to speak.
        danger: What will be done, as a sentence without its full stop: "12 checkpoints will be removed".
        yes: Whether `--yes` was given.

    Raises:
        InvalidInputError: Nobody said yes (`needs-confirmation`, exit code 20).
    """
    if yes:
        return
    if not _somebody_there(settings):
        raise _refused(f"{danger}, and {_NOBODY}", "--yes does it without asking")
    answer = _ask(settings, f"{danger}. Go on? [y/N] ")
    if answer.strip().lower() not in ("y", "yes"):
        raise _refused("not confirmed", "nothing was changed; answer y, or give --yes")


def confirm_by_name(settings: Settings, danger: str, *, name: str, confirmed: str | None) -> None:
    """Go on only if the person types `name`, which is that of the store (`store_name`).

    Raises:
        InvalidInputError: The name was not given, or another one (`needs-confirmation`, exit code 20).
    """
    flag = f"--confirm {name} does it without asking"
    if confirmed is None:
        if not _somebody_there(settings):
            raise _refused(f"{danger}, and {_NOBODY}", flag)
        typed = _ask(settings, f"{danger}. Type the name of the store, {name}, to go on: ").strip()
        if typed != name:
            raise _refused("not confirmed", f"nothing was changed; type {name}, or give --confirm {name}")
    elif confirmed != name:
        raise _refused(f"--confirm {confirmed!r:.60} is not the name of this store", flag)


def store_name(url: str) -> str:
    """The name by which people know a store: of its file, of the folder that it is for, or of database and schema."""
    if url.startswith("postgresql://"):
        server, _, options = url.partition("?")
        schema = "".join(f".{each[7:]}" for each in options.split("&") if each.startswith("schema="))
        return server.rpartition("/")[2] + schema
    parts = [part for part in url.rstrip("/").replace("\\", "/").split("/") if part]
    # .../scout/.holdfast/store.db is the store of scout.
    for usual in ("store.db", ".holdfast"):
        if len(parts) > 2 and parts[-1] == usual:
            parts.pop()
    return parts[-1].rstrip(":") if parts else url


def _somebody_there(settings: Settings) -> bool:
    # stdin answers and stderr asks; stdout may well go into a file.
    return not settings.json and all(
        stream is not None and is_terminal(stream) for stream in (sys.stdin, sys.stderr)
    )


def _ask(settings: Settings, question: str) -> str:
    sys.stderr.write(paint(escape_controls(question), "yellow", on=settings.paints(sys.stderr)))
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):  # Ctrl-D leaves the cursor behind the question
        sys.stderr.write("\n")
    return answer


def _refused(why: str, hint: str) -> InvalidInputError:
    return InvalidInputError(why, code=ErrorCode.NEEDS_CONFIRMATION, hint=hint)
