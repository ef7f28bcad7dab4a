"""Settings: everything that can be configured, as one typed value that does not change.

It says what is wanted and where that was said; what to do about it is the business of those who are given it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.record import Record
from holdfast.settings.files import config_files
from holdfast.settings.keys import SETTINGS, Found, brief, setting
from holdfast.settings.near import close_names, did_you_mean
from holdfast.settings.resolving import resolve

if TYPE_CHECKING:
    from pathlib import Path


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
            max_count, prune_after_days, compress.
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
                file and the line, the hint what was probably meant.
            UnsupportedError: The file is YAML, and PyYAML is not installed.
        """
        variables = os.environ if environ is None else environ
        files = config_files(
            None if store is None else os.fspath(store),
            None if config is None else os.fspath(config),
            variables,
        )
        found = resolve(_given(arguments), files, environ=variables, lines=True)
        _check_heartbeat(found)
        return cls(_found=found, **_typed(found))

    def origin(self, key: str) -> str:
        """Where the value of a key comes from: an argument, a variable, a file with its line, or "default".

        Raises:
            InvalidInputError: There is no such key.
        """
        return self._found[setting(key).key].origin

    def to_dict(self) -> dict[str, Any]:
        """Every key with its value, as it was written."""
        return {key: each.value for key, each in self._found.items()}


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


def _check_heartbeat(found: Mapping[str, Found]) -> None:
    low, high = found["heartbeat.min_interval"], found["heartbeat.max_interval"]
    if low.value > high.value:
        raise InvalidInputError(
            f"heartbeat.min_interval is {low.value:g} ({low.origin}), more than heartbeat.max_interval, "
            f"which is {high.value:g} ({high.origin})",
            code=ErrorCode.BAD_CONFIG,
            hint="raise max_interval, or lower min_interval",
        )
