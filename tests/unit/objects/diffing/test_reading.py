"""How much of two large states is read to compare them: what differs, and nothing else."""

from __future__ import annotations

import copy
import random

import pytest

from holdfast.objects.diffing.change import Excerpt
from holdfast.objects.diffing.states import changes_of_roots
from holdfast.objects.links import reachable
from holdfast.objects.registry import GLOBAL
from holdfast.objects.state import encode_state

RANDOM = random.Random(8)
WORDS = ["".join(RANDOM.choices("abcdefghijklmnop", k=RANDOM.randint(2, 9))) for _ in range(2000)]


def words(count):
    return " ".join(RANDOM.choices(WORDS, k=count))


def message(number):
    return {"id": f"m{number}", "role": "user", "content": words(150), "tokens": number, "meta": {"ok": True}}


class Chunks:
    """Chunks of some states, counted as they are read."""

    def __init__(self):
        self._all = {}
        self.names = []
        self.size = 0

    def keep(self, value):
        encoded = encode_state(value, GLOBAL)
        self._all.update({chunk.hash: chunk.data for chunk in encoded.chunks})
        return encoded.root

    def read(self, names):
        found = {name: self._all[name] for name in names}
        self.names += found
        self.size += sum(map(len, found.values()))
        return found

    def of(self, root):
        return list(reachable(root, lambda names: {name: self._all[name] for name in names}))

    def bytes_of(self, root):
        return sum(len(self._all[name]) for name in self.of(root))

    def diff(self, old, new, **options):
        self.names, self.size = [], 0
        return changes_of_roots(old, new, self.read, GLOBAL, **options)


@pytest.fixture(scope="module")
def large():
    """A state of 10 MB, and the chunks to keep it and its descendants in."""
    state = {
        "goal": "find the leak",
        "score": 0.41,
        "messages": [message(number) for number in range(10_000)],
        "beliefs": {f"b{number}": {"text": words(6), "confidence": number} for number in range(400)},
    }
    chunks = Chunks()
    return state, chunks, chunks.keep(state)


def paths(changes):
    return [(change.op, change.path) for change in changes]


def test_the_ten_edits_of_a_step_in_ten_megabytes_read_two_percent_of_the_chunks(large):
    state, chunks, root = large
    new = copy.deepcopy(state)
    new["goal"], new["score"] = "mend the leak", 0.63
    new["beliefs"]["b7"]["confidence"] = -1
    new["messages"][7]["tokens"] = new["messages"][5_000]["tokens"] = new["messages"][9_990]["tokens"] = -1
    del new["messages"][3_000]
    new["messages"].insert(8_000, message(20_000))
    new["messages"] += [message(20_001), message(20_002)]
    other = chunks.keep(new)
    assert paths(chunks.diff(root, other)) == [
        ("replace", "goal"),
        ("replace", "score"),
        ("replace", "messages[7].tokens"),
        ("remove", "messages[3000]"),
        ("replace", "messages[4999].tokens"),
        ("add", "messages[8000]"),
        ("replace", "messages[9990].tokens"),
        ("add", "messages[10000]"),
        ("add", "messages[10001]"),
        ("replace", "beliefs.b7.confidence"),
    ]
    assert len(chunks.names) == len(set(chunks.names))
    assert len(chunks.names) <= 0.02 * (len(chunks.of(root)) + len(chunks.of(other)))


def test_ten_edits_as_far_apart_as_can_be_read_a_leaf_of_each_side(large):
    state, chunks, root = large
    new = copy.deepcopy(state)
    for number in range(10):
        new["messages"][number * 1_000 + 137]["tokens"] = -1
    other = chunks.keep(new)
    assert len(chunks.diff(root, other)) == 10
    both = [chunks.of(root), chunks.of(other)]
    assert chunks.size <= 0.025 * (chunks.bytes_of(root) + chunks.bytes_of(other))
    # What one side has and the other has not, and nothing else: a leaf for each edit, and the way to it. Edits that
    # far apart share little of it.
    assert sorted(chunks.names) == sorted({*both[0]} ^ {*both[1]})
    assert len(chunks.names) <= 0.036 * sum(map(len, both))


