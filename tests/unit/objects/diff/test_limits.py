"""Depth, width and hostile bytes: a diff ends, in bounded time, with a result or an error of its own."""

from __future__ import annotations

import json

import ormsgpack
import pytest

from holdfast import IntegrityError, NotFoundError, StateError
from holdfast.objects.codec.registry import GLOBAL
from holdfast.objects.diff import pairs
from holdfast.objects.diff.diff import diff_roots, diff_values
from holdfast.objects.hashing import hash_chunk
from holdfast.objects.tree import nodes
from holdfast.objects.tree.state import encode_state
from holdfast.storage.records import ChunkHash


def test_a_long_list_in_which_everything_changed_is_paired_in_linear_time(monkeypatch):
    calls = 0
    original = pairs._likeness

    def counted(*args):
        nonlocal calls
        calls += 1
        return original(*args)

    monkeypatch.setattr(pairs, "_likeness", counted)
    old = [{"n": number, "kind": "a"} for number in range(4_000)]
    new = [{"n": number, "kind": "b"} for number in range(4_000, 8_000)]
    changes = diff_values(old, new, GLOBAL)
    assert len(changes) == 8_000
    assert calls <= 4_000


LEAF = b"\x03\x01\x01"
ENTRY = nodes.Entry(hash_chunk(LEAF), 2, 2)


@pytest.mark.parametrize(
    "node",
    [
        nodes.Node(nodes.LIST, 3, 9, [[ENTRY]], [b"\x01"]),
        nodes.Node(nodes.LIST, 2, 6, [[ENTRY]], [b"\x01\x01\x01"]),
        nodes.Node(nodes.LIST, 9, 9, [[ENTRY]], [b""]),
        nodes.Node(nodes.DICT, 1, 3, [], [b"\x01\x01"]),
        nodes.Node(nodes.LIST, 2, 3, [[ENTRY], []], [b""]),
    ],
)
def test_chunks_that_are_no_state_are_refused(node):
    old = bytes((nodes.WHOLE,)) + ormsgpack.packb({"z": 1} if node.kind == nodes.DICT else [0])
    new = bytes((nodes.TREE,)) + node.pack()
    chunks = {hash_chunk(chunk): chunk for chunk in (old, new, LEAF)}
    with pytest.raises(StateError):
        diff_roots(hash_chunk(old), hash_chunk(new), reading(chunks), GLOBAL)


def reading(chunks):
    return lambda names: {name: chunks[name] for name in names}


def test_a_missing_chunk_is_an_error_of_its_own():
    good = encode_state({"a": 1}, GLOBAL)
    with pytest.raises(IntegrityError):
        diff_roots(good.root, ChunkHash(bytes(32)), lambda names: {}, GLOBAL)


def test_a_path_that_neither_state_has_is_not_found():
    roots = [encode_state(value, GLOBAL) for value in ({"a": {"b": 1}}, {"a": {"b": 2}})]
    chunks = {chunk.hash: chunk.data for root in roots for chunk in root.chunks}
    old, new = (root.root for root in roots)
    with pytest.raises(NotFoundError) as missing:
        diff_roots(old, new, reading(chunks), GLOBAL, path="a.c.d")
    assert "state['a']['c']" in str(missing.value)


def test_a_diff_is_plain_data():
    diff = diff_values({"a": [1]}, {"a": [1, (2,)]}, GLOBAL)
    assert json.loads(json.dumps(diff.to_dict())) == {
        "summary": "+1 a",
        "stat": {
            "added": 1,
            "removed": 0,
            "replaced": 0,
            "moved": 0,
            "parts": [{"path": "a", "added": 1, "removed": 0, "replaced": 0, "moved": 0}],
        },
        "changes": [
            {
                "op": "add",
                "path": "a[1]",
                "old_path": None,
                "steps": [["key", "a"], ["index", 1]],
                "old_steps": None,
                "new": {"$type": "tuple", "$value": [2]},
            }
        ],
    }
