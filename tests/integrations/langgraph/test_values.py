"""What a graph may have in its state comes back as it was: each value beside LangGraph's own serializer."""

from __future__ import annotations

import contextlib
import datetime as dt
import importlib
import json
import logging
import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from tests.integrations.langgraph import value_samples as samples

import holdfast
from holdfast.integrations.langgraph.messages import MessageShape
from holdfast.integrations.langgraph.values import prepare

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


def test_messages_that_were_loaded_share_nothing(store):
    one, other = kept(store, [AIMessage("a"), AIMessage("a")])
    one.additional_kwargs["x"] = one.tool_calls
    one.tool_calls.append({"name": "f", "args": {}, "id": None})

    assert other == AIMessage("a")
    assert kept(store, AIMessage("a")) == AIMessage("a")


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


def test_a_field_that_was_set_in_no_way_is_told_from_one_that_was(store):
    record = stored(store, samples.mutated())

    assert sorted(record.data) == ["additional_kwargs", "content", "response_metadata", "tool_calls"]
    assert record.extra == {"unset": ["additional_kwargs", "response_metadata", "tool_calls"]}


def test_equal_messages_are_stored_alike_however_they_were_made():
    shape = MessageShape(HumanMessage)
    one, other = HumanMessage("x", id="1", name="n"), HumanMessage("x")
    other.name, other.id = "n", "1"

    assert json.dumps(shape.take(one)) == json.dumps(shape.take(other))


def test_a_change_deep_in_a_message_that_was_saved_before_is_saved(store):
    messages: list[Any] = [
        AIMessage("x" * 500, tool_calls=[{"name": "f", "args": {"n": n}, "id": "c"}]) for n in range(300)
    ]
    session = store.session("s")
    session.save({"messages": messages})
    messages[70].tool_calls[0]["args"]["n"] = "changed"
    messages[71].additional_kwargs["new"] = 1
    messages[72] = messages[72].model_copy(update={"extra_one": 1})
    messages[73].__pydantic_fields_set__.add("name")
    session.save({"messages": messages})
    loaded = store.session("s").load()["messages"]

    assert loaded == messages
    assert "name" in loaded[73].model_fields_set
    assert [message.model_fields_set for message in loaded] == [
        message.model_fields_set for message in messages
    ]


def test_bytes_in_a_message_are_told_from_a_bytearray(store):
    messages = [ToolMessage("x" * 300, tool_call_id="c", artifact={"raw": b"abc"}) for _ in range(200)]
    session = store.session("s")
    session.save({"messages": messages})
    messages[90].artifact["raw"] = bytearray(b"abc")
    session.save({"messages": messages})
    loaded = store.session("s").load()["messages"]

    assert type(loaded[90].artifact["raw"]) is bytearray
    assert type(loaded[89].artifact["raw"]) is bytes


def test_a_message_with_an_attribute_that_is_no_field_is_refused_with_its_path(store):
    message = HumanMessage("x")
    message.__dict__["stray"] = 1
    with pytest.raises(holdfast.InvalidInputError) as refused:
        store.session("s").save({"messages": [HumanMessage("a"), message]})

    assert refused.value.details["path"] == "state['messages'][1].stray"


class Slotted(AIMessage):
    __slots__ = ("note",)


def test_a_message_with_a_slot_of_its_own_is_kept_until_something_is_in_it(store):
    message = Slotted(content="x", id="1")
    session = store.session("s")
    session.save({"messages": [message]})
    assert session.load() == {"messages": [message]}
    object.__setattr__(message, "note", {"k": 1})
    with pytest.raises(holdfast.InvalidInputError) as refused:
        session.save({"messages": [message]})
    assert refused.value.details["path"] == "state['messages'][0].note"


def test_a_value_that_cannot_be_kept_is_refused_with_its_path(store):
    with pytest.raises(holdfast.InvalidInputError) as refused:
        store.session("s").save({"messages": [ToolMessage("x", tool_call_id="c", artifact={"f": open})]})

    assert refused.value.details["path"] == "state['messages'][0].artifact['f']"


def test_an_exception_becomes_its_text_as_in_langgraph(store):
    error = ValueError("no", {"a": 1})

    assert kept(store, error) == THEIRS.loads_typed(THEIRS.dumps_typed(error)) == "ValueError('no', {'a': 1})"
    assert kept(store, [KeyError("é\ud800")]) == [repr(KeyError("é\ud800"))]


def test_the_text_of_an_exception_may_be_any_text(store):
    class OddError(Exception):
        def __repr__(self) -> str:
            return "odd \ud800"

    assert kept(store, {"e": OddError()}) == {"e": "odd \ud800"}
    # Its text alone is out of reach of the fast way; so is a dict around it.
    assert kept(store, {1: [OddError()]}) == {1: ["odd \ud800"]}


