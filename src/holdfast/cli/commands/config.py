"""`holdfast config`: show settings and where they come from, and change one of them.

It runs although a settings file is wrong, because it is what mends the file: setting and unsetting look only at the
file that they change.
"""

from __future__ import annotations

import os
from typing import Any

import click

from holdfast.cli.app import command as make_command
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import Column, data, document, json_text
from holdfast.cli.output import rows as write_rows
from holdfast.cli.terminal import escape_controls
from holdfast.errors import ErrorCode, HoldfastError, NotFoundError, UnsupportedError
from holdfast.settings.files import (
    ConfigFile,
    config_files,
    edited,
    read_text,
    shown,
    store_config,
    user_config,
    value_at,
)
from holdfast.settings.keys import SETTINGS, Found, parse, setting
from holdfast.settings.settings import resolve

HELP = """Show settings, or change one.

Without KEY all of them are shown; with VALUE the setting is written to the settings file of the store.

\b
Examples:
  holdfast config
  holdfast config --explain
  holdfast config color never
  holdfast config pager --user ""
"""


@make_command("config", HELP, settings=False)
@click.argument("key", required=False)
@click.argument("value", required=False)
@click.option("--unset", is_flag=True, help="Take KEY out of the file")
@click.option("--user", "own", is_flag=True, help="Your own settings file instead of the store's")
@click.option(
    "--explain", is_flag=True, help="Also where each value comes from, and which store is used and why"
)
@click.option("-n", "--dry-run", is_flag=True, help="Check everything, change nothing")
def command(
    cmd: Invocation,
    *,
    key: str | None,
    value: str | None,
    unset: bool,
    own: bool,
    explain: bool,
    dry_run: bool,
) -> None:
    """Show, set or unset."""
    changes = value is not None or unset
    if unset and (key is None or value is not None):
        raise click.UsageError("--unset takes a KEY and no VALUE")
    if changes and explain:
        raise click.UsageError("--explain shows settings and changes none")
    if (own or dry_run) and not changes:
        raise click.UsageError("--user and --dry-run go with a change: give KEY and VALUE, or KEY --unset")
    if key is not None and changes:
        _change(cmd, key, value, own=own, dry_run=dry_run)
    else:
        _show(cmd, key, explain=explain)


def _show(cmd: Invocation, key: str | None, *, explain: bool) -> None:
    files = config_files(cmd.store, cmd.config)
    given = {
        name: Found(getattr(cmd, name), origin) for name, origin in cmd.origins.items() if name in SETTINGS
    }
    problems: list[HoldfastError] = []
    # One value is asked for by scripts, which should not go on with a wrong one. Whoever looks at all of them may be
    # about to mend a file.
    lenient = key is None or explain
    found = resolve(given, files, problems=problems if lenient else None)
    if key is not None:
        found = {key: found[setting(key).key]}
    if cmd.json:
        _write_json(cmd, files, found, problems)
    elif key is not None and not explain:
        # One value, to be used in a script: nothing but the value.
        data(escape_controls(_text(found[key].value)))
    else:
        _write_rows(cmd, files, found, explain=explain)
    for problem in problems:
        cmd.say(escape_controls(str(problem)), label="wrong: ", style="red")
        cmd.say(escape_controls(problem.hint), label="hint: ", style="cyan")


def _write_rows(cmd: Invocation, files: list[ConfigFile], found: dict[str, Found], *, explain: bool) -> None:
    rows = [(key, _text(each.value), each.origin) for key, each in found.items()]
    if explain:
        target, origin, exists = _store(cmd)
        rows.insert(0, ("store", target, origin + ("" if exists else "; there is none yet")))
    columns = [
        Column("key", lambda row: row[0], width=40),
        Column("value", lambda row: row[1], width=60),
        *([Column("origin", lambda row: row[2], width=10_000)] if explain else []),
    ]
    write_rows(cmd, rows, columns)
    if explain:
        for file in files:
            cmd.say(escape_controls(shown(file.path)), label="read: " if file.exists else "looked for: ")


def _write_json(
    cmd: Invocation,
    files: list[ConfigFile],
    found: dict[str, Found],
    problems: list[HoldfastError],
) -> None:
    target, origin, exists = _store(cmd)
    document(
        {
            "store": {"target": target, "origin": origin, "exists": exists},
            "files": [{**file._asdict(), "exists": file.exists} for file in files],
            "settings": [
                {"key": key, **each._asdict(), "default": SETTINGS[key].default}
                for key, each in found.items()
            ],
            "change": None,
            "problems": [_wrong(each) for each in problems],
        }
    )


