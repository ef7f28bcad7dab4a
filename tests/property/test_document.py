"""A document after arbitrary operations: it is the plain value, has its root, and knows what changed.

Every operation is done to a document and to a plain model of it. The figures are those of the tree's own tests, so that
states of a few hundred bytes have nodes in nodes, indexes over indexes and full runs, and small values cross the limit.
"""

from __future__ import annotations

import copy
import operator
from collections import deque
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from tests.property.test_tree import SMALL
from tests.values import identical, values

import holdfast
from holdfast.objects.codec.registry import GLOBAL
from holdfast.objects.document.containers import (
    ROOT,
    Tracked,
    TrackedDict,
    TrackedList,
    plain_copy,
    tracked_copy,
)
from holdfast.objects.document.document import Change, DocumentEncoder, DocumentEncoding
from holdfast.objects.tree.state import decode_state, encode_state
from holdfast.storage.records import ChunkHash

KINDS: dict[type, type] = {dict: TrackedDict, list: TrackedList}

# Around the limit at which a value becomes a node (48 bytes encoded), far above, and below. Chosen from a list rather
# than made up, so that Hypothesis has room for many steps.
PALETTE: list[Any] = [
    *(0, None, 1.5, True, "", "x", b"bytes", 1 << 70, "ten chars!", "y" * 30, "z" * 45, "at the limit" * 4),
    *("w" * 60, "v" * 400, b"b" * 90, "\udc80", float("nan"), -0.0),
    *([], {}, [1, 2, 3], {"a": 1}, [[]], {"k": {"k": {}}}, ["short"] * 7, ["short"] * 9, {"key": "x" * 40}),
    *(
        [{"n": 1}] * 6,
        {"abcdefghi"[n]: "value" * 3 for n in range(6)},
        [["deep", ["er" * 12]]],
        ["l" * 20] * 12,
    ),
    *(
        {"rows": [{"id": 1, "text": "t" * 25}] * 8},
        {"wide": {f"k{n}": n for n in range(40)}},
        {"k" * 60: 1, "short": ["value"] * 4},
        [["just over the limit", "x" * 30]] * 6,
        list(range(100)),
    ),
    *({1: 2}, {None: ["x"] * 20}, {"\udc80": 1, "a": "b" * 60}, {"mixed": 1, (1, 2): [3]}),
    *(
        {1, 2},
        set(range(60)),
        bytearray(b"ba"),
        bytearray(90),
        (1, ["in a tuple"]),
        (1, (2, b"3")),
        deque([1]),
    ),
    *([{1}, bytearray(b"in a list")], {"set": {3}, "list": [[{4}]]}, [b"binary", bytearray(b"binary")] * 5),
    *([[[[[[[[[["deeper than nodes go" * 4]]]]]]]]]], [[[[[[[[{"a": ["b" * 70]}]]]]]]]]),
]
VALUES = st.sampled_from(PALETTE)
# The first containers are the large ones; many writes to one of them between saves are what is hard.
NUMBERS = st.integers(0, 2) | st.integers(0, 200)


