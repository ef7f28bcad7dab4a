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
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from tests.integrations.langgraph.saver_data import (
    FLOW,
    checkpoint,
    config,
    id_of,
    ids,
    put,
)

from holdfast import ConflictError, ErrorCode, NotFoundError, UnsupportedError
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


def test_all_threads_and_namespaces_can_be_listed(saver):
    made = []
    for thread, namespace in [("a", ""), ("a", "sub:1"), ("b", ""), ("a", "")]:
        made.append(put(saver, thread=thread, namespace=namespace))
        saver.put_writes(made[-1], [("w", 1)], "task")
    saver.store.session("a").save({"of": "somebody"}, key="/looks like one")
    saver.store.session("c").save({"of": "somebody"}, "no key")
    assert [each.config for each in saver.list(None)] == made[::-1]
    assert [each.config for each in saver.list({"configurable": {"thread_id": "a"}})] == [
        made[3],
        made[1],
        made[0],
    ]
    assert [each.config for each in saver.list(None, limit=2)] == made[:1:-1]
    assert [each.config for each in saver.list(None, before=made[2])] == [made[1], made[0]]
    assert [
        each.config
        for each in saver.list({"configurable": {"thread_id": "a", "checkpoint_id": id_of(made[1])}})
    ] == [made[1]]
    assert ids(saver.list(made[3])) == [id_of(made[3])]
    assert ids(saver.list(made[3], before=made[3])) == []
    assert ids(saver.list(config("a"), limit=0)) == []
    assert all(each.pending_writes == [("task", "w", 1)] for each in saver.list(None))


def test_writes_without_a_checkpoint_are_passed_over(saver):
    made = put(saver)
    for n in range(30):
        saver.put_writes(config(checkpoint=str(uuid6())), [("a", n)], "task")
    assert saver.get_tuple(config()).config == made
    assert ids(saver.list(config())) == [id_of(made)]
    # And belong to it when it comes.
    late = checkpoint()
    saver.put_writes(config(checkpoint=late["id"]), [("a", 1)], "task")
    saver.put(made, late, FLOW, {})
    assert saver.get_tuple(config()).pending_writes == [("task", "a", 1)]


def test_a_listing_of_everything_finds_writes_in_whatever_order_checkpoints_came(saver):
    order = [5, 1, 9, 3, 7, 2, 8]
    for n in order:
        for namespace in ("", "own"):
            at = saver.put(config(namespace=namespace), checkpoint({"n": n}, id=str(n)), FLOW, {})
            saver.put_writes(at, [("n", n)], "task")
    found = list(saver.list({"configurable": {"thread_id": "t"}}))
    assert [each.checkpoint["id"] for each in found] == [str(n) for n in reversed(order) for _ in range(2)]
    assert [each.pending_writes for each in found] == [
        [("task", "n", int(each.checkpoint["id"]))] for each in found
    ]


def test_what_a_removed_thread_held_is_gone_for_good(saver):
    put(saver, values={"secret": "s" * 5000})
    put(saver, thread="other")
    saver.delete_thread("t")
    saver.delete_thread("t")
    assert saver.get_tuple(config()) is None
    assert [each.id for each in saver.store.sessions()] == ["other"]
    assert saver.store.gc(keep_days=0).chunks > 0
    assert saver.store.verify().ok


def test_the_checkpoints_of_runs_go_with_their_writes_and_the_rest_is_whole(saver):
    at, made = None, []
    for n in range(6):
        at = put(saver, at, values={"n": n}, metadata={**FLOW, "run_id": f"run {n % 2}"})
        saver.put_writes(at, [("n", n)], "task")
        made.append(at)
    saver.delete_for_runs(["run 1", "run 1", "absent"])
    found = list(saver.list(config()))
    assert [each.config for each in found] == [made[4], made[2], made[0]]
    assert [each.pending_writes for each in found] == [[("task", "n", n)] for n in (4, 2, 0)]
    # Their parents are gone, so none is named.
    assert [each.parent_config for each in found] == [None, None, None]
    assert len(saver.store.find(session="t")) == 6
    put(saver, made[4])
    assert saver.store.verify().ok


def test_pruning_keeps_the_latest_of_each_namespace(saver):
    for namespace in ("", "own", "call:1"):
        at = None
        for n in range(5):
            at = put(saver, at, namespace=namespace, values={"n": n})
            saver.put_writes(at, [("n", n)], "task")
    saver.prune(["t", "absent"])
    found = list(saver.list({"configurable": {"thread_id": "t"}}))
    assert [each.checkpoint["channel_values"] for each in found] == [{"n": 4}] * 3
    assert [each.pending_writes for each in found] == [[("task", "n", 4)]] * 3
    assert [each.parent_config for each in found] == [None] * 3
    saver.prune(["t"])
    assert len(list(saver.list({"configurable": {"thread_id": "t"}}))) == 3
    saver.prune(["t"], strategy="delete")
    assert saver.store.sessions() == []


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


def test_the_id_of_a_run_may_be_a_uuid_or_its_text(saver):
    for put_as, asked_as in [(str, str), (str, UUID), (UUID, str), (UUID, UUID)]:
        run = str(uuid6())
        at = put(saver, metadata={**FLOW, "run_id": put_as(run)})
        assert [each.config for each in saver.list(None, filter={"run_id": asked_as(run)})] == [at]
        saver.delete_for_runs([asked_as(run)])
        assert list(saver.list(None)) == []


def test_a_copied_thread_goes_on_by_itself(saver):
    first = put(saver, values={"n": 1})
    second = put(saver, first, values={"n": 2})
    saver.put_writes(second, [("n", 3)], "task")
    saver.copy_thread("t", "copy")
    mine = put(saver, config("copy", checkpoint=id_of(second)), values={"n": 9})
    theirs = put(saver, second, values={"n": 3})
    assert ids(saver.list(config("copy"))) == [id_of(mine), id_of(second), id_of(first)]
    assert ids(saver.list(config("t"))) == [id_of(theirs), id_of(second), id_of(first)]
    assert saver.get_tuple(config("copy", checkpoint=id_of(second))).pending_writes == [("task", "n", 3)]
    with pytest.raises(NotFoundError):
        saver.copy_thread("absent", "x")
    with pytest.raises(ConflictError):
        saver.copy_thread("t", "copy")


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


def test_a_filter_looks_inside_of_metadata_that_is_no_json():
    with HoldfastSaver("memory:") as saver:
        put(saver, metadata={**FLOW, "user": {"id": 7, "raw": b"no JSON"}})
        assert [
            len(list(saver.list(config(), filter=each)))
            for each in ({"user.id": 7}, {"user": {"id": 7}}, {"user.id": 8})
        ] == [1, 1, 0]


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
