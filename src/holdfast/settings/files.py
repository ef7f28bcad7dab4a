"""Settings files: where they are, what is in them, and changing one value of a TOML file.

The nearest wins: the file that somebody named, with an argument or with HOLDFAST_CONFIG; then `config.toml` beside the
store, then `[tool.holdfast]` in the nearest pyproject.toml, then the person's own `holdfast/config.toml` in
XDG_CONFIG_HOME. A key that nobody knows is an error with a suggestion: a setting that is silently ignored is worse than
none. Only a file that was named may hold keys of the application beside ours.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from holdfast.errors import ErrorCode, HoldfastError, InvalidInputError, UnsupportedError
from holdfast.record import Record
from holdfast.settings.keys import GROUPS, SETTINGS, SYNONYMS, Found, brief
from holdfast.settings.near import close_names, did_you_mean

FileKind = Literal["named", "store", "project", "user"]
Place = tuple[str, ...]
"""The keys that lead to a value, as the file spells them."""

MAX_BYTES = 64 << 10
"""All settings there are take three kilobytes. PyYAML reads about 100 KB in a second."""

MAX_PROJECT_BYTES = 1 << 20
"""A pyproject.toml holds more than our settings."""

MAX_DOTS = 200
"""In one line of TOML: the standard library takes the square of that to read a key."""

MOST_PROBLEMS = 20
"""So many in one file are told; a file with more of them is something else."""

_STORE_FILE = "store.db"


class ConfigFile(Record):
    """A place where settings may be."""

    path: str
    kind: FileKind

    @property
    def exists(self) -> bool:
        """Whether there is a file."""
        return os.path.isfile(self.path)  # noqa: PTH113 - no pathlib at start

    @property
    def counts(self) -> bool:
        """Whether it is to be read: somebody who names a file means it, and has to hear that it is not there."""
        return self.kind == "named" or self.exists

    def mentions(self, word: bytes) -> bool:
        """Whether the word is in it; also true where it cannot be read, and whoever reads it hears why."""
        try:
            with open(self.path, "rb") as file:  # noqa: PTH123 - no pathlib at start
                return word in file.read(MAX_PROJECT_BYTES + 1)
        except OSError:
            return True


def config_files(
    target: str | None, named: str | None = None, environ: Mapping[str, str] = os.environ
) -> list[ConfigFile]:
    """The places where settings may be, the strongest first.

    Args:
        target: The store that was asked for, if one was.
        named: The settings file that was asked for, if one was.
        environ: The variables.
    """
    places = []
    if named := named or environ.get("HOLDFAST_CONFIG"):
        places.append(ConfigFile(os.path.expanduser(named), "named"))  # noqa: PTH111 - no pathlib at start
    if store := store_config(target, environ):
        places.append(ConfigFile(store, "store"))
    if project := nearest("pyproject.toml"):
        places.append(ConfigFile(project, "project"))
    return [*places, ConfigFile(user_config(environ), "user")]


def store_config(target: str | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """The settings file of a store: beside `store.db`. A store that is a file of another name has none of its own."""
    target = target or environ.get("HOLDFAST_STORE")
    if not target:
        folder = nearest(".holdfast")
        return None if folder is None else os.path.join(folder, "config.toml")  # noqa: PTH118 - no pathlib at start
    path = os.path.expanduser(target.removeprefix("sqlite:///"))  # noqa: PTH111
    if "://" in path or path.startswith("memory:") or "\0" in path:
        return None
    if os.path.basename(path) == _STORE_FILE:  # noqa: PTH119
        path = os.path.dirname(path) or "."  # noqa: PTH120
    elif os.path.isfile(path) or os.path.splitext(path)[1].lower() in (".db", ".sqlite", ".sqlite3"):  # noqa: PTH113, PTH122
        return None
    return os.path.join(path, "config.toml")  # noqa: PTH118


def user_config(environ: Mapping[str, str] = os.environ) -> str:
    """The person's own settings file."""
    folder = environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    return os.path.join(folder, "holdfast", "config.toml")  # noqa: PTH118


def nearest(name: str) -> str | None:
    """The first folder or file of that name from here upward, as far as the home folder and the file system go."""
    try:
        here = os.getcwd()  # noqa: PTH109
        device, home = os.stat(here).st_dev, os.path.expanduser("~")  # noqa: PTH111, PTH116
        while os.stat(here).st_dev == device:  # noqa: PTH116
            if os.path.exists(found := os.path.join(here, name)):  # noqa: PTH110, PTH118
                return found
            above = os.path.dirname(here)  # noqa: PTH120
            if here in (above, home):
                break
            here = above
    except OSError:  # a folder that was removed under us, or that may not be looked into
        return None
    return None


