"""What comparing values may cost at most, counted before it begins: Python compares in one call that cannot be stopped.

A comparison goes through both values, so it costs about as much as there is in them. Three things make it more. Members
of a set that have the same hash are compared with each other. A list is put in order by looking for the first item that
differs, and then once more into that one, at every level. And a Counter compares each of its values several times. So
each value is counted as often as it may be looked at, which is a bound that holds whatever is in the state.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from typing import Any, Final

from holdfast.objects.codec.opaque import Opaque
from holdfast.record import Record

MOST_STEPS = 5_000_000
"""A step takes about a microsecond."""

_LETTERS: Final = 64
"""That are compared in less than a step."""
_BITS: Final = 512
"""Of a whole number that costs no more than any other value."""
_SMALL_CROWD: Final = 64
"""Members of a set that are looked through anew each time: remembering who they are would not pay."""
_OF_A_COUNTER: Final = 4
"""How often it compares each of its values: from both sides, and for < once as equal and once by order."""

_LIGHT: Final = frozenset((type(None), bool, float, complex))
_ALONE: Final = frozenset((*_LIGHT, int, str, bytes, bytearray, Decimal))
"""Most of what has no values in it: asking whether it is a Mapping would take longer than comparing two of them."""
_HOLDERS: Final = (list, tuple, deque, Mapping, set, frozenset, Opaque)


class StepsError(Exception):
    """The expression takes too many steps."""


class Crowd(Record):
    """Those members of a set, or keys of a dict, that one lookup may have to be compared with."""

    size: int
    weight: int


class Budget:
    """The steps that one evaluation takes, up to the most that it may."""

    def __init__(self) -> None:
        self.spent = 0
        self._crowds: dict[int, tuple[Any, Crowd]] = {}

    def spend(self, steps: int) -> None:
        """Count steps, before they are taken.

        Raises:
            StepsError: There are not so many left.
        """
        self.spent += steps
        if self.spent > MOST_STEPS:
            raise StepsError

    def weigh(self, value: Any, *, ordered: bool = False) -> int:
        """Count what comparing a value with any other one may cost; with `ordered`, by < or >. Returns how much."""
        before = self.spent
        # A value, how often it may be compared for being equal, and how often by order.
        left = [(value, 0, 1) if ordered else (value, 1, 0)]
        while left:
            each, equal, order = left.pop()
            self.spend((equal + order) * (1 + _alone(each)))
            if holds_others(each):
                self.spend((equal + 2 * order) * _length(each))
                left += _within(each, equal, order)
        return self.spent - before

    def look_up(self, item: Any, holder: Collection[Any]) -> None:
        """Count what finding `item` in a set, or among the keys of a dict, may cost."""
        if type(item) is str:
            # Nobody knows beforehand which texts have the same hash.
            self.spend(1 + len(item) // _LETTERS)
            return
        own = self.weigh(item)
        crowd = self._crowd(holder)
        self.spend(crowd.weight + crowd.size * own)

    def _crowd(self, holder: Collection[Any]) -> Crowd:
        known = self._crowds.get(id(holder))
        if known is not None:
            return known[1]
        crowds: dict[int, Crowd] = {}
        for member in holder:
            weight = self.weigh(member)
            hashed = hash(member)
            beside = crowds.get(hashed, Crowd(0, 0))
            crowds[hashed] = Crowd(beside.size + 1, beside.weight + weight)
        found = Crowd(
            max((each.size for each in crowds.values()), default=0),
            max((each.weight for each in crowds.values()), default=0),
        )
        if len(holder) > _SMALL_CROWD:
            # Kept with the holder itself, so that nothing else gets its id.
            self._crowds[id(holder)] = holder, found
        return found


def _alone(value: Any) -> int:
    """What one value costs without those in it, beyond the step that every value costs."""
    cost = _COSTS.get(type(value))
    if cost is not None:
        return cost(value)
    # Compared by its parts, of which there may be as many as letters.
    return len(str(value)) if isinstance(value, PurePath) else 0


def _of_bits(bits: int) -> int:
    """A whole number that meets a Decimal or a Fraction is rewritten, in time that grows with the square."""
    return int(bits // _BITS) ** 2


def _of_bounds(value: range | slice) -> int:
    bounds = (value.start, value.stop, value.step)
    return _of_bits(sum(each.bit_length() for each in bounds if isinstance(each, int)))


_COSTS: Final[dict[type, Callable[[Any], int]]] = {
    **dict.fromkeys((type(None), bool, float, complex), lambda _: 0),
    **dict.fromkeys((str, bytes, bytearray), lambda value: len(value) // _LETTERS),
    **dict.fromkeys((range, slice), _of_bounds),
    int: lambda value: _of_bits(value.bit_length()),
    Decimal: lambda value: int(value.__sizeof__()) // _LETTERS,
    Fraction: lambda value: _of_bits(value.numerator.bit_length() + value.denominator.bit_length()),
}


def _length(value: Any) -> int:
    return 4 if isinstance(value, Opaque) else len(value)


def holds_others(value: Any) -> bool:
    """Whether a value has values in it."""
    return type(value) not in _ALONE and isinstance(value, _HOLDERS)


def is_light(value: Any) -> bool:
    """Whether a step is all that a value costs."""
    kind = type(value)
    return kind in _LIGHT or (kind in (str, int) and not _alone(value))


def _within(value: Any, equal: int, order: int) -> Iterator[tuple[Any, int, int]]:
    """The values in a value that count for more than a step, each with how often it may be compared."""
    both = equal + order
    if isinstance(value, Mapping):
        most = _OF_A_COUNTER if isinstance(value, Counter) else 1
        for each in value.values():
            if not is_light(each):
                yield each, most * both, most * order
        # Those of an OrderedDict are compared in their order as well.
        yield from _members(value, 2 * most * both)
    elif isinstance(value, set | frozenset):
        yield from _members(value, both)
    elif isinstance(value, Opaque):
        yield value.name, both, 0
        yield value.data, both, 0
        yield value.extra, both, 0
    else:
        for each in value:
            if not is_light(each):
                yield each, both, order


def _members(holder: Collection[Any], times: int) -> Iterator[tuple[Any, int, int]]:
    if all(type(each) is str for each in holder):
        for each in holder:
            if len(each) > _LETTERS:
                yield each, times, 0
        return
    crowds = Counter(map(hash, holder))
    for each in holder:
        yield each, times * crowds[hash(each)], 0