def _wrong(problem: HoldfastError) -> dict[str, Any]:
    return {"message": str(problem), "hint": problem.hint, "path": problem.details.get("path")}


def _store(cmd: Invocation) -> tuple[str, str, bool]:
    """The store that commands use from here, why that one, and whether it is there."""
    import holdfast

    origin = cmd.origins.get("store")
    try:
        with holdfast.open(cmd.store, create=False) as store:
            target, exists = store.url, True
    except NotFoundError as error:
        target, exists = cmd.store or str(error.details.get("path", "")), False
    if origin is None:
        near = os.path.join(os.getcwd(), ".holdfast")  # noqa: PTH109, PTH118 - as in settings/files.py
        origin = "in this folder" if near in target else "the nearest .holdfast upward"
    return target, origin, exists


def _change(cmd: Invocation, key: str, text: str | None, *, own: bool, dry_run: bool) -> None:
    file = ConfigFile(user_config(), "user") if own else _of_store(cmd)
    after = None if text is None else parse(key, text, "the command line")
    if after is not None:
        key = setting(key).key
    before_text = read_text(file) if file.exists else ""
    before = value_at(before_text, key, file.path)
    if text is None and before is None:
        raise NotFoundError(
            f"{shown(file.path)} does not set {key!r:.60}",
            code=ErrorCode.PATH_MISSING,
            hint="holdfast config --explain shows what is set, and where",
        )
    changed = edited(before_text, key, after)
    if not dry_run:
        _replace(file.path, changed)
    _tell(cmd, file, key, (before, after), dry_run=dry_run)


def _tell(cmd: Invocation, file: ConfigFile, key: str, change: tuple[Any, Any], *, dry_run: bool) -> None:
    before, after = change
    if cmd.json:
        target, origin, exists = _store(cmd)
        document(
            {
                "store": {"target": target, "origin": origin, "exists": exists},
                "files": [{**file._asdict(), "exists": file.exists}],
                "settings": [],
                "change": {
                    "key": key,
                    "before": before,
                    "after": after,
                    "path": file.path,
                    "dry_run": dry_run,
                },
                "problems": [],
            }
        )
        return
    what = f"{key}: {_text(before) or 'not set'} -> {_text(after) or 'not set'}"
    cmd.say(escape_controls(f"{what}, in {shown(file.path)}"))
    if dry_run:
        cmd.say("a dry run: nothing was changed")


def _of_store(cmd: Invocation) -> ConfigFile:
    path = store_config(cmd.store)
    if path is None and cmd.store:
        is_server = "://" in cmd.store.removeprefix("sqlite:///")
        raise UnsupportedError(
            "a store on a server has no settings file"
            if is_server
            else "only a store in a folder has a settings file",
            code=ErrorCode.NOT_SUPPORTED,
            hint="--user changes your own settings; those of a project stand in pyproject.toml, in [tool.holdfast]",
        )
    if path is None or not os.path.isdir(os.path.dirname(path)):  # noqa: PTH112, PTH120 - as in settings/files.py
        raise NotFoundError(
            "there is no store here whose settings could be changed",
            code=ErrorCode.STORE_MISSING,
            hint="holdfast init makes a store here; --user changes your own settings",
        )
    return ConfigFile(path, "store")


def _replace(path: str, text: str) -> None:
    """Write a file in the place of another: whoever reads sees the old one or the new one, never half of either."""
    folder = os.path.dirname(path) or "."  # noqa: PTH120 - as in settings/files.py
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    # Beside what a link leads to, so that a settings file kept elsewhere stays a link.
    path = os.path.realpath(path)
    growing = f"{path}.{os.getpid()}.tmp"
    mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o644  # noqa: PTH110, PTH116
    try:
        with open(os.open(growing, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as stream:  # noqa: PTH123
            stream.write(text.encode("utf-8"))
            stream.flush()
            # Before it takes the name: a power cut must not leave an empty settings file.
            os.fsync(stream.fileno())
        os.replace(growing, path)  # noqa: PTH105
    finally:
        if os.path.exists(growing):  # noqa: PTH110
            os.unlink(growing)  # noqa: PTH108


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ",".join(value)
    return value if isinstance(value, str) else json_text(value, indent=None)
