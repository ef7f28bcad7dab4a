"""The branch that people are on follows the graph: `@` of the command line is what get_state gives."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite import SqliteSaver
from tests.integrations.langgraph.saver_data import FLOW, Counting, checkpoint, config, id_of, put

import holdfast
from holdfast import Store
from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.integrations.langgraph.importing import import_langgraph
from holdfast.integrations.langgraph.threads import lead_to


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


def test_a_saver_that_takes_up_a_branch_takes_people_along(tmp_path):
    with HoldfastSaver(tmp_path / "store.db") as saver:
        root = put(saver, values={"n": 0})
        left, right = put(saver, root, values={"n": 1}), put(saver, root, values={"n": 2})
    for head in (left, right):
        with HoldfastSaver(tmp_path / "store.db") as saver:
            assert at(saver.store) != id_of(head)
            made = put(saver, head, values={"n": 3})
            assert at(saver.store) == id_of(made)


def test_a_second_line_without_a_parent_takes_people_along(saver):
    put(saver, values={"n": 1})
    second = put(saver, values={"n": 2})
    assert at(saver.store) == id_of(second)


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


def test_a_thread_that_goes_straight_on_reads_nothing_for_it():
    backend: Any = Counting()
    saver = HoldfastSaver(Store(backend))
    last = put(saver, values={"n": 0})
    backend.asked.clear()
    for n in range(5):
        last = put(saver, last, values={"n": n})
    assert dict(backend.asked) == {"commit": 5}


def test_of_two_that_fork_at_once_one_wins_and_none_fails(tmp_path):
    with HoldfastSaver(tmp_path / "store.db") as saver:
        root = put(saver, values={"n": 0})
        put(saver, root, values={"n": 1})
        made: list[Any] = []

        def fork(other: HoldfastSaver, n: int) -> None:
            made.append(put(other, root, values={"n": n}))

        for number in range(5):
            others = [HoldfastSaver(saver.store) for _ in range(2)]
            works = [threading.Thread(target=fork, args=(each, number)) for each in others]
            for work in works:
                work.start()
            for work in works:
                work.join()
        assert len(made) == 10
        assert at(saver.store) in {id_of(each) for each in made[-2:]}


def test_a_branch_that_is_gone_again_leads_nowhere(saver):
    root = put(saver, values={"n": 0})
    put(saver, root, values={"n": 1})
    put(saver, root, values={"n": 2})
    session = saver.store.session("t", branch="main-1")
    head = session.checkpoint("@")
    saver.store.session("t").switch("main", remember=True)
    saver.store.session("t").delete_branch("main-1", force=True)
    lead_to(saver.store, head)
    assert saver.store.current_branch("t") == "main"


def test_an_import_puts_people_on_the_branch_of_the_latest(tmp_path):
    place = str(tmp_path / "checkpoints.sqlite")
    with SqliteSaver.from_conn_string(place) as source, holdfast.open(tmp_path / "store.db") as store:
        ids = [str(uuid6()) for _ in range(5)]

        def add(number: int, parent: int | None) -> None:
            above = None if parent is None else ids[parent]
            source.put(config(checkpoint=above), checkpoint({"n": number}, id=ids[number]), FLOW, {})

        for number, parent in [(0, None), (1, 0), (2, 0)]:
            add(number, parent)
        import_langgraph(place, store, dry_run=True)
        import_langgraph(place, store)
        assert store.current_branch("t") == "main-1"
        assert at(store) == ids[2]

        add(3, 0)
        add(4, 1)
        import_langgraph(place, store)
        assert {each.name for each in store.session("t").branches()} == {"main", "main-1", "main-2"}
        assert store.current_branch("t") == "main"
        assert at(store) == ids[4]

        store.session("t").switch("main-1", remember=True)
        import_langgraph(place, store)
        assert store.current_branch("t") == "main-1"
