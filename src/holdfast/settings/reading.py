"""The settings of one file, each checked and with the line it stands on.

A key that nobody knows is an error that names the file, the line and the key that was meant: a setting that is silently
ignored is worse than none. Lines are looked for only where one is asked for or something is wrong: most files are
right, and every command reads them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from typing import Any

from holdfast.errors import ErrorCode, HoldfastError, InvalidInputError
from holdfast.settings.entries import Entry
from holdfast.settings.files import ConfigFile
from holdfast.settings.keys import GROUPS, SETTINGS, Found, brief
from holdfast.settings.near import close_names, did_you_mean

MAX_BYTES = 64 << 10
"""All settings there are take three kilobytes: a larger file is something else, and is not read into memory."""

MAX_PROJECT_BYTES = 1 << 20
"""A pyproject.toml holds more than our settings."""

MAX_DOTS = 200
"""So many in a line: reading a key takes the square of its parts, and a line of 60 KB took a quarter of a minute."""

MOST_PROBLEMS = 20
"""So many in one file are told: more of them are a file of something else, and each takes a search for near names."""

_WITHOUT_QUOTES_AND_BLANKS = dict.fromkeys(map(ord, "\"' \t"))


def read_file(
    file: ConfigFile, *, lines: bool = False, problems: list[HoldfastError] | None = None
) -> dict[str, Found]:
    """The settings of one file; see `resolve` for `lines` and `problems`.

    Raises:
        InvalidInputError: It cannot be read, has a key that nobody knows, or a value of another type (`bad-config`).
        UnsupportedError: It is YAML, and nothing is installed that reads it.
    """
    found: dict[str, Found] = {}
    told = 0
    try:
        for entry in entries(file):
            try:
                found |= _checked(file, entry, lines=lines)
            except InvalidInputError as error:
                if problems is None:
                    raise
                problems.append(error)
                told += 1
                if told == MOST_PROBLEMS:
                    break
    except HoldfastError as error:
        if problems is None:
            raise
        problems.append(error)
        return {}
    return found


def entries(file: ConfigFile) -> Iterable[Entry]:
    """What stands in a file."""
    if file.kind == "named" and not file.path.lower().endswith(".toml"):
        # Few use it, and it brings a library with it.
        from holdfast.settings.yaml_reading import MAX_YAML_BYTES, yaml_entries

        return yaml_entries(read_text(file, MAX_YAML_BYTES), shown(file.path))
    text = read_text(file, MAX_PROJECT_BYTES if file.kind == "project" else MAX_BYTES)
    if file.kind == "project" and not _has_our_table(text):
        return ()  # somebody else's file, whatever is in it
    return _toml_entries(file, text)


def _toml_entries(file: ConfigFile, text: str) -> Iterable[Entry]:
    tree: Any = parse_toml(text, file.path)
    prefix = section(file)
    for key in prefix:
        tree = tree.get(key, {}) if isinstance(tree, dict) else {}
    for place, value in _flat(tree):
        key = ".".join(place)
        line = partial(_line, text, (*prefix, *place))
        yield Entry(place, key if key in SETTINGS else None, value, line)


def _checked(file: ConfigFile, entry: Entry, *, lines: bool) -> dict[str, Found]:
    if entry.key is None:
        raise _unknown(entry, file)
    if not SETTINGS[entry.key].kind.fits(entry.value):
        raise _unfit(entry, file)
    line = f" line {entry.line()}" if lines else ""
    return {entry.key: Found(entry.value, shown(file.path) + line)}


def read_text(file: ConfigFile, limit: int = MAX_BYTES) -> str:
    """The text of a settings file."""
    cause: Exception | None = None
    try:
        # A pipe or a device would be waited for.
        if os.path.exists(file.path) and not file.exists:  # noqa: PTH110 - no pathlib at start
            why = "it is not a file"
        else:
            with open(file.path, "rb") as stream:  # noqa: PTH123
                content = stream.read(limit + 1)
            if len(content) <= limit:
                return content.decode("utf-8")
            why = f"it has more than {limit >> 10} KiB"
    except UnicodeDecodeError as error:
        why, cause = f"not UTF-8 (byte 0x{error.object[error.start]:02x})", error
    except OSError as error:
        why, cause = error.strerror or str(error), error
    except ValueError as error:  # a path with a NUL in it
        why, cause = str(error), error
    raise _unreadable(file, why) from cause


def _unreadable(file: ConfigFile, why: str) -> InvalidInputError:
    named = "name another one with --config or HOLDFAST_CONFIG"
    return InvalidInputError(
        f"{shown(file.path)} cannot be read: {why}",
        code=ErrorCode.BAD_CONFIG,
        hint=f"mend the file, or {named if file.kind == 'named' else 'move it away'}",
        path=shown(file.path),
    )


def _has_our_table(text: str) -> bool:
    """Whether `tool.holdfast` can stand in a pyproject.toml.

    Most projects name us among what they need and set nothing: to parse the file for that is a tenth of a command.
    """
    if "holdfast" not in text:
        return False
    bare = text.translate(_WITHOUT_QUOTES_AND_BLANKS)
    return "tool.holdfast" in bare or "[tool]" in bare or "\ntool=" in f"\n{bare}"


def parse_toml(text: str, path: str) -> dict[str, Any]:
    """The tree of a TOML file."""
    # Only where there is a file to read: it costs as much as a quarter of the start.
    import tomllib

    try:
        for number, line in enumerate(text.splitlines(), 1):
            if line.count(".") > MAX_DOTS:
                raise ValueError(f"line {number} has more than {MAX_DOTS} dots")  # noqa: TRY301 - one way out
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also for a number of thousands of digits
        raise InvalidInputError(
            f"{shown(path)} is not TOML: {error}",
            code=ErrorCode.BAD_CONFIG,
            hint='open the file, and write settings as color = "never", one a line',
            path=shown(path),
        ) from error


def section(file: ConfigFile) -> tuple[str, ...]:
    """Under which table of the file the settings stand."""
    return ("tool", "holdfast") if file.kind == "project" else ()


def shown(path: str) -> str:
    """A path as people know it: from here, where it is below."""
    try:
        near = os.path.relpath(path)
    except (OSError, ValueError):  # another drive, a folder that is gone, a NUL
        return path
    # At the top everything is below, and a path without its slash is one from nowhere.
    return path if near.startswith("..") or os.getcwd() == os.sep else near  # noqa: PTH109 - no pathlib at start


def _flat(tree: Any) -> Iterable[tuple[tuple[str, ...], Any]]:
    if not isinstance(tree, dict):
        return
    for name, value in tree.items():
        if isinstance(value, dict) and name in GROUPS:
            yield from (((name, inner), each) for inner, each in value.items())
        else:
            yield (name,), value


def _line(text: str, keys: tuple[str, ...]) -> int:
    from holdfast.settings.toml_editing import line_of

    return line_of(text, keys)


def _unknown(entry: Entry, file: ConfigFile) -> InvalidInputError:
    key, line = ".".join(entry.place), entry.line()
    near = close_names(key, entry.spellings)
    meant = did_you_mean(near)
    if not near:
        meant = "holdfast config lists the keys;"
    elif len(near) == 1 and _has_command(file):
        user = " --user" if file.kind == "user" else ""
        meant += f" holdfast config {near[0]} VALUE{user} sets it;"
    return InvalidInputError(
        f"unknown key {key!r:.60} in {shown(file.path)} line {line}",
        code=ErrorCode.BAD_CONFIG,
        hint=f"{meant} {_way_out(entry.place, file, line)}",
        candidates=near,
        path=shown(file.path),
        line=line,
    )


def _unfit(entry: Entry, file: ConfigFile) -> InvalidInputError:
    key, line = ".".join(entry.place), entry.line()
    assert entry.key is not None, "what is unknown is not looked at"
    wanted = SETTINGS[entry.key].kind.wanted
    return InvalidInputError(
        f"{key} in {shown(file.path)} line {line} has to be {wanted}, not {brief(entry.value)}",
        code=ErrorCode.BAD_CONFIG,
        hint=f"mend the line, {_way_out(entry.place, file, line)}",
        path=shown(file.path),
        line=line,
    )


def _has_command(file: ConfigFile) -> bool:
    """Whether `holdfast config` can change the file."""
    return file.kind in ("store", "user")


def _way_out(place: tuple[str, ...], file: ConfigFile, line: int) -> str:
    """How to take a key out of a file: a command, where there is one for that file and that key."""
    if not _has_command(file) or any("." in part or not part.isprintable() for part in place):
        return f"or take line {line} out of {shown(file.path)}"
    # Only where something is wrong.
    import shlex

    user = " --user" if file.kind == "user" else ""
    return f"or: holdfast config {shlex.quote('.'.join(place))} --unset{user} takes it out"
