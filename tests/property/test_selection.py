"""A part of a state by its path: the same as loading everything and taking the part, with less read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.test_tree import ITEMS, SMALL
from tests.values import identical

from holdfast import InvalidInputError, NotFoundError
from holdfast.objects.codec.registry import GLOBAL
from holdfast.objects.codec.state_path import parse_path
from holdfast.objects.diff.location import select_part
from holdfast.objects.tree.boundaries import FORMAT_0
from holdfast.objects.tree.state import encode_state


class Counted:
    """A state whose chunks are counted as they are read."""

    def __init__(self, value: Any, cuts: Any = SMALL) -> None:
        encoded = encode_state(value, GLOBAL, cuts=cuts)
        self._chunks = {chunk.hash: chunk.data for chunk in encoded.chunks}
        self.root = encoded.root
        self.reads = 0

    def read(self, names):
        wanted = list(names)
        self.reads += len(wanted)
        return {name: self._chunks[name] for name in wanted if name in self._chunks}

    def select(self, path: str) -> Any:
        return select_part(self.root, path, self.read, GLOBAL)

    def __len__(self) -> int:
        return len(self._chunks)


TABLES = st.dictionaries(
    st.text("abc", min_size=1, max_size=3), st.lists(ITEMS, max_size=80), min_size=1, max_size=6
)


@given(TABLES, st.data())
def test_a_part_is_what_the_whole_has_there(tables, data):
    state = Counted(tables)
    name = data.draw(st.sampled_from(list(tables)))
    assert identical(state.select(""), tables)
    assert identical(state.select(name), tables[name])
    assert identical(state.select(f"['{name}']"), tables[name])
    start, stop = data.draw(st.integers(-90, 90)), data.draw(st.integers(-90, 90))
    assert identical(state.select(f"{name}[{start}:{stop}]"), tables[name][start:stop])
    assert identical(state.select(f"{name}[{start}:]"), tables[name][start:])
    assert identical(state.select(f"{name}[:{stop}]"), tables[name][:stop])
    if tables[name]:
        index = data.draw(st.integers(-len(tables[name]), len(tables[name]) - 1))
        assert identical(state.select(f"{name}[{index}]"), tables[name][index])


def test_the_newest_messages_of_a_long_list_are_read_without_the_rest():
    messages = [{"role": "user", "n": n, "content": f"message {n} " * 60} for n in range(20_000)]
    state = Counted({"messages": messages, "context": {"k": ["v"] * 5000}}, FORMAT_0)
    assert state.select("messages[-20:]") == messages[-20:]
    assert state.reads < 10 < len(state) // 10
    state.reads = 0
    assert state.select("messages[12345].content") == messages[12345]["content"]
    assert state.reads < 10


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("", []),
        ("a", ["a"]),
        ("a.b.c", ["a", "b", "c"]),
        ("a b", ["a b"]),
        ("[0]", [0]),
        ("a[-3]", ["a", -3]),
        ("a[1:2].b", ["a", slice(1, 2), "b"]),
        ("a[:]", ["a", slice(None, None)]),
        ("a['x.y'][\"z'\"]", ["a", "x.y", "z'"]),
    ],
)
def test_the_grammar_of_paths(path, steps):
    assert parse_path(path) == steps


@given(st.text("ab.[]'\"0:-1 ", max_size=12))
def test_any_text_is_a_path_or_an_error(text):
    state = Counted({"a": list(range(100)), "b": {"a": "x" * 200}})
    try:
        state.select(text)
    except (InvalidInputError, NotFoundError):
        pass
    else:
        assert parse_path(text) is not None
