"""What a save of a document costs, in values encoded, chunks written and calls made; and what survives failures."""

from __future__ import annotations

import heapq
from random import Random
from typing import Any

import pytest
from tests.values import identical

from holdfast import InvalidInputError, StateError
from holdfast.objects.codec.registry import GLOBAL, TypeRegistry
from holdfast.objects.document.containers import plain_copy, tracked_copy
from holdfast.objects.document.document import Change, DocumentEncoder, DocumentEncoding
from holdfast.objects.tree.boundaries import FORMAT_0
from holdfast.objects.tree.state import decode_state, encode_state

RUN = FORMAT_0.leaf_scale


def message(random: Random, number: int) -> dict[str, Any]:
    text = "".join(random.choices("abcdefgh ", k=random.randrange(40, 160)))
    return {"id": number, "role": "user", "content": text, "meta": {"tokens": number % 97}}


def state(count: int) -> dict[str, Any]:
    random = Random(7)
    return {
        "messages": [message(random, number) for number in range(count)],
        "context": {f"key {number}": "x" * 100 for number in range(50)},
    }


class Saved:
    """A document, a store for its chunks, and saves that are checked."""

    def __init__(self, value: Any, types: TypeRegistry = GLOBAL) -> None:
        self.types = types
        self.document = tracked_copy(value)
        first = encode_state(value, types)
        self.store = {chunk.hash: chunk.data for chunk in first.chunks}
        self.tree = DocumentEncoder(self.document, types, first.root)

    def save(self) -> DocumentEncoding:
        encoding = self.tree.encode()
        self.keep(encoding)
        return encoding

    def keep(self, encoding: DocumentEncoding) -> None:
        self.store.update((chunk.hash, chunk.data) for chunk in encoding.state.chunks)
        self.tree.confirm(encoding)

    def check(self, encoding: DocumentEncoding, *, read: bool = True) -> None:
        plain = plain_copy(self.document)
        assert encoding.state.root == encode_state(plain, self.types).root
        if read:
            assert identical(self.load(encoding), plain)

    def load(self, encoding: DocumentEncoding) -> Any:
        root = encoding.state.root
        return decode_state(root, lambda names: {name: self.store[name] for name in names}, self.types)


@pytest.fixture(scope="module")
def large():
    return Saved(state(100_000))


def test_a_document_that_was_loaded_is_stored_already(large):
    assert large.tree.changes() == []
    encoding = large.save()
    assert encoding.state.chunks == ()
    assert encoding.values_encoded == 0


def test_an_append_to_100_000_items_costs_the_item(large):
    for number in range(40):
        large.document["messages"].append({"n": number})
        large.document["context"]["key 7"] = str(number)
        encoding = large.save()
        # The new item; the context, which is small, as a whole; and the two keys of the outermost dict.
        assert encoding.values_encoded <= 4
        assert len(encoding.state.chunks) <= 3
        assert sum(len(chunk.data) for chunk in encoding.state.chunks) <= 8 * RUN
    large.check(encoding, read=False)


def test_an_edit_in_the_middle_costs_the_run_it_lies_in(large):
    for place in (50_000, 7, 99_000):
        large.document["messages"][place]["content"] = "another text"
        encoding = large.save()
        assert encoding.values_encoded <= 8 * RUN / 100
        assert len(encoding.state.chunks) <= 12
    large.check(encoding, read=False)


def test_a_value_that_cannot_be_tracked_is_saved_when_it_changed_and_only_then():
    saved = Saved({"sets": [{number} for number in range(10_000)], "plain": ["x" * 50] * 5_000})
    assert saved.save().state.chunks == ()
    saved.document["sets"][5_000].add("more")
    encoding = saved.save()

    assert 1 <= len(encoding.state.chunks) <= 8
    assert saved.tree.changes() == []
    saved.check(encoding)


def test_a_save_that_failed_is_made_up_for_by_the_next():
    saved = Saved(state(3_000))
    saved.document["messages"].insert(10, {"lost": 1})
    saved.tree.encode()
    saved.document["messages"].insert(2_000, {"lost": 2})
    lost = saved.tree.encode()
    assert saved.tree.changes() == [
        Change("remove", ("messages", 10), 1_989),
        Change("add", ("messages", 10), 1_991),
    ]
    del saved.document["messages"][2_000]
    encoding = saved.save()

    saved.check(encoding)
    assert saved.tree.changes() == []
    # What was gone before anything was stored never gets there.
    assert {chunk.hash for chunk in lost.state.chunks} - set(saved.store) != set()


def test_a_value_that_cannot_be_saved_is_named_and_costs_nothing_but_itself():
    saved = Saved(state(3_000))
    saved.document["messages"][100]["content"] = "fine"
    saved.document["messages"][2_000]["client"] = object()
    for _ in range(2):
        with pytest.raises(InvalidInputError) as caught:
            saved.tree.encode()
        assert caught.value.details["path"] == "state['messages'][2000]['client']"
    assert {change.path for change in saved.tree.changes()} == {
        ("messages", 100, "content"),
        ("messages", 2_000, "client"),
    }
    del saved.document["messages"][2_000]["client"]
    encoding = saved.save()

    assert len(encoding.state.chunks) <= 12
    saved.check(encoding)


BEHIND_THE_BACK = {
    "heapq": (lambda d: heapq.heappush(d["queue"], 0), "state['queue']"),
    "the end of a list": (lambda d: list.append(d["messages"], "x"), "state['messages']"),
    "the middle of a list": (lambda d: list.__setitem__(d["messages"], 1_000, "x"), "state['messages']"),
    "an item": (lambda d: dict.__setitem__(d["messages"][-1], "x", 1), "state['messages']"),
    "a dict": (lambda d: dict.__setitem__(d["context"], "key 7", 1), "state"),
    "a deep one": (lambda d: dict.update(d["tables"]["t"][2_000], n=[1]), "state['tables']['t']"),
    "the order": (lambda d: list.reverse(d["messages"]), "state['messages']"),
}


@pytest.mark.parametrize("name", BEHIND_THE_BACK)
def test_what_changes_behind_its_back_is_found_by_a_check_and_then_saved(name):
    change, where = BEHIND_THE_BACK[name]
    value = {
        **state(3_000),
        "queue": list(range(1, 20_000)),
        "tables": {"t": [{"n": n, "x": "y" * 50} for n in range(4_000)]},
    }
    saved = Saved(value)
    change(saved.document)
    encoding = saved.tree.encode()
    with pytest.raises(StateError) as caught:
        saved.tree.check(encoding)
    assert caught.value.code == "document-drift"
    assert caught.value.details["path"] == where
    assert saved.tree.changes() == [Change("replace", ())]

    encoding = saved.save()
    saved.tree.check(encoding)
    saved.check(encoding)
    # Whatever got in is tracked from now on.
    saved.document["queue"].append({})
    saved.check(saved.save())
