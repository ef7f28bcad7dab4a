"""What a graph may have in its state comes back as it was: each value beside LangGraph's own serializer."""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import math
from collections.abc import Iterator
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from tests.integrations.langgraph import value_samples as samples

import holdfast
from holdfast.integrations.langgraph.types import prepare

THEIRS = JsonPlusSerializer()


@pytest.fixture
def store() -> Iterator[holdfast.Store]:
    with holdfast.open("memory://") as opened:
        prepare(opened)
        yield opened


def kept(store: holdfast.Store, value: Any) -> Any:
    session = store.session("s")
    session.save({"value": value, "beside": [value, {"in": value}]})
    loaded = store.session("s").load()
    assert repr(loaded["beside"]) == repr([loaded["value"], {"in": loaded["value"]}])
    return loaded["value"]


def is_same(one: Any, other: Any) -> bool:
    """Equal, and of the same types all the way down, as far as a text of the value tells."""
    return type(one) is type(other) and one == other and samples.told(one) == samples.told(other)


@pytest.mark.parametrize("name", samples.ALL)
def test_a_value_comes_back_as_the_same_type_and_equal(store, name, caplog):
    value = samples.ALL[name]
    with caplog.at_level(logging.CRITICAL):
        theirs = THEIRS.loads_typed(THEIRS.dumps_typed(value))
    # The table says what theirs keeps, so that it cannot fall behind it in silence.
    assert is_same(theirs, value) == (name not in samples.LOST)

    assert is_same(kept(store, value), value)


@pytest.mark.parametrize("name", samples.BEYOND)
def test_what_their_serializer_loses_or_refuses_comes_back_too(store, name, caplog):
    value = samples.BEYOND[name]
    # Refused by it, or changed.
    with caplog.at_level(logging.CRITICAL), contextlib.suppress(TypeError, ValueError):
        assert not is_same(THEIRS.loads_typed(THEIRS.dumps_typed(value)), value)

    assert is_same(kept(store, value), value)


def test_not_a_number_comes_back_as_it_was(store):
    assert math.isnan(kept(store, math.nan))


@pytest.mark.parametrize("name", samples.MESSAGES)
def test_a_message_remembers_which_of_its_fields_were_set(store, name):
    value = samples.MESSAGES[name]
    loaded = kept(store, value)

    assert loaded.model_fields_set == value.model_fields_set
    assert loaded.__dict__ == value.__dict__
    assert list(loaded.__dict__) == list(value.__dict__)
    assert loaded.model_extra == value.model_extra
    assert loaded.model_dump() == value.model_dump()
    # As good as new: pydantic finds all that it puts on an instance.
    assert loaded.model_copy(update={"content": "y"}).content == "y"
    loaded.content = "z"
    assert "content" in loaded.model_fields_set


def stored(store: holdfast.Store, value: Any) -> Any:
    """What is in the store, as a program sees it that knows no class."""
    store.session("s").save(value)
    with holdfast.open("memory://") as stranger:
        store.copy_to(stranger)
        return stranger.session("s").load()


def test_a_message_is_stored_as_data_under_a_short_name(store):
    record = stored(store, ToolMessage("42", tool_call_id="c1", id="m", artifact=(1, 2)))

    assert (record.name, record.version, record.extra) == ("langchain.ToolMessage", 1, None)
    assert record.data == {"content": "42", "tool_call_id": "c1", "id": "m", "artifact": (1, 2)}


def _deep(message: Any) -> None:
    message.artifact["deep"][0]["n"] = "changed"


def _number(message: Any) -> None:
    message.artifact["flag"] = 1


def _bytearray(message: Any) -> None:
    message.artifact["raw"] = bytearray(b"abc")


def _list(message: Any) -> None:
    message.artifact["pair"] = [1, 2]


def _extra(message: Any) -> None:
    message.flavour = "sweet"


def _fields_set(message: Any) -> None:
    message.__pydantic_fields_set__.add("name")


def _default(message: Any) -> None:
    message.additional_kwargs["seen"] = True


