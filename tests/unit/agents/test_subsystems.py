"""The ten subsystems: what each does, and that each comes back as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.agents.lives import lived

import holdfast
from holdfast.agents.heartbeat.subsystems import (
    ORDER,
    ten,
)


def test_there_are_ten_in_the_order_they_come_back_in():
    expected = """affect goals metacognition theory_of_mind interagent sensory ethics inner_life identity
    working_memory"""
    assert list(ten()) == list(ORDER) == expected.split()


@pytest.mark.parametrize("name", ORDER)
@given(seed=st.integers(0, 2**32))
def test_a_subsystem_comes_back_from_a_store_as_it_was_and_goes_on_the_same(name, seed):
    whole = lived(seed)
    fresh = ten("somebody else")[name]
    with holdfast.open("memory:") as store:
        session = store.session("x")
        session.save(whole[name].snapshot())
        fresh.restore(session.load())

    assert fresh.snapshot() == whole[name].snapshot()
    # What comes next depends on what a snapshot might have left out: counters, orders, memories of ids.
    other = whole | {name: fresh}
    assert lived(seed + 1, other)[name].snapshot() == lived(seed + 1, whole)[name].snapshot()


@pytest.mark.parametrize("name", ORDER)
@pytest.mark.parametrize("change", ["unknown", "no dict", "wrong type"])
def test_what_does_not_fit_is_refused_and_changes_nothing(name, change):
    part = lived(7)[name]
    before = part.snapshot()
    bad = {
        "unknown": {**before, "from_the_future": 1},
        "no dict": [before],
        "wrong type": dict.fromkeys(before, (object, 1)),
    }[change]

    with pytest.raises(holdfast.StateError, match=name) as refused:
        part.restore(bad)
    assert refused.value.code == "type-mismatch"
    assert part.snapshot() == before


@pytest.mark.parametrize("name", ORDER)
def test_an_older_snapshot_without_some_parts_is_taken(name):
    ten()[name].restore({})
