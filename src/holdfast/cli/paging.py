"""A pager for what is longer than the terminal is high: click's, told which one people like."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Any, cast

import click

from holdfast.cli.terminal import terminal_width, text_width

if TYPE_CHECKING:
    from holdfast.cli.invocation import Invocation

DEFAULT = "less -FIRX"

_PAINT = "\x1b\\[[0-9;]*m"


class _Held(StringIO):
    """Stands in for stdout until it is known how much there is to show."""

    def __init__(self, real: Any) -> None:
        super().__init__()
        self.real = real

    def __getattribute__(self, name: str) -> Any:
        # Whoever asks what kind of stream this is means the terminal behind it.
        asked = super().__getattribute__("real") if name in ("encoding", "fileno", "isatty") else super()
        return asked.__getattribute__(name)

    def write(self, text: str) -> int:
        # What the terminal cannot write is refused here as it would be there: `data` then writes it in another way.
        text.encode(self.real.encoding or "ascii")
        return super().write(text)


@contextmanager
def paging(cmd: Invocation) -> Iterator[None]:
    """What is written to stdout inside the block goes through a pager if it is longer than the terminal is high.

    Talk belongs after the block: inside it would land in the middle of a page.
    """
    command = _pager(cmd)
    rows = _height()
    if command is None or rows is None:
        yield
        return
    real = sys.stdout
    held = _Held(real)
    sys.stdout = cast("Any", held)
    try:
        yield
    finally:
        sys.stdout = real
        text, width = held.getvalue(), max(1, terminal_width())
        plain = re.sub(_PAINT, "", text).splitlines()
        # The prompt of the shell needs a line too.
        if sum(1 + max(0, text_width(line) - 1) // width for line in plain) + 1 < rows:
            real.write(text)
        else:
            os.environ["PAGER"] = command
            os.environ.setdefault("LESS", "FIRX")
            click.echo_via_pager(text.removesuffix("\n"), color=True)


def _pager(cmd: Invocation) -> str | None:
    if cmd.no_pager or not cmd.for_people() or os.environ.get("TERM") == "dumb":
        return None
    chosen = os.environ.get("PAGER", DEFAULT) if cmd.pager is None else cmd.pager
    import shlex

    try:
        words = shlex.split(chosen)
    except ValueError:  # an open quote
        return None
    return chosen if words not in ([], ["cat"]) and _keyboard() else None


def _keyboard() -> bool:
    """Whether there is somebody who can turn the page: a pager reads its keys from the terminal, not from stdin."""
    if os.name != "posix":
        return True
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:  # a terminal that controls no process: a test, a recorder, some CI
        return False
    return True


def _height() -> int | None:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).lines or None
    except (OSError, ValueError):  # nothing that has a height
        return None
