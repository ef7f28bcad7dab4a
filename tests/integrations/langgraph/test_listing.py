"""A listing: its checkpoints share most of their messages in the store, and none of them in memory."""

from __future__ import annotations

import asyncio
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


def lists(found: Any) -> list[list[Any]]:
    return [each.checkpoint["channel_values"]["messages"] for each in found]


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


CHANGES: list[Any] = [
    lambda each: setattr(each, "content", "changed"),
    lambda each: setattr(each, "name", "changed"),
    lambda each: each.additional_kwargs.update(changed=1),
    lambda each: each.response_metadata.update(changed=1),
    lambda each: each.__pydantic_fields_set__.add("changed"),
    lambda each: each.__pydantic_extra__.update(changed=1),
    lambda each: each.__dict__.update(changed=1),
    lambda each: each.tool_calls[0]["args"]["deep"][0]["x"].append("changed"),
    lambda each: each.tool_calls.clear(),
    lambda each: each.invalid_tool_calls.append({"changed": 1}),
    lambda each: each.additional_kwargs["raw"]["logits"].append("changed"),
    lambda each: each.usage_metadata.update(total_tokens=-1),
    lambda each: each.usage_metadata["input_token_details"].update(changed=1),
    lambda each: each.content[0].update(text="changed"),
    lambda each: each.content.append("changed"),
    lambda each: each.mood["level"].append("changed"),
    lambda each: each.artifact["rows"][0].append("changed"),
    lambda each: each.metadata["at"].append("changed"),
]


def test_the_async_listing_gives_the_same(saver):
    async def listed() -> list[Any]:
        return [each async for each in saver.alist(config())]

    found = asyncio.run(listed())
    assert found == list(saver.list(config()))
    assert len(set(itertools.chain(*map(changeable, lists(found))))) == sum(
        len(changeable(each)) for each in lists(found)
    )