class Both:
    """A document and its model, with every operation for both."""

    def __init__(self, first: Any) -> None:
        self.model = copy.deepcopy(first)
        unshare(self.model)
        self.document = tracked_copy(copy.deepcopy(first))
        self.tree = DocumentEncoder(self.document, GLOBAL, cuts=SMALL)
        self.store: dict[ChunkHash, bytes] = {}
        self.under_way: list[tuple[DocumentEncoding, Any]] = []
        self.saved: Any = None
        self.touched: set[int] = set()
        self.held: list[tuple[Any, Any]] = []

    def containers(self) -> list[tuple[Any, Any]]:
        found = [(self.model, self.document)]
        for plain, tracked in found:
            inner = plain.values() if isinstance(plain, dict) else plain
            twins = tracked.values() if isinstance(tracked, dict) else tracked
            pairs = zip(inner, twins, strict=True)
            found += [(one, other) for one, other in pairs if type(one) in (dict, list)]
        return found

    def do(self, which: int, operations: tuple[str, str], *arguments: Any) -> None:
        """Do the one to a list, or the other to a dict."""
        plain, tracked = self.containers()[which % len(self.containers())]
        operation = operations[0] if type(plain) is list else operations[1]
        if len(plain) > 200 and operation == "list_multiply":
            return
        method = getattr(self, operation)
        self.touched.add(id(tracked))
        outcomes = []
        for target in (plain, tracked):
            try:
                outcomes.append(method(target, *copy.deepcopy(arguments)))
            except (ArithmeticError, LookupError, TypeError, ValueError) as error:
                outcomes.append(type(error))
        # A deep copy of anything tracked is plain.
        assert identical(copy.deepcopy(outcomes[1]), outcomes[0])
        unshare(self.model)

    def list_set(self, target: Any, value: Any, at: int, *_: Any) -> None:
        target[at] = value

    def list_set_slice(self, target: Any, value: Any, at: int, to: int, *_: Any) -> None:
        target[at:to] = value

    def list_set_steps(self, target: Any, value: Any, at: int, to: int, step: int) -> None:
        chosen = slice(at, to, step or 1)
        target[chosen] = [value] * len(target[chosen])

    def list_delete(self, target: Any, _value: Any, at: int, *_: Any) -> None:
        del target[at]

    def list_delete_slice(self, target: Any, _value: Any, at: int, to: int, *_: Any) -> None:
        del target[at:to]

    def list_delete_steps(self, target: Any, _value: Any, at: int, to: int, step: int) -> None:
        del target[at : to : step or 1]

    def list_append(self, target: Any, value: Any, *_: Any) -> None:
        target.append(value)

    def list_extend(self, target: Any, value: Any, *_: Any) -> None:
        target.extend([value, 1, value])

    def list_add_in_place(self, target: Any, value: Any, *_: Any) -> None:
        operator.iadd(target, value)

    def list_multiply(self, target: Any, _value: Any, times: int, *_: Any) -> None:
        operator.imul(target, times % 3)

    def list_insert(self, target: Any, value: Any, at: int, *_: Any) -> None:
        target.insert(at, value)

    def list_pop(self, target: Any, _value: Any, at: int, *_: Any) -> Any:
        return target.pop(at)

    def list_remove(self, target: Any, _value: Any, at: int, *_: Any) -> None:
        target.remove(target[at])

    def list_sort(self, target: Any, _value: Any, at: int, *_: Any) -> None:
        target.sort(key=repr, reverse=at > 0)

    def list_sort_badly(self, target: Any, *_: Any) -> None:
        target.sort()

    def list_reverse(self, target: Any, *_: Any) -> None:
        target.reverse()

    def list_clear(self, target: Any, *_: Any) -> None:
        target.clear()

    def list_trim(self, target: Any, _value: Any, at: int, *_: Any) -> None:
        target[:] = target[at:]

    def list_filter(self, target: Any, _value: Any, _at: int, to: int, *_: Any) -> None:
        target[:] = [item for position, item in enumerate(target) if position % 7 != to % 7]

    def list_rotate(self, target: Any, _value: Any, at: int, *_: Any) -> None:
        target[:] = target[at:] + target[:at]

    def list_swap(self, target: Any, _value: Any, at: int, to: int, *_: Any) -> None:
        target[at], target[to] = target[to], target[at]

    def list_insert_several(self, target: Any, value: Any, at: int, *_: Any) -> None:
        target[at:at] = [value, {"k": value}, [value]]

    def dict_set(self, target: Any, value: Any, at: int, *_: Any) -> None:
        target["abcdefghijk"[at % 11] * 5] = value

    def dict_set_old(self, target: Any, value: Any, at: int, *_: Any) -> None:
        target[list(target)[at]] = value

    def dict_set_odd_key(self, target: Any, value: Any, at: int, *_: Any) -> None:
        target[[1, (1, 2), None, "\udc80", 1.0, True, "too long" * 6][at % 7]] = value

    def dict_delete(self, target: Any, _value: Any, at: int, *_: Any) -> None:
        del target[list(target)[at]]

    def dict_pop(self, target: Any, value: Any, at: int, *_: Any) -> Any:
        return target.pop(list(target)[at] if at > 0 else "nowhere", value)

    def dict_pop_missing(self, target: Any, *_: Any) -> None:
        target.pop("nowhere")

    def dict_move_to_end(self, target: Any, _value: Any, at: int, *_: Any) -> None:
        key = list(target)[at]
        target[key] = target.pop(key)

    def dict_popitem(self, target: Any, *_: Any) -> Any:
        return target.popitem()

    def dict_clear(self, target: Any, *_: Any) -> None:
        target.clear()

    def dict_update(self, target: Any, value: Any, at: int, *_: Any) -> None:
        target.update({"abc"[at % 3]: value, "u": at}, v=value)

    def dict_or(self, target: Any, value: Any, at: int, *_: Any) -> None:
        operator.ior(target, [("abc"[at % 3], value), ("o", at)])

    def dict_setdefault(self, target: Any, value: Any, at: int, *_: Any) -> Any:
        return target.setdefault("abcdef"[at % 6], value)

    def poke(self, target: Any, _value: Any, at: int, *_: Any) -> None:
        """Change a value that cannot be tracked, in place."""
        inner = list(target.values() if isinstance(target, dict) else target)[at]
        if isinstance(inner, set):
            inner.add(at)
        elif isinstance(inner, bytearray | deque):
            inner.append(at % 9)
        elif type(inner) is tuple and inner and type(inner[-1]) is list:
            inner[-1].append(at)

    def attach_again(self, which: int, other: int) -> None:
        """Put a container that has its place somewhere else as well: a copy, unless that would be a cycle."""
        plain, tracked = self.containers()[which % len(self.containers())]
        into, into_tracked = self.containers()[other % len(self.containers())]
        self.touched.add(id(into_tracked))
        try:
            put(into_tracked, [tracked])
        except holdfast.InvalidInputError as refusal:
            assert (refusal.code, lies_in(into_tracked, tracked)) == ("value-cycle", True)  # noqa: PT017
        else:
            assert not lies_in(into_tracked, tracked)
            put(into, [flat_copy(plain)])

    def take_out(self, which: int, at: int) -> None:
        """Remove a container and hold it: what happens to it now is its own affair."""
        plain, tracked = self.containers()[which % len(self.containers())]
        places = [place for place, value in tracked._places() if isinstance(value, Tracked)]
        if places:
            self.touched.add(id(tracked))
            place = places[at % len(places)]
            self.held.append((plain.pop(place), tracked.pop(place)))
            assert self.held[-1][1]._place is None
            for target in self.held[-1]:
                put(target, "while held")

    def put_back(self, which: int) -> None:
        """Put a container that was taken out somewhere else; it is the same object, and counts again."""
        if self.held:
            into, into_tracked = self.containers()[which % len(self.containers())]
            plain, tracked = self.held.pop()
            self.touched.add(id(into_tracked))
            put(into, plain)
            put(into_tracked, tracked)
            assert tracked._place is into_tracked

    def check(self) -> None:
        assert identical(plain_copy(self.document), self.model)
        self.check_places()
        self.check_changes()

    def check_places(self) -> None:
        assert self.document._place is ROOT
        for plain, tracked in self.containers():
            assert type(tracked) is KINDS[type(plain)]
            container: Any = tracked
            for _, value in container._places():
                if isinstance(value, Tracked):
                    assert value._place is tracked
                    assert value._marks | tracked._marks == tracked._marks

    def check_changes(self) -> None:
        changes = self.tree.changes()
        if self.saved is None:
            assert changes == [Change("replace", ())]
            return
        assert identical(tracked_part(followed(self.saved, changes, self.model)), tracked_part(self.model))
        for change in changes:
            # A container whose order is not certain counts as replaced; other places lie in one that was written to.
            whole = change.op == "replace" and id(at_path(self.document, change.path)) in self.touched
            assert whole or id(at_path(self.document, change.path[:-1])) in self.touched

    def encode(self) -> None:
        encoding = self.tree.encode()
        plain = encode_state(self.model, GLOBAL, cuts=SMALL)
        assert (encoding.state.root, encoding.state.size_bytes) == (plain.root, plain.size_bytes)
        assert encode_state(self.document, GLOBAL, cuts=SMALL).root == plain.root
        self.tree.check(encoding)
        self.under_way.append((encoding, copy.deepcopy(self.model)))

    def settle(self, *, stored: bool) -> None:
        """The save that was encoded first has reached the store, or has failed."""
        if self.under_way:
            encoding, model = self.under_way.pop(0)
            if stored:
                self.store.update((chunk.hash, chunk.data) for chunk in encoding.state.chunks)
                # Whatever else there was is gone: nothing but the newest state can be counted on.
                needed = {chunk.hash for chunk in encode_state(model, GLOBAL, cuts=SMALL).chunks}
                self.store = {name: data for name, data in self.store.items() if name in needed}
                assert identical(self.load(encoding.state.root), model)
                self.tree.confirm(encoding)
                self.saved = model

    def load(self, root: ChunkHash) -> Any:
        return decode_state(root, lambda names: {name: self.store[name] for name in names}, GLOBAL)


