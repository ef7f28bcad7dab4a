"""The containers of a document: real dicts and lists, each in its one place, that notice every change."""

from __future__ import annotations

import collections
import copy
import json
from multiprocessing.reduction import ForkingPickler
from typing import Any

import ormsgpack
import pytest
from tests.values import identical

from holdfast import InvalidInputError
from holdfast.objects.document.containers import TrackedDict, TrackedList, plain_copy, tracked_copy
from holdfast.objects.document.dirty import EXACT, VOLATILE

STATE = {
    "messages": [{"role": "user", "parts": ["a", "b"]}, {"role": "tool"}],
    "context": {"n": 1, "deep": {"x": []}},
}


@pytest.fixture
def document():
    return tracked_copy(copy.deepcopy(STATE))


def containers(value: Any) -> list[Any]:
    found = [value]
    for each in found:
        found += [inner for _, inner in each._places() if isinstance(inner, dict | list)]
    return found


def clean(document: Any) -> None:
    for each in containers(document):
        each._writes = None


def written(document: Any) -> list[Any]:
    return [each for each in containers(document) if each._writes is not None]


def test_everything_that_reads_dicts_and_lists_can_read_them(document):
    assert isinstance(document, dict)
    assert isinstance(document["messages"], list)
    assert document == STATE
    assert document == STATE
    assert json.loads(json.dumps(document)) == STATE
    assert ormsgpack.unpackb(ormsgpack.packb(document)) == STATE
    assert repr(document) == repr(STATE)
    assert [*document] == [*STATE]
    assert {**document} == STATE
    assert sorted(document["messages"][0]["parts"], reverse=True) == ["b", "a"]
    match document:
        case {"messages": [{"role": role}, *_]}:
            assert role == "user"
        case _:
            pytest.fail("not taken for a dict")


READING = """
    __add__ __class__ __class_getitem__ __contains__ __delattr__ __dir__ __doc__ __eq__ __format__ __ge__
    __getattribute__ __getitem__ __getstate__ __gt__ __hash__ __init_subclass__ __iter__ __le__ __len__ __lt__ __mul__
    __ne__ __or__ __reduce__ __repr__ __reversed__ __rmul__ __ror__ __setattr__ __sizeof__ __str__ __subclasshook__
    count fromkeys get index items keys values
"""


@pytest.mark.parametrize("plain", [dict, list])
def test_every_method_that_changes_the_plain_type_is_overridden(plain):
    cls = {dict: TrackedDict, list: TrackedList}[plain]
    inherited = {name for name in dir(plain) if getattr(cls, name) == getattr(plain, name)}

    assert inherited - set(READING.split()) == set()


def test_reading_is_no_change(document):
    clean(document)
    _ = (
        document["messages"][0]["parts"][:],
        document.get("x"),
        list(document.items()),
        document | {},
        [1] + document["messages"],
    )
    _ = (
        document["messages"] * 2,
        document["messages"].copy(),
        document.copy(),
        document == {},
        document["context"].get("n"),
    )

    assert written(document) == []


@pytest.mark.parametrize(
    "nothing",
    [
        lambda d: d.update(context=d["context"]),
        lambda d: d.__setitem__("context", d["context"]),
        lambda d: d["context"].__setitem__("n", 1),
        lambda d: d["messages"].__setitem__(slice(None), list(d["messages"])),
        lambda d: d["messages"].__setitem__(0, d["messages"][0]),
        lambda d: d["messages"].extend([]),
        lambda d: d["messages"].__delitem__(slice(5, 9)),
        lambda d: d["context"]["deep"].clear(),
        lambda d: d.__setitem__("context", d["context"].__ior__({})),
    ],
)
def test_writing_what_is_there_already_is_no_change(document, nothing):
    document["context"]["deep"].clear()
    clean(document)
    nothing(document)

    assert written(document) == []


def cyclic() -> list[Any]:
    value: list[Any] = [{}]
    value[0]["up"] = value
    return value


@pytest.mark.parametrize(
    "attempt",
    [
        lambda d: d.__setitem__("x", cyclic()),
        lambda d: d["messages"].append(cyclic()),
        lambda d: d["messages"].extend([1, cyclic()]),
        lambda d: d["messages"].__setitem__(slice(0, 2), [cyclic()]),
        lambda d: d["messages"].insert(0, {"in": cyclic()}),
        lambda d: d.update(a=1, b=cyclic()),
        lambda d: d["context"].setdefault("x", cyclic()),
        lambda d: d["context"].__setitem__("self", d),
        lambda d: d["context"]["deep"].__setitem__("up", [{"it": d["context"]}]),
        lambda d: d["context"]["deep"]["x"].append(d["context"]["deep"]["x"]),
    ],
)
def test_a_cycle_is_refused_and_changes_nothing(document, attempt):
    clean(document)
    with pytest.raises(InvalidInputError) as refusal:
        attempt(document)

    assert refusal.value.code == "value-cycle"
    assert refusal.value.hint
    assert document == STATE
    assert written(document) == []


def test_a_refused_extend_leaves_the_detached_ones_alone(document):
    taken = document["messages"].pop()
    with pytest.raises(InvalidInputError):
        document["messages"].extend([taken, cyclic()])
    document["messages"].append(taken)

    assert document["messages"][-1] is taken


def failing_iterator():
    yield 1
    raise RuntimeError("half-way")


def test_an_iterator_that_fails_half_way_changes_nothing(document):
    for attempt in (
        document["messages"].extend,
        document["messages"].__iadd__,
        lambda it: document["messages"].__setitem__(slice(0, 1), it),
        lambda it: document.update(("k", value) for value in it),
    ):
        with pytest.raises(RuntimeError, match="half-way"):
            attempt(failing_iterator())
    assert document == STATE


def test_copies_are_plain(document):
    shallow, deep = copy.copy(document), copy.deepcopy(document)
    sent = ForkingPickler.loads(ForkingPickler.dumps(document))

    assert type(shallow) is type(document.copy()) is dict
    assert shallow["messages"] is document["messages"]
    for each in (deep, sent, plain_copy(document)):
        assert identical(each, STATE)
    assert type(document["messages"] + []) is type(document["messages"][:]) is list
    assert type(document | {}) is dict


def test_a_plain_copy_shares_nothing_that_can_change(document):
    document["tags"] = {1, 2}
    document["pair"] = ([1], document["messages"])
    made = plain_copy(document)
    document["tags"].add(3)
    document["pair"][0].append(2)

    assert made["tags"] == {1, 2}
    assert made["pair"][0] == [1]
    assert identical(made["pair"][1], STATE["messages"])


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "marks"),
    [
        ({1}, VOLATILE),
        ((1, [2]), VOLATILE),
        ((1, ("x", b"y")), 0),
        (bytearray(), VOLATILE | EXACT),
        (collections.OrderedDict(), VOLATILE | EXACT),
        (collections.deque(), VOLATILE | EXACT),
        (Text("x"), VOLATILE | EXACT),
        (1 << 80, 0),
        (b"x", 0),
        (1j, 0),
    ],
)
def test_what_cannot_be_tracked_is_marked_all_the_way_up(document, value, marks):
    document["messages"][0]["parts"].append(value)

    assert [each._marks for each in (document, document["messages"], document["messages"][0])] == [marks] * 3
    assert document["context"]._marks == 0
    assert tracked_copy({"x": [value]})._marks == marks
