"""In which order things stand that are known by a name: the keys of dicts, and items of lists that have an `id`.

Whoever changed the order of what all three have decides on it. What was added follows what it was put behind.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Sequence


def order_keys(
    base: Sequence[Hashable], ours: Sequence[Hashable], theirs: Sequence[Hashable]
) -> list[Hashable]:
    """Every key that one of both sides has: ours, then what only they have.

    If they alone changed the order of the keys that all have, it is theirs, then what only we have. The order of keys
    is never a conflict: where both changed it, it is ours.
    """
    was, mine, other = _common_orders(base, ours, theirs)
    first, second = (theirs, ours) if mine == was != other else (ours, theirs)
    known = set(first)
    return [*first, *(key for key in second if key not in known)]


def order_named(
    base: Sequence[Hashable], ours: Sequence[Hashable], theirs: Sequence[Hashable]
) -> list[Hashable] | None:
    """Every item that one of the three has, in one order; None where both changed the order, and not to the same.

    What both added behind the same item is ours, then theirs.
    """
    was, mine, other = _common_orders(base, ours, theirs)
    if mine != was and other not in (was, mine):
        return None
    spine = _spine(base, theirs if mine == was != other else ours)
    behind: dict[Hashable, list[Hashable]] = {}
    placed: set[Hashable] = set(base)
    for side in (ours, theirs):
        last: Hashable = _FRONT
        known = set(base)
        for name in side:
            if name in known:
                last = name
            elif name not in placed:
                placed.add(name)
                behind.setdefault(last, []).append(name)
    found = list(behind.get(_FRONT, ()))
    for name in spine:
        found += [name, *behind.get(name, ())]
    return found


_FRONT = object()
"""Behind nothing: the beginning of a list."""


def _common_orders(
    base: Sequence[Hashable], ours: Sequence[Hashable], theirs: Sequence[Hashable]
) -> tuple[list[Hashable], list[Hashable], list[Hashable]]:
    common = set(base) & set(ours) & set(theirs)
    was, mine, other = ([name for name in side if name in common] for side in (base, ours, theirs))
    return was, mine, other


def _spine(base: Sequence[Hashable], side: Sequence[Hashable]) -> list[Hashable]:
    """All of `base` in the order of `side`; what that side removed stands behind what it stood behind."""
    kept = _kept(side, set(base))
    there = set(kept)
    behind: dict[Hashable, list[Hashable]] = {}
    last: Hashable = _FRONT
    for name in base:
        if name in there:
            last = name
        else:
            behind.setdefault(last, []).append(name)
    found = list(behind.get(_FRONT, ()))
    for name in kept:
        found += [name, *behind.get(name, ())]
    return found


def _kept(side: Sequence[Hashable], known: Container[Hashable]) -> list[Hashable]:
    return [name for name in side if name in known]
