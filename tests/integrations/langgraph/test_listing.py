"""A listing: its checkpoints share most of their messages in the store, and none of them in memory."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from tests.integrations.langgraph.saver_data import config, put

from holdfast.integrations.langgraph import HoldfastSaver

STEPS = 40


class Mood(HumanMessage):
    """A message of the program's own."""

    feeling: str = "calm"


def said(number: int) -> Any:
    """Messages of many kinds, with all that one can have."""
    filler = f"text {number} " * 40
    calls: Any = [{"name": "f", "args": {"n": number, "deep": [{"x": [number]}]}, "id": f"c{number}"}]
    made: list[Any] = [
        HumanMessage(filler, id=f"h{number}", name="someone"),
        HumanMessage([{"type": "text", "text": filler}, "plain"], id=f"l{number}", mood={"level": [number]}),
        AIMessage(filler, id=f"a{number}", tool_calls=calls, additional_kwargs={"raw": {"logits": [1.5]}}),
        AIMessage(filler, response_metadata={"tokens": [number]}, usage_metadata=usage(number)),
        AIMessageChunk(content=filler, id=f"s{number}"),
        ToolMessage(filler, tool_call_id=f"c{number}", artifact={"bytes": b"abc", "rows": [[1, 2]]}),
        Mood(content=filler, feeling="tense"),
        Document(filler, metadata={"at": [number]}),
    ]
    return made[number % len(made)]


def usage(number: int) -> Any:
    return {"input_tokens": number, "output_tokens": 1, "total_tokens": number + 1, "input_token_details": {}}


@pytest.fixture(scope="module")
def messages() -> list[Any]:
    return [said(number) for number in range(400)]


@pytest.fixture(scope="module")
def saver(messages):
    with HoldfastSaver("memory:") as saver:
        at = None
        for step in range(STEPS):
            at = put(saver, at, values={"messages": messages[: 400 - STEPS + step + 1], "step": step})
        yield saver


def whole(message: Any) -> tuple[Any, ...]:
    """All that there is to an object."""
    return (
        type(message),
        repr(vars(message)),
        message.__pydantic_fields_set__,
        message.__pydantic_extra__,
        message.__pydantic_private__,
    )


def changeable(value: Any) -> dict[int, Any]:
    """All that is in a value and can change, by identity."""
    found: dict[int, Any] = {}
    to_do = [value]
    while to_do:
        each = to_do.pop()
        if isinstance(each, BaseMessage | Document):
            found[id(each)] = each
            found[id(each.__pydantic_fields_set__)] = each.__pydantic_fields_set__
            to_do += [vars(each), each.__pydantic_extra__]
        elif isinstance(each, list | dict):
            found[id(each)] = each
            to_do += each.values() if isinstance(each, dict) else each
    return found


def test_what_is_listed_is_what_is_loaded_and_what_was_put(saver, messages):
    for n, found in enumerate(saver.list(config())):
        expected = messages[: 400 - n]
        listed = found.checkpoint["channel_values"]["messages"]
        alone = saver.get_tuple(found.config).checkpoint["channel_values"]["messages"]
        assert listed == alone == expected
        assert list(map(whole, listed)) == list(map(whole, alone)) == list(map(whole, expected))


def test_no_two_checkpoints_of_a_listing_share_anything_that_can_change(saver):
    found = [changeable(each.checkpoint) for each in saver.list(config())]
    assert len(found) == STEPS
    assert len(set(itertools.chain(*found))) == sum(map(len, found)) > STEPS * 400 * 3
