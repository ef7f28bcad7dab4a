"""What lies deep: a diff or merge looks at every byte a few times, however many levels lie above it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.errors import ErrorCode, StateError
from holdfast.objects import nodes, wire
from holdfast.objects.codec import encode_value
from holdfast.objects.diffing import encoded
from holdfast.objects.diffing.diff import Diff
from holdfast.objects.diffing.encoded import Encoded, Scanned, open_alike, open_value
from holdfast.objects.diffing.locating import locate
from holdfast.objects.diffing.scanning import scan
from holdfast.objects.diffing.states import changes_of_roots, changes_of_values
from holdfast.objects.hashing import hash_chunk
from holdfast.objects.merging import building
from holdfast.objects.merging.states import merge_values
from holdfast.objects.nodes import MalformedNodeError
from holdfast.objects.opaque import Opaque
from holdfast.objects.registry import TypeRegistry

TYPES = TypeRegistry()
Wrap = Callable[[Any, int], Any]

WRAPS: dict[str, Wrap] = {
    "lists": lambda value, at: [value, at],
    "dicts": lambda value, at: {"k": value, "n": at},
    "named": lambda value, at: [{"id": "x", "k": value, "n": at}],
    "texts that say type": lambda value, at: {"$type": at, "k": value},
}
# Extensions lie at most 200 deep in each other, so that lists lie between them.
EXTENSIONS: dict[str, Wrap] = {
    "objects": lambda value, at: value if at % 16 else Opaque("X", 1, {"k": [value], "n": at}),
    "tuples": lambda value, at: [value] if at % 16 else (value, at),
    "other keys": lambda value, at: [value] if at % 16 else {at: value},
}


def nested(wrap: Wrap, depth: int, value: Any) -> Any:
    for at in range(depth):
        value = wrap(value, at)
    return value


def rows(count: int = 2_000) -> list[str]:
    return [f"row {number} {'x' * 20}" for number in range(count)]


class Looked:
    """Counts the bytes that are taken apart, scanned or copied."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.total = 0
        for name in ("_open_in_c", "scan"):
            monkeypatch.setattr(encoded, name, self._counted(getattr(encoded, name)))
        sliced = vars(Scanned)["data"].fget

        def data(value: Scanned) -> bytes:
            found: bytes = sliced(value)
            self.total += len(found)
            return found

        monkeypatch.setattr(Scanned, "data", property(data))

    def _counted(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def counted(data: bytes, *rest: Any) -> Any:
            self.total += len(data)
            return original(data, *rest)

        return counted


def size_of(value: Any) -> int:
    return len(encode_value(value, TYPES))


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
@pytest.mark.parametrize("depth", [30, 300, 1_500])
def test_a_diff_looks_at_each_byte_a_few_times_at_any_depth(monkeypatch, wrap, depth):
    looked = Looked(monkeypatch)
    base = rows()
    old, new = nested(wrap, depth, base), nested(wrap, depth, [*base[:-5], "new", *base[-4:]])
    (change,) = changes_of_values(old, new, TYPES)
    assert (change.old, change.new) == (base[-5], "new")
    # Each of the upper levels is opened on its own, on both sides; what is below 16 KB is copied with each level.
    small = 2 * 16_384 * 4
    assert looked.total <= 2 * 25 * size_of(old) + small * min(depth, 100)


@pytest.mark.parametrize("wrap", EXTENSIONS.values(), ids=EXTENSIONS)
def test_a_diff_looks_a_few_times_for_each_object_around_it(monkeypatch, wrap):
    base, looked = rows(), []
    for depth in (320, 640):
        counting = Looked(monkeypatch)
        old, new = nested(wrap, depth, base), nested(wrap, depth, [*base[:-5], "new", *base[-4:]])
        (change,) = changes_of_values(old, new, TYPES)
        assert (change.old, change.new) == (base[-5], "new")
        looked.append(counting.total)
        monkeypatch.undo()
    # Twenty more of them, each of which is copied once and scanned once.
    assert looked[1] - looked[0] <= 2 * 20 * 4 * size_of(old)


@pytest.mark.parametrize("wrap", [*WRAPS.values(), *EXTENSIONS.values()], ids=[*WRAPS, *EXTENSIONS])
def test_a_merge_joins_what_it_made_once(monkeypatch, wrap):
    joined = []
    original = building.Built._leaves

    def counted(built):
        joined.append(built.size)
        return original(built)

    monkeypatch.setattr(building.Built, "_leaves", counted)
    base = rows()
    ours, theirs, both = ["ours", *base[1:]], [*base[:-1], "theirs"], ["ours", *base[1:-1], "theirs"]
    was, mine, other, wanted = (nested(wrap, 400, each) for each in (base, ours, theirs, both))
    result = merge_values(was, mine, other, TYPES)
    assert not result.conflicts
    assert encode_value(result.value, TYPES) == encode_value(wanted, TYPES)
    assert joined == [size_of(wanted)]


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_a_merge_looks_at_each_byte_a_few_times_at_any_depth(monkeypatch, wrap):
    base = rows()
    looked = []
    for depth in (100, 1_000):
        counting = Looked(monkeypatch)
        was, mine, other = (
            nested(wrap, depth, each) for each in (base, ["ours", *base[1:]], [*base[:-1], "theirs"])
        )
        assert not merge_values(was, mine, other, TYPES).conflicts
        looked.append(counting.total / size_of(was))
        monkeypatch.undo()
    assert looked[1] <= 2 * looked[0]


def test_the_deepest_that_can_be_saved_is_compared_and_merged():
    base, ours, theirs, both = ([1, 2], [0, 2], [1, 2, 3], [0, 2, 3])
    depth = wire.MAX_DEPTH - 1
    was, mine, other, wanted = (nested(WRAPS["dicts"], depth, each) for each in (base, ours, theirs, both))
    assert [change.op for change in changes_of_values(was, other, TYPES)] == ["add"]
    result = merge_values(was, mine, other, TYPES)
    assert encode_value(result.value, TYPES) == encode_value(wanted, TYPES)


def test_bytes_that_lie_deeper_than_any_state_are_refused_before_they_fill_the_memory():
    deep = b"\x91" * (wire.READ_DEPTH + 1) + b"\x01"
    with pytest.raises(MalformedNodeError, match="containers in each other"):
        scan(deep)
    chunks = {}
    for body in (deep, deep[:-1] + b"\x02"):
        chunk = bytes((nodes.WHOLE,)) + body
        chunks[hash_chunk(chunk)] = chunk
    old, new = chunks
    with pytest.raises(StateError) as refused:
        changes_of_roots(old, new, lambda names: {name: chunks[name] for name in names}, TYPES)
    assert refused.value.code == ErrorCode.DECODE_FAILED


DEEP = nested(WRAPS["lists"], 2_000, 1)
LARGE = [rows(1_000), {"k": rows(1_000)}]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([LARGE, DEEP], [LARGE, 1]),
        ({"a": LARGE, "b": DEEP}, {"a": LARGE, "b": 1}),
        ((LARGE, DEEP), (LARGE, 1)),
        ({1: LARGE, 2: DEEP}, {1: LARGE, 2: 1}),
        (Opaque("X", 1, {"a": LARGE, "b": DEEP}), Opaque("X", 1, {"a": LARGE, "b": 1})),
        (Opaque("X", 1, {"a": DEEP}, {"e": LARGE}), Opaque("X", 1, {"a": 1}, {"e": LARGE})),
    ],
)
def test_what_is_too_deep_for_c_on_one_side_is_compared_with_what_is_not_on_the_other(old, new):
    for one, other in ((old, new), (new, old)):
        (change,) = changes_of_values(one, other, TYPES)
        assert change.op == "replace"
        assert len(change.steps) == 1
        # The large parts of both are the same, and nobody takes them for a change of that side.
        changed = merge_values(one, other, one, TYPES)
        assert encode_value(changed.value, TYPES) == encode_value(other, TYPES)
        assert not changed.conflicts


