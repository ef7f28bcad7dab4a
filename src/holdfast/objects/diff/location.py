"""The way to one part of a state, of which only what leads there is read: `messages[-20:]`, `beliefs.b7.confidence`.

Of a list only the runs that hold the wanted items are read, of a dict the runs up to the one that has the key.
`locate` takes every step in the encoded form. `select_part` takes it as far as to the first object: what is in that is
for its class to say, which may have other fields by now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.encode import encode_value
from holdfast.objects.codec.opaque import Opaque
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.codec.state_path import EXTRA, PathStep, Step, missing, parse_path, position_of
from holdfast.objects.codec.tagged_json import VALUE
from holdfast.objects.diff.encoded_value import (
    DICT,
    LIST,
    NIL,
    RECORD,
    SET,
    Encoded,
    Large,
    Opened,
    Value,
    open_value,
    rebuild,
)
from holdfast.objects.diff.sequences import Item, all_items, items_at_hand, items_between
from holdfast.objects.tree import nodes
from holdfast.objects.tree.nodes import MalformedNodeError, Node
from holdfast.objects.tree.read import Read, join_node, not_a_state, open_root
from holdfast.record import Record
from holdfast.storage.records import ChunkHash

_NO_TYPES: Final = TypeRegistry()


class Taken(Record):
    """A step that was taken, and what leads in tagged JSON to the parts of what it was taken in."""

    step: PathStep
    prefix: tuple[str, ...] = ()


class Location(Record):
    """Where a path led."""

    value: Value | None
    """None where there is nothing."""
    steps: list[Taken]
    """Those that could be taken."""
    left: Sequence[Step] = ()
    """Those that were left: to an object that was not looked into, or where there is nothing."""
    names: Sequence[str] = ()
    """Where there is nothing: the names of what stands in its place."""


_Found = tuple[Value, Taken]


def select_part(root: ChunkHash, text: str, read: Read, types: TypeRegistry) -> Any:
    """The part of the state under `root` at that path, verified and decoded.

    Raises:
        InvalidInputError: The path is none (`bad-path`).
        NotFoundError: There is no such part (`path-missing`).
        IntegrityError: A chunk on the way is missing or damaged.
    """
    asked = parse_path(text)
    try:
        found = locate(open_state(root, read), asked, read, into_objects=False)
        if found.value is None:
            raise missing(asked, len(asked) - len(found.left), "it is not in the state", found.names)
        value = decode_value(whole_of(found.value, read).data, types)
    except MalformedNodeError as error:
        raise not_a_state(root, error) from error
    for at in range(len(asked) - len(found.left), len(asked)):
        try:
            value = _taken(value, asked[at])
        except (LookupError, AttributeError, TypeError, ValueError):
            known = value.data if isinstance(value, Opaque) else value
            names = known if isinstance(known, Mapping) else getattr(known, "__dict__", ())
            raise missing(asked, at, f"there is a {type(value).__name__}", names) from None
    return value


def locate(value: Value, asked: Sequence[Step], read: Read, *, into_objects: bool = True) -> Location:
    """Go down from `value`, step by step."""
    steps: list[Taken] = []
    for number, step in enumerate(asked):
        found = _large(value, step, read) if isinstance(value, Large) else None
        if found is None:
            opened = open_value(whole_of(value, read))
            if opened is not None and opened.shape == RECORD and not into_objects:
                return Location(value, steps, asked[number:])
            found = None if opened is None else _small(opened, step, read)
            if found is None and step == VALUE and opened is not None and opened.shape != DICT:
                # A pointer into tagged JSON, which has the parts of such a value there.
                continue
            if found is None:
                names = [] if opened is None else [each for each in opened.keys if isinstance(each, str)]
                return Location(None, steps, asked[number:], names)
        value, taken = found
        steps.append(taken)
    return Location(value, steps)


def open_state(root: ChunkHash, read: Read) -> Value:
    """A whole state, not decoded."""
    start = open_root(root, read)
    return Large(start.pack()) if isinstance(start, Node) else Encoded(bytes(start))


def whole_of(value: Value, read: Read) -> Encoded:
    """A value with all its bytes."""
    return value if isinstance(value, Encoded) else Encoded(join_node(value.node, read))


def _taken(value: Any, step: Step) -> Any:
    """One step into a decoded value: a key, a position, or a field that holds a value; never a method."""
    if step == EXTRA:
        return value.extra
    if step == VALUE and not (isinstance(value, Mapping) and VALUE in value):
        return value
    if isinstance(value, Opaque):
        value = value.data
    at = position_of(step)
    if isinstance(value, Mapping):
        return value[step.key if isinstance(step, PathStep) else step]
    if isinstance(value, Sequence):
        return value[step if at is None else at]  # type: ignore[index]
    if isinstance(value, AbstractSet) and isinstance(step, PathStep) and step.key in value:
        return step.key
    if not isinstance(step, str) or step.startswith("_") or callable(getattr(type(value), step, None)):
        raise AttributeError(step)
    return getattr(value, step)


def _large(value: Large, step: Step, read: Read) -> _Found | None:
    """One step into a tree; None where the value is none, or has nothing there."""
    node = value.node
    if node.kind == nodes.DICT and isinstance(step, str):
        # The end of it is at hand, and is often all there is.
        for items in (items_at_hand(value), all_items(value, nodes.DICT, read)):
            for item in items:
                if item.key == step:
                    return item.value, Taken(PathStep("key", step))
    if node.kind == nodes.LIST and isinstance(step, slice):
        start, stop, _ = step.indices(node.count)
        return _as_list(items_between(value, start, stop, read), read), Taken(_range_step(step))
    if node.kind == nodes.LIST and (at := position_of(step)) is not None:
        index = at + node.count if at < 0 else at
        if 0 <= index < node.count:
            (item,) = items_between(value, index, index + 1, read)
            return item.value, Taken(PathStep("index", index))
    return None


def _small(opened: Opened, step: Step, read: Read) -> _Found | None:
    """One step into a container of which all is at hand."""
    prefix = () if opened.frame in ((LIST,), (DICT,)) else (VALUE,)
    if step == EXTRA:
        extra = opened.extra
        return None if extra is None or extra.data == NIL else (extra, Taken(EXTRA))
    if opened.shape == LIST:
        return _in_row(opened, step, prefix, read)
    key = step.key if isinstance(step, PathStep) else step
    if opened.shape in (DICT, RECORD):
        kind: Any = "key" if opened.shape == DICT else "field"
        keys, wanted = opened.keys, key
    else:
        kind = "member" if opened.shape == SET else "key"
        keys = [each.data for each in opened.values] if opened.shape == SET else opened.keys
        wanted = None if isinstance(key, slice) else encode_value(key, _NO_TYPES)
    if wanted not in keys:
        return None
    return opened.values[keys.index(wanted)], Taken(PathStep(kind, key), prefix)


def _in_row(opened: Opened, step: Step, prefix: tuple[str, ...], read: Read) -> _Found | None:
    if isinstance(step, slice):
        items = [Item(at, item) for at, item in enumerate(opened.values[step])]
        return _as_list(items, read), Taken(_range_step(step), prefix)
    at = position_of(step)
    index = -1 if at is None else at + len(opened.values) if at < 0 else at
    if not 0 <= index < len(opened.values):
        return None
    return opened.values[index], Taken(PathStep("index", index), prefix)


def _as_list(items: list[Item], read: Read) -> Encoded:
    """Some items of a list as a list of their own."""
    values = (
        item.value.data if isinstance(item.value, Encoded) else join_node(item.value.node, read)
        for item in items
    )
    return rebuild((LIST,), values)


def _range_step(step: slice) -> PathStep:
    start, stop = ("" if each is None else each for each in (step.start, step.stop))
    return PathStep("index", f"{start}:{stop}")
