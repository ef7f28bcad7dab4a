"""Diff: the changes between two states, for people and for programs; and how it is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.objects.codec.encode import encode_value
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.codec.state_path import PathStep, missing, parse_path, path_text
from holdfast.objects.codec.tagged_json import json_form
from holdfast.objects.diff.change import Change, Place
from holdfast.objects.diff.compare import Comparison
from holdfast.objects.diff.encoded_value import Encoded
from holdfast.objects.diff.json_patch import make_patch
from holdfast.objects.diff.location import Location, locate, open_state
from holdfast.objects.tree.nodes import MalformedNodeError
from holdfast.objects.tree.read import Read, not_a_state, read_chunks
from holdfast.record import Record
from holdfast.storage.records import ChunkHash


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
        total = self.total._asdict()
        del total["path"]
        return {**total, "parts": [part._asdict() for part in self.parts]}


class Diff:
    """What differs between two states. It is false where nothing does: exactly where their roots are equal.

    `changes` has each difference, in the order of the new state. `depth` says how many steps lead to the part that was
    compared; none where it was the whole state.
    """

    __slots__ = ("changes", "depth")

    def __init__(self, changes: Iterable[Change], depth: int = 0) -> None:
        self.changes = tuple(changes)
        self.depth = depth

    def summary(self, width: int = 80) -> str:
        """What changed, in one line for people: `+2 messages, score 0.41 to 0.63`; empty where nothing did."""
        # For people only: programs that read changes never need it.
        from holdfast.objects.diff.summary import summary_of

        return summary_of(self.changes, width)

    def stat(self) -> DiffStat:
        """How many changes there are, in all and in each part of the state."""
        counted: dict[tuple[PathStep, ...], list[int]] = {}
        for change in self.changes:
            steps = tuple(place.step for place in change.place.chain()[: self.depth + 1])
            counted.setdefault(steps, [0, 0, 0, 0])[_COLUMNS[change.op]] += 1
        parts = tuple(PartStat(path_text(steps), *counts) for steps, counts in counted.items())
        sums = [sum(column) for column in zip(*counted.values(), strict=True)] or [0, 0, 0, 0]
        return DiffStat(PartStat("", *sums), parts)

    def json_patch(self) -> list[dict[str, Any]]:
        """The changes as a JSON patch (RFC 6902), as plain data.

        It makes the old state the new one, both in their JSON form, which `Store.json_form` gives. For a state of
        nothing but what JSON has, that form is the state itself. The order of keys is not part of JSON: a diff that has
        only moved keys gives an empty patch.
        """
        return list(make_patch(self.changes, self.depth))

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


_COLUMNS = {"add": 0, "remove": 1, "replace": 2, "move": 3}


def diff_roots(
    old: ChunkHash, new: ChunkHash, read: Read, types: TypeRegistry, *, path: str | None = None
) -> Diff:
    """What differs between two stored states, reading only that.

    Args:
        old: The root of the one before.
        new: The root of the one after.
        read: How chunks are fetched.
        types: The classes that values may hold.
        path: Only this part of both.

    Raises:
        InvalidInputError: The path is none (`bad-path`).
        NotFoundError: Neither state has anything there (`path-missing`).
        IntegrityError: A chunk is missing or damaged.
        StateError: The chunks are no state (`decode-failed`).
    """
    steps = [] if path is None else parse_path(path)
    if old == new and not steps:
        return Diff(())
    try:
        chunks = read_chunks([old, new], read)
        before, after = (open_state(root, lambda _: chunks) for root in (old, new))
        comparison = Comparison(read, types)
        if not steps:
            return Diff(comparison.changes(before, after))
        left, right = locate(before, steps, read), locate(after, steps, read)
        if left.value is None and right.value is None:
            names = [*left.names, *right.names]
            raise missing(steps, max(len(left.steps), len(right.steps)), "neither state has it", names)
        place = _place(left, right)
        return Diff(comparison.changes(left.value, right.value, place), len(place.chain()))
    except MalformedNodeError as error:
        raise not_a_state(new, error) from error


def diff_values(old: Any, new: Any, types: TypeRegistry) -> Diff:
    """What differs between two values at hand.

    Raises:
        InvalidInputError: One of them cannot be kept; the message has the path of what is in the way.
    """
    before, after = Encoded(encode_value(old, types)), Encoded(encode_value(new, types))
    return Diff(Comparison(_no_chunks, types).changes(before, after))


def _place(left: Location, right: Location) -> Place:
    """Where both parts are; one that is missing is taken to be where the other is."""
    place = Place()
    one, other = (left if left.value is not None else right), (right if right.value is not None else left)
    for before, after in zip(one.steps, other.steps, strict=True):
        place = Place(place, before.step, after.step, prefix=after.prefix)
    return place


def _no_chunks(names: Any) -> dict[ChunkHash, bytes]:
    raise AssertionError(f"values at hand have no chunks: {list(names)}")
