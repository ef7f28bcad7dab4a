"""Depth, width and hostile bytes: a diff ends, in bounded time, with a result or an error of its own."""

from __future__ import annotations

import json

import ormsgpack
import pytest

from holdfast import IntegrityError, NotFoundError, StateError
from holdfast.objects.codec.registry import GLOBAL
from holdfast.objects.diffing import pairing
from holdfast.objects.diffing.diff import Diff
from holdfast.objects.diffing.scanning import scan
from holdfast.objects.diffing.states import changes_of_roots, changes_of_values
from holdfast.objects.hashing import hash_chunk
from holdfast.objects.tree import nodes
from holdfast.objects.tree.nodes import MalformedNodeError
from holdfast.objects.tree.state import encode_state
from holdfast.storage.records import ChunkHash


def nested(depth, inner):
    value = inner
    for level in range(depth):
        value = [value] if level % 2 else {"k": value}
    return value


NO_VALUES = [b"", b"\x91", b"\x91\x01\x01", b"\xc1", b"\x92\x01", b"\xdd\xff\xff\xff\xff\x01", b"\xa5ab"]


@pytest.mark.parametrize("data", NO_VALUES)
def test_what_is_no_value_is_refused(data):
    with pytest.raises(MalformedNodeError):
        scan(data)


def test_a_long_list_in_which_everything_changed_is_paired_in_linear_time(monkeypatch):
    calls = 0
    original = pairing._likeness

    def counted(*args):
        nonlocal calls
        calls += 1
        return original(*args)

    monkeypatch.setattr(pairing, "_likeness", counted)
    old = [{"n": number, "kind": "a"} for number in range(4_000)]
    new = [{"n": number, "kind": "b"} for number in range(4_000, 8_000)]
    changes = changes_of_values(old, new, GLOBAL)
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
        changes_of_roots(hash_chunk(old), hash_chunk(new), reading(chunks), GLOBAL)


def reading(chunks):
    return lambda names: {name: chunks[name] for name in names}


def test_a_missing_chunk_is_an_error_of_its_own():
    good = encode_state({"a": 1}, GLOBAL)
    with pytest.raises(IntegrityError):
        changes_of_roots(good.root, ChunkHash(bytes(32)), lambda names: {}, GLOBAL)


def test_a_path_that_neither_state_has_is_not_found():
    roots = [encode_state(value, GLOBAL) for value in ({"a": {"b": 1}}, {"a": {"b": 2}})]
    chunks = {chunk.hash: chunk.data for root in roots for chunk in root.chunks}
    old, new = (root.root for root in roots)
    with pytest.raises(NotFoundError) as missing:
        changes_of_roots(old, new, reading(chunks), GLOBAL, path="a.c.d")
    assert "state['a']['c']" in str(missing.value)


def test_a_diff_is_plain_data():
    diff = Diff(changes_of_values({"a": [1]}, {"a": [1, (2,)]}, GLOBAL))
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
