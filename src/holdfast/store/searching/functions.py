"""The functions and the signs of an expression: each of them bounded, whatever values a state has.

Python does each of these in one call that nobody can stop. So what it may cost is counted first, and numbers that are
too large to reckon with are refused: the square of a number of a megabyte, or 1E+1000000 as a whole number, would take
minutes. Only what is known to have items is gone through: a network of addresses, say, has more than anybody can count.
"""

from __future__ import annotations

import ast
import operator
from collections import deque
from collections.abc import Callable, Mapping
from decimal import Decimal, DecimalException
from typing import Any, Final

from holdfast.store.searching.moments import as_moments
from holdfast.store.searching.weighing import Budget, holds_others, is_light

_MOST_BITS: Final = 4_096
"""Of a whole number that is reckoned with: a product of such numbers takes no time."""
_MOST_DIGITS: Final = 1_233
"""The same in decimal digits; and for how many of them a number may be rounded to."""
_MOST_BYTES: Final = 1_024
"""Of a Decimal in memory: some 2,400 digits."""

ROWS: Final = (list, tuple, deque, str)
_LISTS: Final = (list, tuple, deque)
_BYTES: Final = (bytes, bytearray)
_KEYED: Final = (Mapping, set, frozenset)
_BY_LENGTH: Final = (*_LISTS, dict, set, frozenset)
"""Those that are never equal where they are not of one length; a Counter may be."""
_GONE_THROUGH: Final = (*_LISTS, *_KEYED, str, range, *_BYTES)


