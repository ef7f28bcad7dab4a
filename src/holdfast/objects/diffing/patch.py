"""Changes as a JSON patch (RFC 6902) for the tagged JSON form of a state.

Everything that shifts no positions is said first, by the pointers of the old state. Then come lists, the deepest first,
so that no pointer above is out of date: removals from the end, then what was added or moved, from the beginning.
What no pointer leads into, a set or a dict with other keys than texts, is replaced as a whole.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.diffing.change import Change, PathStep, Place, Whole
from holdfast.objects.tagged import TYPE
from holdfast.record import Record

NO_VALUE: Final = object()
_NO_TYPES: Final = TypeRegistry()
_EXTRA: Final = "$extra"

Fetch = Callable[[tuple[PathStep, ...]], Any]
"""Gives a part of the new state as it is without any class."""


class Operation(Record):
    """One operation of a patch; the value is not tagged yet."""

    op: str
    path: str
    value: Any = NO_VALUE
    source: str | None = None

    def described(self) -> dict[str, Any]:
        """The operation as data; the value as it is, to be written as tagged JSON."""
        made: dict[str, Any] = {"op": self.op, "path": self.path}
        if self.source is not None:
            made["from"] = self.source
        if self.value is not NO_VALUE:
            made["value"] = self.value
        return made


def operations(changes: Sequence[Change], depth: int, fetch: Fetch) -> Iterator[Operation]:
    """The operations that make the old state, in its JSON form, the new one.

    Args:
        changes: All changes.
        depth: How many steps lead to the part that the patch is for.
        fetch: Asked for long texts, and for dicts whose keys are not all known.
    """
    patch = _Patch(depth, fetch)
    shifting: dict[int, list[Change]] = {}
    for change in changes:
        whole = patch.replaced_whole(change)
        if whole is not None:
            yield from whole
        elif _shifts(change):
            shifting.setdefault(id(change.place.parent), []).append(change)
        elif change.op != "move":
            # A key of a dict that stands elsewhere now is none of JSON's business.
            yield Operation(change.op, patch.pointer(change.place), patch.value(change))
    # By the depth of the list that they are in; those of one depth do not know of each other.
    for group in sorted(shifting.values(), key=lambda group: -len(group[0].place.chain())):
        yield from patch.list_operations(group)


def _shifts(change: Change) -> bool:
    step = change.place.old or change.place.new
    return change.op != "replace" and step is not None and step.kind == "index"


class _Patch:
    def __init__(self, depth: int, fetch: Fetch) -> None:
        self._depth = depth
        self._fetch = fetch
        self._decided: dict[int, bool] = {}
        self._said: set[int] = set()

    def pointer(self, place: Place, last: int | None = None) -> str:
        """Where it is in the old state, as a JSON pointer; `last` in the place of its own position."""
        chain = place.chain()[self._depth :]
        tokens: list[str] = []
        for number, each in enumerate(chain):
            step = each.old or each.new
            assert step is not None
            end = last is not None and number == len(chain) - 1
            token = _EXTRA if step.kind == "extra" else str(last if end else step.key)
            tokens += [*(() if step.kind == "extra" else each.prefix), token]
        return "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in tokens)

    def value(self, change: Change) -> Any:
        """The new value of a change, as it is without any class."""
        if change.op == "remove":
            return NO_VALUE
        return self._fetch(change.steps) if change.partial else change.plain("new")

    def replaced_whole(self, change: Change) -> list[Operation] | None:
        """What is said in the place of a change that no pointer leads to; nothing the second time."""
        for place in change.place.chain()[self._depth :]:
            whole = place.whole
            if whole is None or not self._applies(whole):
                continue
            if id(whole) in self._said:
                return []
            self._said.add(id(whole))
            return [Operation("replace", self.pointer(whole.place), self._content(whole))]
        return None

    def _applies(self, whole: Whole) -> bool:
        if whole.certain:
            return True
        if id(whole) not in self._decided:
            self._decided[id(whole)] = TYPE in self._content(whole)
        return self._decided[id(whole)]

    def _content(self, whole: Whole) -> Any:
        if whole.value is not None:
            return decode_value(whole.value.data, _NO_TYPES)
        steps = [step for each in whole.place.chain() if (step := each.new) is not None]
        return self._fetch(tuple(steps))

    def list_operations(self, group: list[Change]) -> Iterator[Operation]:
        """What happens to the items of one list, when nothing in it has been shifted yet."""
        spot = group[0].place
        removed = sorted(_at(change.place.old) for change in group if change.op == "remove")
        leaving = sorted(_at(change.place.old) for change in group if change.op == "move")
        for at in reversed(removed):
            yield Operation("remove", self.pointer(spot, at))
        order = _Order(removed, leaving)
        come = [(_at(change.place.new), change) for change in group if change.op in ("add", "move")]
        for target, change in sorted(come, key=lambda pair: pair[0]):
            if change.op == "add":
                yield Operation("add", self.pointer(spot, order.arrive(target)), self.value(change))
                continue
            source, at = order.move(_at(change.place.old), target)
            if source != at:
                yield Operation("move", self.pointer(spot, at), source=self.pointer(spot, source))


class _Order:
    """Where items of a list are while others come and move, from the first new position to the last.

    Those that stay are always there, in order. An item that moves stands where it was, among them, until its turn
    comes; what has come stands right behind the item that it follows in the new list.
    """

    def __init__(self, removed: list[int], leaving: list[int]) -> None:
        self._leaving = leaving
        self._not_staying = sorted(removed + leaving)
        self._left: list[int] = []
        """Where those that have moved were, in the old list."""
        self._behind: list[int] = []
        """For each that has come: where the one was in the old list that stays and is the last before it."""

    def arrive(self, target: int) -> int:
        """Where to put what is at `target` in the end."""
        last = self._last_staying(target)
        self._behind.append(last)
        return target + self._waiting(last)

    def move(self, home: int, target: int) -> tuple[int, int]:
        """Where the item is now that was at `home`, and where it is to be once it is taken out."""
        stayed = home - bisect_left(self._not_staying, home)
        source = stayed + self._waiting(home) + bisect_left(self._behind, home)
        insort(self._left, home)
        return source, self.arrive(target)

    def _waiting(self, before: int) -> int:
        return bisect_left(self._leaving, before) - bisect_left(self._left, before)

    def _last_staying(self, target: int) -> int:
        """The old position of the last item before `target` that stays; -1 where there is none."""
        number = target - len(self._behind)
        if not number:
            return -1
        # So many positions from the beginning hold that many items that stay.
        low, high = number - 1, number - 1 + len(self._not_staying)
        while low < high:
            middle = (low + high) // 2
            if middle + 1 - bisect_right(self._not_staying, middle) >= number:
                high = middle
            else:
                low = middle + 1
        return low


def _at(step: PathStep | None) -> int:
    assert step is not None
    return int(step.key)
