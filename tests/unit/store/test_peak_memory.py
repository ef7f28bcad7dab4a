"""How much memory a save of a large state takes beside the state: less than its encoded size, however it is nested."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast

_SHAPES: dict[str, Callable[[list[Any]], Any]] = {
    "a list": lambda items: items,
    "a list in a dict": lambda items: {"messages": items, "context": {"user": "ada"}},
    "a dict": lambda items: {f"key {at}": item for at, item in enumerate(items)},
    "deep": lambda items: {
        "threads": {"one": {"a": {"messages": items[::2]}, "b": {"messages": items[1::2]}}}
    },
    "lists of lists": lambda items: {"all": [items[at::40] for at in range(40)]},
}


def large(megabytes: int) -> list[Any]:
    source = random.Random(5)
    words = [source.randbytes(3).hex() for _ in range(500)]
    return [
        {"id": at, "text": " ".join(source.choices(words, k=130)), "tags": ["a", "b"]}
        for at in range(megabytes * 1000)
    ]


def peak_of(action: Callable[[], Any]) -> tuple[Any, int]:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        result = action()
        return result, tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("shape", _SHAPES)
def test_saving_a_large_state_takes_less_than_its_encoded_size(tmp_path: Path, shape: str):
    state = _SHAPES[shape](large(20))
    with holdfast.open(tmp_path / "store.db", durability="process") as store:
        store.session("warm").save({"everything": "imported"})
        saved, peak = peak_of(lambda: store.session("s").save(state))
        assert saved.size_bytes > 16_000_000
        assert peak < 0.9 * saved.size_bytes
        assert store.session("s").load() == state


def test_the_first_save_of_a_document_too(tmp_path: Path):
    with holdfast.open(tmp_path / "store.db", durability="process") as store:
        document = store.session("s").document(default={"messages": large(20), "context": {"user": "ada"}})
        saved, peak = peak_of(document.save)
        # A document is brought up to date as a whole or not at all: until then, all of it is at hand.
        assert peak < 1.5 * saved.size_bytes
        assert store.session("s").load() == document.plain()
