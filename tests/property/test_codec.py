"""Whatever goes in comes out, bit by bit and type by type, by every way there is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.objects.samples import TYPES, keys, records
from tests.values import identical, values

from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.encode import encode_value
from holdfast.objects.codec.registry import TypeRegistry


@given(values(records=records(), keys=keys()))
def test_a_value_comes_back_identical(value):
    assert identical(decode_value(encode_value(value, TYPES), TYPES), value)


@given(values(records=records(), keys=keys()))
def test_a_value_read_back_encodes_to_the_same_bytes(value):
    body = encode_value(value, TYPES)
    assert encode_value(decode_value(body, TYPES), TYPES) == body


@given(values(records=records(), keys=keys()))
def test_records_of_unknown_types_encode_to_the_bytes_they_were_read_from(value):
    body = encode_value(value, TYPES)
    nobody = TypeRegistry()
    assert encode_value(decode_value(body, nobody), nobody) == body


@given(st.lists(values(), max_size=6))
def test_different_values_have_different_bytes(several):
    encoded = [encode_value(value, TYPES) for value in several]
    for one, one_body in zip(several, encoded, strict=True):
        for other, other_body in zip(several, encoded, strict=True):
            assert (one_body == other_body) == identical(one, other)
