"""Ctrl-C at any line of any change: whatever the document holds then is what the next save writes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest
from tests.property.test_tree import SMALL
from tests.unit.objects.test_tracked import MUTATIONS, containers

from holdfast.objects.living import LivingTree
from holdfast.objects.registry import GLOBAL
from holdfast.objects.state import decode_state, encode_state
from holdfast.objects.tracked import plain_copy, tracked_copy
from holdfast.storage.records import ChunkHash
from holdfast.testing.values import identical

# Large enough for all three to be nodes with full runs.
VALUE: dict[str, Any] = {
    "messages": [
        {"role": "user", "parts": ["a", "b"]},
        *({"role": "assistant", "text": "t" * size} for size in range(12)),
        {"role": "tool"},
    ],
    "context": {"n": 1, "deep": {"x": ["x" * 40]}, **{f"key {number}": "y" * 9 for number in range(12)}},
    "more": ["y" * 20] * 20,
}
CHANGES: dict[str, Callable[[Any], Any]] = {
    **MUTATIONS,
    "set steps": lambda d: d["messages"].__setitem__(slice(None, None, 2), [1] * len(d["messages"][::2])),
    "a set": lambda d: d["messages"][0].__setitem__("tags", {1}),
    "a deep value": lambda d: d["context"]["deep"]["x"].append({"y": [bytearray(b"z")]}),
    "a key that is no text": lambda d: d["context"].__setitem__(1, 2),
    "a container from elsewhere": lambda d: d["context"].__setitem__("copy", d["messages"]),
    "one that moves": lambda d: d["context"].__setitem__("moved", d["messages"].pop(0)),
    "a trim": lambda d: d["messages"].__setitem__(slice(None), d["messages"][1:]),
}


class Interrupter:
    """Raises KeyboardInterrupt at one line of the code that tracks."""

    def __init__(self, line: int) -> None:
        self.left = line

    def trace(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if not frame.f_code.co_filename.endswith(
            ("tracked.py", "tracked_dict.py", "tracked_list.py", "writes.py")
        ):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self.trace


def interrupted(change: Callable[[Any], Any], document: Any, line: int) -> bool:
    sys.settrace(Interrupter(line).trace)
    try:
        change(document)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


def change_in_place(document: Any) -> None:
    """Change every value that cannot be tracked."""
    for container in containers(document):
        for _, inner in container._places():
            if isinstance(inner, set):
                inner.add(len(inner))
            elif isinstance(inner, bytearray):
                inner.append(1)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_is_interrupted_anywhere_is_saved_as_far_as_it_went(name):
    store: dict[ChunkHash, bytes] = {}
    first = encode_state(VALUE, GLOBAL, cuts=SMALL)
    store.update((chunk.hash, chunk.data) for chunk in first.chunks)
    for line in range(1, 1_000):
        document = tracked_copy(VALUE)
        tree = LivingTree(document, GLOBAL, first.root, cuts=SMALL)
        stopped = interrupted(CHANGES[name], document, line)
        for then in (lambda _: None, change_in_place, CHANGES[name], change_in_place):
            with suppress(LookupError, ValueError):
                then(document)
            encoding = tree.encode()
            store.update((chunk.hash, chunk.data) for chunk in encoding.state.chunks)
            tree.confirm(encoding)
            plain = plain_copy(document)
            assert encoding.state.root == encode_state(plain, GLOBAL, cuts=SMALL).root, line
        loaded = decode_state(
            encoding.state.root, lambda names: {each: store[each] for each in names}, GLOBAL
        )
        assert identical(loaded, plain)
        if not stopped:
            assert line > 5
            return
    pytest.fail("it never came to its end")
