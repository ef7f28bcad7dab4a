"""A state that is saved again: whatever changed in its messages is found, and what did not is not taken apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage

import holdfast
from holdfast.integrations.langgraph.messages import MessageShape
from holdfast.integrations.langgraph.values import prepare
from holdfast.objects.registry import TypeRegistry
from holdfast.objects.state import decode_state, encode_state


def types() -> TypeRegistry:
    with holdfast.open("memory://") as store:
        prepare(store)
        return store._parts.types


def conversation(count: int) -> list[Any]:
    made: list[BaseMessage] = []
    for n in range(count):
        made.append(HumanMessage(f"question {n} " + "words " * (n % 90), id=f"h{n}", mood=n))
        calls: Any = [{"name": "f", "args": {"n": n, "x": [n]}, "id": f"c{n}"}]
        made.append(AIMessage(f"answer {n} " + "text " * (n % 70), id=f"a{n}", tool_calls=calls))
        made.append(ToolMessage(f"result {n}", tool_call_id=f"c{n}", artifact={"raw": b"abc", "at": (n, n)}))
    return made


def call_argument(messages: list[Any], at: int) -> None:
    messages[at // 3 * 3 + 1].tool_calls[0]["args"]["x"].append("more")


def default_in_place(messages: list[Any], at: int) -> None:
    messages[at].additional_kwargs["seen"] = True


def fields_set(messages: list[Any], at: int) -> None:
    messages[at].__pydantic_fields_set__.add("name")


def extra_field(messages: list[Any], at: int) -> None:
    messages[at].flavour = "sweet"


def extra_value(messages: list[Any], at: int) -> None:
    messages[at // 3 * 3].__pydantic_extra__["mood"] += 1


def bytes_to_bytearray(messages: list[Any], at: int) -> None:
    messages[at // 3 * 3 + 2].artifact["raw"] = bytearray(b"abc")


def tuple_to_list(messages: list[Any], at: int) -> None:
    artifact = messages[at // 3 * 3 + 2].artifact
    artifact["at"] = list(artifact["at"])


def truth_to_number(messages: list[Any], at: int) -> None:
    messages[at].response_metadata["flag"] = 1 if messages[at].response_metadata.get("flag") is True else True


def other_class(messages: list[Any], at: int) -> None:
    # The very same attributes under another class.
    old = messages[at // 3 * 3 + 1]
    new = AIMessageChunk.__new__(AIMessageChunk)
    for name in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__"):
        object.__setattr__(new, name, getattr(old, name))
    chunk = AIMessageChunk(content="")
    new.__dict__.update({key: value for key, value in chunk.__dict__.items() if key not in new.__dict__})
    messages[at // 3 * 3 + 1] = new


def plain_twin(messages: list[Any], at: int) -> None:
    messages[at] = [1, dict(vars(messages[at])), {}, None] if isinstance(messages[at], BaseMessage) else 5


def removed(messages: list[Any], at: int) -> None:
    messages.insert(at, HumanMessage("new"))


CHANGES: list[Callable[[list[Any], int], None]] = [
    call_argument,
    default_in_place,
    fields_set,
    extra_field,
    extra_value,
    bytes_to_bytearray,
    tuple_to_list,
    truth_to_number,
    other_class,
    plain_twin,
    removed,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("at", [0, 100, 298])
def test_each_change_is_found_in_a_state_that_was_saved_before(change, at):
    known, messages = types(), conversation(100)
    chunks: dict[Any, bytes] = {}
    before = encode_state({"messages": messages}, known)
    chunks |= {each.hash: each.data for each in before.chunks}
    change(messages, at)
    again = encode_state({"messages": messages}, known, before.memo)
    chunks |= {each.hash: each.data for each in again.chunks}

    assert again.root != before.root
    assert again.root == encode_state({"messages": messages}, known).root
    loaded = decode_state(again.root, lambda names: {name: chunks[name] for name in names}, known)
    assert repr(loaded["messages"]) == repr(messages)
    assert list(map(type, loaded["messages"])) == list(map(type, messages))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(CHANGES[:8] + CHANGES[10:]), st.integers(0, 119)), max_size=8),
    st.booleans(),
)
def test_what_is_remembered_of_the_last_save_changes_speed_and_nothing_else(changes, as_dict):
    known, messages, memo = types(), conversation(40), None
    for change, at in [(lambda *_: None, 0), *changes]:
        if isinstance(messages[at // 3 * 3 + 1], AIMessage) and isinstance(
            messages[at // 3 * 3 + 2], ToolMessage
        ):
            change(messages, at)
        state: Any = {"messages": {str(n): each for n, each in enumerate(messages)} if as_dict else messages}
        encoded = encode_state(state, known, memo)
        memo = encoded.memo
        assert encoded.root == encode_state(state, known).root


def test_messages_that_did_not_change_are_not_taken_apart_again(monkeypatch):
    known, messages = types(), conversation(300)
    before = encode_state({"messages": messages}, known)
    taken: list[Any] = []
    take = MessageShape.take

    def counted(shape: MessageShape, value: Any) -> tuple[Any, Any]:
        taken.append(value)
        return take(shape, value)

    monkeypatch.setattr(MessageShape, "take", counted)
    messages.append(HumanMessage("one more"))
    encode_state({"messages": messages}, known, before.memo)

    # Those at the end, which do not fill a run yet: each of them at most twice.
    assert 0 < len(taken) < len(messages) / 3


def test_messages_are_looked_at_together_and_not_one_by_one(monkeypatch):
    known, messages = types(), conversation(300)
    before = encode_state({"messages": messages}, known)
    glanced: list[Any] = []
    glance = MessageShape.glance

    def counted(shape: MessageShape, value: Any) -> list[Any]:
        glanced.append(value)
        return glance(shape, value)

    monkeypatch.setattr(MessageShape, "glance", counted)
    messages[600:600] = [HumanMessage("one more")]
    again = encode_state({"messages": messages}, known, before.memo)
    assert not glanced
    # And nearly all of them were found again.
    assert len(again.chunks) < len(before.chunks) / 2


def test_messages_in_messages_and_beside_other_values_are_found_changed():
    known = types()
    inner = [HumanMessage(f"inner {n}") for n in range(3)]
    messages = [AIMessage(f"text {n} " * 30, artifact=inner[n % 3]) for n in range(300)]
    for state in (
        {"messages": messages},
        {"mixed": [*messages, "plain", 5]},
        {str(n): m for n, m in enumerate(messages)},
    ):
        before = encode_state(state, known)
        inner[1].additional_kwargs["count"] = inner[1].additional_kwargs.get("count", 0) + 1
        again = encode_state(state, known, before.memo)
        assert again.root != before.root
        assert again.root == encode_state(state, known).root


class Slow:
    """An object that another thread changes just after it was encoded."""

    def __init__(self, text: str) -> None:
        self.text = text


class SlowShape:
    meddles = False

    def take(self, value: Slow) -> tuple[Any, Any]:
        text = value.text
        if self.meddles and text.startswith("meddle"):
            value.text = "changed " + text
        return {"text": text}, None

    def make(self, data: Any, extra: Any) -> Any:
        return Slow(data["text"])

    def glance(self, value: Slow) -> list[Any]:
        return [0x1234567890ABCDEF, value.text]


def test_a_change_by_another_thread_in_the_middle_of_a_save_is_saved_by_the_next():
    known, shape = TypeRegistry(), SlowShape()
    known.register(Slow, shape=shape)
    state = [Slow(("meddle " if n == 100 else "rest ") + f"{n} " * 200) for n in range(400)]
    shape.meddles = True
    first = encode_state(state, known)
    shape.meddles = False
    assert state[100].text.startswith("changed")
    second = encode_state(state, known, first.memo)

    assert second.root == encode_state(state, known).root
    assert second.root != first.root
    # The rest was taken over.
    assert len(second.chunks) < len(first.chunks) / 4