def shown(path: str) -> str:
    """A path as people know it: from here, where it is below."""
    try:
        near = os.path.relpath(path)
    except (OSError, ValueError):  # another drive, a folder that is gone, a NUL
        return path
    # At the top everything is below, and a path without its slash is one from nowhere.
    return path if near.startswith("..") or os.getcwd() == os.sep else near  # noqa: PTH109 - no pathlib at start


def read_file(file: ConfigFile, problems: list[HoldfastError] | None = None) -> dict[str, Found]:
    """The settings of one file, by key.

    Args:
        file: Which.
        problems: What is wrong is put there, and the rest counts; without it, the first one is raised.

    Raises:
        InvalidInputError: It cannot be read, has a key that nobody knows, or a value of another type (`bad-config`).
        UnsupportedError: It is YAML, and nothing is installed that reads it.
    """
    found: dict[str, Found] = {}
    told: list[HoldfastError] = []
    try:
        for place, value in _leaves(_settings_in(file), ()):
            try:
                if key := _checked(file, place, value, found):
                    found[key] = Found(value, shown(file.path))
            except InvalidInputError as error:
                told.append(error)
                if problems is None or len(told) == MOST_PROBLEMS:
                    break
    except HoldfastError as error:
        told.append(error)
    if told and problems is None:
        raise told[0]
    if problems is not None:
        problems += told
    return found


def read_text(file: ConfigFile) -> str:
    """The text of a settings file."""
    limit = MAX_PROJECT_BYTES if file.kind == "project" else MAX_BYTES
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
    named = "name another one with --config or HOLDFAST_CONFIG"
    raise _refused(
        f"{shown(file.path)} cannot be read: {why}",
        f"mend the file, or {named if file.kind == 'named' else 'move it away'}",
        file,
    ) from cause


def value_at(text: str, key: str, path: str) -> Any:
    """The value of a key in a TOML text; None where there is none (TOML has no null)."""
    tree: Any = _parse_toml(text, ConfigFile(path, "store"))
    for part in key.split("."):
        if not isinstance(tree, dict) or part not in tree:
            return None
        tree = tree[part]
    return tree


def edited(text: str, key: str, value: Any | None) -> str:
    """A TOML text with another value under a key, or without it (None); comments and everything else stay."""
    import tomlkit

    document = tomlkit.parse(text)
    *groups, name = key.split(".")
    here: Any = document
    for group in groups:
        here = here.setdefault(group, tomlkit.table())
    if value is None:
        del here[name]
        if groups and not here:
            del document[groups[0]]
    else:
        here[name] = value
    return tomlkit.dumps(document)


def _settings_in(file: ConfigFile) -> dict[str, Any]:
    """What stands in a file, under the table that is ours."""
    text = read_text(file)
    if file.kind == "named" and not file.path.lower().endswith(".toml"):
        return _parse_yaml(text, file)
    if file.kind != "project":
        return _parse_toml(text, file)
    if not re.search(r"tool.*holdfast|^\s*holdfast", text, re.MULTILINE):
        return {}  # most projects name us among what they need, and set nothing
    tools = _parse_toml(text, file).get("tool")
    ours = tools.get("holdfast") if isinstance(tools, dict) else None
    return ours if isinstance(ours, dict) else {}


def _parse_toml(text: str, file: ConfigFile) -> dict[str, Any]:
    import tomllib

    try:
        if any(line.count(".") > MAX_DOTS for line in text.splitlines()):
            raise ValueError(f"a line has more than {MAX_DOTS} dots")  # noqa: TRY301 - one way out
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also for a number of thousands of digits
        raise _refused(
            f"{shown(file.path)} is not TOML: {error}",
            'open the file, and write settings as color = "never", one a line',
            file,
        ) from error


