"""Settings: everything that can be configured, as one typed value that does not change.

    an argument or option  >  HOLDFAST_*  >  the file that was named (--config, HOLDFAST_CONFIG)
        >  config.toml beside the store  >  [tool.holdfast] in pyproject.toml
        >  holdfast/config.toml in XDG_CONFIG_HOME  >  the default

Every value is checked where it is read, also one that a stronger place overrides. A variable that looks like one of
ours and is none is an error too: HOLDFAST_CHECKPOINT_MAXCOUNT=5 must not be passed over in silence.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

from holdfast.errors import ErrorCode, HoldfastError, InvalidInputError
from holdfast.record import Record
from holdfast.settings.files import ConfigFile, config_files, read_file
from holdfast.settings.keys import GROUPS, OTHER_VARIABLES, SETTINGS, Found, brief, parse, setting
from holdfast.settings.near import close_names, did_you_mean

if TYPE_CHECKING:
    from pathlib import Path

_GROUP_VARIABLES = tuple(f"HOLDFAST_{group.upper()}" for group in GROUPS)


class KeepSettings(Record):
    """The fields of `Keep`, as far as they were set."""

    last: int | None
    within: str | None
    hourly: int | Literal["all"] | None
    daily: int | Literal["all"] | None
    weekly: int | Literal["all"] | None
    monthly: int | Literal["all"] | None
    days: int | None
    manual: bool | None
    tags: tuple[str, ...] | None
    significant: bool | None
    at_most: int | None
    max_age_days: int | None
    per: Literal["session", "branch", "agent"] | None


class CheckpointSettings(Record):
    """When an agent saves by itself, and what is kept of it. None: not at all, or without a limit."""

    enabled: bool
    auto: bool
    interval_beats: int | None
    interval_steps: int | None
    interval_seconds: float | None
    max_count: int | None
    prune_after_days: int | None
    compress: bool
    export_dir: str | None


class HeartbeatSettings(Record):
    """How often a heartbeat beats, in seconds, and in which session; without one, in that of `Settings.session`."""

    min_interval: float
    max_interval: float
    session: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be configured, from arguments, variables and files; made by `Settings.load`.

    Attributes:
        session: The session.
        color: Colour for text that people read.
        pager: The pager for long output; empty for none.
        time: How tables show times.
        durability: What a save survives.
        keep: The fields of `Keep` that were set: last, within, hourly, daily, weekly, monthly, days, manual, tags,
            significant, at_most, max_age_days, per.
        checkpoint: When an agent saves by itself: enabled, auto, interval_beats, interval_steps, interval_seconds,
            max_count, prune_after_days, compress, export_dir.
        heartbeat: How often it beats: min_interval, max_interval, session.
    """

    session: str
    color: Literal["auto", "always", "never"]
    pager: str | None
    time: Literal["relative", "iso", "local"]
    durability: Literal["power", "process"]
    keep: KeepSettings
    checkpoint: CheckpointSettings
    heartbeat: HeartbeatSettings
    _found: Mapping[str, Found] = field(repr=False, compare=False)

    @classmethod
    def load(
        cls,
        config: str | Path | None = None,
        *,
        store: str | Path | None = None,
        environ: Mapping[str, str] | None = None,
        **arguments: Any,
    ) -> Self:
        """Read the settings: arguments win over variables, and those over files.

        Args:
            config: A settings file to read before all others: TOML if its name ends in .toml, YAML otherwise.
                Without one: HOLDFAST_CONFIG.
            store: The store whose `config.toml` counts; without one, that which `holdfast.open()` opens.
            environ: The variables; without them, those of the process.
            arguments: Values by key, a dot written as an underscore: `checkpoint_interval_beats=10`. None: not given.

        Raises:
            InvalidInputError: There is no such key, or the value does not fit (`bad-config`): the message names the
                file, the hint what was probably meant.
            UnsupportedError: The file is YAML, and PyYAML is not installed.
        """
        variables = os.environ if environ is None else environ
        files = config_files(
            None if store is None else os.fspath(store),
            None if config is None else os.fspath(config),
            variables,
        )
        found = resolve(_given(arguments), files, environ=variables)
        low, high = found["heartbeat.min_interval"], found["heartbeat.max_interval"]
        if low.value > high.value:
            raise InvalidInputError(
                f"heartbeat.min_interval is {low.value:g} ({low.origin}), more than heartbeat.max_interval, "
                f"which is {high.value:g} ({high.origin})",
                code=ErrorCode.BAD_CONFIG,
                hint="raise max_interval, or lower min_interval",
            )
        return cls(_found=found, **_typed(found))

    def origin(self, key: str) -> str:
        """Where the value of a key comes from: an argument, a variable, a file, or "default".

        Raises:
            InvalidInputError: There is no such key.
        """
        return self._found[setting(key).key].origin

    def to_dict(self) -> dict[str, Any]:
        """Every key with its value, as it was written."""
        return {key: each.value for key, each in self._found.items()}


