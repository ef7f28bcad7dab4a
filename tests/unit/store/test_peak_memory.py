"""How much memory a save of a large state takes beside the state: less than its encoded size, however it is nested."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.memory import peak

import holdfast
from holdfast import Document

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


@pytest.mark.parametrize("shape", _SHAPES)
def test_saving_a_large_state_takes_less_than_its_encoded_size(tmp_path: Path, shape: str):
    state = _SHAPES[shape](large(20))
    with holdfast.open(tmp_path / "store.db", durability="process") as store:
        size = store.session("s").save(state).size_bytes
        assert size > 16_000_000
        assert store.session("s").load() == state

    def save(look: int) -> None:
        with holdfast.open(tmp_path / f"{look}.db", durability="process") as store:
            store.session("s").save(state)

    assert peak(save, below=0.9 * size) < 0.9 * size


def test_the_first_save_of_a_document_too(tmp_path: Path):
    state = {"messages": large(20), "context": {"user": "ada"}}
    with ExitStack() as opened:

        def made(look: int) -> Document:
            store = holdfast.open(tmp_path / f"{look}.db", durability="process")
            return opened.enter_context(store).session("s").document(default=state)

        first, *others = map(made, range(4))
        size = first.save().size_bytes
        assert first.plain() == state
        # A document is brought up to date as a whole or not at all: until then, all of it is at hand.
        assert peak(lambda look: others[look].save(), below=1.5 * size) < 1.5 * size
