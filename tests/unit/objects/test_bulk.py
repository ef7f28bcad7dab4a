"""What is encoded in bulk: bytes that are none are found, however deep they lie in lists and dicts."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import ormsgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.objects.bulk import UnaskedError, has_binary
from holdfast.objects.registry import TypeRegistry
from holdfast.objects.state import decode_state, encode_state
from holdfast.storage.records import ChunkHash

_AROUND: dict[str, Any] = {
    "alone": lambda value: value,
    "in a list": lambda value: [1, value],
    "in a dict": lambda value: {"a": 1, "b": value},
    "in dicts in lists": lambda value: [{"a": [{"b": {"c": value}}]}],
    "in lists in dicts": lambda value: {"a": {"b": [[{"c": value}]]}},
}


_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
# What is asked about when it is written is not looked into.
_ASKED_ABOUT = st.sampled_from([(bytearray(b"a"), b"b"), frozenset((b"a",)), {3: b"a"}.items(), object()])
_VALUES = st.recursive(
    _LEAVES | st.builds(bytearray, st.binary()) | _ASKED_ABOUT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def _kinds(value: Any) -> set[type]:
    """All that is in a value of lists and dicts."""
    if type(value) not in (list, dict):
        return {type(value)}
    inner = value.values() if type(value) is dict else value
    return set().union(*map(_kinds, inner))


@given(st.lists(_VALUES, max_size=5))
@example([[1], (bytearray(b"a"), b"b")])
def test_lists_and_dicts_are_looked_into_and_nothing_else(items: list[Any]):
    kinds = _kinds(items)
    if bytearray in kinds:
        with pytest.raises(UnaskedError):
            has_binary(items, b"\xc4")
    else:
        assert has_binary(items, b"\xc4") == (bytes in kinds)


def _all(chunks: dict[ChunkHash, bytes], _: Iterable[ChunkHash]) -> dict[ChunkHash, bytes]:
    return chunks


@pytest.mark.parametrize("around", _AROUND)
def test_bytes_are_told_from_what_is_written_like_them(around: str):
    def looked_at(value: Any) -> bool:
        items = ["first", _AROUND[around](value)]
        return has_binary(items, ormsgpack.packb(items))

    assert looked_at(b"abc")
    with pytest.raises(UnaskedError):
        looked_at(bytearray(b"abc"))
    assert not looked_at("abc")
    # Its bytes hold the mark of binary data by chance.
    assert b"\xc4" in ormsgpack.packb(0xC4C4)
    assert not looked_at(0xC4C4)


@pytest.mark.parametrize("around", _AROUND)
# Of few items each is looked at for its size before it is encoded, of many it is not.
@pytest.mark.parametrize(("rows", "words"), [(2000, 20), (20, 200)])
def test_a_bytearray_in_a_large_state_comes_back_as_one_and_is_a_change(around: str, rows: int, words: int):
    types = TypeRegistry()
    state: dict[str, Any] = {"rows": [{"n": n, "text": "words " * words, "x": ""} for n in range(rows)]}
    state["rows"][rows // 2]["x"] = _AROUND[around](b"abc")
    plain = encode_state(state, types)
    state["rows"][rows // 2]["x"] = _AROUND[around](bytearray(b"abc"))
    for memo in (None, plain.memo):
        encoded = encode_state(state, types, memo)
        assert encoded.root != plain.root
        chunks = {each.hash: each.data for each in (*plain.chunks, *encoded.chunks)}
        # It gives more than it is asked for, which is no harm.
        loaded = decode_state(encoded.root, partial(_all, chunks), types)
        assert repr(loaded) == repr(state)
