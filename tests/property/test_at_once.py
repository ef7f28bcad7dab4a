"""Items that are encoded several at once are cut where they would be if each were looked at by itself."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.objects import cutting, runs, sequence
from holdfast.objects.bulk import BulkPacker
from holdfast.objects.cutting import FORMAT_0
from holdfast.objects.item_packing import ItemPacker
from holdfast.objects.living import LivingTree
from holdfast.objects.memo import StateMemo
from holdfast.objects.registry import GLOBAL
from holdfast.objects.splitting import _Container
from holdfast.objects.state import EncodedState, encode_state
from holdfast.objects.tracked import plain_copy, tracked_copy
from holdfast.objects.tracked_dict import TrackedDict
from holdfast.objects.tracked_list import TrackedList
from holdfast.storage.records import ChunkHash


class Color(IntEnum):
    """Written as a number where nobody asks."""

    RED = 1


TYPES = GLOBAL.child([Color])

LONG = 40_000
"""Bytes that no item may have and stand literally."""


def one_by_one(state: Any) -> ChunkHash:
    """The root of a state of which each item is looked at by itself."""
    with patch.object(sequence, "worth_at_once", lambda *_: 1):
        return encode_state(state, TYPES).root


@given(
    scale=st.integers(100, 100_000),
    items=st.lists(
        st.tuples(st.integers(0, 64), st.integers(0, 2**64 - 1), st.integers(1, 400)), max_size=100
    ),
    total=st.integers(0, 40_000),
)
def test_the_first_item_that_ends_a_run_is_the_first_of_which_that_is_said(
    scale: int, items: list[tuple[int, int, int]], total: int
) -> None:
    cuts = FORMAT_0._replace(leaf_scale=scale)
    # Shifted, so that small numbers, which end runs, are not rare.
    numbers = [number >> shift for shift, number, _ in items]
    weights = [weight for *_, weight in items]
    held, expected = total, None
    for place, (number, weight) in enumerate(zip(numbers, weights, strict=True)):
        held += weight
        if cuts.ends_leaf(number, weight, held):
            expected = place
            break
    assert cuts.first_end(numbers, weights, total) == expected


def odd_value(source: random.Random) -> Any:
    """What is not encoded at once with others, or does not stand literally."""
    return source.choice(
        [
            "long " * (LONG // 5),
            datetime(2026, 11, 18, tzinfo=UTC),
            b"bytes",
            {"deep": ["x" * 300] * 200},
            "\ud800",
            [],
            2**70,
            (1, 2),
            bytearray(b"bytes"),
            Color.RED,
            {"in": {"a": Color.RED, 3: 4}},
        ]
    )


def record(source: random.Random) -> dict[str, Any]:
    return {"id": source.randrange(10**6), "name": "n" * source.randrange(40), "score": source.random()}


def table(source: random.Random, *, odd: bool) -> Any:
    """A list, or a dict, of small records, some of them out of the ordinary."""
    count = source.choice([3, 40, 700, 1_500])
    made = [odd_value(source) if odd and source.random() < 0.01 else record(source) for _ in range(count)]
    if source.random() < 0.5:
        return made
    keys: list[Any] = [f"key {source.random()}" for _ in made]
    if odd and source.random() < 0.5:
        keys[source.randrange(count)] = source.choice([7, "k" * LONG])
    return dict(zip(keys, made, strict=True))


@pytest.mark.parametrize("seed", range(25))
def test_a_plain_state_has_the_same_root(seed: int) -> None:
    source = random.Random(seed)
    state = {"a": table(source, odd=seed % 2 == 0), "b": table(source, odd=False)}
    memo: StateMemo | None = None
    for _ in range(4):
        made: EncodedState = encode_state(state, TYPES, memo)
        assert made.root == one_by_one(state)
        memo = made.memo
        change(state, source, odd=seed % 2 == 0)


@pytest.mark.parametrize("seed", range(25))
def test_a_document_has_the_same_root(seed: int) -> None:
    source = random.Random(seed)
    document = tracked_copy({"a": table(source, odd=seed % 2 == 0), "b": table(source, odd=False)})
    tree = LivingTree(document, TYPES)
    for _ in range(4):
        made = tree.encode()
        tree.confirm(made)
        assert made.state.root == one_by_one(plain_copy(document))
        change(document, source, odd=seed % 2 == 0)


def change(state: Any, source: random.Random, *, odd: bool) -> None:
    """Some edits in the middle: other values, longer and shorter ones, new items, fewer items."""
    for each in (state["a"], state["b"]):
        for _ in range(source.randrange(1, 5)):
            value = odd_value(source) if odd and source.random() < 0.2 else record(source)
            if isinstance(each, (list, TrackedList)):
                place = source.randrange(len(each))
                kind = source.randrange(4)
                if kind == 0:
                    each.insert(place, value)
                elif kind == 1 and len(each) > 3:
                    del each[place : place + source.randrange(1, 3)]
                elif kind == 2 and isinstance(each[place], (dict, TrackedDict)):
                    each[place]["name"] = "other " * source.randrange(9)
                else:
                    each[place] = value
            else:
                key = source.choice(list(each))
                each[key if source.random() < 0.7 else f"new {source.random()}"] = value


def test_items_behind_the_last_cut_are_remembered_one_by_one() -> None:
    source = random.Random(5)
    for count in range(600, 640):
        document: Any = tracked_copy({"records": [record(source) for _ in range(count)]})
        tree = LivingTree(document, TYPES)
        tree.confirm(tree.encode())
        records, node = document["records"], document["records"]._node
        # Without the item that ends the last full run, most of that run stands behind the last cut, or all of it.
        last = node.levels[0].covered - 1
        for step in (
            lambda: records.__delitem__(last),  # noqa: B023 - called at once
            lambda: records.append(record(source)),  # noqa: B023
            lambda: records[-2].update(name="another one"),  # noqa: B023
            lambda: records.__delitem__(-5),  # noqa: B023
        ):
            step()
            made = tree.encode()
            tree.confirm(made)
            assert made.state.root == one_by_one(plain_copy(document))
        assert all(item.count == 1 for item in records._node.tail)


@pytest.mark.parametrize("key", [7, "k" * LONG, "\ud800", Color.RED])
def test_an_odd_key_among_many_others_is_found(key: Any) -> None:
    source = random.Random(2)
    keys = [*map(str, range(500)), key, *map(str, range(500, 1_000))]
    state = {"table": {each: record(source) for each in keys}}
    made = encode_state(state, TYPES)
    assert made.root == one_by_one(state)
    state["table"]["400"] = record(source)
    assert encode_state(state, TYPES, made.memo).root == one_by_one(state)


@pytest.mark.parametrize(
    "value", [Color.RED, {"a": Color.RED}, bytearray(b"x"), {3: 4}, "\ud800", 2**70, {1, 2}]
)
def test_an_odd_value_behind_one_that_changed_is_found(value: Any) -> None:
    source = random.Random(2)
    document: Any = tracked_copy({"records": [record(source) for _ in range(1_000)]})
    document["records"][110]["name"] = value
    tree = LivingTree(document, TYPES)
    for name in ("first", "another one"):
        document["records"][100]["name"] = name
        made = tree.encode()
        tree.confirm(made)
        assert made.state.root == one_by_one(plain_copy(document))


@pytest.mark.parametrize("large", [list(range(20_000)), {str(each): each for each in range(5_000)}])
def test_a_large_value_is_not_encoded_together_with_its_neighbours(large: Any) -> None:
    source = random.Random(1)
    records: list[Any] = [record(source) for _ in range(2_000)]
    records[1_000] = large
    seen: list[Any] = []

    def pack_each(self: BulkPacker, values: Any) -> Any:
        seen.extend(values)
        return packed_each(self, values)

    packed_each = BulkPacker.pack_each
    with patch.object(BulkPacker, "pack_each", pack_each):
        first = encode_state({"records": records}, TYPES)
        records[990]["name"] = "another one"
        encode_state({"records": records}, TYPES, first.memo)
    assert len(seen) > 1_500
    assert not any(each is large for each in seen)


def test_few_items_of_a_table_are_looked_at_by_themselves() -> None:
    source = random.Random(1)
    records = [record(source) for _ in range(3_000)]
    with patch.object(_Container, "_add_next", autospec=True, side_effect=_Container._add_next) as alone:
        encode_state({"records": records}, TYPES)
    assert alone.call_count < len(records) // 20


def test_few_items_beside_one_that_changed_are_looked_at_by_themselves() -> None:
    source = random.Random(1)
    document: Any = tracked_copy({"records": [record(source) for _ in range(3_000)]})
    tree = LivingTree(document, TYPES)
    tree.confirm(tree.encode())
    document["records"][1_500]["name"] = "another one"
    with patch.object(runs.RunCutter, "_item", autospec=True, side_effect=runs.RunCutter._item) as alone:
        tree.encode()
    # The one that changed, and the list itself in the dict around it.
    assert alone.call_count < 5


def test_large_items_behind_many_small_ones_are_not_encoded_ahead() -> None:
    items = [*range(60_000), *({"text": "x" * 12_000, "id": each} for each in range(40))]
    packed: list[int] = []

    def pack_each(self: Any, values: Any) -> Any:
        made = packed_each[type(self)](self, values)
        packed.append(sum(map(len, made or ())))
        return made

    packed_each: Any = {each: each.pack_each for each in (BulkPacker, ItemPacker)}
    with patch.object(BulkPacker, "pack_each", pack_each), patch.object(ItemPacker, "pack_each", pack_each):
        first = encode_state({"items": items}, TYPES)
        # Where they begin, nobody knows yet.
        assert sum(size > 100_000 for size in packed) <= 2
        document: Any = tracked_copy({"items": items})
        tree = LivingTree(document, TYPES)
        tree.confirm(tree.encode())
        packed.clear()
        for each in (10, 20, 30):
            items[60_000 + each] = document["items"][60_000 + each] = {"text": "y" * 12_000}
        assert tree.encode().state.root == encode_state({"items": items}, TYPES, first.memo).root
        assert max(packed, default=0) < 100_000


@pytest.mark.parametrize("put", [list(range(9_000)), "t" * LONG])
def test_what_is_put_in_behind_the_back_of_a_document_and_is_large_becomes_a_node(put: Any) -> None:
    source = random.Random(2)
    document: Any = tracked_copy({"records": [record(source) for _ in range(1_000)]})
    tree = LivingTree(document, TYPES)
    tree.confirm(tree.encode())
    list.__setitem__(document["records"], 110, put)
    document["records"][100]["name"] = "another one"
    assert tree.encode().state.root == one_by_one(plain_copy(document))


def test_large_items_are_not_encoded_ahead() -> None:
    assert cutting.worth_at_once(1_000, 1_000 * 1_024) == 1
    assert cutting.worth_at_once(3, 3) == 1
    assert cutting.worth_at_once(1_000, 52_000) > 32
    assert cutting.worth_at_once(1_000, 0) == cutting.worth_at_once(1_000, 1_000)
