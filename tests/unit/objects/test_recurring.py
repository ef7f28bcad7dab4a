"""States that are read one after the other: each is what it is when read alone, and what they share is made once."""

from __future__ import annotations

import random
from typing import Any

import ormsgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.memory import held

from holdfast.errors import HoldfastError, IntegrityError, StateError
from holdfast.objects import nodes, recurring
from holdfast.objects.cutting import FORMAT_0, Cuts
from holdfast.objects.hashing import hash_chunk
from holdfast.objects.nodes import Entry, Node
from holdfast.objects.recurring import RecurringRuns
from holdfast.objects.registry import TypeRegistry
from holdfast.objects.state import decode_state, encode_state
from holdfast.storage.records import ChunkHash

SMALL = Cuts(
    item_limit=256,
    leaf_scale=300,
    index_scale=6,
    node_weight=64,
    piece_min=128,
    piece_mean=256,
    piece_max=1024,
    node_depth=32,
    node_limit=4096,
)


class Chunks:
    """A store of chunks that counts what is read."""

    def __init__(self) -> None:
        self.held: dict[ChunkHash, bytes] = {}
        self.read_names: list[ChunkHash] = []
        self.asked = 0

    def save(self, value: Any, types: TypeRegistry, cuts: Cuts = SMALL) -> ChunkHash:
        encoded = encode_state(value, types, cuts=cuts)
        self.held |= {each.hash: each.data for each in encoded.chunks}
        return encoded.root

    def put(self, data: bytes) -> ChunkHash:
        name = hash_chunk(data)
        self.held[name] = data
        return name

    def __call__(self, names: Any) -> dict[ChunkHash, bytes]:
        names = list(names)
        self.asked += 1
        self.read_names += names
        return {name: self.held[name] for name in names if name in self.held}


class Note:
    """An object that counts how often one is made."""

    made = 0

    def __init__(self, text: Any, tags: list[str]) -> None:
        self.text, self.tags = text, tags

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Note) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


class NoteShape:
    def take(self, value: Note) -> tuple[Any, Any]:
        return dict(vars(value)), None

    def make(self, data: Any, extra: Any) -> Any:
        Note.made += 1
        return Note(**data)

    def layout(self, value: Note) -> list[tuple[Any, Any]]:
        return [(vars(Note)["__dict__"].__set__, value.__dict__)]


@pytest.fixture
def types() -> TypeRegistry:
    known = TypeRegistry()
    known.register(Note, shape=NoteShape())
    return known


def notes(count: int, *, start: int = 0) -> list[Any]:
    return [Note(f"text {n} " * (n % 7 + 1), [str(n)]) for n in range(start, start + count)]


def small_items(source: random.Random, count: int) -> list[Any]:
    makers: list[Any] = [
        lambda: source.randrange(10**6),
        lambda: f"text {source.random()} " * source.randrange(1, 6),
        lambda: {"a": [source.randrange(9)], "b": {"c": None}},
        lambda: Note("n" * source.randrange(80), ["x"]),
        lambda: (1, [2]),
        lambda: bytearray(b"abc"),
        # Large ones, which stand as nodes in their run.
        lambda: "long " * 200,
        lambda: [f"item {n}" for n in range(100)],
        lambda: {f"key {n}": [n] for n in range(80)},
    ]
    weights = [8, 8, 8, 8, *([source.choice([0, 0, 1])] * 5)]
    return [source.choices(makers, weights)[0]() for _ in range(count)]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from(["list", "dict", "nested", "bare"]), st.booleans())
