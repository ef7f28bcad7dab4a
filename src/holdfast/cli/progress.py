"""How far long work has come, told on stderr.

    with progress(cmd, "checking", total=9000, unit="chunks") as update:
        for done, chunk in enumerate(chunks, 1):
            ...
            update(done)

On a terminal one line is drawn over itself, and only after half a second: work that is done by then says nothing. In a
log there is a line every ten seconds. `update` only remembers the figures, so it may be called for every item; a thread
of its own draws them, and shows the seconds even while the work is one long call that reports nothing.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from holdfast.cli.terminal import escape_controls, is_terminal, shorten, size_text

if TYPE_CHECKING:
    from threading import Event

    from holdfast.cli.invocation import Invocation

FIRST = 0.5
"""Seconds before anything is drawn: less is not waiting. With 0, even work that takes no time is drawn once."""
EVERY = 0.1
"""Seconds between two drawings: quicker is flicker."""
IN_A_LOG = 10.0
"""Seconds between two lines where they stay, in a pipe or a file."""

_ERASE = "\r\x1b[K"


class Update(Protocol):
    """Tells how much is done; the total too where it was not known before, or has changed."""

    def __call__(self, done: int, total: int | None = None) -> None:
        """Remember the figures."""
        ...


class _Work:
    """What is being done, and how far it is."""

    def __init__(
        self, label: str, total: int | None, unit: str, measure: Callable[[], int | None] | None
    ) -> None:
        self.label, self.unit, self.measure = label, unit, measure
        self.done, self.total = 0, total
        self.began = time.monotonic()

    def update(self, done: int, total: int | None = None) -> None:
        self.done = done
        if total is not None:
            self.total = total

    def line(self) -> str:
        if self.measure is not None and (done := self.measure()) is not None:
            self.done = done
        parts = [self.label]
        if self.total:
            # Estimates grow while work goes on; nobody believes 104 %.
            parts.append(f"{min(100, 100 * self.done // self.total)}%")
        if self.done or self.total:
            parts.append(self._counted())
        parts.append(f"{int(time.monotonic() - self.began)}s")
        return escape_controls("  ".join(parts))

    def _counted(self) -> str:
        show = size_text if self.unit == "bytes" else "{:,}".format
        of = f" of {show(self.total)}" if self.total else ""
        unit = f" {self.unit}" if self.unit not in ("", "bytes") else ""
        return f"{show(self.done)}{of}{unit}"


@contextmanager
def progress(
    cmd: Invocation,
    label: str,
    total: int | None = None,
    *,
    unit: str = "",
    measure: Callable[[], int | None] | None = None,
) -> Iterator[Update]:
    """Show how far the work inside the block is, for as long as it takes.

    Args:
        cmd: How to speak.
        label: What is being done.
        total: How much there is to do, where that is known.
        unit: What is counted, or "bytes".
        measure: Says how much is done, for work that is one long call and reports nothing; None where it cannot say.
    """
    work = _Work(label, total, unit, measure)
    if cmd.json or cmd.no_progress:
        yield work.update
        return
    # Most commands have no long work, and need not pay for the import.
    from threading import Event, Thread

    ended = Event()
    drawing = is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"
    # A daemon: a stderr that blocks must not keep the process from ending.
    thread = Thread(target=_draw if drawing else _log, args=(work, ended), daemon=True)
    thread.start()
    try:
        yield work.update
    finally:
        ended.set()
        thread.join()


def _draw(work: _Work, ended: Event) -> None:
    if FIRST and ended.wait(FIRST):
        return
    while True:
        _write(_ERASE + shorten(work.line(), _columns() - 1, mark="..."))
        if ended.wait(EVERY):
            break
    _write(_ERASE)


def _log(work: _Work, ended: Event) -> None:
    while not ended.wait(IN_A_LOG):
        _write(work.line() + "\n")


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
