"""Branches beside those that are there: what comes in for `main` where that is taken gets `main-1`, or the next one.

The numbers say which branches may be one of these, when more comes in for the same name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from holdfast.history.names import MAX_NAME
from holdfast.storage.records import CheckpointId

_ROOM: Final = 16
"""Characters that a number after a name may take."""
_NUMBERED: Final = re.compile(r"(?P<stem>.+)(?P<number>-[1-9][0-9]*)", re.DOTALL)


def free_names(wanted: Iterable[tuple[str, CheckpointId]], taken: set[str]) -> dict[str, CheckpointId]:
    """New branches for what is new; none that is there is touched."""
    numbers: dict[str, int] = {}
    return {free_name(name, taken, numbers): head for name, head in wanted}


def free_name(name: str, taken: set[str], numbers: dict[str, int]) -> str:
    """The name, or the next one with a number that is free; it is taken then."""
    free, stem = name, name[: MAX_NAME - _ROOM]
    while free in taken:
        # Counted on from the last one: thousands may want the same name.
        numbers[stem] = number = numbers.get(stem, 0) + 1
        suffix = f"-{number}"
        free = name[: MAX_NAME - len(suffix)] + suffix
    taken.add(free)
    return free


def is_beside(branch: str, name: str) -> bool:
    """Whether a branch is called as one that was made because `name` was taken."""
    found = _NUMBERED.fullmatch(branch)
    return found is not None and found["stem"] == name[: MAX_NAME - len(found["number"])]
