"""Where an item lies in its container, as both slow ways see it: by container code and item number on the wire.

Lists and maps have no extension code; they get negative ones here. Two of these are maps that belong to an object: its
fields, and what its kind of class keeps beside them. They are told apart only to write `.field` into paths.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.objects.codec import msgpack, paths

LIST: Final = -1
MAP: Final = -2
FIELDS: Final = -3
BESIDE: Final = -4

# Code -> the number of its first item.
_INDEXED: Final = {LIST: 0, msgpack.TUPLE: 0, msgpack.DEQUE: 1}
# Code -> the number of its first key; values follow their keys.
PAIRED: Final = {
    MAP: 0,
    FIELDS: 0,
    BESIDE: 0,
    msgpack.PAIRS: 0,
    msgpack.ORDEREDDICT: 0,
    msgpack.COUNTER: 0,
    msgpack.DEFAULTDICT: 1,
}
_NAMED: Final = {
    (msgpack.DATETIME, 8): ".tzinfo",
    (msgpack.TIME, 5): ".tzinfo",
    (msgpack.SLICE, 0): ".start",
    (msgpack.SLICE, 1): ".stop",
    (msgpack.SLICE, 2): ".step",
    (msgpack.SET, None): paths.MEMBER,
    (msgpack.FROZENSET, None): paths.MEMBER,
}


def map_code(parent: int, at: int) -> int:
    """What a map is that is item `at` of a container of code `parent`."""
    if parent == BESIDE or (parent == msgpack.RECORD and at == 2):
        return FIELDS
    return BESIDE if parent == msgpack.RECORD else MAP


def is_key(code: int, at: int) -> bool:
    """Whether item `at` is the key of a pair."""
    return code in PAIRED and at >= PAIRED[code] and (at - PAIRED[code]) % 2 == 0


def step(code: int, at: int, key: Any) -> str:
    """The step of a path to item `at`; `key` is the key of the pair it belongs to, where it belongs to one."""
    if code in _INDEXED:
        return paths.index_step(at - _INDEXED[code])
    if code == FIELDS:
        return paths.field_step(key)
    if code == BESIDE:
        return ""
    if code in PAIRED:
        return paths.into_key_step(key) if is_key(code, at) else paths.key_step(key)
    # An object has no step of its own: its fields are a map one level down.
    return _NAMED.get((code, at)) or _NAMED.get((code, None), "")
