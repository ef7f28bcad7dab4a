"""Where settings files are looked for. Small on purpose: every command asks, and mostly there are none.

The nearest wins: the file that somebody named, with an argument or with HOLDFAST_CONFIG; then `config.toml` beside the
store, then `[tool.holdfast]` in the nearest pyproject.toml, then the person's own `holdfast/config.toml` in
XDG_CONFIG_HOME.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

from holdfast.record import Record

FileKind = Literal["named", "store", "project", "user"]

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