class MissingError(Exception):
    """The state does not have what the expression asks for, or something of another kind."""

    def __init__(self, why: str, node: ast.expr | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.node = node

    def shown(self) -> str:
        """What is missing, in the words of the expression; made only for what is shown, because it takes a while."""
        try:
            part = "" if self.node is None else ast.unparse(self.node)[:80]
        except ValueError:
            # A number that Python was told not to write out.
            part = ""
        return (
            self.why.replace("{}", part) if "{}" in self.why else f"{part}: {self.why}" if part else self.why
        )


def kind_of(value: Any) -> str:
    """How a value is called in a note: `a list`, `an int`, `None`."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"


def why_not(error: Exception) -> str:
    """What Python says of values that do not go together, in words."""
    signals = error.args[0] if isinstance(error, DecimalException) and error.args else None
    if isinstance(signals, list):
        # Decimals say which of their rules it was, by its class.
        return f"cannot reckon with these Decimals ({', '.join(each.__name__ for each in signals)})"
    return str(error)


def items_of(value: Any) -> Any:
    """The value, if it has items to go through."""
    if isinstance(value, _GONE_THROUGH):
        return value
    raise MissingError(f"{kind_of(value)} has no items")


def number(value: Any) -> Any:
    """The value, if it is a number that can be reckoned with."""
    if not isinstance(value, int | float | Decimal):
        raise MissingError(f"cannot reckon with {kind_of(value)}")
    if (isinstance(value, int) and value.bit_length() > _MOST_BITS) or (
        isinstance(value, Decimal) and value.__sizeof__() > _MOST_BYTES
    ):
        raise MissingError(f"cannot reckon with {kind_of(value)} so large")
    return value


def _weighed(budget: Budget, value: Any) -> Any:
    found = number(value)
    budget.weigh(found)
    return found


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise MissingError(f"there is {kind_of(value)} where a text is needed")


def _least(choose: Callable[[Any], Any]) -> Callable[..., Any]:
    def chosen(budget: Budget, *values: Any) -> Any:
        items = items_of(values[0]) if len(values) == 1 else values
        budget.spend(len(items))
        if isinstance(items, range):
            budget.spend(len(items) * budget.weigh(items))
        else:
            for each in items:
                budget.weigh(each, ordered=True)
        return choose(items)

    return chosen


def _length(_: Budget, value: Any) -> int:
    return len(items_of(value))


def _sum(budget: Budget, value: Any) -> Any:
    budget.spend(len(items_of(value)))
    return sum(_weighed(budget, each) for each in value)


def _any(budget: Budget, value: Any) -> bool:
    budget.spend(len(items_of(value)))
    return any(value)


def _all(budget: Budget, value: Any) -> bool:
    budget.spend(len(items_of(value)))
    return all(value)


def _absolute(_: Budget, value: Any) -> Any:
    return abs(number(value))


def _rounded(_: Budget, value: Any, digits: Any = None) -> Any:
    found = number(value)
    if isinstance(found, Decimal) and found.is_finite() and found.adjusted() > _MOST_DIGITS:
        # As a whole number it would have that many digits.
        raise MissingError(f"cannot round {kind_of(value)} so large")
    if digits is None:
        return round(found)
    if not isinstance(digits, int) or abs(digits) > _MOST_DIGITS:
        raise MissingError("cannot round to so many digits")
    return round(found, digits)


def _lower(budget: Budget, value: Any) -> str:
    budget.spend(len(_text(value)) // 16)
    return _text(value).lower()


def _upper(budget: Budget, value: Any) -> str:
    budget.spend(len(_text(value)) // 16)
    return _text(value).upper()


def _starts(budget: Budget, value: Any, start: Any) -> bool:
    budget.weigh(_text(start))
    return _text(value).startswith(start)


def _ends(budget: Budget, value: Any, end: Any) -> bool:
    budget.weigh(_text(end))
    return _text(value).endswith(end)


_MANY: Final = 1_000

FUNCTIONS: Final[dict[str, tuple[Callable[..., Any], int, int]]] = {
    "len": (_length, 1, 1),
    "min": (_least(min), 1, _MANY),
    "max": (_least(max), 1, _MANY),
    "sum": (_sum, 1, 1),
    "any": (_any, 1, 1),
    "all": (_all, 1, 1),
    "abs": (_absolute, 1, 1),
    "round": (_rounded, 1, 2),
    "lower": (_lower, 1, 1),
    "upper": (_upper, 1, 1),
    "startswith": (_starts, 2, 2),
    "endswith": (_ends, 2, 2),
}
"""Each with how few and how many values it takes."""

_COMPARE: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, holder: item in holder,
    ast.NotIn: lambda item, holder: item not in holder,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}

_RECKON: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def reckoned(budget: Budget, sign: ast.operator, left: Any, right: Any) -> Any:
    """Numbers, and nothing else: a text times a million is no number."""
    return _RECKON[type(sign)](_weighed(budget, left), _weighed(budget, right))


def compared(budget: Budget, sign: ast.cmpop, left: Any, right: Any) -> bool:
    """One comparison, counted before it begins."""
    if isinstance(sign, ast.In | ast.NotIn):
        _count_search(budget, left, right)
    elif not isinstance(sign, ast.Is | ast.IsNot):
        left, right = as_moments(left, right)
        _count_comparison(budget, left, right, ordered=not isinstance(sign, ast.Eq | ast.NotEq))
    try:
        return bool(_COMPARE[type(sign)](left, right))
    except RecursionError:
        raise MissingError("a value is too deep to be compared") from None


def _count_comparison(budget: Budget, left: Any, right: Any, *, ordered: bool) -> None:
    if is_light(left) and is_light(right):
        budget.spend(2)
        return
    holders = holds_others(left), holds_others(right)
    if any(holders) and not all(holders):
        # A list and a number differ at a glance.
        return
    alike = type(left) is type(right) and type(left) in _BY_LENGTH
    if alike and not ordered and len(left) != len(right):
        return
    budget.weigh(left, ordered=ordered)
    budget.weigh(right, ordered=ordered)


def _count_search(budget: Budget, item: Any, holder: Any) -> None:
    """What `item in holder` may cost."""
    items_of(holder)
    if isinstance(holder, str | bytes | bytearray):
        _count_text_search(budget, len(item) if isinstance(item, str | bytes | bytearray) else 1, len(holder))
    elif isinstance(holder, _KEYED):
        budget.look_up(item, holder)
    elif isinstance(holder, range):
        # Whole numbers are found by reckoning, everything else by going through it.
        own = budget.weigh(item) * budget.weigh(holder)
        budget.spend(own if type(item) in (int, bool) else own * len(holder))
    elif holds_others(item):
        budget.spend(len(holder) * budget.weigh(item))
        budget.weigh(holder)
    else:
        budget.weigh(item)
        budget.spend(len(holder))
        for each in holder:
            if not is_light(each) and not holds_others(each):
                budget.weigh(each)


def _count_text_search(budget: Budget, wanted: int, length: int) -> None:
    """Short texts are searched letter by letter from each place; in long ones Python does better than that."""
    tried = wanted if length < 2_500 else min(wanted, 100)
    budget.spend(1 + length // 64 + length * tried // 1_024)
