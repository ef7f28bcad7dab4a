"""How far long work has come, told on stderr.

    with progress(cmd, "checking", total=9000, unit="chunks") as update:
        for done, chunk in enumerate(chunks, 1):
            ...
            update(done)

On a terminal one line is drawn over itself, and only after half a second: work that is done by then says nothing. In a
log there is a line every ten seconds. `update` may be called for every item.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from holdfast.cli.terminal import escape_controls, is_terminal, shorten

if TYPE_CHECKING:
    from holdfast.cli.invocation import Invocation

FIRST = 0.5
"""Seconds before anything is drawn: less is not waiting."""
EVERY = 0.1
"""Seconds between two drawings: quicker is flicker."""
IN_A_LOG = 10.0
"""Seconds between two lines where they stay, in a pipe or a file."""

_ERASE = "\r\x1b[K"


@contextmanager
def progress(
    cmd: Invocation, label: str, total: int | None = None, *, unit: str = ""
) -> Iterator[Callable[[int], None]]:
    """Show how far the work inside the block is; it gets a function to call with how much is done."""
    began = time.monotonic()
    drawing = is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"
    due = began + (FIRST if drawing else IN_A_LOG)
    silent, drawn = cmd.json or cmd.no_progress, False

    def update(done: int) -> None:
        nonlocal due, drawn
        now = time.monotonic()
        if silent or now < due:
            return
        due, drawn = now + (EVERY if drawing else IN_A_LOG), drawing
        # Estimates grow while work goes on; nobody believes 104 %.
        share = [f"{min(100, 100 * done // total)}%", f"{done:,} of {total:,}"] if total else [f"{done:,}"]
        line = escape_controls("  ".join([label, *share, unit, f"{int(now - began)}s"]))
        _write(_ERASE + shorten(line, _columns() - 1, mark="...") if drawing else line + "\n")

    try:
        yield update
    finally:
        if drawn:
            _write(_ERASE)


def _write(text: str) -> None:
    # Nobody may be listening on stderr any more, and the work goes on all the same.
    with suppress(OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()


def _columns() -> int:
    try:
        return max(20, os.get_terminal_size(sys.stderr.fileno()).columns or 80)
    except (OSError, ValueError):  # not a terminal after all
        return 80