def unshare(value: Any) -> None:
    """Make copies of containers that are in more than one place, as a document does when they are put in."""
    seen, to_do = {id(value)}, [value]
    while to_do:
        target = to_do.pop()
        for place, inner in list(target.items() if type(target) is dict else enumerate(target)):
            if type(inner) in (dict, list):
                if id(inner) in seen:
                    target[place] = flat_copy(inner)
                seen.add(id(target[place]))
                to_do.append(target[place])


def flat_copy(value: Any) -> Any:
    """A copy of dicts and lists; what else there is stays the same object."""
    if type(value) is dict:
        return {key: flat_copy(item) for key, item in value.items()}
    return [flat_copy(item) for item in value] if type(value) is list else value


def put(target: Any, value: Any) -> None:
    if isinstance(target, dict):
        target["put"] = value
    else:
        target.insert(1, value)


def lies_in(inner: Any, outer: Any) -> bool:
    while inner is not None and inner is not ROOT:
        if inner is outer:
            return True
        inner = inner._place
    return False


def at_path(value: Any, path: tuple[Any, ...]) -> Any:
    for place in path:
        value = value[place]
    return value


def followed(saved: Any, changes: list[Change], now: Any) -> Any:
    """The saved state, brought up to date by following the changes."""
    state = copy.deepcopy(saved)
    for change in changes:
        if not change.path:
            return copy.deepcopy(now)
        *way, place = change.path
        target, source = at_path(state, tuple(way)), at_path(now, tuple(way))
        several = isinstance(target, list)
        if change.op == "remove" and several:
            assert place + change.count <= len(target)
            del target[place : place + change.count]
        elif change.op == "remove":
            del target[place]
        elif several:
            gone = 0 if change.op == "add" else change.count
            assert place + gone <= len(target)
            target[place : place + gone] = copy.deepcopy(source[place : place + change.count])
        else:
            assert (place in target) == (change.op == "replace")
            target[place] = copy.deepcopy(source[place])
    return state


