"""What becomes of the parts of a list, and which changes of both sides touch each other.

A change to an item and what was put beside it are one change where nobody can tell them apart: a plain value has
nothing to be known by, so that `b` that became `t1, t2` may have been changed and added to, or replaced. Where the
other side changed `b` too, all of it is one conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from holdfast.record import Record


class Entry(Record):
    """One item of the result: where it is in each of the three, as far as it is there."""

    base: int | None
    ours: int | None
    theirs: int | None


class Stretch(Record):
    """Items on which both sides disagree: where they begin and end in each of the three."""

    base: tuple[int, int]
    ours: tuple[int, int]
    theirs: tuple[int, int]


class Appended(Record):
    """What both added at the end of the list: where that begins on both sides."""

    ours: int
    theirs: int


class Contact(Record):
    """Items that both changed, and what one of them put beside these."""

    outcomes: list[Entry | Stretch | Appended]
    """What becomes of them if the items can be merged."""
    stretch: Stretch
    """All of it: the conflict if one of the items cannot."""


Outcome = Entry | Stretch | Appended | Contact


class Part(Record):
    """A piece of the list, and what becomes of it."""

    where: Stretch
    outcomes: list[Entry | Stretch | Appended]
    bond: Literal["changed", "put", ""] = ""
    """`changed` for an item that both changed, `put` for what was put between two items: beside each other these are
    one."""


def joined(parts: Iterable[Part]) -> Iterator[Outcome]:
    """What becomes of parts that follow each other, those that touch as one."""
    touching: list[Part] = []
    for part in parts:
        if touching and {touching[-1].bond, part.bond} != {"changed", "put"}:
            yield from _as_one(touching)
            touching = []
        touching.append(part)
    if touching:
        yield from _as_one(touching)


def _as_one(parts: list[Part]) -> Iterator[Outcome]:
    outcomes = [outcome for part in parts for outcome in part.outcomes]
    if len(parts) == 1:
        yield from outcomes
        return
    ends = zip(parts[0].where, parts[-1].where, strict=True)
    yield Contact(outcomes, Stretch(*((first[0], last[1]) for first, last in ends)))
