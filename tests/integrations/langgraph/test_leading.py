"""The branch that people are on follows the graph: `@` of the command line is what get_state gives."""

from __future__ import annotations

import pytest
from tests.integrations.langgraph.saver_data import config, id_of, put

from holdfast import Store
from holdfast.integrations.langgraph import HoldfastSaver


@pytest.fixture
def saver():
    with HoldfastSaver("memory:") as saver:
        yield saver


def at(store: Store, thread: str = "t") -> str:
    """The id of the checkpoint that `@` is without any other word."""
    session = store.session(thread, branch=store.current_branch(thread))
    return (session.checkpoint("@").key or "").rpartition(" ")[2]


def test_people_are_taken_along_to_a_branch_that_a_put_begins(saver):
    root = put(saver, values={"n": 0})
    left = put(saver, root, values={"n": 1})
    assert saver.store.current_branch("t") == "main"
    right = put(saver, root, values={"n": 2})
    assert saver.store.current_branch("t") == "main-1"
    assert at(saver.store) == id_of(right) == id_of(saver.get_tuple(config()).config)
    right = put(saver, right, values={"n": 3})
    assert at(saver.store) == id_of(right)
    # Back to the other one, which is not new.
    left = put(saver, left, values={"n": 4})
    assert at(saver.store) == id_of(left) == id_of(saver.get_tuple(config()).config)


def test_people_stay_where_they_went_while_the_line_goes_on(saver):
    root = put(saver, values={"n": 0})
    put(saver, root, values={"n": 1})
    right = put(saver, root, values={"n": 2})
    saver.store.session("t").switch("main", remember=True)
    put(saver, right, values={"n": 3})
    assert saver.store.current_branch("t") == "main"


def test_branches_of_subgraphs_and_pending_writes_take_nobody_along(saver):
    root = put(saver, values={"n": 0})
    inner = put(saver, namespace="inner", values={"n": 1})
    put(saver, inner, values={"n": 2})
    put(saver, inner, values={"n": 3})
    saver.put_writes(root, [("a", 1)], "task")
    assert {"inner", "inner-1", "writes"} <= {each.name for each in saver.store.session("t").branches()}
    assert saver.store.current_branch("t") == "main"