def _parse_yaml(text: str, file: ConfigFile) -> dict[str, Any]:
    """The tree of a YAML file that is not trusted: no aliases (a kilobyte that becomes a gigabyte), no key twice."""
    try:
        import yaml
    except ImportError as error:
        raise UnsupportedError(
            f"{shown(file.path)} is YAML, and PyYAML, which reads it, is not installed",
            code=ErrorCode.NOT_SUPPORTED,
            hint="pip install 'holdfast[yaml]', or write the settings into a file that ends in .toml",
            path=shown(file.path),
        ) from error

    class Loader(yaml.SafeLoader):
        def compose_node(self, parent: Any, index: Any) -> Any:
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
                raise yaml.YAMLError("it has an anchor or an alias (& or *)")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - as it is there
            names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            if twice := {name for name in names if names.count(name) > 1}:
                raise yaml.YAMLError(f"it has the key {min(twice)!r:.60} twice")
            return super().construct_mapping(node, deep)

    try:
        tree = yaml.load(text, Loader)  # noqa: S506 - a SafeLoader that refuses more
    except (yaml.YAMLError, ValueError, OverflowError, TypeError, RecursionError) as error:
        why = " ".join(str(error).split())
        raise _refused(
            f"{shown(file.path)} is not YAML that can be read: {why:.300}",
            "mend it; a text with : or # in it needs quotes",
            file,
        ) from error
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise _refused(
            f"{shown(file.path)} is not made of keys and values", "write settings as  session: mine", file
        )
    return tree


def _leaves(tree: Mapping[Any, Any], place: Place) -> Iterator[tuple[Place, Any]]:
    for name, value in tree.items():
        here = (*place, str(name))
        is_group = here == ("agent",) or _key_of((*here, "")).count(".") == 1
        if is_group and isinstance(value, dict):
            yield from _leaves(value, here)
        elif not (is_group and value is None):  # a group of which nothing but comments is left
            yield here, value


def _key_of(place: Place) -> str:
    """The key that a place means: `agent.checkpoints.maxCount` is `checkpoint.max_count`."""
    names = [re.sub("([A-Z])", lambda match: f"_{match[1].lower()}", name) for name in place]
    if names[0] == "agent" and len(names) > 1 and names[1] in ("checkpoints", "heartbeat"):
        names = names[1:]
    if names[0] == "checkpoints":
        names[0] = "checkpoint"
    key = ".".join(names)
    if len(names) > 1 and names[0] not in GROUPS:
        return key.replace(".", "/")  # of somebody else
    return SYNONYMS.get(key, key)


def _checked(file: ConfigFile, place: Place, value: Any, found: Mapping[str, Found]) -> str | None:
    """The key of a value that fits; None where it is none of ours."""
    key, written = _key_of(place), ".".join(place)
    known = SETTINGS.get(key)
    if known is None:
        near = _meant(place)
        if file.kind == "named" and not near and place[0] not in GROUPS and "." not in key:
            return None  # the application's own
        hint = did_you_mean(near) or "holdfast config lists the keys;"
        raise _refused(
            f"unknown key {written!r:.60} in {shown(file.path)}",
            f"{hint} {_way_out(file, written)}",
            file,
            near,
        )
    if key in found:
        raise _refused(
            f"{shown(file.path)} sets {key} twice, once as {written}", "take one of them out", file
        )
    if not known.kind.fits(value):
        raise _refused(
            f"{written} in {shown(file.path)} has to be {known.kind.wanted}, not {brief(value)}",
            f"mend it, {_way_out(file, written)}",
            file,
        )
    return key


def _meant(place: Place) -> list[str]:
    """What was probably meant, in the spelling of the file."""
    *group, name = place
    prefix = "".join(f"{each}." for each in group)
    key = _key_of((*group, "")) if group else ""
    fields = [each.removeprefix(key) for each in (*SETTINGS, *SYNONYMS) if each.startswith(key)]
    if group == ["agent"]:
        fields = ["checkpoints", "heartbeat"]
    spelled = [*fields, *(re.sub("_([a-z])", lambda match: match[1].upper(), each) for each in fields)]
    names = [*spelled, *(() if group else (*GROUPS, "checkpoints", "agent"))]
    return [f"{prefix}{each}" for each in dict.fromkeys(close_names(name, names))]


def _way_out(file: ConfigFile, written: str) -> str:
    """How to take a key out of a file: a command, where there is one for that file."""
    if file.kind not in ("store", "user") or not written.isprintable():
        return f"or take it out of {shown(file.path)}"
    import shlex

    return f"or: holdfast config {shlex.quote(written)} --unset{' --user' * (file.kind == 'user')}"


def _refused(message: str, hint: str, file: ConfigFile, near: list[str] | None = None) -> InvalidInputError:
    return InvalidInputError(
        message, code=ErrorCode.BAD_CONFIG, hint=hint, candidates=near or [], path=shown(file.path)
    )
