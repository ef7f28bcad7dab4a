"""Roots that never change: values made from a seed, with the root and the chunks that format 0 gives them.

A store finds what it has by name. Another version of a hash, of FastCDC or of a cut rule that gives one of these values
another tree would store every state anew, and no other test would notice. Running this file as a module writes the
vectors again, which is right only together with a new format number.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.objects.codec.registry import GLOBAL
from holdfast.objects.tree.boundaries import FORMAT_0
from holdfast.objects.tree.state import encode_state

FILE = Path(__file__).with_name("tree_vectors.json")


def _text(seed: int, size: int) -> str:
    return f"{random.Random(seed).getrandbits(4 * size):0{size}x}"


def _messages(count: int, seed: int) -> list[Any]:
    source = random.Random(seed)
    return [
        {"id": n, "role": "user", "text": _text(source.getrandbits(32), 100 + source.getrandbits(10))}
        for n in range(count)
    ]


def _table(rows: int, seed: int) -> dict[str, Any]:
    source = random.Random(seed)
    return {
        f"row {n}": [source.getrandbits(20), source.getrandbits(62), None, n % 3 == 0] for n in range(rows)
    }


def _nested(levels: int) -> Any:
    if levels == 0:
        return [_text(levels, 1_000)] * 17
    # These end no run, so that the node of the dict has to give its own away.
    return {key: _nested(levels - 1) for key in ("00000236", "00000560", "00000743", "00001289")}


def _deep(levels: int) -> Any:
    state: Any = [_text(2, 20_000)]
    for level in range(levels):
        state = {"k": state} if level % 2 else [level, state]
    return state


VALUES: dict[str, Callable[[], Any]] = {
    "nothing": lambda: None,
    "small": lambda: {"messages": [], "context": {"a": 1.5}},
    "at the limit": lambda: "x" * 16_381,
    "just over the limit": lambda: "x" * 16_382,
    "one short list": lambda: _messages(40, 1),
    "a conversation": lambda: {"messages": _messages(300, 2), "context": {f"{n}": n for n in range(50)}},
    "a long conversation": lambda: {"messages": _messages(1_500, 3), "n": 1},
    "numbers": lambda: list(range(100_000)),
    "zeros": lambda: [0] * 200_000,
    "a table": lambda: _table(8_000, 4),
    "tables": lambda: {"tables": {f"table {n}": _table(700, n) for n in range(12)}},
    "lists of lists": lambda: [_messages(20 + n, n) for n in range(20)],
    "a long text": lambda: {"file": _text(5, 400_000), "note": "n"},
    "a text that repeats itself": lambda: "holdfast " * 40_000,
    "bytes": lambda: [bytes.fromhex(_text(6, 60_000)), b"short"],
    "a set": lambda: {"seen": set(range(20_000)), "tuple": (1, [2] * 9_000)},
    "keys that are no text": lambda: {n: _text(n, 50) for n in range(2_000)},
    "a long key": lambda: {"k" * 16_381: 1, "short": ["v" * 100] * 50},
    "a key that is too long": lambda: {"k" * 16_382: 1, "short": ["v" * 100] * 50},
    "many values over the limit": lambda: _nested(3),
    "deep": lambda: _deep(200),
}


def vector(name: str) -> dict[str, Any]:
    encoded = encode_state(VALUES[name](), GLOBAL)
    chunks = [chunk.hash.hex() for chunk in encoded.chunks]
    return {"root": encoded.root.hex(), "size": encoded.size_bytes, "chunks": chunks}


def test_the_file_has_the_figures_of_the_format_and_every_value():
    stored = json.loads(FILE.read_text(encoding="utf-8"))
    assert stored["layout"] == FORMAT_0.canonical()
    assert list(stored["vectors"]) == list(VALUES)


@pytest.mark.parametrize("name", VALUES)
def test_a_value_has_the_tree_of_the_file(name):
    assert vector(name) == json.loads(FILE.read_text(encoding="utf-8"))["vectors"][name]


if __name__ == "__main__":
    vectors = {name: vector(name) for name in VALUES}
    content = {"layout": FORMAT_0.canonical(), "vectors": vectors}
    FILE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