@pytest.mark.parametrize("change", [_deep, _number, _bytearray, _list, _extra, _fields_set, _default])
@pytest.mark.parametrize("at", [0, 150, 299])
def test_each_change_in_a_message_that_was_saved_before_is_saved(store, change, at):
    messages: list[Any] = [
        ToolMessage(
            "x" * 300,
            tool_call_id="c",
            artifact={"raw": b"abc", "pair": (1, 2), "flag": True, "deep": [{"n": n}]},
        )
        for n in range(300)
    ]
    session = store.session("s")
    first = session.save({"messages": messages})
    change(messages[at])
    second = session.save({"messages": messages})
    loaded = store.session("s").load()["messages"]

    assert first.root != second.root
    assert loaded == messages
    assert samples.told(loaded[at]) == samples.told(messages[at])
    assert loaded[at].model_fields_set == messages[at].model_fields_set


def test_a_message_with_an_attribute_that_is_no_field_is_refused_with_its_path(store):
    message = HumanMessage("x")
    message.__dict__["stray"] = 1
    with pytest.raises(holdfast.InvalidInputError) as refused:
        store.session("s").save({"messages": [HumanMessage("a"), message]})

    assert refused.value.details["path"] == "state['messages'][1].stray"


def test_an_exception_becomes_its_text_as_in_langgraph(store):
    error = ValueError("no", {"a": 1})

    assert kept(store, error) == THEIRS.loads_typed(THEIRS.dumps_typed(error)) == "ValueError('no', {'a': 1})"
    assert kept(store, [KeyError("é\ud800")]) == [repr(KeyError("é\ud800"))]


def test_a_secret_is_stored_in_plain_text_as_langgraph_does(store):
    secret = pydantic.SecretStr("hush")

    assert b"hush" in THEIRS.dumps_typed(secret)[1]
    assert stored(store, {"key": secret})["key"].data == "hush"
    assert kept(store, secret).get_secret_value() == "hush"


@pytest.mark.parametrize(
    "make",
    [
        lambda np: np.arange(6, dtype="<i4").reshape(2, 3),
        lambda np: np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        lambda np: np.arange(10)[::3],
        lambda np: np.array(3.5),
        lambda np: np.array([], dtype="float32"),
        lambda np: np.array(["a", "bc"]),
        lambda np: np.array(["2026-01-01"], dtype="datetime64[D]"),
        lambda np: np.array([True, False]),
    ],
)
def test_an_array_comes_back(store, make):
    np = pytest.importorskip("numpy")
    value = make(np)
    loaded = kept(store, value)

    # Theirs refuses dates.
    with contextlib.suppress(TypeError):
        assert np.array_equal(loaded, THEIRS.loads_typed(THEIRS.dumps_typed(value)))
    assert type(loaded) is np.ndarray
    assert loaded.dtype == value.dtype
    assert loaded.shape == value.shape
    assert loaded.flags.f_contiguous == value.flags.f_contiguous or not value.flags.c_contiguous
    assert np.array_equal(loaded, value)
    assert loaded.flags.writeable


_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=())),
    st.binary(max_size=20),
    st.datetimes(timezones=st.sampled_from([None, dt.UTC])),
    st.sampled_from([*samples.Colour, samples.Mood.GOOD, samples.Spot(1, 2), samples.Title("t")]),
)


def _around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    blocks = st.lists(st.one_of(st.text(), st.dictionaries(st.text(), inner, max_size=2)), max_size=2)
    return st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.text(), st.integers()), inner, max_size=3),
        st.builds(samples.Plan, inner, st.lists(inner, max_size=2)),
        st.builds(samples.Pair, inner, inner),
        st.builds(
            lambda content, name, kwargs, extra: HumanMessage(
                content=content, id=name, additional_kwargs=kwargs, **extra
            ),
            st.one_of(st.text(), blocks),
            st.one_of(st.none(), st.text(max_size=5)),
            st.dictionaries(st.text(), inner, max_size=2),
            st.dictionaries(st.sampled_from(["flavour", "colour"]), inner, max_size=2),
        ),
        st.builds(
            lambda text, artifact: ToolMessage(text, tool_call_id="c", artifact=artifact), st.text(), inner
        ),
    )


@given(st.recursive(_scalars, _around, max_leaves=12))
def test_values_in_values_come_back(value):
    with holdfast.open("memory://") as store:
        prepare(store)
        session = store.session("s")
        session.save({"v": value})
        session.save({"v": value, "again": [value]})
        loaded = store.session("s").load()

    assert is_same(loaded["v"], value)
    assert is_same(loaded["again"], [value])