def test_a_value_that_equals_a_default_and_is_of_another_type_is_stored(store):
    message = AIMessage.model_construct(_fields_set={"content"}, content="x")
    message.__dict__["additional_kwargs"] = OrderedDict()
    loaded = kept(store, message)

    assert type(loaded.additional_kwargs) is OrderedDict
    assert loaded.model_fields_set == {"content"}


def test_a_date_with_a_zone_of_a_library_keeps_its_moment(store):
    class Zone(dt.tzinfo):
        def dst(self, _: Any) -> None:
            return None

        def tzname(self, _: Any) -> None:
            return None

    class Fixed(Zone):
        def utcoffset(self, _: Any) -> dt.timedelta:
            return dt.timedelta(hours=2)

    class Moving(Zone):
        def utcoffset(self, when: Any) -> dt.timedelta | None:
            return None if when is None else dt.timedelta(hours=when.hour)

    answer = samples.Answer.model_validate({"text": "x", "when": "2026-01-01T00:00:00+02:00"})
    assert answer.when is not None
    assert type(answer.when.tzinfo) not in (dt.timezone, type(None))
    assert kept(store, answer) == answer

    when = dt.datetime(2026, 1, 1, 5, tzinfo=Fixed())
    assert kept(store, when) == when
    assert kept(store, when).utcoffset() == dt.timedelta(hours=2)
    with pytest.raises(holdfast.InvalidInputError) as refused:
        store.session("s").save({"when": dt.datetime(2026, 1, 1, tzinfo=Moving())})
    assert refused.value.details["path"] == "state['when'].tzinfo"


def test_a_secret_is_stored_in_plain_text_as_langgraph_does(store):
    secret = pydantic.SecretStr("hush")

    assert b"hush" in THEIRS.dumps_typed(secret)[1]
    assert stored(store, {"key": secret})["key"].data == "hush"
    assert kept(store, secret).get_secret_value() == "hush"


@pytest.mark.filterwarnings("ignore")
def test_a_model_of_pydantic_1_comes_back(store):
    v1: Any = pytest.importorskip("pydantic.v1")

    class Old(v1.BaseModel):  # type: ignore[misc]
        name: str
        count: int = 3
        tags: set[str] = set()
        _seen: int = v1.PrivateAttr(default=0)

    value = Old(name="x", tags={"a"})
    value._seen = 5
    loaded = kept(store, value)

    assert type(loaded) is Old
    assert loaded == value
    assert loaded.__fields_set__ == {"name", "tags"}
    assert loaded._seen == 5
    assert kept(store, v1.SecretStr("hush")).get_secret_value() == "hush"


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


def test_a_number_of_numpy_comes_back(store):
    np = pytest.importorskip("numpy")

    for value in (np.float64(1.5), np.int64(-3), np.bool_(True), np.float32(0.1), np.str_("x")):
        assert is_same(kept(store, value), value)


def test_an_array_of_objects_is_refused_with_its_path(store):
    np = pytest.importorskip("numpy")
    with pytest.raises(holdfast.InvalidInputError) as refused:
        store.session("s").save({"a": np.array([object()], dtype=object)})

    assert refused.value.details["path"] == "state['a']"


def test_stored_text_of_an_array_with_characters_that_there_are_not_is_refused(store):
    np = pytest.importorskip("numpy")
    for order in "<>":
        data = np.array([0x110000, 65], dtype=f"{order}u4").tobytes()
        stored = {"dtype": f"{order}U1", "shape": [2], "order": "C", "data": data}
        store.session("s").save({"value": holdfast.Opaque("numpy.ndarray", 1, stored, None)})
        with pytest.raises(holdfast.StateError) as refused:
            store.session("s").load()
        assert refused.value.code is holdfast.ErrorCode.TYPE_MISMATCH
        assert is_same(kept(store, np.str_("\U0010ffff")), np.str_("\U0010ffff"))


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


@settings(max_examples=200, deadline=None)
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


def test_preparing_a_store_again_changes_nothing(store):
    @dataclass
    class Own:
        x: int

    prepare(store, types=[Own])
    prepare(store, types=[Own])

    assert kept(store, Own(1)) == Own(1)
    assert stored(store, Own(1)).name == f"{__name__}.{Own.__qualname__}"


def test_what_the_program_registered_itself_stays_as_it_was(tmp_path):
    with holdfast.open("memory://", types=[samples.Plan]) as store:
        store.register(HumanMessage, name="mine", encode=lambda value: value.content, decode=HumanMessage)
        prepare(store)
        assert stored(store, samples.Plan("x")).name == "Plan"
        assert stored(store, HumanMessage("x")).name == "mine"


def test_the_table_has_every_message_class_there_is():
    module = importlib.import_module("langchain_core.messages")
    classes = {getattr(module, name) for name in module.__all__}
    messages = {cls for cls in classes if isinstance(cls, type) and issubclass(cls, BaseMessage)}
    with holdfast.open("memory://") as store:
        prepare(store)
        assert {cls for cls in messages if store._parts.types.by_class(cls) is None} == set()
