"""Metadata equality and id prefixes: the parts of a query that all backends share."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.backends.matching import id_range, metadata_matches, normalized
from holdfast.errors import ErrorCode, InvalidInputError

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def matches(metadata: object, path: tuple[str, ...], value: object, added: object = None) -> bool:
    laid_over = None if added is None else json.dumps(added)
    return metadata_matches(json.dumps(metadata), laid_over, normalized(((path, json.dumps(value)),)))


@given(st.lists(st.text(), min_size=1, max_size=4), VALUES)
def test_a_value_is_found_under_its_path_whatever_the_keys_are(path: list[str], value: object) -> None:
    nested = value
    for key in reversed(path):
        nested = {key: nested, key + "x": "a neighbour"}
    assert matches(nested, tuple(path), value)
    assert not matches(nested, (*path[:-1], path[-1] + "y"), value)


@given(SCALARS, SCALARS)
def test_two_values_match_only_when_they_are_the_same_value_of_the_same_kind(
    one: object, other: object
) -> None:
    same = type(one) is type(other) and repr(one) == repr(other)
    assert matches({"k": one}, ("k",), other) == same


def test_one_and_one_point_zero_and_true_are_three_values() -> None:
    kinds: list[object] = [1, 1.0, True, "1"]
    for stored in kinds:
        assert [matches({"k": stored}, ("k",), each) for each in kinds] == [each is stored for each in kinds]


def test_the_order_of_keys_does_not_count_and_that_of_a_list_does() -> None:
    assert matches({"k": [{"a": 1, "b": 2}]}, ("k",), [{"b": 2, "a": 1}])
    assert not matches({"k": [1, 2]}, ("k",), [2, 1])


def test_escapes_and_spaces_in_the_stored_text_do_not_count() -> None:
    conditions = normalized(((("\N{SNOWMAN}",), '"a"'),))
    assert metadata_matches('{ "\\u2603" : "\\u0061" }', None, conditions)


def test_an_added_key_hides_the_original_and_leaves_the_others() -> None:
    metadata, added = {"a": {"x": 1}, "b": 2}, {"a": {"y": 3}}
    assert matches(metadata, ("a", "y"), 3, added)
    assert not matches(metadata, ("a", "x"), 1, added)
    assert matches(metadata, ("b",), 2, added)


def test_null_is_a_value_and_not_an_absent_key() -> None:
    assert matches({"k": None}, ("k",), None)
    assert not matches({}, ("k",), None)
    assert not matches({"k": 5}, ("k", "deeper"), None)


def test_all_conditions_must_hold() -> None:
    conditions = normalized(((("a",), "1"), (("b",), "2")))
    assert metadata_matches('{"a":1,"b":2}', None, conditions)
    assert not metadata_matches('{"a":1,"b":3}', None, conditions)


@given(st.binary(min_size=32, max_size=32), st.integers(0, 64), st.binary(min_size=32, max_size=32))
def test_an_id_is_in_the_range_of_a_prefix_exactly_when_it_starts_with_it(
    named: bytes, digits: int, other: bytes
) -> None:
    prefix = named.hex()[:digits]
    low, high = id_range(prefix)
    assert low <= named <= high
    assert (low <= other <= high) == other.hex().startswith(prefix)


@pytest.mark.parametrize("prefix", ["xyz", "AB", "0 1", "'; --", "0" * 65, "\N{ARABIC-INDIC DIGIT ONE}"])
def test_what_is_not_a_prefix_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        id_range(prefix)
    assert caught.value.code is ErrorCode.BAD_REF
