"""A diff of two stored states says the same as a diff of the two values, whatever their trees look like.

Some states lie so deep that their trees end above what differs: that stands in bytes, cut without regard to lists.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from operator import add
from typing import Any

import jsonpatch
from hypothesis import given
from hypothesis import strategies as st
from tests.property.test_diff import same_json
from tests.property.test_tree import ITEMS, SMALL
from tests.values import identical

from holdfast.objects.codec.opaque import Opaque
from holdfast.objects.codec.registry import GLOBAL
from holdfast.objects.codec.tagged_json import json_form
from holdfast.objects.diff.diff import Diff, diff_roots
from holdfast.objects.tree.state import encode_state

CHUNKS: dict[Any, bytes] = {}


def stored(value: Any) -> Any:
    encoded = encode_state(value, GLOBAL, cuts=SMALL)
    CHUNKS.update({chunk.hash: chunk.data for chunk in encoded.chunks})
    return encoded.root


def read(names):
    return {name: CHUNKS[name] for name in names}


def diff_of_roots(old: Any, new: Any, **options: Any) -> Diff:
    return diff_roots(old, new, read, GLOBAL, **options)


TABLES = st.dictionaries(
    st.text("abc", min_size=1, max_size=2) | st.just("$type"),
    st.lists(ITEMS, max_size=60) | st.dictionaries(st.text("xyz$", max_size=4), ITEMS, max_size=40),
    max_size=5,
)
TEXTS = st.text("ab é\n", max_size=300).map(lambda text: text * 3)
AROUND: dict[str, Callable[[Any], Any]] = {
    "list": lambda value: [0, value],
    "dict": lambda value: {"k": value, "z": 0},
    "tuple": lambda value: (value, 0),
    "object": lambda value: Opaque("X", 1, {"k": value}),
    "odd key": lambda value: {1: value},
}
"""What a value may lie in."""
# Nodes stand in lists and dicts only: these are outside, so deep that there is no node for what is inside.
AROUNDS: st.SearchStrategy[list[str]] = st.just([]) | st.builds(
    add,
    st.lists(st.sampled_from([*AROUND]), max_size=4),
    st.lists(st.sampled_from(["list", "dict"]), min_size=SMALL.node_depth - 3, max_size=SMALL.node_depth + 6),
)


def deep(value: Any, around: list[str]) -> Any:
    for name in around:
        value = AROUND[name](value)
    return value


@st.composite
def edited_tables(draw):
    old, new = draw(edited_tables_at_the_top())
    around = draw(AROUNDS)
    return deep(old, around), deep(new, around)


@st.composite
def edited_tables_at_the_top(draw):
    old = draw(TABLES)
    new = copy.deepcopy(old)
    for _ in range(draw(st.integers(0, 4))):
        if not new or draw(st.integers(0, 5)) == 0:
            new[draw(st.text("abcd", max_size=2))] = draw(st.lists(ITEMS, max_size=30) | TEXTS)
            continue
        table = new[draw(st.sampled_from(list(new)))]
        if isinstance(table, list):
            at = draw(st.integers(0, len(table)))
            table[at : at + draw(st.integers(0, 3))] = draw(st.lists(ITEMS, max_size=3))
            if draw(st.booleans()):
                table.append(table.pop(0)) if table else None
        elif isinstance(table, dict):
            table[draw(st.text("xyz$", max_size=4) | st.just("$type"))] = draw(ITEMS)
            if table and draw(st.booleans()):
                table.pop(draw(st.sampled_from(list(table))))
    return old, new


@given(edited_tables())
def test_the_patch_of_two_stored_states_makes_the_new_one_of_the_old(pair):
    old, new = pair
    one, other = stored(old), stored(new)
    diff = diff_of_roots(one, other)
    assert bool(diff) == (one != other)
    patch = json.loads(json.dumps(diff.json_patch()))
    assert same_json(jsonpatch.apply_patch(json_form(old), patch), json_form(new))


@given(edited_tables())
def test_every_change_of_two_stored_states_is_where_and_what_it_says(pair):
    old, new = pair
    for change in diff_of_roots(stored(old), stored(new)):
        if change.op == "move":
            continue
        if change.old_steps is not None:
            assert identical(at(old, change.old_steps), change.old)
        if change.op != "remove":
            assert identical(at(new, change.steps), change.new)


def at(value: Any, steps: Any) -> Any:
    for step in steps:
        if step.kind == "member":
            value = next(each for each in value if identical(each, step.key))
        else:
            value = (value.data if step.kind == "field" else value)[step.key]
    return value


@given(TABLES, st.data())
def test_with_a_path_only_that_part_is_compared(tables, data):
    new = copy.deepcopy(tables)
    new["zz"] = 1
    if not tables:
        return
    name = data.draw(st.sampled_from(list(tables)))
    if isinstance(new[name], list):
        new[name].append("end")
    else:
        new[name]["end"] = 1
    path = f"['{name}']"
    diff = diff_of_roots(stored(tables), stored(new), path=path)
    assert len(diff) == 1
    assert diff.changes[0].steps[0].key == name
    assert same_json(jsonpatch.apply_patch(json_form(tables[name]), diff.json_patch()), json_form(new[name]))
