"""Diff: the changes between two states, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.objects.diffing.change import Change, Inherited, PathStep, path_text
from holdfast.objects.diffing.patch import Fetch, Operation, operations
from holdfast.objects.tagged import json_form
from holdfast.record import Record


class PartStat(Record):
    """How many changes there are in one part of a state."""

    path: str
    added: int
    removed: int
    replaced: int
    moved: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.added + self.removed + self.replaced + self.moved


class DiffStat(Record):
    """How many changes there are, in all and in each part of the state that has some."""

    total: PartStat
    parts: tuple[PartStat, ...]

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {**_plain(self.total, path=False), "parts": [_plain(part, path=True) for part in self.parts]}


class Diff:
    """What differs between two states. It is false where nothing does: exactly where their roots are equal.

    `changes` has each difference, in the order of the new state. `depth` says how many steps lead to the part that was
    compared; none where it was the whole state.
    """

    __slots__ = ("_fetch", "changes", "depth")

    def __init__(self, changes: Iterable[Change], fetch: Fetch | None = None, depth: int = 0) -> None:
        self.changes = tuple(changes)
        self.depth = depth
        self._fetch = fetch or _nothing_more

    def summary(self, width: int = 80) -> str:
        """What changed, in one line for people: `+2 messages, score 0.41 to 0.63`; empty where nothing did."""
        # For people only: programs that read changes never need it.
        from holdfast.objects.diffing.summary import summary_of

        return summary_of(self.changes, width)

    def stat(self) -> DiffStat:
        """How many changes there are, in all and in each part of the state."""
        counted: dict[tuple[PathStep, ...], list[int]] = {}
        beginnings: Inherited[tuple[PathStep, ...]] = Inherited(
            (), lambda steps, place: steps if len(steps) > self.depth else (*steps, place.step)
        )
        for change in self.changes:
            part = counted.setdefault(beginnings.of(change.place), [0, 0, 0, 0])
            part[_COLUMNS[change.op]] += 1
        parts = tuple(PartStat(path_text(steps), *counts) for steps, counts in counted.items())
        total = (
            PartStat("", *map(sum, zip(*counted.values(), strict=True)))
            if counted
            else PartStat("", 0, 0, 0, 0)
        )
        return DiffStat(total, parts)

    def json_patch(self) -> list[dict[str, Any]]:
        """The changes as a JSON patch (RFC 6902), as plain data.

        It makes the old state the new one, both in their JSON form, which `Store.json_form` gives. For a state of
        nothing but what JSON has, that form is the state itself. The order of keys is not part of JSON: a diff that has
        only moved keys gives an empty patch. Where long texts changed they are read now, from the store.
        """
        return [json_form(each.described()) for each in self.operations()]

    def operations(self) -> Iterator[Operation]:
        """The operations of `json_patch`, one by one, with values that are not in their JSON form yet."""
        return operations(self.changes, self.depth, self._fetch)

    def to_dict(self) -> dict[str, Any]:
        """The changes as plain data for JSON; values in tagged JSON."""
        return {
            "summary": self.summary(),
            "stat": self.stat().to_dict(),
            "changes": [json_form(change.described()) for change in self.changes],
        }

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __len__(self) -> int:
        return len(self.changes)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __repr__(self) -> str:
        return f"<Diff {self.summary(70) or 'nothing changed'}>"


def _nothing_more(steps: tuple[PathStep, ...]) -> Any:
    raise AssertionError(f"whole values have no more to read: {path_text(steps)}")


_COLUMNS = {"add": 0, "remove": 1, "replace": 2, "move": 3}


def _plain(part: PartStat, *, path: bool) -> dict[str, Any]:
    made = part._asdict()
    return made if path else {name: count for name, count in made.items() if name != "path"}
