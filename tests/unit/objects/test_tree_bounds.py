"""What a save of a large state writes: counted, for appends, edits and trims, and for content made to be awkward."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import xxhash

from holdfast import ErrorCode, IntegrityError, InvalidInputError, StateError
from holdfast.objects.codec.registry import GLOBAL
from holdfast.objects.hashing import hash_chunk
from holdfast.objects.tree import build, nodes
from holdfast.objects.tree.boundaries import FORMAT_0
from holdfast.objects.tree.build import within_limit
from holdfast.objects.tree.nodes import Entry, Node
from holdfast.objects.tree.read import join_state
from holdfast.objects.tree.state import EncodedState, decode_state, encode_state
from holdfast.storage.records import ChunkHash

# A run, an index or two, and the root: what one place that changes touches, with room for cuts that move.
FEW = 12


def items(count: int, seed: int = 1) -> list[Any]:
    source = random.Random(seed)
    return [{"id": n, "text": f"{source.getrandbits(120):030x}"} for n in range(count)]


@pytest.fixture(scope="module")
def long_list() -> tuple[list[Any], EncodedState]:
    value = items(100_000)
    return value, encode_state({"log": value}, GLOBAL)


def changed(value: list[Any], before: EncodedState) -> EncodedState:
    after = encode_state({"log": value}, GLOBAL, before.memo)
    assert after.root == encode_state({"log": value}, GLOBAL).root
    return after


def test_an_append_to_a_long_list_writes_a_few_chunks(long_list):
    value, before = long_list
    for n in range(20):
        assert len(changed([*value, *items(n + 1, seed=2)], before).chunks) <= 3


def test_an_edit_in_the_middle_of_a_long_list_writes_a_few_chunks(long_list):
    value, before = long_list
    for at in (0, 17_000, 50_000, 99_000):
        edited = [*value[:at], {"id": -1, "text": "edited"}, *value[at + 1 :]]
        assert len(changed(edited, before).chunks) <= FEW


def test_a_trim_at_the_front_of_a_long_list_writes_a_few_chunks(long_list):
    value, before = long_list
    for gone in (1, 40, 1_000):
        assert len(changed([{"summary": "x" * 500}, *value[gone:]], before).chunks) <= FEW


def test_an_edit_in_a_long_text_writes_a_few_chunks():
    text = "".join(f"{random.Random(n).getrandbits(32):08x} " for n in range(200_000))
    before = encode_state({"file": text}, GLOBAL)
    after = encode_state({"file": text[:900_000] + "inserted" + text[900_000:]}, GLOBAL, before.memo)
    assert len(after.chunks) <= FEW
    assert len(before.chunks) > 40


def _never_cuts() -> list[Any]:
    """Items whose tokens are so high that only the limit ends a run."""
    source = random.Random(5)
    found: list[Any] = []
    while len(found) < 3_000:
        text = f"{source.getrandbits(64):016x}"
        if _high(b"\xb0" + text.encode()):
            found.append(text)
    return found


def _high(part: bytes) -> bool:
    return xxhash.xxh3_64_intdigest(part) >> 56 == 255


def _nested(levels: int) -> Any:
    """Values just over the limit, four to a dict, under keys that do not end its run: all would stay in their nodes."""
    if levels == 0:
        return ["y" * 1_000] * 17
    keys = [f"{n:08}" for n in range(3_000) if _high(b"\xa8" + f"{n:08}".encode())]
    return {key: _nested(levels - 1) for key in keys[:4]}


def _deep(levels: int) -> Any:
    state: Any = ["z" * 16_000]
    for _ in range(levels):
        state = [["w" * 15_900, 1], state, ["v" * 16_400, 2]]
    return state


@pytest.mark.parametrize(
    "state",
    [
        [0] * 1_000_000,
        list(range(1_000_000)),
        {str(n): None for n in range(200_000)},
        _never_cuts(),
        [b"\xc4" * 5_000] * 500,
        "x" * 5_000_000,
        [["y" * 20_000] * 3] * 100,
        {"a" * 30_000: 1, "b" * 30_000: ["c" * 30_000] * 20},
        {"k" * 2_000_000: 1, "short": 2},
        {"\u20ac" * 5_460 + f"{n:03}": "v" * 16_300 for n in range(50)},
        (set(range(50_000)), list(range(50_000))),
        _nested(4),
        [[_nested(3)], {"a": _nested(3), "b": [_nested(1)] * 9}],
        _deep(60),
    ],
    ids=[
        *("zeros", "numbers", "keys", "never cuts", "bytes", "text", "large items", "large keys", "huge key"),
        *("keys at the limit", "set", "just over the limit", "just over in lists", "deep and wide"),
    ],
)
def test_chunks_are_bounded_whatever_the_content(state):
    encoded = encode_state(state, GLOBAL)
    chunks = {chunk.hash: chunk.data for chunk in encoded.chunks}
    assert max(map(len, chunks.values())) <= FORMAT_0.largest_chunk() < 700_000
    assert len(chunks[encoded.root]) <= FORMAT_0.node_limit + 1
    assert decode_state(encoded.root, lambda names: {name: chunks[name] for name in names}, GLOBAL) == state


@pytest.mark.parametrize("deep", [100, 250])
def test_deep_nesting_goes_through(deep):
    state: Any = ["bottom" * 5_000]
    for level in range(deep):
        state = {"k": state} if level % 2 else ["x" * 3, state]
    encoded = encode_state(state, GLOBAL)
    assert max(len(chunk.data) for chunk in encoded.chunks) <= FORMAT_0.largest_chunk()
    again = encode_state(state, GLOBAL, encoded.memo)
    assert (again.root, again.chunks) == (encoded.root, ())
    chunks = {chunk.hash: chunk.data for chunk in encoded.chunks}
    loaded = decode_state(encoded.root, lambda names: {name: chunks[name] for name in names}, GLOBAL)
    for level in reversed(range(deep)):
        loaded = loaded["k"] if level % 2 else loaded[1]
    assert loaded == ["bottom" * 5_000]


class Hostile(dict[ChunkHash, bytes]):
    """Chunks that hash right and were never written by us."""

    def add(self, data: bytes) -> ChunkHash:
        self[hash_chunk(data)] = data
        return hash_chunk(data)

    def join(self, node: Node) -> Any:
        root = self.add(bytes((nodes.TREE,)) + node.pack())
        return join_state(root, lambda names: {name: self[name] for name in names if name in self})


def test_a_small_store_that_claims_an_endless_state_ends_in_an_error():
    hostile = Hostile()
    size = 1 << 10
    name = hostile.add(bytes((nodes.LEAF,)) + b"\xc0" * size)
    for _ in range(8):
        entries = [Entry(name, 1, size)] * 64
        name = hostile.add(nodes.index_chunk(entries))
        size *= 64
    with pytest.raises(StateError, match="odd parts"):
        hostile.join(
            Node(nodes.LIST, size & 0xFFFFFFFF, size + 5, [[Entry(name, 1, size)], *[[]] * 8], [b""])
        )


def test_entries_of_nothing_cannot_be_piled_up():
    hostile = Hostile()
    name = hostile.add(bytes((nodes.LEAF,)))
    for _ in range(12):
        name = hostile.add(nodes.index_chunk([Entry(name, 0, 0)] * 8))
    with pytest.raises(StateError, match="nothing"):
        hostile.join(Node(nodes.LIST, 0, 1, [[Entry(name, 0, 0)], *[[]] * 12], [b""]))


def test_more_parts_than_a_state_of_that_size_can_have_end_in_an_error():
    hostile = Hostile()
    size = 1
    name = hostile.add(bytes((nodes.LEAF,)) + b"\xc0")
    for _ in range(4):
        name = hostile.add(nodes.index_chunk([Entry(name, size, size)] * 30))
        size *= 30
    with pytest.raises(StateError, match="parts in"):
        hostile.join(Node(nodes.LIST, size, size + 5, [[Entry(name, size, size)], *[[]] * 4], [b""]))


def test_chunks_that_lead_to_chunks_without_end_end_in_an_error():
    hostile = Hostile()
    name = hostile.add(bytes((nodes.LEAF,)) + b"\xc0")
    for _ in range(300):
        node = Node(nodes.RAW, 1, 1, [[Entry(name, 1, 1)]], [b""])
        name = hostile.add(nodes.leaf_chunk([b"", node.pack(), b""]))
    with pytest.raises(StateError, match="does not end"):
        hostile.join(Node(nodes.RAW, 1, 1, [[Entry(name, 1, 1)]], [b""]))


def test_nodes_in_nodes_without_end_end_in_an_error():
    node = Node(nodes.RAW, 1, 1, [], [b"\xc0"])
    for _ in range(3_000):
        node = Node(nodes.RAW, 1, 1, [], [b"", node.pack(), b""])
    with pytest.raises(StateError, match="without end"):
        Hostile().join(node)


def test_a_node_of_more_items_than_bytes_ends_in_an_error():
    with pytest.raises(StateError):
        Hostile().join(Node(nodes.LIST, 1 << 33, 6, [], [b"\xc0"]))


def test_a_state_that_is_too_large_to_be_put_together_again_is_refused(monkeypatch):
    monkeypatch.setattr(build, "MAX_STATE_BYTES", 100_000)
    for state in ("x" * 100_001, ["x" * 50_000] * 3, {"a": [0] * 60_000, "b": ["y" * 1000] * 60}):
        memo = encode_state({"a": [0] * 60_000, "b": []}, GLOBAL).memo
        with pytest.raises(InvalidInputError) as caught:
            encode_state(state, GLOBAL, memo)
        assert caught.value.code is ErrorCode.VALUE_TOO_LARGE


@pytest.mark.parametrize(
    ("levels", "tail", "size"),
    [
        ([[Entry(ChunkHash(b"?" * 32), 1, 1)]], [b""], 2),
        ([], [b"\xc0"], 99),
        ([], [b"\xc0", b"no node", b""], 2),
        ([[]] * 100, [b"\xc0"], 2),
    ],
    ids=["missing chunk", "wrong size", "no node", "many levels"],
)
def test_nodes_that_do_not_add_up_end_in_an_error(levels, tail, size):
    with pytest.raises((StateError, IntegrityError)):
        Hostile().join(Node(nodes.LIST, 1, size, levels, tail))


@pytest.mark.parametrize("kind", [0, nodes.WHOLE, nodes.TREE, nodes.INDEX, 77])
def test_a_chunk_of_the_wrong_kind_in_a_tree_ends_in_an_error(kind):
    hostile = Hostile()
    name = hostile.add(bytes((kind,)) + b"\xc0")
    with pytest.raises(StateError):
        hostile.join(Node(nodes.LIST, 1, 2, [[Entry(name, 1, 1)]], [b""]))


def test_a_node_at_the_limit_keeps_its_right_edge_and_one_above_gives_it_away():
    def node(bytes_in_tail: int) -> Node:
        return Node(nodes.RAW, bytes_in_tail, bytes_in_tail, [], [b"x" * bytes_in_tail])

    inside = FORMAT_0.node_limit - (len(node(60_000).pack()) - 60_000)
    assert within_limit(node(inside), FORMAT_0) == (node(inside).pack(), [])
    part, spilled = within_limit(node(inside + 1), FORMAT_0)
    assert spilled == [bytes((nodes.LEAF,)) + b"x" * (inside + 1)]
    assert nodes.parse_node(part).levels == [[Entry(hash_chunk(spilled[0]), inside + 1, inside + 1)]]
    assert nodes.parse_node(part).tail == [b""]


def test_a_node_of_many_entries_gives_them_away_from_the_lowest_level_up():
    cuts = FORMAT_0._replace(node_limit=1_000)
    levels = [[Entry(ChunkHash(bytes((height, n)) * 16), 2, 2) for n in range(10)] for height in range(4)]
    node = Node(nodes.LIST, 81, 84, levels, [b"\xc0"])
    part, spilled = within_limit(node, cuts)
    assert [each[0] for each in spilled] == [nodes.LEAF, nodes.INDEX, nodes.INDEX]
    assert len(part) <= 1_000
    # The first level took the run, the second the index of the first, the third that of the second.
    assert [len(level) for level in nodes.parse_node(part).levels] == [10, 11, 0, 0]
    assert [len(each) for each in spilled] == [2, 1 + 11 * 44, 1 + 11 * 44]


def test_the_figures_of_the_format_are_those_of_the_page():
    page = (Path(__file__).parents[3] / "docs/spec/tree.md").read_text(encoding="utf-8")
    assert FORMAT_0.canonical() in " ".join(page.split())
    assert f"no chunk has more than {FORMAT_0.largest_chunk():,} bytes" in " ".join(page.split())


@pytest.mark.parametrize("scale", [3, 18_000])
def test_a_run_ends_where_the_formula_of_the_page_says(scale):
    cuts, source = FORMAT_0._replace(leaf_scale=scale), random.Random(scale)
    for _ in range(2_000):
        weight = source.randrange(1, scale)
        total = source.randrange(weight, 2 * scale + 2)
        edge = (4 * weight * total**3 << 64) // scale**4
        for number in (0, edge - 1, edge, edge + 1, source.getrandbits(64), (1 << 64) - 1):
            ends = total >= 2 * scale or number * scale**4 < 4 * weight * total**3 << 64
            assert cuts.ends_leaf(number, weight, total) == ends


@pytest.mark.parametrize("scale", [2, 3, 36])
def test_an_index_ends_where_the_formula_of_the_page_says(scale):
    cuts, source = FORMAT_0._replace(index_scale=scale), random.Random(scale)
    for count in range(1, 2 * scale + 1):
        edge = (4 * count**3 << 64) // scale**4
        for number in (0, edge - 1, edge, edge + 1, source.getrandbits(64), (1 << 64) - 1):
            if 0 <= number < 1 << 64:
                name = number.to_bytes(8, "big") + source.randbytes(24)
                ends = count >= 2 * scale or (count > 1 and number * scale**4 < 4 * count**3 << 64)
                assert cuts.ends_index(name, count) == ends


class Counted(Hostile):
    """The same, with what is read counted."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[ChunkHash] = []
        self.looked_at: list[ChunkHash] = []

    def __call__(self, names: Any) -> Mapping[ChunkHash, bytes]:
        self.read += (wanted := list(names))
        return Looked(self, wanted)

    def root(self, node: Node) -> ChunkHash:
        return self.add(bytes((nodes.TREE,)) + node.pack())


class Looked(Mapping[ChunkHash, bytes]):
    """What a store gives: chunks that are expanded when they are looked at."""

    def __init__(self, store: Counted, names: list[ChunkHash]) -> None:
        self._store, self._names = store, names

    def __getitem__(self, name: ChunkHash) -> bytes:
        self._store.looked_at.append(name)
        return self._store[name]

    def __iter__(self) -> Any:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
