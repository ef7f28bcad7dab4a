"""Changing one value of a TOML file, and leaving every other character as it is.

The standard library reads TOML and does not write it. Nothing here knows TOML's grammar either: where a statement
begins and ends is found by asking the reader which beginnings of the file it can read, and every change is read back
before it is handed out. A change that would do anything else than asked is refused; the person is told what to write
and where.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

Keys = Sequence[str]


class CannotWriteError(Exception):
    """The change cannot be made without touching something else; `line` is where the person can make it."""

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line}")
        self.line = line


def value_at(tree: Any, keys: Keys) -> Any:
    """The value under a path of keys; None where there is none (TOML has no null)."""
    for key in keys:
        if not isinstance(tree, dict) or key not in tree:
            return None
        tree = tree[key]
    return tree


def line_of(text: str, keys: Keys) -> int:
    """The line, from 1, on which the statement begins that first gives `keys` a value."""
    return _statement(text.split("\n"), keys)[0] + 1


def with_value(text: str, keys: Keys, value: Any) -> str:
    """The text with another value under `keys`, new or not.

    Raises:
        CannotWriteError: It cannot be changed alone: it stands in an inline table, say.
    """
    wanted = _set(tomllib.loads(text), keys, value)
    lines = text.split("\n")
    if value_at(tomllib.loads(text), keys) is not None:
        start, end = _statement(lines, keys)
        tries = [[*lines[:start], _rewritten(lines, start, end, keys, value), *lines[end:]]]
        line = start + 1
    else:
        tries = _insertions(lines, keys, value)
        line = len(lines)
    return _proven(tries, wanted, line)


def without_value(text: str, keys: Keys) -> str:
    """The text without the statement that gives `keys` its value.

    Raises:
        CannotWriteError: The statement holds other values too.
    """
    tree = tomllib.loads(text)
    parent = value_at(tree, keys[:-1])
    parent.pop(keys[-1])
    lines = text.split("\n")
    start, end = _statement(lines, keys)
    return _proven([[*lines[:start], *lines[end:]]], tree, start + 1)


def literal(value: Any) -> str:
    """A value as TOML writes it: a text, a number, a boolean, or a list of them."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(literal(item) for item in value)}]"
    # The escapes of JSON are escapes of TOML; DEL, which JSON leaves as it is, is none of TOML's characters.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _proven(tries: list[list[str]], wanted: Any, line: int) -> str:
    for lines in tries:
        text = "\n".join(lines)
        if (tree := _read(text)) is not None and _same(tree, wanted):
            return text
    raise CannotWriteError(line)


def _read(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _same(left: Any, right: Any) -> bool:
    # As text, because True equals 1; tables that became empty say nothing, whether their header stayed or not.
    return json.dumps(_pruned(left), sort_keys=True, default=repr) == json.dumps(
        _pruned(right), sort_keys=True, default=repr
    )


def _pruned(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    kept = {key: _pruned(value) for key, value in tree.items()}
    return {key: value for key, value in kept.items() if value != {}}


def _set(tree: dict[str, Any], keys: Keys, value: Any) -> dict[str, Any]:
    tree = deepcopy(tree)
    here = tree
    for key in keys[:-1]:
        here = here.setdefault(key, {})
        if not isinstance(here, dict):
            raise CannotWriteError(1)
    here[keys[-1]] = list(value) if isinstance(value, tuple) else value
    return tree


def _statement(lines: list[str], keys: Keys) -> tuple[int, int]:
    """The first line of the statement and the line after it.

    The beginnings of a file that can be read end between statements. Somewhere between two of them the value appears.
    """
    low, high = 0, len(lines)
    while True:
        between = sorted(range(low + 1, high), key=lambda at: abs(at - (low + high) // 2))
        for at in between:
            # With its line end: a carriage return is part of one, and nothing on its own.
            tree = _read("\n".join([*lines[:at], ""]))
            if tree is not None:
                low, high = (low, at) if value_at(tree, keys) is not None else (at, high)
                break
        else:
            return low, high


def _rewritten(lines: list[str], start: int, end: int, keys: Keys, value: Any) -> str:
    name, _, rest = lines[start].partition("=")
    comment = ""
    if end - start == 1:
        old = value_at(tomllib.loads("\n".join([*lines[:end], ""])), keys)
        for at in (at for at, char in enumerate(rest) if char == "#"):
            # Inside a text that sign does not end the statement: cut off there, it could not be read.
            tree = _read("\n".join([*lines[:start], f"{name}={rest[:at]}"]))
            if tree is not None and value_at(tree, keys) == old:
                comment = rest[len(rest[:at].rstrip()) :].rstrip("\r")
                break
    ending = "\r" if lines[end - 1].endswith("\r") else ""
    return f"{name.rstrip()} = {literal(value)}{comment}{ending}"


def _insertions(lines: list[str], keys: Keys, value: Any) -> list[list[str]]:
    """Where a new value could go: into its own table if the file has it, else before the first table."""
    ending = "\r" if lines[0].endswith("\r") else ""
    headers = [at for at, line in enumerate(lines) if line.lstrip().startswith("[")]
    tries = []
    for depth in range(len(keys) - 1, 0, -1):
        statement = f"{'.'.join(keys[depth:])} = {literal(value)}{ending}"
        tries += [[*lines[: at + 1], statement, *lines[at + 1 :]] for at in headers]
    statement = f"{'.'.join(keys)} = {literal(value)}{ending}"
    first = min(headers, default=len(lines))
    # Comments right above a table are about it, and stay there.
    while first and (not lines[first - 1].strip() or lines[first - 1].lstrip().startswith("#")) and headers:
        first -= 1
    if not headers and lines[-1] == "":
        first -= 1
    tail = lines[first:] if headers or lines[first:] else [""]
    return [*tries, [*lines[:first], statement, *tail]]
