"""The frame that a state is put together in: its bytes, and the memory that goes from one load to the next."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast import StateError
from holdfast.objects import framing, nodes
from holdfast.objects.framing import MOST_KEPT, Frame, frame, unframe
from holdfast.objects.hashing import hash_chunk
from holdfast.objects.nodes import Node
from holdfast.objects.registry import GLOBAL
from holdfast.objects.state import decode_state, encode_state
from holdfast.storage.records import ChunkHash


@pytest.fixture(autouse=True)
def _own_memory() -> Iterator[None]:
    kept, framing._kept[:] = framing._kept[:], []
    yield
    framing._kept[:] = kept


def state_of(size: int, seed: int = 1) -> dict[str, Any]:
    source = random.Random(seed)
    return {"blobs": [source.randbytes(1_000) for _ in range(size // 1_000)], "tuple": (seed, "x" * 20)}


def loaded(state: Any) -> Any:
    encoded = encode_state(state, GLOBAL)
    chunks = {chunk.hash: chunk.data for chunk in encoded.chunks}
    return decode_state(encoded.root, lambda names: {name: chunks[name] for name in names}, GLOBAL)


def test_a_frame_that_was_filled_from_the_end_is_the_one_that_is_joined():
    made = Frame(7)
    for at, piece in ((5, b"fg"), (0, b"abc"), (3, b""), (3, memoryview(b"de"))):
        made.put(at, piece)
    assert bytes(made.framed) == frame([b"abc", b"defg"])
    assert unframe(made.framed) == b"abcdefg"


def test_memory_goes_from_one_frame_to_the_next():
    first = Frame(100_000)
    memory = first._memory
    first.leave()
    second = Frame(110_000)
    assert second._memory is memory
    second.leave()
    third = Frame(200_000)
    assert third._memory is not memory
    third.leave()
    assert [len(each) for each in framing._kept] == [250_012]


def test_frames_that_are_in_use_at_once_share_no_memory():
    first, second = Frame(1_000), Frame(1_000)
    assert first._memory is not second._memory
    first.leave()
    second.leave()
    assert len(framing._kept) == 1


def test_memory_of_a_large_state_is_not_kept():
    state = state_of(MOST_KEPT + 500_000)
    assert loaded(state) == state
    large = Frame(MOST_KEPT)
    large.leave()
    assert framing._kept == []


def test_a_state_does_not_change_when_the_next_one_is_put_together():
    first, second = state_of(300_000, seed=1), state_of(300_000, seed=2)
    got = loaded(first)
    assert len(framing._kept) == 1
    assert loaded(second) == second
    assert got == first


def test_states_that_are_loaded_by_many_threads_at_once_are_their_own():
    wrong: list[int] = []

    def work(seed: int) -> None:
        state = state_of(120_000, seed)
        wrong.extend(seed for _ in range(20) if loaded(state) != state)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


def test_a_load_that_fails_leaves_memory_for_the_next():
    body = b"\xc1" * 20_000
    root = bytes((nodes.TREE,)) + Node(nodes.RAW, len(body), len(body), [], [body]).pack()
    with pytest.raises(StateError):
        decode_state(hash_chunk(root), lambda _: {hash_chunk(root): root}, GLOBAL)
    assert len(framing._kept) == 1


class Asked(dict[ChunkHash, bytes]):
    """An answer that tells when it is looked at."""

    def __init__(self, number: int, chunks: dict[ChunkHash, bytes], events: list[tuple[str, int]]) -> None:
        super().__init__(chunks)
        self._number = number
        self._events = events

    def get(self, name: ChunkHash, default: Any = None) -> Any:
        self._events.append(("look", self._number))
        return super().get(name, default)


def events_of(state: Any) -> tuple[list[tuple[str, int]], int]:
    """In which order chunks are asked for and looked at when a state is loaded, and how many it has."""
    encoded = encode_state(state, GLOBAL)
    chunks = {chunk.hash: chunk.data for chunk in encoded.chunks}
    events: list[tuple[str, int]] = []
    asked = 0

    def read(names: Any) -> Asked:
        nonlocal asked
        asked += 1
        events.append(("ask", asked))
        return Asked(asked, {name: chunks[name] for name in names}, events)

    assert decode_state(encoded.root, read, GLOBAL) == state
    return events, len(chunks)


def test_a_store_has_something_to_do_while_leaves_are_opened():
    events, count = events_of({"log": [{"id": n, "text": f"{n:064}"} for n in range(60_000)]})
    assert events[:2] == [("ask", 1), ("look", 1)]
    # Nodes first, and leaves behind them; with the nodes at hand, what they name, before the leaves are opened.
    order = [("ask", 2), ("ask", 3), ("look", 2), ("ask", 4), ("look", 3)]
    assert sorted(order, key=events.index) == order
    assert sum(kind == "look" for kind, _ in events) == count


def test_no_more_is_asked_for_ahead_than_can_be_held():
    events, _ = events_of({"log": [{"id": n, "text": f"{n:064}"} for n in range(300_000)]})
    assert ("ask", 6) in events
    asked, looked = 0, 0
    for kind, number in events:
        asked, looked = (number, looked) if kind == "ask" else (asked, number)
        assert asked - looked <= 2


def test_a_chunk_that_is_in_a_state_many_times_is_looked_at_once_for_each_question():
    events, count = events_of({"log": [["y" * 1_000] * 20] * 500})
    questions = sum(kind == "ask" for kind, _ in events)
    assert sum(kind == "look" for kind, _ in events) <= questions * count < 20
