"""The tree of a large state: the same value has the same root whatever led to it, and comes back as it was.

The figures are small, so that states of a few hundred bytes have nodes in nodes, indexes over indexes and full runs.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.values import identical, values

from holdfast.objects.codec.registry import GLOBAL
from holdfast.objects.tree.boundaries import Cuts
from holdfast.objects.tree.build import StateMemo
from holdfast.objects.tree.state import EncodedState, decode_state, encode_state
from holdfast.storage.records import ChunkHash

SMALL = Cuts(
    item_limit=48,
    leaf_scale=64,
    index_scale=3,
    node_weight=32,
    piece_min=64,
    piece_mean=256,
    piece_max=1024,
    node_depth=8,
    node_limit=240,
)


class Chunks(dict[ChunkHash, bytes]):
    """A store of plain chunks that counts what it is given."""

    def save(self, value: Any, memo: Any = None) -> EncodedState:
        encoded = encode_state(value, GLOBAL, memo, cuts=SMALL)
        assert all(len(chunk.data) <= SMALL.largest_chunk() for chunk in encoded.chunks)
        self.update((chunk.hash, chunk.data) for chunk in encoded.chunks)
        return encoded

    def load(self, root: ChunkHash) -> Any:
        return decode_state(root, lambda names: {name: self[name] for name in names if name in self}, GLOBAL)


def counted_on(memo: StateMemo) -> set[ChunkHash]:
    """The chunks that the next save will not send again."""
    return {memo.root} | (memo.node.deep_chunks() if memo.node else set())


ITEMS = (
    st.text(max_size=12) | st.integers() | st.lists(st.integers(0, 9), max_size=30) | st.binary(max_size=80)
)
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["append", "set", "insert", "delete", "trim", "reverse"]), st.integers(0, 99), ITEMS
    ),
    max_size=12,
)


def edited(items: list[Any], edits: list[tuple[str, int, Any]]) -> list[list[Any]]:
    versions, now = [items], list(items)
    for kind, place, item in edits:
        at = place % (len(now) + 1)
        if kind == "append":
            now.append(item)
        elif kind == "insert":
            now.insert(at, item)
        elif kind == "trim":
            now = [item, *now[at:]]
        elif kind == "reverse":
            now.reverse()
        elif now:
            now[at % len(now) : at % len(now) + 1] = [item] if kind == "set" else []
        versions.append(list(now))
    return versions


@given(values())
def test_any_value_comes_back_from_its_tree(value):
    chunks = Chunks()
    assert identical(chunks.load(chunks.save(value).root), value)


@given(st.lists(ITEMS, max_size=120), EDITS)
def test_the_root_does_not_depend_on_the_edits_that_led_there(items, edits):
    chunks, memo = Chunks(), None
    for version in edited(items, edits):
        encoded = chunks.save({"log": version, "n": len(version)}, memo)
        memo = encoded.memo
        assert encoded.root == encode_state({"log": version, "n": len(version)}, GLOBAL, cuts=SMALL).root
        assert identical(chunks.load(encoded.root), {"log": version, "n": len(version)})


# Around the limit of what may be a key of a dict that is cut by its pairs, 48 bytes encoded, and above.
KEYS = st.text(max_size=8) | st.sampled_from(["k" * 45, "k" * 46, "k" * 47, "\u00fc" * 23, "long" * 30])


@given(
    st.lists(st.tuples(KEYS, ITEMS), max_size=120),
    st.lists(st.tuples(st.sampled_from(["append", "set", "insert", "delete"]), st.integers(0, 99), ITEMS)),
    st.sampled_from(["", "k" * 44]),
)
def test_dicts_keep_their_order_and_their_root(pairs, edits, long):
    chunks, memo = Chunks(), None
    for version in edited(pairs, [(kind, at, (f"{long}k{at}", item)) for kind, at, item in edits]):
        state = dict(version)
        encoded = chunks.save(state, memo)
        memo = encoded.memo
        assert encoded.root == encode_state(state, GLOBAL, cuts=SMALL).root
        assert list(chunks.load(encoded.root).items()) == list(state.items())


@given(
    st.dictionaries(st.text(max_size=4), st.lists(ITEMS, max_size=60), max_size=8), EDITS, st.integers(0, 7)
)
def test_nodes_in_nodes_keep_their_root(tables, edits, which):
    chunks, memo = Chunks(), None
    names = list(tables)
    for version in edited(tables[names[which % len(names)]] if names else [], edits):
        state = {"tables": {**tables, **({names[which % len(names)]: version} if names else {})}}
        encoded = chunks.save(state, memo)
        memo = encoded.memo
        assert encoded.root == encode_state(state, GLOBAL, cuts=SMALL).root
        assert identical(chunks.load(encoded.root), state)


NESTED = st.recursive(
    st.text(max_size=60) | st.lists(st.integers(0, 9), min_size=45, max_size=60),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=60,
)


@given(NESTED, NESTED)
def test_many_values_just_over_the_limit_keep_their_roots_and_small_nodes(first, second):
    chunks, memo = Chunks(), None
    for state in (first, [first, second], {"a": [second], "b": first}, second):
        encoded = chunks.save(state, memo)
        memo = encoded.memo
        assert encoded.root == encode_state(state, GLOBAL, cuts=SMALL).root
        assert identical(chunks.load(encoded.root), state)
        # Nothing is counted on that is not part of this tree: the store may not have it.
        assert counted_on(memo) == {chunk.hash for chunk in encode_state(state, GLOBAL, cuts=SMALL).chunks}


@given(st.lists(values(), max_size=20), st.lists(values(), max_size=20))
def test_arbitrary_states_one_after_another_keep_their_roots(first, second):
    chunks = Chunks()
    memo = chunks.save(first).memo
    encoded = chunks.save(second, memo)
    assert encoded.root == encode_state(second, GLOBAL, cuts=SMALL).root
    assert identical(chunks.load(encoded.root), second)


@pytest.mark.parametrize("tracked", [False, True], ids=["plain", "document"])
@pytest.mark.parametrize(
    "around",
    [
        lambda d: d,
        lambda d: [d, ["x" * 9] * 40],
        lambda d: [0] * 40 + [d],
        lambda d: {"log": ["x" * 9] * 40, "d": d},
    ],
    ids=["small", "in a list", "in a run", "in a dict"],
)
def test_a_dict_that_changes_while_it_is_encoded_is_still_a_dict(around, tracked):
    from holdfast.objects.codec.registry import TypeRegistry
    from holdfast.objects.document.containers import tracked_copy
    from holdfast.objects.document.document import DocumentEncoder

    class Odd:
        changed = 0

    target: Any = {"a": (Odd(),), "b": 2, "c": 3}

    def encode(_odd: Odd) -> int:
        if Odd.changed < 4:
            Odd.changed += 1
            target[f"new {Odd.changed}"] = Odd.changed
        return 1

    types = TypeRegistry()
    types.register(Odd, encode=encode, decode=lambda n: n)
    state = around(target)
    if tracked:
        state = tracked_copy(state)
        inner = [state, *(state.values() if isinstance(state, dict) else state)]
        target = next(each for each in inner if isinstance(each, dict) and "a" in each)
        encoded = DocumentEncoder(state, types, cuts=SMALL).encode().state
    else:
        encoded = encode_state(state, types, cuts=SMALL)
    store = {chunk.hash: chunk.data for chunk in encoded.chunks}
    assert decode_state(encoded.root, lambda names: {name: store[name] for name in names}, types)