def test_neighbours_that_changed_read_nothing_beside_them(large):
    state, chunks, root = large
    new = copy.deepcopy(state)
    for at in [*range(2_000, 2_040), *range(6_000, 6_400, 7)]:
        new["messages"][at]["tokens"] = -1
    other = chunks.keep(new)
    assert len(chunks.diff(root, other)) == 40 + 58
    assert sorted(chunks.names) == sorted({*chunks.of(root)} ^ {*chunks.of(other)})


def test_the_same_root_is_not_read_at_all(large):
    _, chunks, root = large
    assert chunks.diff(root, root) == []
    assert chunks.names == []


def test_an_unchanged_subtree_is_not_read_at_all(large):
    state, chunks, root = large
    other = chunks.keep(state | {"score": 0.5})
    assert paths(chunks.diff(root, other)) == [("replace", "score")]
    assert len(chunks.names) == 2
    assert chunks.diff(root, other, path="messages") == []
    assert len(chunks.names) == 2


def test_an_appended_message_reads_the_two_roots(large):
    state, chunks, root = large
    other = chunks.keep(state | {"messages": [*state["messages"], message(30_000)]})
    assert paths(chunks.diff(root, other)) == [("add", "messages[10000]")]
    assert len(chunks.names) <= 4


def test_a_trimmed_front_reads_what_was_trimmed_and_the_indexes_above(large):
    state, chunks, root = large
    other = chunks.keep(state | {"messages": state["messages"][20:]})
    changes = chunks.diff(root, other)
    assert paths(changes) == [("remove", f"messages[{at}]") for at in range(20)]
    assert len(chunks.names) <= 12


def test_a_path_reads_what_leads_there(large):
    state, chunks, root = large
    new = copy.deepcopy(state)
    for at in range(0, 10_000, 500):
        new["messages"][at]["tokens"] = -1
    new["beliefs"]["b9"]["confidence"] = -1
    other = chunks.keep(new)
    assert paths(chunks.diff(root, other, path="beliefs.b9")) == [("replace", "beliefs.b9.confidence")]
    assert len(chunks.names) <= 6
    assert paths(chunks.diff(root, other, path="messages[500]")) == [("replace", "messages[500].tokens")]
    assert len(chunks.names) <= 8


def test_of_a_long_text_only_the_pieces_around_an_edit_are_read():
    chunks = Chunks()
    text = words(300_000)
    middle = len(text) // 2
    root = chunks.keep({"notes": text, "n": 1})
    other = chunks.keep({"notes": f"{text[:middle]}A SMALL EDIT{text[middle:]}", "n": 1})
    (change,) = chunks.diff(root, other)
    assert (change.op, change.path) == ("replace", "notes")
    assert isinstance(change.new, Excerpt)
    assert any("A SMALL EDIT" in part for part in change.new.parts)
    assert sum(map(len, change.new.parts)) < 400
    assert len(chunks.names) <= 0.1 * (len(chunks.of(root)) + len(chunks.of(other)))
    (whole,) = chunks.diff(root, other, whole=True)
    assert "A SMALL EDIT" in whole.new
    assert len(whole.old) == len(text)


@pytest.mark.parametrize("sizes", [(10, 400), (400, 10), (0, 400), (15, 16), (16, 17)])
def test_a_list_that_outgrows_its_place_is_compared_with_the_one_that_did_not(sizes):
    rows = [message(number) for number in range(max(sizes))]
    chunks = Chunks()
    roots = [chunks.keep({"rows": rows[:size]}) for size in sizes]
    changes = chunks.diff(*roots)
    op = "add" if sizes[0] < sizes[1] else "remove"
    assert paths(changes) == [(op, f"rows[{at}]") for at in range(min(sizes), max(sizes))]


def test_a_dict_whose_keys_move_past_what_is_not_read_says_so():
    chunks = Chunks()
    table = {f"k{number}": words(60) for number in range(2_000)}
    moved = dict(table)
    moved["k3"] = moved.pop("k3")
    root, other = chunks.keep(table), chunks.keep(moved)
    (change,) = chunks.diff(root, other)
    assert (change.op, change.path, change.old, change.new) == ("move", "k3", 3, 1_999)
    assert len(chunks.names) <= 16 < len(chunks.of(root)) / 2
