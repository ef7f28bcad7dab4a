"""Where a document is not what its tree says it is: which place was changed behind its back."""

from __future__ import annotations

from typing import Any

from holdfast.objects import nodes, path
from holdfast.objects.cutting import Cuts
from holdfast.objects.kept import KeptNode, NewChunks
from holdfast.objects.registry import TypeRegistry
from holdfast.objects.tracked import Tracked, tracked_copy
from holdfast.objects.updating import TreeUpdate


def find_drift(root: Any, types: TypeRegistry, cuts: Cuts) -> str:
    """The path of the smallest part that is known to differ: an item, or the run of items it lies in."""
    fresh = tracked_copy(root)
    TreeUpdate(types, cuts, NewChunks(wanted=False)).container(fresh, 0)
    kept = root
    steps: list[str] = []
    while True:
        places = _first_difference(kept._node, fresh._node, len(kept))
        if places is None:
            return path.render(steps)
        values, fresh_values = _values(kept, places), _values(fresh, places)
        for (place, value), (_, other) in zip(values, fresh_values, strict=False):
            if (
                isinstance(value, Tracked)
                and isinstance(other, Tracked)
                and _differ(value._node, other._node)
            ):
                kept, fresh = value, other
                steps.append(path.key_step(place))
                break
        else:
            return path.render([*steps, *_named(values)])


def _differ(kept: KeptNode | None, fresh: KeptNode | None) -> bool:
    return kept is not None and fresh is not None and kept.part != fresh.part


def _first_difference(kept: KeptNode | None, fresh: KeptNode | None, count: int) -> range | None:
    """The positions of the first run, or the first item of the run at the end, that differs."""
    if kept is None or fresh is None or kept.kind != fresh.kind or kept.kind == nodes.RAW:
        return None
    start = 0
    for entry, other in zip(kept.levels[0].entries, fresh.levels[0].entries, strict=False):
        if entry != other:
            return range(start, min(start + max(entry.count, other.count), count))
        start += entry.count
    for item, made in zip(kept.tail, fresh.tail, strict=False):
        if (item.literal, item.part) != (made.literal, made.part):
            return range(start, start + 1)
        start += 1
    return range(start, count)


def _values(container: Any, places: range) -> list[tuple[Any, Any]]:
    return list(container._places())[places.start : places.stop]


def _named(values: list[tuple[Any, Any]]) -> list[str]:
    if not values:
        return []
    first, last = values[0][0], values[-1][0]
    if len(values) == 1:
        return [path.key_step(first)]
    return [f"{path.key_step(first)[:-1]}...{path.key_step(last)[1:]}"]
