"""Values that become one array of further values, and back: tuples, sets, mappings, dates, ranges.

`TAKE` has one function a type, which gives the items of the array; `MAKE` has one function a code, which builds the
value from them. Sets come out in any order here; whoever writes them sorts them by their encoded bytes.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, Final, TypeVar

from holdfast.errors import ErrorCode
from holdfast.objects import wire
from holdfast.objects.path import field_step
from holdfast.objects.refusal import MalformedError, MismatchError, RefusedError

M = TypeVar("M", bound=dict[Any, Any])

_INT: Final = frozenset((int,))
_MICROSECOND: Final = dt.timedelta(microseconds=1)

# A default factory is code. Only these, which everybody has, can be kept by name.
FACTORIES: Final[dict[str, Callable[[], Any]]] = {
    factory.__name__: factory
    for factory in (list, dict, set, int, str, float, bool, tuple, frozenset, bytes, bytearray, complex)
}


def few_collisions(keys: list[Any]) -> bool:
    """Whether these keys can be put into a set or dict in bounded time."""
    count = len(keys)
    return count <= wire.MAX_COLLISIONS or count - len(set(map(hash, keys))) <= wire.MAX_COLLISIONS


def pair_items(mapping: Mapping[Any, Any]) -> list[Any]:
    """Keys and values in turn, in their order."""
    # One step in C takes the pairs: another thread may be changing the mapping.
    items = list(chain.from_iterable(list(mapping.items())))
    _refuse_collisions(items[::2])
    return items


def set_items(members: set[Any] | frozenset[Any]) -> list[Any]:
    """The members, in no order."""
    items = list(members)
    _refuse_collisions(items)
    return items


def _refuse_collisions(keys: list[Any]) -> None:
    if not few_collisions(keys):
        raise RefusedError(
            f"more than {wire.MAX_COLLISIONS} of its keys have equal hashes",
            code=ErrorCode.VALUE_UNSUPPORTED,
            hint="keep them in a list",
        )


def _attributed_pairs(mapping: Mapping[Any, Any]) -> list[Any]:
    # These two classes let attributes be set on their instances, which the pairs would lose.
    for name in vars(mapping):
        raise RefusedError(
            f"an attribute was set on a {type(mapping).__name__}, and would be lost",
            code=ErrorCode.VALUE_UNSUPPORTED,
            hint="keep it under a key, or register a class of your own for it",
            step=field_step(name),
        )
    return pair_items(mapping)


def _defaultdict_items(value: defaultdict[Any, Any]) -> list[Any]:
    factory = value.default_factory
    name = None if factory is None else getattr(factory, "__name__", None)
    if factory is not None and FACTORIES.get(str(name)) is not factory:
        raise RefusedError(
            "the default factory of a defaultdict is code, and cannot be saved",
            code=ErrorCode.VALUE_UNSUPPORTED,
            hint=f"use one of {', '.join(FACTORIES)}, or save dict(value)",
            step=".default_factory",
        )
    return [name, *pair_items(value)]


def _deque_items(value: deque[Any]) -> list[Any]:
    return [value.maxlen, *value]


def _datetime_items(value: dt.datetime) -> list[Any]:
    return [
        value.year,
        value.month,
        value.day,
        value.hour,
        value.minute,
        value.second,
        value.microsecond,
        value.fold,
        value.tzinfo,
    ]


def _date_items(value: dt.date) -> list[Any]:
    return [value.year, value.month, value.day]


def _time_items(value: dt.time) -> list[Any]:
    return [value.hour, value.minute, value.second, value.microsecond, value.fold, value.tzinfo]


def _timedelta_items(value: dt.timedelta) -> list[Any]:
    return [value.days, value.seconds, value.microseconds]


def _timezone_items(value: dt.timezone) -> list[Any]:
    # The only way to tell a zone with a name of its own from one that is named after its offset.
    offset, *name = value.__getinitargs__()  # type: ignore[attr-defined]
    return [offset // _MICROSECOND, *name]


def _range_items(value: Any) -> list[Any]:
    return [value.start, value.stop, value.step]


def fraction_items(value: Any) -> list[Any]:
    """Numerator and denominator, in lowest terms."""
    return [value.numerator, value.denominator]


Taker = tuple[int, Callable[[Any], list[Any]]]

TAKE: Final[dict[type, Taker]] = {
    tuple: (wire.TUPLE, list),
    set: (wire.SET, set_items),
    frozenset: (wire.FROZENSET, set_items),
    deque: (wire.DEQUE, _deque_items),
    defaultdict: (wire.DEFAULTDICT, _defaultdict_items),
    OrderedDict: (wire.ORDEREDDICT, _attributed_pairs),
    Counter: (wire.COUNTER, _attributed_pairs),
    dt.datetime: (wire.DATETIME, _datetime_items),
    dt.date: (wire.DATE, _date_items),
    dt.time: (wire.TIME, _time_items),
    dt.timedelta: (wire.TIMEDELTA, _timedelta_items),
    dt.timezone: (wire.TIMEZONE, _timezone_items),
    range: (wire.RANGE, _range_items),
    slice: (wire.SLICE, _range_items),
}


def _mapping(build: Callable[[Iterable[Any]], M], items: list[Any]) -> M:
    keys, values = items[::2], items[1::2]
    if len(keys) != len(values):
        raise MalformedError("a key without a value")
    if not few_collisions(keys):
        raise MalformedError("too many keys with equal hashes")
    mapping = build(zip(keys, values, strict=True))
    if len(mapping) != len(keys):
        raise _equal_now("keys of a mapping")
    return mapping


def _equal_now(what: str) -> MismatchError:
    return MismatchError(
        f"two {what} that were different when they were saved are equal now",
        code=ErrorCode.TYPE_MISMATCH,
        hint="register their classes, with the __eq__ and __hash__ they were saved with",
    )


def _make_set(items: list[Any]) -> set[Any]:
    if not few_collisions(items):
        raise MalformedError("too many members with equal hashes")
    members = set(items)
    if len(members) != len(items):
        raise _equal_now("members of a set")
    return members


def _make_frozenset(items: list[Any]) -> frozenset[Any]:
    return frozenset(_make_set(items))


def _make_deque(items: list[Any]) -> deque[Any]:
    maxlen, *rest = items
    value = deque(rest, maxlen)
    if len(value) != len(rest):
        raise MalformedError("a deque longer than its maxlen")
    return value


def _make_defaultdict(items: list[Any]) -> defaultdict[Any, Any]:
    name, *rest = items
    factory = None if name is None else FACTORIES[name]
    return _mapping(lambda pairs: defaultdict(factory, pairs), rest)


def _make_counter(items: list[Any]) -> Counter[Any]:
    # Not Counter(pairs), which counts the pairs, nor its update, which adds.
    counter: Counter[Any] = Counter()
    dict.update(counter, _mapping(dict, items))
    return counter


def _ints(items: list[Any], count: int) -> list[Any]:
    # These constructors take more than numbers (datetime takes pickled bytes): nothing else gets through to them.
    if len(items) != count or not _INT.issuperset(map(type, items)):
        raise MalformedError(f"not {count} whole numbers")
    return items


def _make_datetime(items: list[Any]) -> dt.datetime:
    *numbers, zone = items
    year, month, day, hour, minute, second, microsecond, fold = _ints(numbers, 8)
    return dt.datetime(year, month, day, hour, minute, second, microsecond, _zone(zone), fold=fold)


def _make_time(items: list[Any]) -> dt.time:
    *numbers, zone = items
    hour, minute, second, microsecond, fold = _ints(numbers, 5)
    return dt.time(hour, minute, second, microsecond, _zone(zone), fold=fold)


def _zone(zone: Any) -> dt.tzinfo | None:
    if zone is None or isinstance(zone, dt.tzinfo):
        return zone
    raise MismatchError(
        f"the time zone of a date is a {getattr(zone, 'name', type(zone).__qualname__)!r}, which is not registered",
        code=ErrorCode.TYPE_MISMATCH,
        hint="register the time zone class it was saved with",
    )


def _make_timezone(items: list[Any]) -> dt.timezone:
    (offset,) = _ints(items[:1], 1)
    return dt.timezone(offset * _MICROSECOND, *items[1:])


def _make_slice(items: list[Any]) -> slice[Any, Any, Any]:
    start, stop, step = items
    return slice(start, stop, step)


def _make_fraction(items: list[Any]) -> Any:
    from fractions import Fraction

    numerator, denominator = _ints(items, 2)
    if denominator <= 0:
        raise MalformedError("a fraction that is none")
    value = object.__new__(Fraction)
    # Going through Fraction(n, d) would look for a common divisor, in quadratic time on numbers of a hostile size.
    value._numerator = numerator  # type: ignore[attr-defined]
    value._denominator = denominator  # type: ignore[attr-defined]
    return value


MAKE: Final[dict[int, Callable[[list[Any]], Any]]] = {
    wire.TUPLE: tuple,
    wire.SET: _make_set,
    wire.FROZENSET: _make_frozenset,
    wire.PAIRS: lambda items: _mapping(dict, items),
    wire.DEQUE: _make_deque,
    wire.DEFAULTDICT: _make_defaultdict,
    wire.ORDEREDDICT: lambda items: _mapping(OrderedDict, items),
    wire.COUNTER: _make_counter,
    wire.DATETIME: _make_datetime,
    wire.DATE: lambda items: dt.date(*_ints(items, 3)),
    wire.TIME: _make_time,
    wire.TIMEDELTA: lambda items: dt.timedelta(*_ints(items, 3)),
    wire.TIMEZONE: _make_timezone,
    wire.RANGE: lambda items: range(*_ints(items, 3)),
    wire.SLICE: _make_slice,
    wire.FRACTION: _make_fraction,
}
