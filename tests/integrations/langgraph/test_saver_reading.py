"""What HoldfastSaver finds again, by metadata and page by page, and what it lets go for good."""

from __future__ import annotations

import math
from typing import Any
from uuid import UUID

import pytest
from langchain_core.agents import AgentAction, AgentActionMessageLog, AgentFinish, AgentStep
from langchain_core.documents.base import Blob
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.outputs import (
    ChatGeneration,
    ChatGenerationChunk,
    ChatResult,
    Generation,
    GenerationChunk,
    LLMResult,
    RunInfo,
)
from langchain_core.prompt_values import (
    ChatPromptValue,
    ChatPromptValueConcrete,
    ImagePromptValue,
    StringPromptValue,
)
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from tests.integrations.langgraph.saver_data import (
    FLOW,
    config,
    id_of,
    ids,
    put,
)

from holdfast import ErrorCode, UnsupportedError
from holdfast.integrations.langgraph import HoldfastSaver


@pytest.fixture
def saver():
    with HoldfastSaver("memory:") as saver:
        yield saver


ODD_METADATA = {
    "nan": math.nan,
    "big": 2**70,
    "bytes": b"\x00",
    "half": "\ud800",
    "message": HumanMessage("hi", id="1"),
    "long": "x" * 50_000,
    "deep": [[1, {"b": 2**70}]],
    "__in_state__": "mine",
    3: "a number as a name",
}


def test_metadata_that_is_no_json_comes_back_and_can_be_found(saver):
    plain = {"score": 1, "pair": (1, 2), "text": "é", "none": None, "sub": {"a": [1.5]}}
    made = put(saver, metadata={**FLOW, **plain, **ODD_METADATA})
    put(saver, made, metadata={**FLOW, "score": 2})
    found = saver.get_tuple(made).metadata
    assert math.isnan(found.pop("nan"))
    expected = {**FLOW, **plain, **ODD_METADATA, "pair": [1, 2]}
    del expected["nan"]
    assert found == expected
    record = saver.store.find(key=f"/ {id_of(made)}")[0]
    assert (record.metadata["score"], record.metadata["sub"]) == (1, {"a": [1.5]})
    wanted: dict[Any, Any]
    for wanted in (
        {"big": 2**70},
        {"score": 1},
        {"bytes": b"\x00", "text": "é"},
        {"pair": [1, 2]},
        {3: "a number as a name"},
    ):
        assert ids(saver.list(config(), filter=wanted)) == [id_of(made)], wanted
    for wanted in ({"big": 1}, {"score": 3}, {"pair": (1, 2)}, {"score": 1, "big": 0}):
        assert ids(saver.list(config(), filter=wanted)) == [], wanted
    assert len(ids(saver.list(config(), filter={"absent": None}))) == 2


@pytest.mark.parametrize("name", ["score' OR 1=1 --", "$.score", "score.x", '"', "a\x00b", "%", "source}"])
def test_a_filter_key_is_never_more_than_a_name(saver, name):
    put(saver, metadata={**FLOW, "score": 1})
    mine = put(saver, metadata={**FLOW, name: "mine"})
    assert ids(saver.list(config(), filter={name: "mine"})) == [id_of(mine)]
    assert ids(saver.list(config(), filter={name: "other"})) == []


def test_pruning_takes_calls_of_subgraphs_with_the_checkpoint_that_made_them(saver):
    at, made = None, []
    for n in range(3):
        at = put(saver, at, values={"n": n})
        call = put(saver, namespace=f"call:{n}", metadata={**FLOW, "parents": {"": id_of(at)}})
        made += [at, call]
    own = put(saver, namespace="own", metadata={**FLOW, "parents": {"": id_of(made[0])}})
    early = put(saver, namespace="call:9", metadata={**FLOW, "parents": {"": "not stored yet"}})
    saver.prune(["t"])
    kept = [each.config for each in saver.list({"configurable": {"thread_id": "t"}})]
    assert kept == [early, own, made[5], made[4]]


