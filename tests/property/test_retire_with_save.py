"""Retention in the commit of a save comes to the same as retention right after it."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.store.journal import check_links, kinds_of

import holdfast
from holdfast import Keep
from holdfast.errors import HoldfastError
from holdfast.storage.records import Query
from holdfast.store.upkeep import Upkeep

POLICIES = [
    Keep(at_most=1),
    Keep(at_most=3),
    Keep(last=2),
    Keep(last=2, per="branch"),
    Keep(last=1, tags=["golden"]),
    Keep(at_most=4, manual=True),
]
BRANCHES = ["main", "side"]
STEPS = st.one_of(
    st.tuples(st.just("save"), st.sampled_from(BRANCHES)),
    st.tuples(st.just("save"), st.sampled_from(BRANCHES)),
    st.tuples(st.just("beside"), st.integers(1, 12)),
    st.tuples(st.just("part"), st.integers(1, 12)),
    st.tuples(st.sampled_from(["pin", "tag", "delete", "fork"]), st.integers(1, 12)),
    st.tuples(st.sampled_from(["undo", "merge"]), st.none()),
)


def lived(store, keep, steps):
    """What is there after these steps, in words that do not depend on ids."""
    sessions = {name: store.session("s", branch=name, keep=keep) for name in BRANCHES}
    for number, (what, where) in enumerate(steps):
        with suppress(HoldfastError):
            do(sessions, number, what, where)
    check_links(store)
    with store._backend.reader() as reader:
        rows = reader.checkpoints(Query(session="s", include_hidden=True))
        seqs = {row.id: row.seq for row in rows}
        heads = {head.name: seqs[head.head] for head in reader.branches("s")}
    shown = [
        (row.seq, row.step, row.branch, row.tags, row.pinned, row.hidden, row.skipped, seqs.get(row.prev))
        for row in rows
    ]
    return shown, heads, kinds_of(store)


def do(sessions, number, what, where):
    main = sessions["main"]
    if what == "save":
        sessions[where].save({"n": number}, step=number)
    elif what == "beside":
        main.save({"n": number}, step=number, parent=f"#{where}")
    elif what == "part":
        main.save({"n": number}, step=number, key=f"k{where}" if where % 2 else f"k{where - 1} part")
    elif what == "fork":
        main.fork(f"#{where}", name=f"side-{number}")
    elif what == "merge":
        main.merge("side")
    elif what == "undo":
        main.undo()
    elif what == "tag":
        main.tag(f"#{where}", "golden")
    else:
        getattr(main, what)(f"#{where}")


@given(keep=st.sampled_from(POLICIES), steps=st.lists(STEPS, max_size=14))
def test_it_comes_to_the_same_as_removing_afterwards(keep, steps):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Upkeep, "along", lambda *_: None)
        with holdfast.open("memory:") as store:
            afterwards = lived(store, keep, steps)
    with holdfast.open("memory:") as store:
        assert lived(store, keep, steps) == afterwards
        assert store.verify().ok
