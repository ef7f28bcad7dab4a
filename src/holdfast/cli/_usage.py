"""What is wrong with a command line, in plain words, and what people from other programs may have meant.

click says `-1 is not in the range x>=0` and `'x' is not a valid float range`. Here the type of the parameter says what
it takes, and the message says that: `--limit takes a whole number from 0 on, not -1`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import click

HABITS = {
    "log": ["list"],
    "ls": ["list"],
    "rm": ["delete"],
    "remove": ["delete"],
    "checkout": ["switch", "restore"],
    "co": ["switch", "restore"],
    "reset": ["restore"],
    "rebase": ["merge"],
    "pull": ["merge"],
    "revert": ["undo", "restore"],
    "rollback": ["undo", "restore"],
    "commit": ["create"],
    "save": ["create"],
    "snapshot": ["create"],
    "add": ["create"],
    "status": ["show"],
    "cat": ["show"],
    "reflog": ["undo --list"],
    "graph": ["tree"],
    "branches": ["branch"],
    "tags": ["tag"],
    "sessions": ["list --sessions"],
    "tail": ["watch"],
    "fsck": ["verify"],
    "check": ["verify"],
    "settings": ["config"],
    "help": ["--help"],
    "version": ["--version"],
}
"""Words of other programs, and the commands that do the same here."""

_REFUSED = re.compile(
    r"^(?P<value>.+?) (?:is not a valid|is not in the range|is not one of|is not a)\b", re.DOTALL
)
_NEEDS_VALUE = re.compile(r"^option '(?P<name>[^']+)' requires (?:an argument|(?P<count>\d+) arguments)$")
_TAKES_NONE = re.compile(r"^option '(?P<name>[^']+)' does not take a value$")
_EXTRA = re.compile(r"^got unexpected extra arguments? \((?P<words>.*)\)$", re.DOTALL)


def habit(name: str) -> tuple[list[str], str]:
    """The commands that a word of another program stands for, and a hint that says so; nothing for any other word."""
    meant = HABITS.get(name, [])
    commands = " or ".join(f"holdfast {each}" for each in meant)
    return meant, f"did you mean {commands}?" if meant else ""


def in_plain_words(error: click.ClickException, ctx: click.Context | None) -> str:
    """The message of an error of click, without its jargon."""
    message = error.message[:1].lower() + error.message[1:].rstrip(".")
    if isinstance(error, click.NoSuchOption):
        return f"no such option: {error.option_name}"
    if isinstance(error, click.BadParameter) and error.param is not None:
        return _parameter(error, error.param, message, ctx)
    if found := _NEEDS_VALUE.match(message):
        return f"{found['name']} needs {found['count'] + ' values' if found['count'] else 'a value'}"
    if found := _TAKES_NONE.match(message):
        return f"{found['name']} takes no value"
    if found := _EXTRA.match(message):
        return f"there is nothing that takes {found['words']}; a text with spaces needs quotes"
    return message


def behind_dashes(called: str, params: Sequence[click.Parameter]) -> str:
    """How a text that begins with a dash is told from an option, if the command takes a text; otherwise nothing."""
    texts = [each for each in params if isinstance(each, click.Argument) and each.type is click.STRING]
    # A metavar in brackets is for words that the program knows.
    names = [each.human_readable_name for each in texts if not each.human_readable_name.startswith("[")]
    return f"a text that begins with - goes behind --: {called} -- {names[0]}" if names else ""


def _parameter(
    error: click.BadParameter, param: click.Parameter, message: str, ctx: click.Context | None
) -> str:
    named = (param.get_error_hint(ctx) if ctx else param.name or "").replace("'", "")
    if isinstance(error, click.MissingParameter):
        return f"missing {named}"
    wanted, refused = _wanted(param.type), _REFUSED.match(error.message)
    if not wanted or refused is None:
        return f"{named}: {message}"
    value = refused["value"][:60]
    # As it was typed: click has made 0.0 of 0 by then.
    value = value.removesuffix(".0") if isinstance(param.type, click.FloatRange) else value
    return f"{named} takes {wanted}, not {value}"


def _wanted(kind: click.ParamType[Any]) -> str:
    """What a parameter takes."""
    if isinstance(kind, click.Choice):
        return f"one of {', '.join(map(str, kind.choices))}"
    if isinstance(kind, click.IntRange | click.FloatRange):
        number = "a whole number" if isinstance(kind, click.IntRange) else "a number"
        low = "" if kind.min is None else f" {'above' if kind.min_open else 'from'} {kind.min:,}"
        on = " on" if low and not kind.min_open else ""
        return number + (f"{low} to {kind.max:,}" if kind.max is not None else f"{low}{on}")
    if kind is click.INT:
        return "a whole number"
    return "a number" if kind is click.FLOAT else ""