def test_every_state_is_what_it_is_when_it_is_read_alone(seed, place, shrinks):
    types = TypeRegistry()
    types.register(Note, shape=NoteShape())
    source, store = random.Random(seed), Chunks()
    items = small_items(source, source.randrange(0, 200))
    roots = []
    for step in range(8):
        change = source.randrange(4)
        if change == 0 and items:
            items[source.randrange(len(items))] = f"edited {step}"
        elif change == 1:
            items = [*small_items(source, 2), *items[3:]]
        else:
            items = items[: -source.randrange(1, 9)] if shrinks else [*items, *small_items(source, 5)]
        state: Any = {"n": step, "items": items, "after": "x"}
        if place == "dict":
            state["items"] = {f"k{n}": each for n, each in enumerate(items)}
        elif place == "nested":
            state = {"n": step, "inner": {"lists": [items, step, items[: len(items) // 2]]}}
        elif place == "bare":
            state = items
        roots.append(store.save(state, types))
    runs = RecurringRuns(types)
    for root in [*roots, *reversed(roots), *roots]:
        assert repr_of(runs.state(root, store).build()) == repr_of(decode_state(root, store, types))


def repr_of(value: Any) -> str:
    if isinstance(value, Note):
        return f"Note{vars(value)!r}"
    if isinstance(value, list):
        return "[" + ", ".join(map(repr_of, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {repr_of(each)}" for key, each in value.items()) + "}"
    return repr(value)


def history(store: Chunks, types: TypeRegistry, items: list[Any], steps: int) -> list[ChunkHash]:
    """The newest first, as it is listed."""
    return [store.save({"n": n, "items": items[: len(items) - n]}, types, FORMAT_0) for n in range(steps)]


def test_what_states_share_is_made_a_few_times_and_not_once_for_each(types):
    store, items = Chunks(), notes(2_000)
    roots = history(store, types, items, 30)
    runs = RecurringRuns(types)
    Note.made = 0
    for n, root in enumerate(roots):
        assert runs.state(root, store).build()["items"] == items[: 2_000 - n]
    # Decoding all of them each time would have made 59,565. What does not fill a run is made anew for each state.
    assert Note.made < 12_000
    assert len(store.read_names) < 30 * 3 + 60


def test_a_state_that_is_read_alone_is_made_once(types):
    store, items = Chunks(), notes(2_000)
    root = store.save({"items": items}, types, FORMAT_0)
    Note.made = 0
    assert RecurringRuns(types).state(root, store).build() == {"items": items}
    assert Note.made == 2_000


def test_no_two_states_share_anything_that_can_change(types):
    store, items = Chunks(), notes(600)
    runs = RecurringRuns(types)
    built = [runs.state(root, store).build()["items"] for root in history(store, types, items, 12)]
    held = [id(each) for state in built for note in state for each in (note, note.tags, vars(note))]
    assert len(set(held)) == len(held) == sum(map(len, built)) * 3
    for state in built[::2]:
        for note in state:
            note.text = "changed"
            note.tags.append("changed")
            note.__dict__["more"] = 1
        del state[10:]
    for n, state in enumerate(built):
        assert n % 2 == 0 or state == items[: 600 - n]
    assert runs.state(history(store, types, items, 1)[0], store).build()["items"] == items


def test_what_is_done_to_a_state_shows_in_none_that_comes_later(types):
    store, items = Chunks(), notes(600)
    runs = RecurringRuns(types)
    for n, root in enumerate(history(store, types, items, 12)):
        found = runs.state(root, store).build()["items"]
        assert found == items[: 600 - n]
        for note in found:
            note.text = "changed"
            note.tags.append("changed")
            note.__dict__["more"] = 1
        found.clear()


def test_a_list_from_which_something_was_taken_at_the_front_still_shares_the_rest(types):
    store, items = Chunks(), notes(1_000)
    runs = RecurringRuns(types)
    roots = [store.save({"items": items[gone:]}, types) for gone in range(0, 100, 5)]
    Note.made = 0
    for n, root in enumerate(roots):
        assert runs.state(root, store).build()["items"] == items[n * 5 :]
    # 20 states of some 950 notes: were groups cut by position, each would be decoded whole.
    assert Note.made < 5_000


def test_all_chunks_of_a_list_that_are_missing_are_one_question(types):
    store, items = Chunks(), notes(2_000)
    root = store.save({"items": items}, types, FORMAT_0)
    RecurringRuns(types).state(root, store)
    # The root, an index perhaps, and all the runs.
    assert store.asked <= 3


def test_what_is_remembered_is_bounded_and_what_is_forgotten_is_read_again(types, monkeypatch):
    store = Chunks()
    roots = [store.save({"items": notes(300, start=n * 300)}, types, FORMAT_0) for n in range(8)]
    whole = sum(map(len, store.held.values()))
    most = whole * 8
    monkeypatch.setattr(recurring, "_REMEMBERED_BYTES", most)
    runs = RecurringRuns(types)
    for _ in range(3):
        for n, root in enumerate(roots):
            assert runs.state(root, store).build()["items"] == notes(300, start=n * 300)
            assert runs.state(root, store).build()["items"] == notes(300, start=n * 300)
            runs.state(root, store)
            assert sum(group.size for group in runs._groups.values()) <= most
    assert any(group._mold is not None for group in runs._groups.values())
    # Some were forgotten, though all were read three times over.
    assert 0 < len(runs._groups) < len(store.held) - len(roots)


def test_a_mold_counts_for_more_than_its_bytes(types):
    store = Chunks()
    root = store.save({"items": list(range(40_000))}, types, FORMAT_0)
    runs = RecurringRuns(types)
    sizes = []
    for _ in range(3):
        assert runs.state(root, store).build() == {"items": list(range(40_000))}
        sizes.append(sum(group.size for group in runs._groups.values()))
    assert sizes[0] < 200_000
    # Each number is a place in a list, at least.
    assert sizes[1] == sizes[2] > sizes[0] + 8 * 30_000


def error_of(call: Any) -> tuple[Any, ...]:
    with pytest.raises(HoldfastError) as caught:
        call()
    return type(caught.value), caught.value.code, str(caught.value)


@pytest.mark.parametrize("found", [None, b"\x03x"], ids=["missing", "damaged"])
def test_a_chunk_that_is_missing_or_damaged_is_told_as_ever(types, found):
    store = Chunks()
    root = store.save({"items": notes(1_000)}, types, FORMAT_0)
    name, data = next((name, data) for name, data in store.held.items() if data[0] == nodes.LEAF)
    del store.held[name]
    if found is not None:
        store.held[name] = found
    runs = RecurringRuns(types)
    told = error_of(lambda: runs.state(root, store))
    assert told[0] is IntegrityError
    assert told == error_of(lambda: decode_state(root, store, types))
    # Nothing of it is remembered.
    store.held[name] = data
    assert runs.state(root, store).build() == {"items": notes(1_000)}


def crafted(store: Chunks) -> dict[str, ChunkHash]:
    """Trees that hash right and do not fit together."""
    leaf = bytes((nodes.LEAF,)) + b"\x01\x02\x03"
    name = store.put(leaf)
    index = store.put(nodes.index_chunk([Entry(name, 3, 3), Entry(name, 3, 4)]))
    whole = store.put(nodes.index_chunk([Entry(name, 3, 3), Entry(name, 3, 3)]))
    inner = Node(nodes.LIST, 3, 4, [[Entry(name, 3, 3)]], [b""])

    def root(*given: Any) -> ChunkHash:
        return store.put(bytes((nodes.TREE,)) + Node(*given).pack())

    return {
        "size of the node": root(nodes.LIST, 3, 99, [[Entry(name, 3, 3)]], [b""]),
        "size of a run": root(nodes.LIST, 3, 5, [[Entry(name, 3, 4)]], [b""]),
        "fewer items than runs": root(nodes.LIST, 2, 4, [[Entry(name, 3, 3)]], [b""]),
        "more items than there are": root(nodes.LIST, 4, 4, [[Entry(name, 3, 3)]], [b""]),
        "too many in the tail": root(nodes.LIST, 3, 5, [[Entry(name, 3, 3)]], [b"\x04"]),
        "an index as a run": root(nodes.LIST, 6, 7, [[Entry(index, 6, 6)]], [b""]),
        "a run as an index": root(nodes.LIST, 3, 4, [[Entry(name, 3, 3)], []], [b""]),
        "an index that belies its runs": root(nodes.LIST, 6, 7, [[Entry(index, 6, 6)], []], [b""]),
        "two that belie their indexes": root(
            nodes.LIST, 12, 13, [[Entry(whole, 5, 5), Entry(whole, 7, 7)], []], [b""]
        ),
        "a chunk of nothing": root(nodes.LIST, 1, 2, [[Entry(store.put(b""), 1, 1)]], [b""]),
        "half an item": root(
            nodes.LIST, 1, 3, [[Entry(store.put(bytes((nodes.LEAF,)) + b"\xd9\x20"), 1, 2)]], [b""]
        ),
        "a node that belies itself": root(nodes.LIST, 1, 9, [], [b"", inner.pack(), b""]),
    }


@pytest.mark.parametrize("which", list(crafted(Chunks())))
def test_trees_that_do_not_fit_together_are_refused_in_the_same_words(types, which):
    store = Chunks()
    root = crafted(store)[which]
    runs = RecurringRuns(types)
    for _ in range(3):
        found = error_of(lambda: runs.state(root, store).build())
        assert found == error_of(lambda: decode_state(root, store, types))


def chain(store: Chunks, length: int) -> ChunkHash:
    """A list in a list in a list, each in a chunk of its own."""
    node = Node(nodes.LIST, 1, 2, [[Entry(store.put(bytes((nodes.LEAF,)) + b"\x01"), 1, 1)]], [b""])
    for _ in range(length):
        leaf = store.put(nodes.leaf_chunk([b"", node.pack(), b""]))
        node = Node(nodes.LIST, 1, node.size + 1, [[Entry(leaf, 1, node.size)]], [b""])
    return store.put(bytes((nodes.TREE,)) + node.pack())


def test_lists_in_lists_in_chunks_are_read_as_deep_as_ever_and_no_deeper(types):
    store = Chunks()
    runs = RecurringRuns(types)
    for length in (10, 60, 70, 150):
        root = chain(store, length)
        assert runs.state(root, store).build() == decode_state(root, store, types)
    root = chain(store, 3_000)
    assert error_of(lambda: runs.state(root, store)) == error_of(lambda: decode_state(root, store, types))


def test_parts_of_nothing_that_are_referred_to_over_and_over_are_refused(types):
    """A small store that would unfold into a hundred million parts."""
    store = Chunks()
    nothing = Node(nodes.RAW, 0, 0, [], []).pack()
    leaf = store.put(nodes.leaf_chunk([b"\x01", *([nothing, b""] * 10_000)]))
    node = Node(nodes.LIST, 9_000, 9_003, [[Entry(leaf, 1, 1)] * 9_000], [b""])
    root = store.put(bytes((nodes.TREE,)) + node.pack())
    runs = RecurringRuns(types)
    assert error_of(lambda: runs.state(root, store)) == error_of(lambda: decode_state(root, store, types))


def test_a_run_that_another_state_says_other_things_of_is_not_taken_for_known(types):
    store = Chunks()
    name = store.put(bytes((nodes.LEAF,)) + b"\x01\x02\x03")
    right, wrong = (
        store.put(bytes((nodes.TREE,)) + Node(nodes.LIST, 7, 8, [entries], [b"\x04"]).pack())
        for entries in ([Entry(name, 3, 3)] * 2, [Entry(name, 2, 2), Entry(name, 4, 4)])
    )
    runs = RecurringRuns(types)
    for _ in range(3):
        assert runs.state(right, store).build() == [1, 2, 3, 1, 2, 3, 4]
        assert error_of(lambda: runs.state(wrong, store)) == error_of(
            lambda: decode_state(wrong, store, types)
        )


def test_counts_that_only_add_up_as_a_whole_are_read_as_ever(types):
    """Nothing says that an entry's count is right, as long as the list has as many items as it says."""
    store = Chunks()
    one, two = (store.put(bytes((nodes.LEAF,)) + body) for body in (b"\x01\x02\x03", b"\x04"))
    node = Node(nodes.LIST, 4, 5, [[Entry(one, 2, 3), Entry(two, 1, 1)]], [b""])
    root = store.put(bytes((nodes.TREE,)) + node.pack())
    runs = RecurringRuns(types)
    assert (
        [runs.state(root, store).build() for _ in range(3)]
        == [decode_state(root, store, types)] * 3
        == [[1, 2, 3, 4]] * 3
    )


def test_an_object_that_does_not_fit_its_class_is_told_with_its_place(types):
    store = Chunks()
    items = notes(1_000)
    items[700].text = 5
    root = store.save({"deep": {"items": items}}, types, FORMAT_0)

    class Picky(NoteShape):
        def make(self, data: Any, extra: Any) -> Any:
            if data["text"] == 5:
                raise ValueError("no number")
            return super().make(data, extra)

    picky = TypeRegistry()
    picky.register(Note, shape=Picky())
    runs = RecurringRuns(picky)
    for _ in range(3):
        kind, _, text = error_of(lambda: runs.state(root, store).build())
        assert kind is StateError
        assert "deep" in text
        assert "[700]" in text
    # For a program that takes it, it is all there.
    assert RecurringRuns(types).state(root, store).build()["deep"]["items"][700].text == 5


def test_classes_that_are_found_while_loading_come_back(types):
    store = Chunks()
    root = store.save({"items": notes(1_000), "one": Note("x", [])}, types, FORMAT_0)
    late = TypeRegistry()
    asked: list[str] = []

    def find(name: str) -> bool:
        asked.append(name)
        late.register(Note, shape=NoteShape())
        return True

    late.on_missing(find)
    state = RecurringRuns(late).state(root, store).build()
    assert asked == ["Note"]
    assert state == {"items": notes(1_000), "one": Note("x", [])}


def misleading(store: Chunks, lists: list[list[Any]], claimed: list[int], left: int) -> ChunkHash:
    """A list of runs that say a wrong number of items, in turns as they are and with what a node could stand in."""
    entries: list[Entry] = []
    for n, (items, count) in enumerate(zip(lists, claimed, strict=True)):
        body = b"".join(map(ormsgpack.packb, items))
        is_mixed = n % 2 == 0
        name = store.put(
            bytes((nodes.MIXED,)) + ormsgpack.packb([body]) if is_mixed else bytes((nodes.LEAF,)) + body
        )
        entries.append(Entry(name, count, len(body)))
    count = sum(map(len, lists)) + left
    tail = b"\xa1t" * left
    size = 1 + sum(entry.size for entry in entries) + len(tail)
    return store.put(bytes((nodes.TREE,)) + Node(nodes.LIST, count, size, [entries], [tail]).pack())


@pytest.mark.parametrize(
    ("lists", "claimed", "left"),
    [
        ([["x", 0], ["g", "h"], ["y"]], [1, 2, 2], 0),
        ([["x", [1, 2]], ["y"]], [1, 2], 2),
        ([["x", [1, 2]], ["g"], ["y"]], [1, 1, 2], 1),
        ([["x"], ["g"], ["y", 0]], [2, 1, 1], 0),
        ([["x", 1, 0], ["g"], ["y", "z", "w"]], [1, 1, 4], 0),
    ],
)
def test_runs_that_belie_their_items_are_never_taken_for_groups(types, lists, claimed, left):
    store = Chunks()
    root = misleading(store, lists, claimed, left)
    runs = RecurringRuns(types)
    whole = [each for some in lists for each in some] + ["t"] * left
    for _ in range(3):
        assert runs.state(root, store).build() == decode_state(root, store, types) == whole


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_whatever_runs_say_of_their_items_the_state_is_what_it_is_alone(data):
    item = st.one_of(st.integers(0, 4), st.text(max_size=2), st.lists(st.integers(0, 3), max_size=3))
    lists = data.draw(st.lists(st.lists(item, min_size=1, max_size=4), min_size=1, max_size=5))
    claimed = []
    for each in lists:
        least = len(b"".join(map(ormsgpack.packb, each)))
        claimed.append(data.draw(st.integers(1, min(least, 5))))
    left = data.draw(st.integers(0, 3))
    store, types = Chunks(), TypeRegistry()
    root = misleading(store, lists, claimed, left)
    if sum(map(len, lists)) + left > 15:
        return
    runs = RecurringRuns(types)
    for _ in range(3):
        assert runs.state(root, store).build() == decode_state(root, store, types)


class Handle:
    def __init__(self, name: str) -> None:
        self.name = name


def test_what_a_function_of_the_program_makes_is_made_by_it_each_time():
    shared: dict[str, int] = {"value": 0}
    calls: list[str] = []

    def decode(name: Any) -> Any:
        calls.append(name)
        return shared

    types = TypeRegistry()
    types.register(Handle, encode=lambda handle: handle.name, decode=decode)
    store = Chunks()
    items = [{"text": f"message {n} " * 60, "handle": Handle("a")} for n in range(300)]
    roots = [store.save({"n": n, "items": items}, types, FORMAT_0) for n in range(5)]
    runs = RecurringRuns(types)
    for n, root in enumerate(roots, 1):
        state = runs.state(root, store).build()
        assert all(each["handle"] is shared for each in state["items"])
        assert len(calls) == n * 300


def test_what_an_upgrade_makes_is_made_by_it_each_time(types):
    store = Chunks()
    roots = [store.save({"n": n, "items": notes(600)}, types, FORMAT_0) for n in range(5)]
    calls: list[int] = []

    def upgrade(data: Any, version: int) -> Any:
        calls.append(version)
        return {**data, "text": len(calls)}

    newer = TypeRegistry()
    newer.register(Note, shape=NoteShape(), version=2, upgrade=upgrade)
    runs = RecurringRuns(newer)
    for n, root in enumerate(roots):
        state = runs.state(root, store).build()
        assert sorted(note.text for note in state["items"]) == list(range(n * 600 + 1, n * 600 + 601))


def test_a_group_whose_class_could_have_been_upgraded_still_gets_its_mold():
    types = TypeRegistry()
    types.register(Note, shape=NoteShape(), version=2, upgrade=lambda data, _: data)
    store, items = Chunks(), notes(2_000)
    runs = RecurringRuns(types)
    Note.made = 0
    for root in history(store, types, items, 20):
        runs.state(root, store).build()
    assert Note.made < 12_000


def test_no_mold_is_made_where_there_is_no_room_for_it(types, monkeypatch):
    store, items = Chunks(), notes(2_000)
    roots = history(store, types, items, 6)
    monkeypatch.setattr(recurring, "_REMEMBERED_BYTES", 1 << 20)
    runs = RecurringRuns(types)
    # All of a page is read before any of it is built.
    page = [runs.state(root, store) for root in roots]
    for n, state in enumerate(page):
        assert state.build()["items"] == items[: 2_000 - n]
        assert sum(group.size for group in runs._groups.values()) <= 1 << 20
    assert any(group._mold is not None for group in runs._groups.values())
    assert any(group._mold is None for group in runs._groups.values())


def test_what_molds_take_is_no_more_than_they_are_counted_as(types):
    states: list[list[Any]] = [
        [[[] for _ in range(40)]] * 1_500,
        [{"a": {}, "b": [], "c": {"d": {}}}] * 6_000,
        [Note("x", [])] * 6_000,
    ]
    for each in states:
        store = Chunks()
        root = store.save(each, types, FORMAT_0)

        def filled(store: Chunks = store, root: ChunkHash = root) -> RecurringRuns:
            runs = RecurringRuns(types)
            for _ in range(2):
                runs.state(root, store).build()
            return runs

        groups = filled()._groups.values()
        counted = sum(group.size - sum(map(len, group.bodies)) for group in groups)
        del groups
        assert 100_000 < held(filled, below=counted) <= counted
