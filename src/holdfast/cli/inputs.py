"""What people hand in: JSON files, `key=value` pairs, times, and commands that judge a state.

JSON is read strictly, because a checkpoint should hold what its author wrote: UTF-8 only, no key twice in an object, no
NaN or Infinity, no number that turns into infinity.
"""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from holdfast.errors import ErrorCode, InvalidInputError

if TYPE_CHECKING:
    from holdfast.cli.invocation import Invocation


STATUSES = ("running", "paused", "completed", "failed", "interrupted")

MAX_BYTES = 256 << 20
"""What `--state` reads at most: `--state /dev/zero` must end. Larger states go through the Python API."""


def read_json(source: str, what: str) -> Any:
    """The JSON value in a file, or on stdin for `-`; `what` is the option that asked for it."""
    return parse_json(_read(source, what), "stdin" if source == "-" else source)


def value_of(data: Any, name: str) -> Any:
    """The value that tagged JSON stands for; `name` says where it came from."""
    from holdfast.reports.text import MalformedError, from_json

    try:
        return from_json(data)
    except MalformedError as error:
        _refuse(
            f"{name}: {error}",
            "holdfast show --state --json writes such values; docs/reference/cli.md#json lists them",
        )


def _read(source: str, what: str) -> bytes:
    try:
        if source == "-":
            # No stdin at all is what a shell gives for <&- and some daemons for everything.
            data = sys.stdin.buffer.read(MAX_BYTES + 1) if sys.stdin is not None else b""
        else:
            with open(source, "rb") as file:  # noqa: PTH123 - no pathlib at start
                data = file.read(MAX_BYTES + 1)
    except OSError as error:
        _refuse(
            f"the {what} could not be read from {source}: {error.strerror or error}",
            f"--{what} takes a JSON file, or -",
        )
    if len(data) > MAX_BYTES:
        _refuse(
            f"the {what} in {source} has more than {MAX_BYTES >> 20} MiB",
            "save large states with the Python API",
            code=ErrorCode.VALUE_TOO_LARGE,
        )
    return data


def parse_json(data: bytes, name: str) -> Any:
    """The value of strict JSON text; `name` says where it came from."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line, column = _place(data[: error.start].decode("utf-8"))
        _refuse(
            f"{name}, line {line}, column {column}: not UTF-8 (byte 0x{data[error.start]:02x})",
            "save it as UTF-8",
        )
    if text.startswith("\ufeff"):
        _refuse(f"{name} begins with a byte order mark", "save it as UTF-8 without one")
    try:
        return _STRICT.decode(text)
    except json.JSONDecodeError as error:
        why = f"{name}, line {error.lineno}, column {error.colno}: not JSON: {error.msg}"
        _refuse(why, "strict JSON: double quotes, no comments, no comma before a closing bracket")
    except RecursionError:
        _refuse(
            f"{name}: the JSON is nested too deeply",
            "keep deep structures flat, for instance as a list of nodes",
            code=ErrorCode.VALUE_TOO_DEEP,
        )
    except _NotStrictError as error:
        _refuse(f"{name}: {error}", error.hint)
    except ValueError as error:  # a number with more digits than Python converts
        _refuse(f"{name}: {error}", "write very long numbers as text")


class _NotStrictError(Exception):
    """Something that json reads and that we do not."""

    def __init__(self, why: str, hint: str) -> None:
        super().__init__(why)
        self.hint = hint


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _NotStrictError(f"the key {key!r:.80} is there twice in one object", "give each key once")
        found[key] = value
    return found


def _no_constant(name: str) -> NoReturn:
    raise _NotStrictError(f"{name} is not JSON", "use null, or the text of it")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise _NotStrictError(f"the number {digits:.40} is too large for a float", "write it as text")
    return number


_STRICT = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant, parse_float=_finite)


def _place(before: str) -> tuple[int, int]:
    """Line and column, both from 1, of what comes after `before`."""
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def parse_metadata(items: Iterable[str]) -> dict[str, Any]:
    """`key=value` pairs, whose values stay text, and JSON objects, laid over each other in order."""
    metadata: dict[str, Any] = {}
    for item in items:
        if item.lstrip().startswith("{"):
            metadata.update(parse_json(item.encode("utf-8", "surrogateescape"), "--metadata"))
            continue
        key, equals, value = item.partition("=")
        if not equals or not key:
            _refuse(
                f"--metadata {item!r:.80} is neither key=value nor a JSON object", "write --metadata model=m1"
            )
        metadata[key] = value
    return metadata


def parse_tags(items: Iterable[str]) -> list[str]:
    """Tags separated by commas, in as many options as one likes."""
    return [tag for item in items for tag in (part.strip() for part in item.split(",")) if tag]


_SPAN = r"(?i)(?:[0-9]+(?:\.[0-9]+)?[a-z]+ ?)+"
"""A length of time without a word around it: 30m, 1h, 2d, 1h30m."""
_CLOCK = r"(?i)[0-9]+ ?[ap]m"


def parse_time(text: str, option: str, *, end: bool = False) -> tuple[datetime, bool]:
    """A time as people write it, and whether something had to be assumed about it.

    `1h` is an hour ago, and what stands in `@{...}` is read with the braces or without. Without a zone it is local
    time. A date alone is its first moment, or its last one where a range ends.
    """
    from holdfast import parse_time as parsed

    words = text.strip()
    if words.startswith("@{") and words.endswith("}"):
        words = words[2:-1].strip()
    if re.fullmatch(_SPAN, words) and not re.fullmatch(_CLOCK, words):
        words = f"{words} ago"
    try:
        moment = parsed(words, end=end, what=option)
    except InvalidInputError as error:
        error.hint = error.hint.replace("write ", "write 30m, 1h, 2d, ", 1)
        error.args = (str(error).replace(f"{words!r:.60}", f"{text!r:.60}", 1), *error.args[1:])
        error.details["text"] = repr(text)[:60]
        raise
    try:
        assumed = datetime.fromisoformat(words).tzinfo is None
    except ValueError:
        # Words, which mean something else tomorrow.
        assumed = True
    return moment, assumed


def moment_of(cmd: Invocation, option: str, text: str) -> datetime:
    """The moment that `--since` or `--until` means; it is said where something was assumed."""
    moment, assumed = parse_time(text, f"--{option}", end=option == "until")
    if assumed:
        from holdfast.cli.terminal import iso

        cmd.say(iso(moment), label=f"{option}: ")
    return moment


def _refuse(message: str, hint: str, *, code: ErrorCode = ErrorCode.BAD_ARGUMENT) -> NoReturn:
    raise InvalidInputError(message, code=code, hint=hint)


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
        from holdfast.reports.text import tagged_json

        code = _run(command, tagged_json(state), timeout)
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
