"""`Report`: what a call gives back, typed, with one way to become JSON data.

Every surface shows the same record: the command line prints `to_dict()` as JSON, and servers return it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Self


@dataclass(frozen=True)
class Report:
    """The base of every report. Subclasses are frozen dataclasses; a docstring under a field describes it."""

    computed: ClassVar[tuple[str, ...]] = ()
    """Properties that are part of the JSON form, after the fields."""
    states: ClassVar[tuple[str, ...]] = ()
    """Fields that hold values of a state: in JSON what JSON lacks becomes `{"$type": ..., "$value": ...}`."""

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON data, the same on every surface."""
        names = [field.name for field in fields(self)]
        return {
            name.removesuffix("_"): _state(getattr(self, name))
            if name in self.states
            else plain(getattr(self, name))
            for name in (*names, *self.computed)
        }

    def replace(self, **changes: Any) -> Self:
        """A copy with other values in some fields."""
        return replace(self, **changes)


def plain(value: Any) -> Any:
    """A value of a report as plain JSON data: records become objects, times ISO 8601 in UTC, tuples lists."""
    if value is None or isinstance(value, str | int | float):
        return value
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, datetime | timedelta):
        return iso(value) if isinstance(value, datetime) else value.total_seconds()
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    return [plain(each) for each in value]


def iso(moment: datetime) -> str:
    """A time as ISO 8601 in UTC, always with six digits of a second, so that texts sort as times do."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _state(value: Any) -> Any:
    from holdfast.objects.codec.tagged_json import json_form

    return json_form(value)
