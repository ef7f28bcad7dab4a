"""JSON patches: pointers, positions while a list shifts, and values that JSON has no type for."""

from __future__ import annotations

import jsonpatch
import pytest

from holdfast.objects.codec.registry import GLOBAL
from holdfast.objects.codec.tagged_json import json_form
from holdfast.objects.diff.diff import diff_values


def patch(old, new):
    return diff_values(old, new, GLOBAL).json_patch()


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        (1, 2, [{"op": "replace", "path": "", "value": 2}]),
        ({"a/b": {"~": 0}}, {"a/b": {"~": 1}}, [{"op": "replace", "path": "/a~1b/~0", "value": 1}]),
        ({"": 0}, {}, [{"op": "remove", "path": "/"}]),
        ({}, {"0": ()}, [{"op": "add", "path": "/0", "value": {"$type": "tuple", "$value": []}}]),
        ({"t": (1, 2)}, {"t": (1, 3)}, [{"op": "replace", "path": "/t/$value/1", "value": 3}]),
        (
            {"s": {1}},
            {"s": {2, 3}},
            [{"op": "replace", "path": "/s", "value": {"$type": "set", "$value": [2, 3]}}],
        ),
        (
            {"k": {1: "a", 2: [0]}},
            {"k": {1: "a", 2: [1], 3: 0}},
            [
                {
                    "op": "replace",
                    "path": "/k",
                    "value": {"$type": "dict", "$value": [[1, "a"], [2, [1]], [3, 0]]},
                }
            ],
        ),
        (
            {"k": {"$type": 1, "$value": 1}},
            {"k": {"$type": 1, "$value": 2}},
            [
                {
                    "op": "replace",
                    "path": "/k",
                    "value": {"$type": "dict", "$value": [["$type", 1], ["$value", 2]]},
                }
            ],
        ),
        (
            {"k": {"$type": 1, "a": 1}},
            {"k": {"$type": 1, "a": 2}},
            [{"op": "replace", "path": "/k/a", "value": 2}],
        ),
        (
            [1, 2, 3, 4],
            [4, 1, 2, 3],
            [{"op": "remove", "path": "/3"}, {"op": "add", "path": "/0", "value": 4}],
        ),
        ([[0], 1, 2], [2, [0, 5]], None),
        (
            {"f": 1.5},
            {"f": float("nan")},
            [{"op": "replace", "path": "/f", "value": {"$type": "float", "$value": "nan"}}],
        ),
    ],
)
def test_a_patch_is_what_was_meant_and_applies(old, new, wanted):
    made = patch(old, new)
    assert wanted is None or made == wanted
    assert jsonpatch.apply_patch(json_form(old), made) == json_form(new)
