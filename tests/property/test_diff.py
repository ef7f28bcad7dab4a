"""A diff of any two values: empty exactly where they are the same, and its JSON patch makes one of the other.

The judge of the patch is the public library `jsonpatch`. Values hold everything that a state may hold; the second one
is the first after random edits, or another one altogether.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonpatch
from hypothesis import given
from hypothesis import strategies as st
from tests.values import identical, values

from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.encode import encode_value
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.codec.tagged_json import json_form, tagged_json
from holdfast.objects.diff.diff import Diff, diff_values

TYPES = TypeRegistry()


def diff_of_values(old: Any, new: Any) -> Diff:
    return diff_values(old, new, TYPES)


def patched(old: Any, diff: Diff) -> Any:
    # As it would be sent: through JSON text.
    patch = json.loads(json.dumps(diff.json_patch()))
    return jsonpatch.apply_patch(json_form(old), patch)


def same_json(one: Any, other: Any) -> bool:
    """Equal as JSON, where 1, 1.0 and true are not."""
    return identical(_sorted(one), _sorted(other))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def holds(old: Any, new: Any, diff: Diff) -> None:
    assert bool(diff) == (encode_value(old, TYPES) != encode_value(new, TYPES))
    assert same_json(patched(old, diff), json_form(new))


json_scalars = (
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-2, 2) | st.text("ab/~$ é\n", max_size=4)
)
keys = st.text("abc/~$é", max_size=3) | st.sampled_from(["$type", "$value", "id", "", "-", "0"])
plain = st.recursive(
    json_scalars,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=30,
)


@st.composite
def edited(draw, start):
    """A value and what became of it: items inserted, removed, moved, shuffled, replaced, at any depth."""
    old = draw(start)
    new = copy.deepcopy(old)
    for _ in range(draw(st.integers(0, 5))):
        new = _edit(draw, new)
    return old, new


def _edit(draw, value):
    inside = isinstance(value, list | dict) and value and draw(st.booleans())
    if inside and isinstance(value, list):
        at = draw(st.integers(0, len(value) - 1))
        value[at] = _edit(draw, value[at])
    elif inside:
        key = draw(st.sampled_from(list(value)))
        value[key] = _edit(draw, value[key])
    elif isinstance(value, list):
        return _edit_list(draw, value)
    elif isinstance(value, dict):
        return _edit_dict(draw, value)
    else:
        return draw(json_scalars)
    return value


def _edit_list(draw, value):
    match draw(st.sampled_from(["insert", "trim", "shuffle", "reverse", "slice", "other type", "move"])):
        case "insert":
            value.insert(draw(st.integers(0, len(value))), draw(plain))
        case "trim":
            del value[: draw(st.integers(0, 2))]
        case "shuffle":
            return draw(st.permutations(value))
        case "reverse":
            value.reverse()
        case "slice":
            del value[draw(st.integers(0, len(value))) :]
        case "other type":
            return draw(st.sampled_from([tuple(value), {"items": value}, str(len(value)), None]))
        case "move" if value:
            value.append(value.pop(draw(st.integers(0, len(value) - 1))))
    return value


def _edit_dict(draw, value):
    match draw(st.sampled_from(["add", "remove", "reorder", "rename", "other type"])):
        case "add":
            value[draw(keys)] = draw(plain)
        case "remove" if value:
            del value[draw(st.sampled_from(list(value)))]
        case "reorder":
            return dict(draw(st.permutations(list(value.items()))))
        case "rename" if value:
            value[draw(keys)] = value.pop(draw(st.sampled_from(list(value))))
        case "other type":
            return list(value.items())
    return value


@given(edited(plain))
def test_the_patch_of_an_edited_value_makes_the_new_one_of_the_old(pair):
    old, new = pair
    holds(old, new, diff_of_values(old, new))


@given(values())
def test_a_value_differs_in_nothing_from_itself(value):
    again = decode_value(encode_value(value, TYPES), TYPES)
    assert not diff_of_values(value, again)


items = st.integers(0, 12) | st.builds(lambda n, v: {"id": n, "v": v}, st.integers(0, 8), st.integers(0, 3))


@given(st.permutations(list(range(9))), st.data())
def test_a_shuffle_is_told_in_moves_alone(new, data):
    old = list(range(9))
    diff = diff_of_values(old, new)
    assert {change.op for change in diff} <= {"move"}
    holds(old, new, diff)


@given(values())
def test_the_json_form_is_what_the_text_says(value):
    plain_value = decode_value(encode_value(value, TYPES), TYPES)
    assert same_json(json_form(plain_value), json.loads(tagged_json(plain_value)))