def tracked_part(value: Any) -> Any:
    """The value without what is inside of values that a document does not look into."""
    if type(value) is dict:
        return {key: tracked_part(item) for key, item in value.items()}
    if type(value) is list:
        return [tracked_part(item) for item in value]
    return value if type(value) in (str, int, float, bytes, bool, type(None)) else type(value).__name__


PLACES = st.integers(-9, 9) | st.integers(-90, 90)
OPERATIONS = st.tuples(
    st.sampled_from([*(name for name in vars(Both) if name.startswith("list_")), "poke"]),
    st.sampled_from([*(name for name in vars(Both) if name.startswith("dict_")), "poke"]),
)
DO = st.tuples(st.just("do"), NUMBERS, OPERATIONS, VALUES, PLACES, PLACES, st.integers(-4, 4))
STEPS = st.one_of(
    *[DO] * 6,
    st.tuples(st.just("attach_again"), NUMBERS, NUMBERS),
    st.tuples(st.just("take_out"), NUMBERS, NUMBERS),
    st.tuples(st.just("put_back"), NUMBERS),
    st.tuples(st.just("save"), st.sampled_from(["stored", "failed", "under way"])),
)
KEYS = st.sampled_from([*"abcdefgh", *(f"key number {n}" for n in range(20))])
FIRST = st.one_of(
    st.fixed_dictionaries(
        {"log": st.lists(VALUES, max_size=80), "context": st.dictionaries(KEYS, VALUES, max_size=25)}
    ),
    st.lists(VALUES, max_size=80),
)


# Back to the state that is stored, while another is on its way there.
THERE_AND_BACK = [
    ("do", 0, ("list_append", "dict_set"), 1, 0, 0, 0),
    ("save", "under way"),
    ("do", 0, ("list_delete", "dict_delete"), 0, -1, 0, 0),
]


@example(["x"], THERE_AND_BACK)
@given(FIRST, st.lists(STEPS, min_size=12, max_size=40))
def test_a_document_is_its_plain_value_and_has_its_root(first, steps):
    run(first, steps)


# A few values (the path "C:C:" of Windows) become others when they are copied.
COPIED = values(max_leaves=20).filter(lambda value: identical(copy.deepcopy(value), value))


@given(COPIED, st.lists(st.tuples(st.just("do"), NUMBERS, OPERATIONS, COPIED), max_size=8))
def test_a_document_keeps_values_of_every_kind(first, steps):
    run({"x": first, "list": [first] * 3}, [(*step, 0, 1, 2) for step in steps])


def run(first: Any, steps: list[Any]) -> None:
    both = Both(first)
    both.encode()
    both.settle(stored=True)
    both.touched.clear()
    for name, *arguments in steps:
        if name == "save":
            save(both, *arguments)
        else:
            getattr(both, name)(*arguments)
        both.check()
    both.encode()
    while both.under_way:
        both.settle(stored=True)
    both.check()
    assert both.tree.changes() == []


def save(both: Both, outcome: str) -> None:
    both.encode()
    if outcome != "under way":
        # Those that were under way come to their end first, one way or the other.
        while len(both.under_way) > 1:
            both.settle(stored=len(both.under_way) % 2 == 0)
        both.settle(stored=outcome == "stored")
        if outcome == "stored":
            both.touched.clear()
