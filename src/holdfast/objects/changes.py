"""What was written to a document since it was saved last, as a list of places.

The list can be followed: go through a copy of the saved state from the first change to the last, take away what was
removed, put in what was added or replaced as it is in the document now, and the copy has become the document. Nothing
outside of the list is different, except inside of values that a document does not look into.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from holdfast.objects.tracked_list import positions

Path = tuple[Any, ...]
WritesOf = Callable[[Any], Any]
"""What was written to a container; None where nothing was."""


@dataclass(frozen=True, slots=True)
class Change:
    """A place of a document that was written to.

    Attributes:
        op: "add", "remove" or "replace".
        path: The keys and positions that lead there, in the document as it is now. What was removed from a list stood
            right before what is at that position.
        count: Of a list, how many items from that position on.
    """

    op: Literal["add", "remove", "replace"]
    path: Path
    count: int = 1


def changes_in(root: Any, writes_of: WritesOf) -> list[Change]:
    """The changes in a container and all below it."""
    found: list[Change] = []
    open_containers = [_steps(root, writes_of, ())]
    while open_containers:
        step = next(open_containers[-1], None)
        if step is None:
            open_containers.pop()
        elif isinstance(step, Change):
            found.append(step)
        else:
            open_containers.append(_steps(step[0], writes_of, step[1]))
    return found


def _steps(container: Any, writes_of: WritesOf, path: Path) -> Iterator[Change | tuple[Any, Path]]:
    """The changes of one container, and in their place the containers in it that have changes."""
    writes = writes_of(container)
    if writes is None:
        return iter(())
    steps = _list_steps if container._plain is list else _dict_steps
    return steps(container, writes, path)


def _list_steps(items: Any, writes: Any, path: Path) -> Iterator[Change | tuple[Any, Path]]:
    nested = {writes.before(at): items[at] for at in positions(items, writes.children.values())}
    nested = {old: child for old, child in nested.items() if old is not None and old not in writes.touched}
    edits = writes.edits(len(items), nested)
    if edits is None:
        yield Change("replace", path)
        return
    for edit in edits:
        gone, come = edit.old_stop - edit.old_start, edit.new_stop - edit.new_start
        place = (*path, edit.new_start)
        if gone == come == 1 and edit.old_start in nested:
            yield nested[edit.old_start], place
        elif gone == come:
            yield Change("replace", place, gone)
        else:
            if gone:
                yield Change("remove", place, gone)
            if come:
                yield Change("add", place, come)


def _dict_steps(pairs: Any, writes: Any, path: Path) -> Iterator[Change | tuple[Any, Path]]:
    if writes.edits(pairs) is None:
        yield Change("replace", path)
        return
    gone = writes.gone()
    kept = list(islice(pairs, writes.length - len(gone)))
    nested = {child._hint: child for child in writes.children.values() if child._place is pairs}
    for key in gone:
        yield Change("remove", (*path, key))
    for key in kept:
        if key in writes.touched:
            yield Change("replace", (*path, key))
        elif key in nested:
            yield nested[key], (*path, key)
    for key in islice(pairs, len(kept), None):
        yield Change("add", (*path, key))
