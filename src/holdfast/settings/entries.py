"""Entry: a value as it stands in a settings file, before it is checked; what the readers of both formats hand over."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from holdfast.record import Record
from holdfast.settings.keys import SETTINGS


class Entry(Record):
    """A value in a file."""

    place: tuple[str, ...]
    """The keys that lead to it, as the file spells them."""
    key: str | None
    """The setting that it is for, if there is one."""
    value: Any
    line: Callable[[], int]
    """Where it stands, from 1."""
    spellings: Iterable[str] = SETTINGS
    """What could have been written."""
