"""States that lie so deep that their trees end above what differs: diff, merge and label go on below.

Lists and dicts with 32 nodes above them are stored as bytes, cut without regard to what is in them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast import Opaque

AROUND: dict[str, Callable[[Any], Any]] = {
    "dicts": lambda value: {"k": value, "n": 0},
    "lists": lambda value: [0, value],
    "objects": lambda value: Opaque("Box", 1, {"k": [value], "n": 0}),
    "tuples": lambda value: {"k": (value, 0)},
    "dicts that say type": lambda value: {"$type": "x", "k": value},
}


def nested(name: str, depth: int, value: Any) -> Any:
    for _ in range(depth):
        value = AROUND[name](value)
    return value


BASE = [f"{'x' * 40}{number}" for number in range(500)]
OURS = [*BASE[:5], "ours", *BASE[6:]]
THEIRS = [*BASE[:-5], "theirs", *BASE[-4:]]
BOTH = [*OURS[:-5], *THEIRS[-5:]]


@pytest.mark.parametrize("depth", [31, 36, 90])
@pytest.mark.parametrize("name", AROUND)
def test_two_lines_that_part_very_deep_are_compared_and_merged(name, depth):
    with holdfast.open("memory:") as store:
        session = store.session("s")
        session.save(nested(name, depth, BASE))
        other = session.fork("@", "other")
        session.save(nested(name, depth, OURS))
        other.save(nested(name, depth, THEIRS))

        changes = session.diff("main", "other").changes
        assert [(change.op, change.steps[-1].key) for change in changes] == [("replace", 5), ("replace", 495)]
        assert [(change.old, change.new) for change in changes] == [("ours", BASE[5]), (BASE[495], "theirs")]

        report = session.merge("other")
        assert not report.conflicts
        assert session.load() == nested(name, depth, BOTH)
        # Its name is what it changed.
        assert "edited" in session.label("@~1")
