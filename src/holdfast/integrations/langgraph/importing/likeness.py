"""Whether what the store has is what the source has, where only one of the two was read with its classes known.

A thread may be imported with a class and compared without it, or the other way round. The store has then the fields of
an object, and the source what LangGraph wrote: a model with its models as dicts, tuples as lists, the value of an enum
in place of its name. Such a pair is alike if everything that both say is equal. What is no such pair must be the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from holdfast.objects.opaque import Opaque

Same = Callable[[Any, Any], bool]
"""Whether two values are equal, with their types and order."""

_PLAIN: Final = (str, int, bool, bytes, type(None))
_RANKS: Final = (list, tuple)


def alike(one: Any, other: Any, same: Same, *, within: bool = False) -> bool:
    """Whether two values are the same but for what is known of their classes.

    Args:
        one: A value.
        other: The other; which is the store's does not matter.
        same: Tells it of those that have no object in them.
        within: Whether they are in the fields of an object, of which one may be as LangGraph wrote it.
    """
    if type(one) is Opaque or type(other) is Opaque:
        return _objects_alike(one, other, same, within=within)
    kind = type(one)
    if kind is dict and type(other) is dict:
        if one.keys() != other.keys() or (not within and list(one) != list(other)):
            return False
        return all(alike(one[name], other[name], same, within=within) for name in one)
    if kind in _RANKS and (type(other) is kind or (within and type(other) in _RANKS)):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(alike(*pair, same, within=within) for pair in pairs)
    if kind in _PLAIN and type(other) is kind:
        return bool(one == other)
    return same(one, other)


def _objects_alike(one: Any, other: Any, same: Same, *, within: bool) -> bool:
    if type(one) is Opaque and type(other) is Opaque:
        if one.name != other.name:
            return False
        if type(one.data) is not dict or type(other.data) is not dict:
            # Of two versions, one is the name of a member and the other its value: that says no more.
            return one.version != other.version or same(one, other)
    elif not within:
        return False
    return alike(_fields(one), _fields(other), same, within=True)


def _fields(value: Any) -> Any:
    if type(value) is not Opaque:
        return value
    if type(value.data) is dict and type(value.extra) is dict:
        # Extra fields of a model, which LangGraph writes among the others.
        return {**value.data, **value.extra.get("extra", {})}
    return value.data
