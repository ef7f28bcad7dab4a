"""Keys: every id comes back from its key, keys sort as ids do, and the range of one thing has nothing of another."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langgraph.checkpoint.base.id import uuid6

from holdfast import InvalidInputError
from holdfast.history.names import check_branch, check_key
from holdfast.integrations.langgraph import keys

TEXT = st.text(st.characters(codec=None), max_size=40)
IDS = st.text(st.characters(codec=None), min_size=1, max_size=20)
LONG = st.builds(lambda text, times: text * times, st.text(min_size=1, max_size=5), st.integers(200, 900))


@given(TEXT | LONG, IDS, IDS, st.integers(0, 10**6 - 1))
def test_what_a_key_was_made_of_comes_back(namespace, checkpoint, task, number):
    key = keys.checkpoint_key(namespace, checkpoint)
    prefix = keys.writes_prefix(namespace, checkpoint, task)
    of_writes = keys.writes_key(prefix, number)
    known = None if keys.is_hashed(namespace) else namespace
    assert keys.parse(check_key(key)) == (known, checkpoint, None, key)
    assert keys.parse(check_key(of_writes)) == (known, checkpoint, task, key)


@given(st.lists(st.tuples(TEXT, IDS, IDS), min_size=2, max_size=8, unique=True))
def test_a_range_has_what_belongs_to_it_and_nothing_else(things):
    made = {}
    for namespace, checkpoint, task in things:
        made[keys.checkpoint_key(namespace, checkpoint)] = (namespace, checkpoint, None)
        made[keys.writes_key(keys.writes_prefix(namespace, checkpoint, task), 3)] = (
            namespace,
            checkpoint,
            task,
        )
    for namespace, checkpoint, task in things:
        in_namespace = within(made, keys.namespace_range(namespace))
        assert in_namespace == {key for key, thing in made.items() if thing[0] == namespace}
        of_checkpoint = within(made, keys.checkpoint_range(keys.checkpoint_key(namespace, checkpoint)))
        assert of_checkpoint == {key for key, thing in made.items() if thing[:2] == (namespace, checkpoint)}
        prefix = keys.writes_prefix(namespace, checkpoint, task)
        assert within(made, keys.task_range(prefix)) == {keys.writes_key(prefix, 3)}
    assert within(made, keys.THREAD_RANGE) == set(made)


def within(made, bounds):
    start, stop = (bound.encode() for bound in bounds)
    return {key for key in made if start <= key.encode() < stop}


PRINTABLE = st.text(
    st.characters(codec="utf-8").filter(lambda c: c.isprintable() and c not in " #%"), min_size=1
)


@given(st.lists(st.uuids().map(str) | PRINTABLE.filter(lambda text: len(text.encode()) < 100), min_size=2))
def test_keys_sort_as_ids_do(ids):
    by_key = sorted(ids, key=lambda each: keys.checkpoint_key("ns", each).encode())
    assert by_key == sorted(ids)


def test_ids_of_langgraph_are_in_their_keys_as_they_are():
    made = str(uuid6())
    assert keys.checkpoint_key("", made) == f"/ {made}"
    assert keys.checkpoint_key(f"node:{UUID(int=1)}", made) == f"/node:{UUID(int=1)} {made}"


@given(TEXT | LONG)
@example("main")
@example("writes")
def test_every_namespace_has_a_branch(namespace):
    name = keys.branch_name(namespace)
    assert check_branch(name) == name
    assert (name == "main") == (namespace == "")
    assert name != "writes"


@pytest.mark.parametrize(
    "key", [None, "", "run-7", "/", "/ns", "/ns id task", "/%FF id", "ns id", "/ns a b c d"]
)
def test_other_peoples_keys_are_none_of_these(key):
    assert keys.parse(key) is None


@pytest.mark.parametrize("text", ["", "x" * 181, "\n" * 61])
def test_an_id_that_cannot_be_in_a_key_is_refused(text):
    with pytest.raises(InvalidInputError, match="checkpoint_id") as caught:
        keys.checkpoint_key("", text)
    assert "1 to 180 bytes" in caught.value.hint


def test_a_task_may_have_an_empty_id():
    prefix = keys.writes_prefix("ns", "1", "")
    key = keys.writes_key(prefix, 0)
    assert keys.parse(key) == keys.Key("ns", "1", "", "/ns 1")
    start, stop = keys.task_range(prefix)
    assert start <= key < stop
    assert not start <= keys.writes_key(keys.writes_prefix("ns", "1", "task"), 0) < stop