def resolve(
    given: Mapping[str, Found],
    files: Iterable[ConfigFile],
    *,
    environ: Mapping[str, str] = os.environ,
    problems: list[HoldfastError] | None = None,
) -> dict[str, Found]:
    """Every setting with its value and its origin.

    Args:
        given: Those of the command line, or of a call.
        files: The places where settings may be, the strongest first.
        environ: The variables.
        problems: What is wrong in a file or a variable is put there, and the rest counts.

    Raises:
        InvalidInputError: A file or a variable cannot be used (`bad-config`).
        UnsupportedError: A YAML file was named, and nothing is installed that reads it.
    """
    found = {known.key: Found(known.default, "default") for known in SETTINGS.values()}
    for file in reversed(list(files)):
        if file.counts:
            found |= read_file(file, problems)
    for read in _of_variables(environ):
        if not isinstance(read, HoldfastError):
            found |= read
        elif problems is None:
            raise read
        else:
            problems.append(read)
    return found | dict(given)


def export_dir_setting(store: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """The value of `checkpoint.export_dir` for a store; None where nobody set it. For those who read nothing else."""
    # Each session asks, and a large pyproject.toml takes milliseconds to parse: first a look whether it says anything.
    files = [file for file in config_files(store, None, environ) if file.counts and file.mentions(b"export")]
    if not files and not any(name.endswith("EXPORT_DIR") for name in environ):
        return None
    value: str | None = resolve({}, files, environ=environ, problems=[])["checkpoint.export_dir"].value
    return None if value == "never" else value


def _of_variables(environ: Mapping[str, str]) -> Iterator[dict[str, Found] | HoldfastError]:
    """The setting of each variable, or what is wrong with it."""
    variables = {known.variable: known.key for known in SETTINGS.values()}
    for name, text in environ.items():
        if not name.startswith("HOLDFAST_"):
            continue
        key = variables.get(name.replace("_CHECKPOINTS_", "_CHECKPOINT_", 1))
        # The one variable for which being empty means something: no pager.
        if key is not None and (text or key == "pager"):
            try:
                yield {key: Found(parse(key, text, name), name)}
            except InvalidInputError as error:
                yield error
        elif text and key is None and name not in OTHER_VARIABLES:
            near = close_names(name, [*variables, *OTHER_VARIABLES])
            if near or name.startswith(_GROUP_VARIABLES):
                yield InvalidInputError(
                    f"there is no variable {name!r:.60}",
                    code=ErrorCode.BAD_CONFIG,
                    hint=did_you_mean(near) or f"unset {name:.60}; holdfast config lists the settings",
                    candidates=near,
                )


_GROUPS = {"keep": KeepSettings, "checkpoint": CheckpointSettings, "heartbeat": HeartbeatSettings}


def _typed(found: Mapping[str, Found]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    groups: dict[str, dict[str, Any]] = {name: {} for name in _GROUPS}
    for key, each in found.items():
        group, _, name = key.rpartition(".")
        value = each.value
        if isinstance(value, list):
            value = tuple(value)
        elif value is not None and value == SETTINGS[key].kind.nothing:
            value = None
        (groups[group] if group else fields)[name] = value
    return fields | {name: made(**groups[name]) for name, made in _GROUPS.items()}


def _given(arguments: Mapping[str, Any]) -> dict[str, Found]:
    known = {each.argument: each for each in SETTINGS.values()}
    given = {}
    for name, value in arguments.items():
        if name not in known:
            near = close_names(name, known)
            raise InvalidInputError(
                f"there is no setting {name!r:.60}",
                code=ErrorCode.BAD_CONFIG,
                hint=did_you_mean(near) or "help(holdfast.Settings) lists them",
                candidates=near,
            )
        kind = known[name].kind
        if value is not None:
            if not kind.fits(value):
                raise InvalidInputError(
                    f"{name} has to be {kind.wanted}, not {brief(value)}",
                    code=ErrorCode.BAD_CONFIG,
                    hint="pass another value, or leave the argument out",
                )
            given[known[name].key] = Found(value, "argument")
    return given
