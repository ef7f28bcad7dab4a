"""A command that judges states for `holdfast bisect --run`: the state on its stdin, the answer in its exit code."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import Any

SKIPPED = 125
LAST = 124
"""The last exit code that says "does not hold"."""

_NOT_RUN = {
    126: ("it could not be run (exit code 126)", "make it executable, or name the program that runs it"),
    127: ("it was not found (exit code 127)", "check the name and the path"),
}
"""What a shell ends with where there was nothing to judge with: a typo would look as if nothing ever held."""


_MORE_TIME = (
    "give it more time with a longer --timeout, or let it end with 125 for states that it cannot judge"
)


class CommandStopped(Exception):  # noqa: N818 - it names what happened, and is shown
    """The command did not answer."""

    def __init__(self, why: str, hint: str = "let it end with 125 for states that it cannot judge") -> None:
        super().__init__(why)
        self.hint = hint


def judged_by(command: str, timeout: float | None) -> Callable[[Any], Any]:
    """A predicate that runs a command, which is the person's own and goes to the shell as it is."""

    def judge(state: Any) -> Any:
        from holdfast import Skip
        from holdfast.store.tagging import tagged_json

        code = _run(command, "".join(tagged_json(state)), timeout)
        if code == SKIPPED:
            return Skip
        if not 0 <= code <= LAST:
            raise _stopped(code)
        return code == 0

    return judge


def _stopped(code: int) -> CommandStopped:
    if code in _NOT_RUN:
        return CommandStopped(*_NOT_RUN[code])
    if code < 0:
        return CommandStopped(f"it was ended by signal {-code}{_named(-code)}")
    # A shell tells in this way how what it ran was ended.
    return CommandStopped(f"it ended with {code}{_named(code - 128)}")


def _named(number: int) -> str:
    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:
        return ""


def _run(command: str, text: str, timeout: float | None) -> int:
    # Its output is talk, not data. A session of its own: what it started in turn ends with it.
    child = subprocess.Popen(  # noqa: S602 - see above
        command, shell=True, stdin=subprocess.PIPE, stdout=2, start_new_session=True
    )
    try:
        child.communicate(text.encode("utf-8"), timeout=timeout)
    except subprocess.TimeoutExpired:
        raise CommandStopped(f"it took more than {timeout:g} s", _MORE_TIME) from None
    finally:
        if child.poll() is None:
            _end(child)
    return child.returncode


def _end(child: subprocess.Popen[bytes]) -> None:
    # It may have ended by itself just now.
    with suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(child.pid, signal.SIGKILL)
        else:
            child.kill()
    child.wait()