@pytest.fixture
def savers(tmp_path, postgres_url):
    """LangGraph's own savers beside this one: what a filter finds is what they find."""
    with (
        HoldfastSaver("memory:") as ours,
        SqliteSaver.from_conn_string(str(tmp_path / "own.sqlite")) as sqlite,
        PostgresSaver.from_conn_string(postgres_url) as postgres,
    ):
        postgres.setup()
        yield {"ours": ours, "sqlite": sqlite, "postgres": postgres}


FILTERED = [
    {"user.id": 7},
    {"user": {"id": 7}},
    {"user": {"id": 7, "name": "Ada"}},
    {"user.id": 8},
    {"user": {"id": 8}},
    {"user.home.city": "Turin"},
    {"user": {"home": {"city": "Turin"}}},
    {"user.missing": 1},
    {"step": 1, "user.id": 7},
    {"user.held": "in the state"},
]


@pytest.mark.parametrize("wanted", FILTERED, ids=repr)
def test_a_filter_looks_inside_of_metadata_as_the_savers_of_langgraph_do(savers, wanted):
    found = {}
    for name, saver in savers.items():
        at = None
        for user in (
            {"id": 7, "name": "Ada"},
            {"id": 8, "home": {"city": "Turin"}},
            "nobody",
            {"held": "in the state"},
        ):
            at = put(saver, at, metadata={"source": "loop", "step": 1, "parents": {}, "user": user})
        found[name] = [each.metadata["user"] for each in saver.list(config(), filter=wanted)]
    # SqliteSaver takes a path where PostgresSaver takes a dict that is contained; each form counts here.
    assert found["ours"] == (found["sqlite"] or found["postgres"])


class Cipher:
    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "reverse", plaintext[::-1]

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        return ciphertext[::-1]


def test_a_serializer_is_refused_because_it_would_not_be_used():
    with HoldfastSaver("memory:") as saver:
        with pytest.raises(UnsupportedError) as refused:
            saver.serde = EncryptedSerializer(Cipher())
        assert refused.value.code is ErrorCode.NOT_SUPPORTED
        assert refused.value.hint
        assert isinstance(saver.serde, JsonPlusSerializer)

    class Encrypting(HoldfastSaver):
        serde: Any = EncryptedSerializer(Cipher())

    with pytest.raises(UnsupportedError):
        Encrypting("memory:")


SHIPPED = [
    AgentAction("search", {"q": "x"}, "because"),
    AgentActionMessageLog(tool="search", tool_input="x", log="", message_log=[AIMessage("hi")]),
    AgentFinish({"output": 1}, "done"),
    AgentStep(action=AgentAction("search", "x", ""), observation=[1]),
    StringPromptValue(text="hi"),
    ChatPromptValue(messages=[HumanMessage("hi")]),
    ChatPromptValueConcrete(messages=[HumanMessage("hi")]),
    ImagePromptValue(image_url={"url": "https://example.org", "detail": "low"}),
    Generation(text="hi", generation_info={"n": 1}),
    GenerationChunk(text="hi"),
    ChatGeneration(message=AIMessage("hi")),
    ChatGenerationChunk(message=AIMessageChunk(content="hi")),
    ChatResult(generations=[ChatGeneration(message=AIMessage("hi"))], llm_output={"n": 1}),
    LLMResult(generations=[[Generation(text="hi")]], run=[RunInfo(run_id=UUID(int=1))]),
    Blob.from_data(b"data", mime_type="text/plain"),
]


def test_classes_that_langchain_ships_are_known_after_a_restart(tmp_path):
    with HoldfastSaver(tmp_path / "store.db") as saver:
        put(saver, values={"all": SHIPPED})
    # A new store has a registry of its own, as a new process has.
    with HoldfastSaver(tmp_path / "store.db") as saver:
        found: Any = saver.get_tuple(config())
    assert found.checkpoint["channel_values"]["all"] == SHIPPED
