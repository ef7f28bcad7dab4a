"""The way to one part of a state, in its encoded form: of a large list or dict, only what leads there is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import ormsgpack

from holdfast.objects.codec import msgpack
from holdfast.objects.codec.encode import encode_value
from holdfast.objects.codec.paths import Step as AskedStep
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.diffing.change import PathStep
from holdfast.objects.diffing.encoded import (
    DICT,
    LIST,
    PAIRS,
    RECORD,
    Encoded,
    Large,
    Opened,
    Value,
    open_value,
)
from holdfast.objects.diffing.stretches import Item, all_items, items_at_hand, items_between
from holdfast.objects.tagged import VALUE
from holdfast.objects.tree import nodes
from holdfast.objects.tree.read import Read, join_node
from holdfast.record import Record

_NO_TYPES: Final = TypeRegistry()


class Taken(Record):
    """A step that was taken, and what leads in tagged JSON to the parts of what it was taken in."""

    step: PathStep
    prefix: tuple[str, ...] = ()


class Located(Record):
    """Where a path led."""

    value: Value | None
    """None where there is nothing."""
    steps: list[Taken]
    depth: int
    """How many steps could be taken."""


def locate(value: Value, asked: Sequence[AskedStep], read: Read) -> Located:
    """Go down from `value`, step by step."""
    steps: list[Taken] = []
    for number, step in enumerate(asked):
        found = _large(value, step, read) if isinstance(value, Large) else None
        if found is None:
            whole = value if isinstance(value, Encoded) else Encoded(join_node(value.node, read))
            found = _small(whole, step, read)
        if found is None:
            return Located(None, steps, number)
        value, taken = found
        steps.append(taken)
    if isinstance(value, Encoded):
        # Whoever compares it later may have come to the other one on another way.
        value = Encoded(value.data)
    return Located(value, steps, len(steps))


_Found = tuple[Value, Taken]


def _large(value: Large, step: AskedStep, read: Read) -> _Found | None:
    """One step into a tree; None where the value is none, or has nothing there."""
    node = value.node
    if node.kind == nodes.DICT and isinstance(step, str):
        # The end of it is at hand, and is often all there is.
        for items in (items_at_hand(value), all_items(value, nodes.DICT, read)):
            for item in items:
                if item.key == step:
                    return item.value, Taken(PathStep("key", step))
    if node.kind == nodes.LIST and isinstance(step, int):
        index = step + node.count if step < 0 else step
        if 0 <= index < node.count:
            (item,) = items_between(value, index, index + 1, read)
            return item.value, Taken(PathStep("index", index))
    if node.kind == nodes.LIST and isinstance(step, slice):
        start, stop, _ = step.indices(node.count)
        items = items_between(value, start, stop, read)
        return _as_list(items, read), Taken(PathStep("index", _slice_text(step)))
    return None


def _small(value: Encoded, step: AskedStep, read: Read) -> _Found | None:
    opened = open_value(value)
    if opened is None:
        return None
    if opened.shape == LIST and isinstance(step, int | slice):
        return _of_row(opened, step, read)
    if opened.shape in (DICT, RECORD) and step in opened.keys:
        at = opened.keys.index(step)
        name, prefix = ("key", ()) if opened.shape == DICT else ("field", (VALUE,))
        return opened.values[at], Taken(PathStep(name, step), prefix)  # type: ignore[arg-type]
    if opened.shape == PAIRS and isinstance(step, str):
        wanted = _packed(step)
        if wanted in opened.keys:
            return opened.values[opened.keys.index(wanted)], Taken(PathStep("key", step))
    return None


def _of_row(opened: Opened, step: int | slice, read: Read) -> _Found | None:
    prefix = () if opened.frame == (LIST,) else (VALUE,)
    if isinstance(step, slice):
        items = [Item(at, item) for at, item in enumerate(opened.values[step])]
        return _as_list(items, read), Taken(PathStep("index", _slice_text(step)), prefix)
    index = step + len(opened.values) if step < 0 else step
    if not 0 <= index < len(opened.values):
        return None
    return opened.values[index], Taken(PathStep("index", index), prefix)


def _as_list(items: list[Item], read: Read) -> Encoded:
    """Some items of a list as a list of their own."""
    values = [
        item.value.data if isinstance(item.value, Encoded) else join_node(item.value.node, read)
        for item in items
    ]
    return Encoded(msgpack.array_header(len(values)) + b"".join(values))


def _packed(text: str) -> bytes:
    try:
        return ormsgpack.packb(text)
    except TypeError:
        # Half a surrogate pair: such a text is stored in another form.
        return encode_value(text, _NO_TYPES)


def _slice_text(step: slice) -> Any:
    return f"{'' if step.start is None else step.start}:{'' if step.stop is None else step.stop}"
