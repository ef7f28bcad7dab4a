"""Long output goes through a pager, where a person looks at it.

Nothing is started for what fits on the screen: lines are held back until there are more than the terminal is high, and
written straight out if that never happens. So a short list costs no process, and a long state does not have to be
whole before its first page is there.

Which pager: HOLDFAST_PAGER, the setting `pager`, PAGER, `less -FIRX`. An empty one and `cat` mean none.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

from holdfast.cli.terminal import terminal_width, text_width

if TYPE_CHECKING:
    from subprocess import Popen

    from holdfast.cli.invocation import Invocation

DEFAULT = "less -FIRX"

_PAINT = "\x1b\\[[0-9;]*m"


class _Held:
    """Stands in for stdout: holds a screenful back, then starts the pager and goes on there."""

    def __init__(self, real: TextIO, command: str, rows: int, columns: int) -> None:
        self.real, self.command = real, command
        self.room, self.columns = rows, columns
        self.lines: list[str] = []
        self.pager: Popen[str] | None = None

    def __getattr__(self, name: str) -> Any:
        # Whoever asks what kind of stream this is (isatty, encoding, fileno) means the terminal behind it.
        return getattr(self.real, name)

    def write(self, text: str) -> int:
        # What the terminal cannot write is refused here as it would be there: `data` then writes it in another way.
        text.encode(self.real.encoding or "ascii")
        if self.pager is not None and self.pager.stdin is not None:
            return self.pager.stdin.write(text)
        self.lines.append(text)
        for line in text.splitlines():
            self.room -= 1 + max(0, text_width(re.sub(_PAINT, "", line)) - 1) // self.columns
        # The prompt of the shell needs a line too.
        if self.room <= 1:
            self._begin()
        return len(text)

    def flush(self) -> None:
        """Nothing: half a screen is not shown before it is known whether the rest fits."""

    def _begin(self) -> None:
        import subprocess

        if not _is_there(self.command):
            self.room = sys.maxsize
            return
        environment = {**os.environ, "LESS": os.environ.get("LESS", "FIRX")}
        try:
            # A shell, because people put options and pipes into PAGER; it is theirs, like every variable.
            self.pager = subprocess.Popen(  # noqa: S602 - see above
                self.command,
                shell=True,
                stdin=subprocess.PIPE,
                env=environment,
                text=True,
                encoding=self.real.encoding or "ascii",
            )
        except OSError:  # no shell, or no room for another process
            self.room = sys.maxsize
            return
        held, self.lines = self.lines, []
        self.write("".join(held))

    def finish(self) -> None:
        """Write what was held back, or wait until the person has seen enough."""
        if self.pager is None:
            self.real.write("".join(self.lines))
            return
        # A pager that was left early has closed its end.
        with suppress(BrokenPipeError):
            cast("IO[str]", self.pager.stdin).close()
        while True:
            try:
                self.pager.wait()
            except KeyboardInterrupt:
                # Ctrl-C is for the pager, which takes it as the end of a search, say; the person leaves it with q.
                continue
            return


@contextmanager
def paging(cmd: Invocation) -> Iterator[None]:
    """What is written to stdout inside the block goes through a pager if it is longer than the terminal is high.

    Talk belongs after the block: inside it would land in the middle of a page. Leaving the pager early ends the block
    without an error.
    """
    command = _pager(cmd)
    rows = _height()
    if command is None or rows is None:
        yield
        return
    real = sys.stdout
    held = _Held(real, command, rows, max(1, terminal_width()))
    sys.stdout = cast("Any", held)
    try:
        # The person has seen enough: that is an end like any other.
        with suppress(BrokenPipeError):
            yield
    finally:
        sys.stdout = real
        held.finish()


def _pager(cmd: Invocation) -> str | None:
    if cmd.no_pager or not cmd.for_people() or os.environ.get("TERM") == "dumb":
        return None
    chosen = cmd.pager
    if chosen is None:
        chosen = os.environ.get("PAGER", DEFAULT if os.name == "posix" else "")
    return chosen if chosen.strip() not in ("", "cat") and _keyboard() else None


def _is_there(command: str) -> bool:
    """Whether the program is installed; a shell would find out only after it has been handed the output."""
    import shlex
    import shutil

    try:
        program = next(word for word in shlex.split(command) if "=" not in word)
    except (ValueError, StopIteration):  # an open quote, or nothing but variables
        return False
    return shutil.which(program) is not None


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
