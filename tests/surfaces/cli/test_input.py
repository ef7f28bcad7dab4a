"""JSON, metadata and times as people hand them in."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli import inputs as _input
from holdfast.cli.inputs import parse_json, parse_metadata, parse_time
from holdfast.errors import ErrorCode, InvalidInputError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(JSON, st.sampled_from([None, 2]))
def test_every_json_value_is_read_as_it_is(value, indent):
    assert parse_json(json.dumps(value, indent=indent).encode(), "x") == value


@pytest.mark.parametrize(
    ("data", "line", "column", "word"),
    [
        (b"", 1, 1, "Expecting value"),
        (b'{\n  "a": [1,\n 2 3]}', 3, 4, "delimiter"),
        (b"{'a': 1}", 1, 2, "double quotes"),
        (b'{"a": 1} x', 1, 10, "Extra data"),
        (b'{"a":\n "\xff"}', 2, 3, "not UTF-8"),
        (b'"\xc3"', 1, 2, "not UTF-8"),
    ],
)
def test_what_is_not_strict_json_is_refused_with_its_place(data, line, column, word):
    with pytest.raises(InvalidInputError) as caught:
        parse_json(data, "state.json")

    assert f"state.json, line {line}, column {column}: " in str(caught.value)
    assert word in str(caught.value) or "Expecting property name" in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b'{"a": 1, "b": {"c": 1,\n  "c": 2}}', "'c' is there twice"),
        (b'[{"a": {"a": 1}}, {"b": 1, "\\u0062": 2}]', "'b' is there twice"),
        (b'{"x": ["x", {"y": "x"}], "y": 1,\n "x": 2}', "'x' is there twice"),
        (b'["NaN",\n NaN]', "NaN is not JSON"),
        (b"[-Infinity]", "-Infinity is not JSON"),
        (b'["1e999", 1e999]', "too large for a float"),
    ],
)
def test_what_json_reads_and_a_checkpoint_should_not_hold_is_refused_by_name(data, word):
    with pytest.raises(InvalidInputError, match=re.escape(word)) as caught:
        parse_json(data, "state.json")
    assert caught.value.hint


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_no_input_does_anything_but_parse_or_be_refused(data):
    value = refusal = None
    try:
        value = parse_json(data, "x")
    except InvalidInputError as error:
        refusal = error

    assert refusal is not None or value == json.loads(data)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 50_000 + "1" + "}" * 50_000]
)
def test_deep_nesting_is_refused_without_a_crash(text):
    with pytest.raises(InvalidInputError) as caught:
        parse_json(text.encode(), "x")

    assert caught.value.code is ErrorCode.VALUE_TOO_DEEP


def test_a_number_with_too_many_digits_is_refused():
    with pytest.raises(InvalidInputError, match="digits"):
        parse_json(b"9" * 5000, "x")


def test_a_file_that_never_ends_is_refused(monkeypatch, run):
    monkeypatch.setattr(_input, "MAX_BYTES", 1 << 20)

    result = run("create", "x", "--state", "/dev/zero")

    assert result.exit_code == 2
    assert "more than 1 MiB" in result.stderr
    assert "code: value-too-large" in result.stderr


def test_metadata_is_text_pairs_and_objects_in_order():
    assert parse_metadata([]) == {}
    assert parse_metadata(["model=m1", "ratio=1.10", "eq=a=b", "empty="]) == {
        "model": "m1",
        "ratio": "1.10",
        "eq": "a=b",
        "empty": "",
    }
    assert parse_metadata(["a=1", '{"a": 2, "n": {"deep": [1]}}']) == {"a": 2, "n": {"deep": [1]}}


@pytest.mark.parametrize("item", ["model", "=x", "[1]", '{"a": 1, "a": 2}', "{"])
def test_metadata_that_is_neither_is_refused(item):
    with pytest.raises(InvalidInputError):
        parse_metadata([item])


def test_a_time_with_a_zone_is_taken_as_it_is():
    moment, assumed = parse_time("2026-11-15T17:00:00+01:00", "--since")

    assert moment == datetime(2026, 11, 15, 16, tzinfo=UTC)
    assert assumed is False
    assert parse_time("2026-11-15T16:00:00Z", "--since") == (moment, False)


@pytest.fixture
def berlin(monkeypatch):
    import time

    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("text", "end", "utc"),
    [
        ("2026-11-15T17:00", False, datetime(2026, 11, 15, 16, tzinfo=UTC)),
        ("2026-07-15T17:00", False, datetime(2026, 7, 15, 15, tzinfo=UTC)),
        ("2026-11-15 17:00:30", True, datetime(2026, 11, 15, 16, 0, 30, tzinfo=UTC)),
        ("2026-11-15", False, datetime(2026, 11, 14, 23, tzinfo=UTC)),
        ("2026-11-15", True, datetime(2026, 11, 15, 23, tzinfo=UTC) - timedelta(microseconds=1)),
        ("2026-03-29", True, datetime(2026, 3, 29, 22, tzinfo=UTC) - timedelta(microseconds=1)),
    ],
)
def test_a_time_without_a_zone_is_local_and_a_date_is_its_whole_day(text, end, utc):
    assert parse_time(text, "--since", end=end) == (utc, True)


@pytest.mark.parametrize("text", ["", "yesteryear", "2026-13-01", "27:00", "2026-11-15T25:00"])
def test_what_is_not_a_time_is_refused(text):
    with pytest.raises(InvalidInputError, match="--until") as caught:
        parse_time(text, "--until", end=True)

    assert "2026-11-15" in caught.value.hint
