"""How much of two large states is read to compare them: what differs, and nothing else."""

from __future__ import annotations

import copy
import random

import pytest

from holdfast.objects.codec.registry import GLOBAL
from holdfast.objects.diff.diff import diff_roots
from holdfast.objects.tree.read import reachable
from holdfast.objects.tree.state import encode_state

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
        return diff_roots(old, new, self.read, GLOBAL, **options)


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
