"""The settings that files and variables can give: their names, their types, and which one wins.

    an option  >  HOLDFAST_*  >  config.toml beside the store  >  [tool.holdfast] in pyproject.toml
               >  holdfast/config.toml in XDG_CONFIG_HOME  >  the default

Every value is checked where it is read. A key that nobody knows is an error that names the file, the line and the key
that was meant: a setting that is silently ignored is worse than none. This module does not know click.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from holdfast.cli._config_files import ConfigFile
from holdfast.cli._suggest import close_names, did_you_mean
from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.record import Record

MAX_BYTES = 1 << 20
"""A settings file is read at most so far: nobody writes a megabyte of settings."""


_WITHOUT_QUOTES_AND_BLANKS = dict.fromkeys(map(ord, "\"' \t"))


class Kind(Record):
    """A type of setting: what it is called, which values it takes, and how they are read from text."""

    wanted: str
    fits: Callable[[Any], bool]
    read: Callable[[str], Any]


class Setting(Record):
    """One key."""

    key: str
    kind: Kind
    default: Any
    about: str

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "HOLDFAST_" + self.key.upper().replace(".", "_")


class Found(Record):
    """The value of a setting, and where it comes from."""

    value: Any
    origin: str


def _choice(*words: str) -> Kind:
    return Kind(f"one of {', '.join(words)}", lambda value: value in words, str)


def _integer(text: str) -> Any:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else text


def _whole(value: Any) -> bool:
    return type(value) is int and value >= 1


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and item for item in value)


_TEXT = Kind("a text", lambda value: isinstance(value, str), str)
_NAME = Kind("a text that is not empty", lambda value: isinstance(value, str) and bool(value), str)
_COUNT = Kind("a whole number from 1", _whole, _integer)
_PERIODS = Kind('a whole number from 1, or "all"', lambda value: _whole(value) or value == "all", _integer)
_FLAG = Kind(
    "true or false",
    lambda value: isinstance(value, bool),
    lambda text: {"true": True, "false": False}.get(text, text),
)
_LIST = Kind(
    "a list of texts", _texts, lambda text: [part.strip() for part in text.split(",") if part.strip()]
)

_ALL = [
    Setting("session", _NAME, "default", "The session"),
    Setting("color", _choice("auto", "always", "never"), "auto", "Colour for text that people read"),
    Setting("pager", _TEXT, None, "The pager for long output; empty for none"),
    Setting("time", _choice("relative", "iso", "local"), "relative", "How tables show times"),
    Setting("durability", _choice("power", "process"), "power", "What a save survives"),
    Setting("keep.last", _COUNT, None, "Automatic retention: the newest so many"),
    Setting("keep.within", _NAME, None, "Everything younger than 90s, 30m, 1h, 2d or 1w"),
    Setting("keep.hourly", _PERIODS, None, "One for each hour"),
    Setting("keep.daily", _PERIODS, None, "One for each day"),
    Setting("keep.weekly", _PERIODS, None, "One for each week"),
    Setting("keep.monthly", _PERIODS, None, "One for each month"),
    Setting("keep.days", _COUNT, None, "Everything younger than so many days"),
    Setting("keep.manual", _FLAG, None, "What somebody asked for"),
    Setting("keep.tags", _LIST, None, "What has any of these tags"),
    Setting("keep.significant", _FLAG, None, "What is tagged as significant"),
    Setting("keep.at_most", _COUNT, None, "A cap: never more than so many"),
    Setting("keep.max_age_days", _COUNT, None, "A cap: nothing older than so many days"),
    Setting("keep.per", _choice("session", "branch", "agent"), None, "What the numbers count in"),
]
SETTINGS = {setting.key: setting for setting in _ALL}
"""Every key there is."""


def setting(key: str) -> Setting:
    """The setting of that name.

    Raises:
        InvalidInputError: There is none; the hint has the near one.
    """
    found = SETTINGS.get(key)
    if found is None:
        near = close_names(key, SETTINGS)
        raise InvalidInputError(
            f"there is no setting {key!r:.60}",
            code=ErrorCode.BAD_CONFIG,
            hint=did_you_mean(near) or "holdfast config lists them",
            candidates=near,
        )
    return found


def parse(key: str, text: str, where: str) -> Any:
    """The value of a setting from text: a variable, or a word on the command line."""
    known = setting(key)
    value = known.kind.read(text)
    if not known.kind.fits(value):
        raise InvalidInputError(
            f"{where}: {key} has to be {known.kind.wanted}, not {text!r:.60}",
            code=ErrorCode.BAD_CONFIG,
            hint=f"holdfast config --explain {key} shows what is set, and where",
        )
    return value


def resolve(
    given: Mapping[str, Found],
    files: Iterable[ConfigFile],
    *,
    lines: bool = False,
    problems: list[InvalidInputError] | None = None,
) -> dict[str, Found]:
    """Every setting with its value and its origin; `given` are those of the command line.

    `lines` also says on which line of a file each one stands, which takes another look at the file. With `problems`
    what is wrong in a file is put there, and the rest of the file counts.

    Raises:
        InvalidInputError: A file or a variable cannot be used (`bad-config`).
    """
    found = {known.key: Found(known.default, "default") for known in _ALL}
    for file in reversed(list(files)):
        if file.exists:
            found |= read_file(file, lines=lines, problems=problems)
    for known in _ALL:
        if text := os.environ.get(known.variable):
            found[known.key] = Found(parse(known.key, text, known.variable), known.variable)
    # The one variable for which being empty means something: no pager.
    if os.environ.get("HOLDFAST_PAGER") == "":
        found["pager"] = Found("", "HOLDFAST_PAGER")
    return found | dict(given)


def read_file(
    file: ConfigFile, *, lines: bool = False, problems: list[InvalidInputError] | None = None
) -> dict[str, Found]:
    """The settings of one file; see `resolve` for `lines` and `problems`.

    Raises:
        InvalidInputError: It is not TOML, has a key that nobody knows, or a value of another type.
    """
    found: dict[str, Found] = {}
    try:
        text = read_text(file)
        if file.kind == "project" and not _has_our_table(text):
            return {}  # somebody else's file, whatever is in it
        tree: Any = parse_toml(text, file.path)
    except InvalidInputError as error:
        if problems is None:
            raise
        problems.append(error)
        return {}
    prefix = section(file)
    for key in prefix:
        tree = tree.get(key, {}) if isinstance(tree, dict) else {}
    for place, value in _flat(tree):
        try:
            found |= _checked(file, text, place, value, lines=lines)
        except InvalidInputError as error:
            if problems is None:
                raise
            problems.append(error)
    return found


def _checked(
    file: ConfigFile, text: str, place: tuple[str, ...], value: Any, *, lines: bool
) -> dict[str, Found]:
    key, keys = ".".join(place), (*section(file), *place)
    if key not in SETTINGS:
        raise _unknown(place, file, _line(text, keys))
    if not SETTINGS[key].kind.fits(value):
        raise _unfit(place, value, file, _line(text, keys))
    line = f" line {_line(text, keys)}" if lines else ""
    return {key: Found(value, shown(file.path) + line)}


def read_text(file: ConfigFile) -> str:
    """The text of a settings file."""
    try:
        with open(file.path, "rb") as stream:  # noqa: PTH123 - no pathlib at start
            return stream.read(MAX_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        why: object = f"not UTF-8 (byte 0x{error.object[error.start]:02x})"
        cause: Exception = error
    except OSError as error:
        why, cause = error.strerror or error, error
    raise InvalidInputError(
        f"{shown(file.path)} cannot be read: {why}",
        code=ErrorCode.BAD_CONFIG,
        hint="mend the file, or move it away",
        path=shown(file.path),
    ) from cause


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
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
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
    except ValueError:  # another drive
        return path
    # At the top everything is below, and a path without its slash is one from nowhere.
    return path if near.startswith("..") or os.getcwd() == os.sep else near  # noqa: PTH109 - no pathlib at start


def _flat(tree: Any) -> Iterable[tuple[tuple[str, ...], Any]]:
    if not isinstance(tree, dict):
        return
    for name, value in tree.items():
        if isinstance(value, dict) and any(known.startswith(f"{name}.") for known in SETTINGS):
            yield from (((name, inner), each) for inner, each in value.items())
        else:
            yield (name,), value


def _line(text: str, keys: tuple[str, ...]) -> int:
    from holdfast.cli._toml import line_of

    return line_of(text, keys)


def _unknown(place: tuple[str, ...], file: ConfigFile, line: int) -> InvalidInputError:
    key = ".".join(place)
    near = close_names(key, SETTINGS)
    meant = did_you_mean(near)
    if not near:
        meant = "holdfast config lists the keys;"
    elif len(near) == 1 and file.kind != "project":
        user = " --user" if file.kind == "user" else ""
        meant += f" holdfast config {near[0]} VALUE{user} sets it;"
    return InvalidInputError(
        f"unknown key {key!r:.60} in {shown(file.path)} line {line}",
        code=ErrorCode.BAD_CONFIG,
        hint=f"{meant} {_way_out(place, file, line)}".strip(),
        candidates=near,
        path=shown(file.path),
        line=line,
    )


def _unfit(place: tuple[str, ...], value: Any, file: ConfigFile, line: int) -> InvalidInputError:
    key = ".".join(place)
    return InvalidInputError(
        f"{key} in {shown(file.path)} line {line} has to be {SETTINGS[key].kind.wanted}, not {value!r:.60}",
        code=ErrorCode.BAD_CONFIG,
        hint=f"mend the line, or: {_way_out(place, file, line)}",
        path=shown(file.path),
        line=line,
    )


def _way_out(place: tuple[str, ...], file: ConfigFile, line: int) -> str:
    """How to take a key out of a file: a command, where there is one for that file and that key."""
    if file.kind == "project" or any("." in part or not part.isprintable() for part in place):
        return f"write that, or take line {line} out of {shown(file.path)}"
    # Only where something is wrong.
    import shlex

    user = " --user" if file.kind == "user" else ""
    return f"holdfast config {shlex.quote('.'.join(place))} --unset{user} takes it out"
