"""Whatever state goes into an archive comes out of it as the same bytes, with the same root."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.objects.samples import TYPES, keys, records
from tests.values import identical, values

import holdfast
from holdfast import HoldfastError, InvalidInputError
from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.encode import encode_value
from holdfast.objects.codec.errors import MalformedError, MismatchError
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.codec.tagged_json import _READERS, from_json, tagged_json
from holdfast.store.archive.envelope import ArchiveLimits
from holdfast.store.archive.source import parse

NOBODY = TypeRegistry()


@given(values(records=records(), keys=keys()), st.booleans())
def test_a_value_is_made_again_from_its_text_to_the_byte(value, one_line):
    body = encode_value(value, TYPES)
    text = tagged_json(decode_value(body, NOBODY), one_line=one_line)
    # As strictly as an import does: nothing in it is half a surrogate pair, and no key comes twice.
    assert encode_value(from_json(parse(text.encode(), ArchiveLimits(), "it")), NOBODY) == body
    assert not (one_line and "\n" in text)


@example("\ud83d\ude00")
@example({"\ud83d\ude00": 1, "😀": 2})
@example(["\\ud83d", "\\", "\ud83d\\"])
@given(values())
def test_values_without_classes_come_back_identical(value):
    assert identical(from_json(json.loads(tagged_json(value))), value)


def json_values():
    scalars = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text()
    )
    names = (
        st.sampled_from(["$type", "$value", "$bits", "$name", "$version", "$zone", "$fold", "a"]) | st.text()
    )
    kinds = st.sampled_from(sorted(_READERS))
    return st.recursive(
        scalars | kinds,
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(names, inner, max_size=4)
            | st.fixed_dictionaries({"$type": kinds, "$value": inner})
        ),
        max_leaves=12,
    )


@given(json_values())
def test_whatever_json_says_is_a_value_or_is_refused(data):
    try:
        value = from_json(json.loads(json.dumps(data)))
    except (MalformedError, MismatchError):
        return
    try:
        body = encode_value(value, NOBODY)
    except InvalidInputError:
        # Made of parts that each are fine, and together no state: an Opaque with a set in it as a key, say.
        return
    assert encode_value(from_json(json.loads(tagged_json(value))), NOBODY) == body


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_bytes_are_imported_or_end_in_anything_but_a_refusal(data):
    with holdfast.open("memory:") as store, pytest.raises(HoldfastError):
        store.import_(io.BytesIO(data))


@settings(max_examples=25)
@given(
    st.lists(st.integers(0, 7), max_size=7),
    st.sets(st.integers(1, 7), max_size=2),
    st.randoms(use_true_random=False),
    st.permutations(range(3)),
)
def test_any_history_goes_out_and_comes_in_as_it_is(parents, gone, random, order):
    with holdfast.open("memory:") as store, holdfast.open("memory:") as other:
        made = [store.session("s").save({"n": 0})]
        for step, parent in enumerate(parents, start=1):
            state, before = {"n": step, "pair": (step, {step})}, made[parent % len(made)]
            made.append(
                store.session("s").save(state, parent=before, tags=["t"] * (step % 2), key=f"k{step}")
            )
        for each in gone:
            if each < len(made):
                store.session("s").delete(made[each].id, force=True)
        ids = [each.id for each in store.find()]
        random.shuffle(ids)
        whole, lines = io.BytesIO(), io.BytesIO()
        store.session("s").export(path=whole, session=True)
        store.session("s").export(ids, lines, format="jsonl")
        part = random.choice(lines.getvalue().splitlines(keepends=True))
        for at in order:
            other.import_(io.BytesIO((whole.getvalue(), lines.getvalue(), part)[at]))
            assert other.verify().ok
        assert {(each.id, each.root, each.tags, each.key) for each in other.find()} == {
            (each.id, each.root, each.tags, each.key) for each in store.find()
        }