def test_values_that_are_opened_together_are_opened_alike():
    shallow, deep = (Encoded(encode_value([LARGE, end], TYPES)) for end in (1, DEEP))
    one, other = open_alike(shallow, deep)
    assert one is not None
    assert other is not None
    assert one.values[0].token == other.values[0].token
    assert one.values[0].data == other.values[0].data
    assert one.values[0].size == len(one.values[0].data)


def test_all_that_is_compared_of_an_object_is_opened_alike():
    data = encode_value(Opaque("X", 1, {"a": LARGE}, {"e": LARGE}), TYPES)
    for level in range(20):
        opened = open_value(Encoded(data, level))
        assert opened is not None
        assert opened.extra is not None
        assert isinstance(opened.values[0], Scanned) == isinstance(opened.extra, Scanned) == opened.scanned


def test_a_part_is_the_same_whichever_way_led_to_it():
    states = [Encoded(encode_value({"a": LARGE, "b": end}, TYPES)) for end in (1, DEEP)]
    one, other = (locate(state, ["a"], lambda names: {}).value for state in states)
    assert one is not None
    assert other is not None
    assert one.token == other.token


def test_equal_digests_are_equal_values_wherever_they_stand():
    inner = {"k": rows(1_000)}
    data = encode_value([[inner], [[inner], 1], [[inner], 2], [rows(999), inner]], TYPES)
    found = scan(data)
    by_digest: dict[bytes, set[bytes]] = {}
    by_bytes: dict[bytes, set[bytes]] = {}
    for start, digest in found.digests.items():
        part = data[start : found.ends[start]]
        by_digest.setdefault(digest, set()).add(part)
        by_bytes.setdefault(part, set()).add(digest)
    assert all(len(each) == 1 for each in (*by_digest.values(), *by_bytes.values()))
    assert len(found.digests) > len(by_digest) > 6


def test_a_path_of_a_thousand_steps_has_a_summary_and_a_patch():
    old, new = (nested(WRAPS["dicts"], 1_000, end) for end in (1, 2))
    diff = Diff(changes_of_values(old, new, TYPES))
    assert len(diff.summary()) <= 80
    (operation,) = diff.json_patch()
    assert operation["path"] == "/k" * 1_000
    assert diff.stat().total.replaced == 1
