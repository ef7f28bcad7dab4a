"""What HoldfastSaver finds again, by metadata and page by page, and what it lets go for good."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any
from uuid import UUID

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base.id import uuid6
from tests.integrations.langgraph.saver_data import (
    FLOW,
    Counting,
    checkpoint,
    config,
    id_of,
    ids,
    put,
)

from holdfast import ConflictError, NotFoundError, Store
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


def test_what_the_state_has_of_the_metadata_decides_where_the_record_cannot(saver):
    made = [put(saver, metadata={**FLOW, "big": 2**70 + n, "score": n}) for n in range(3)]
    assert ids(saver.list(config(), filter={"big": 2**70 + 1})) == [id_of(made[1])]
    assert ids(saver.list(config(), filter={"big": 2**70 + 1, "score": 2})) == []
    assert ids(saver.list(config(), filter={"big": 2**70 + 2, "score": 2}, limit=1)) == [id_of(made[2])]


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


def test_more_writes_than_fit_on_a_page(saver):
    made = put(saver)
    for n in range(300):
        saver.put_writes(made, [("a", n)], f"task {n:03}")
    put(saver, made)
    found = list(saver.list(config()))
    assert [len(each.pending_writes or ()) for each in found] == [0, 300]
    assert [value for _, _, value in saver.get_tuple(made).pending_writes] == list(range(300))


def test_a_listing_is_read_as_it_is_used(tmp_path):
    size = 200_000
    with HoldfastSaver.open(tmp_path / "store.db", durability="process") as saver:
        at = None
        for n in range(400):
            at = put(saver, at, values={"noise": n.to_bytes(4, "big") * (size // 4)})
        tracemalloc.start()
        seen = 0
        for each in saver.list(config()):
            assert len(each.checkpoint["channel_values"]["noise"]) == size
            seen += 1
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert seen == 400
        # A page of bytes, and what the next one may share with it; not the 80 MB that all of them are.
        assert peak < 30_000_000
        # What is removed meanwhile is not listed any more.
        found = saver.list(config())
        next(found)
        saver.delete_thread("t")
        assert len(list(found)) < 300


def _busy(threads=4, steps=60):
    backend = Counting()
    saver = HoldfastSaver(Store(backend))
    at: dict[str, Any] = {}
    for n in range(steps):
        for thread in map(str, range(threads)):
            metadata = {**FLOW, "run_id": f"run {n % 2}"}
            at[thread] = put(saver, at.get(thread), thread=thread, values={"n": n}, metadata=metadata)
            saver.put_writes(at[thread], [("n", n)], "task")
    backend.asked.clear()
    return saver, backend


def test_a_listing_of_everything_reads_writes_by_pages_and_only_of_what_is_meant():
    saver, backend = _busy()
    assert list(saver.list(None, filter={"run_id": "none"})) == []
    assert list(saver.list(None, before=config(checkpoint="0"))) == []
    rows = 4 * 60 * 2
    pages = rows // 200 + 1
    assert backend.asked["reader"] == 2 * pages
    backend.asked.clear()
    found = list(saver.list(None))
    assert len(found) == 4 * 60
    assert all(
        each.pending_writes == [("task", "n", each.checkpoint["channel_values"]["n"])] for each in found
    )
    assert backend.asked["reader"] < len(found) / 4


def test_the_writes_of_runs_that_go_are_found_by_pages():
    saver, backend = _busy()
    saver.delete_for_runs(["run 0"])
    assert backend.asked["reader"] < 4 * 30 / 2
    assert {each.metadata["run_id"] for each in saver.list(None)} == {"run 1"}
    assert len(saver.store.find()) == 4 * 30 * 2


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


def test_pruning_keeps_a_subgraph_with_a_memory_whose_namespace_is_longer_than_a_key(saver):
    at = put(saver, values={"n": 1})
    memory, call = "|".join(["subgraph"] * 100), "|".join(["subgraph:1"] * 100)
    for namespace in (memory, call):
        put(saver, namespace=namespace, metadata={**FLOW, "parents": {"": id_of(at)}})
    put(saver, at, values={"n": 2})
    saver.prune(["t"])
    assert saver.get_tuple(config(namespace=memory)) is not None
    assert saver.get_tuple(config(namespace=call)) is None


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
