"""HoldfastSaver itself: what it refuses, how it is opened, and what it takes from LangGraph."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
from langgraph.checkpoint.base.id import uuid6
from tests.integrations.langgraph.saver_data import (
    FLOW,
    checkpoint,
    config,
    id_of,
    ids,
    put,
)

import holdfast
from holdfast import InvalidInputError, StateError
from holdfast.integrations.langgraph import HoldfastSaver


@pytest.fixture
def saver():
    with HoldfastSaver("memory:") as saver:
        yield saver


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"configurable": {}},
        {"configurable": {"thread_id": None}},
        {"configurable": {"thread_id": ""}},
        None,
    ],
)
def test_a_config_without_a_thread_is_refused_with_a_hint(saver, wrong):
    for call in (
        saver.get_tuple,
        lambda at: saver.put(at, checkpoint(), FLOW, {}),
        lambda at: list(saver.list(at or {})),
    ):
        with pytest.raises(InvalidInputError) as caught:
            call(wrong)
        assert "thread_id" in caught.value.hint


@pytest.mark.parametrize("thread", ["x" * 257, "two\nlines", " blank "])
def test_a_thread_id_that_cannot_be_a_session_is_refused_in_langgraphs_words(saver, thread):
    for call in (
        lambda: put(saver, thread=thread),
        lambda: saver.delete_thread(thread),
        lambda: saver.prune([thread]),
    ):
        with pytest.raises(InvalidInputError, match="thread_id"):
            call()


def test_unknown_strategies_and_single_ids_are_refused(saver):
    with pytest.raises(InvalidInputError, match="keep_all") as caught:
        saver.prune(["t"], strategy="keep_all")
    assert "keep_latest, delete" in caught.value.hint
    for call in (saver.prune, saver.delete_for_runs):
        with pytest.raises(InvalidInputError, match="list of ids"):
            call("t")


def test_what_cannot_be_kept_is_refused_with_its_path_and_nothing_is_written(saver):
    with pytest.raises(InvalidInputError, match=r"^tool: ") as caught:
        put(saver, values={"tool": threading.Lock()})
    assert caught.value.details["path"] == "state['channel_values']['tool']"
    with pytest.raises(InvalidInputError, match=r"^a, written by task .+: ") as caught:
        saver.put_writes(config(checkpoint="c"), [("a", threading.Lock())], "task")
    assert caught.value.details["path"] == "state['writes'][0][2]"
    assert saver.store.sessions() == []


@pytest.mark.parametrize("thread", ["../../etc/passwd", "'; DROP TABLE checkpoints; --", "日本", "a b"])
@pytest.mark.parametrize("odd", ["one two", "100%", "#1", "\x00\x1f", "'; --", "\ud800", "é"])
def test_odd_ids_are_kept_apart(saver, thread, odd):
    made = saver.put(config(thread, odd), checkpoint({"a": odd}, id=odd), FLOW, {})
    other = saver.put(config(thread, odd + "!"), checkpoint({"a": 2}, id=odd + " "), FLOW, {})
    saver.put_writes(made, [("a", "mine")], odd)
    found = saver.get_tuple(config(thread, odd))
    assert (found.config, found.checkpoint["channel_values"]) == (made, {"a": odd})
    assert found.pending_writes == [(odd, "a", "mine")]
    assert saver.get_tuple(other).pending_writes == []
    assert sorted(
        map(str, (each.config for each in saver.list({"configurable": {"thread_id": thread}})))
    ) == sorted(map(str, [made, other]))


def test_a_namespace_may_be_longer_than_a_key(saver):
    deep = "|".join(f"level{n}:{uuid6()}" for n in range(40))
    made = put(saver, namespace=deep, values={"a": 1})
    child = put(saver, made, values={"a": 2})
    put(saver, namespace=deep[:-1], values={"a": 3})
    saver.put_writes(child, [("a", 4)], "task")
    assert ids(saver.list(config(namespace=deep))) == [id_of(child), id_of(made)]
    found = [
        each
        for each in saver.list({"configurable": {"thread_id": "t"}})
        if each.checkpoint["id"] == id_of(child)
    ]
    assert [(each.config, each.parent_config) for each in found] == [(child, made)]
    assert saver.get_tuple(config(namespace=deep)).pending_writes == [("task", "a", 4)]
    assert "checkpoint_ns" not in found[0].checkpoint


def test_a_store_that_was_given_stays_open(tmp_path):
    with holdfast.open(tmp_path / "store.db") as store:
        with HoldfastSaver(store) as saver:
            put(saver)
        assert len(list(saver.list(config()))) == 1
    own = HoldfastSaver(tmp_path / "store.db")
    own.close()
    with pytest.raises(StateError):
        own.get_tuple(config())
    with HoldfastSaver.open(tmp_path / "store.db", create=False) as saver:
        assert len(list(saver.list(config()))) == 1
    with pytest.raises(StateError):
        saver.get_tuple(config())


def run_python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_holdfast_does_not_import_langgraph():
    code = "import sys, holdfast.cli, holdfast.integrations.langgraph; print([m for m in sys.modules if 'lang' in m])"
    assert run_python(code) == "['holdfast.integrations.langgraph']"


def test_without_langgraph_the_error_says_what_to_install():
    code = """
import sys
sys.modules["langgraph.checkpoint.base"] = None
try:
    from holdfast.integrations.langgraph import HoldfastSaver
except Exception as error:
    print(type(error).__name__, error.code, error.hint)
"""
    assert run_python(code) == "UnsupportedError not-supported pip install 'holdfast[langgraph]'"
