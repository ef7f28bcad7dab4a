"""Files of one history: at once they come out as it, in any order; in groups, nothing that is there changes."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.store.archive.archive_samples import sealed

import holdfast
from holdfast import Store

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
Parents = tuple[int, ...]


def file_of_one() -> dict[str, Any]:
    with holdfast.open("memory:") as store:
        store.session("s").save({"n": 0})
        text = io.BytesIO()
        store.session("s").export("@", text)
    return dict(json.loads(text.getvalue()))


ONE = file_of_one()


def files_of(history: list[Parents]) -> dict[str, dict[str, Any]]:
    """The files of a history in which each checkpoint was made from some of those before it."""
    made: list[dict[str, Any]] = []
    for step, places in enumerate(history):
        parents = list(dict.fromkeys(made[place % step]["id"] for place in places)) if step else []
        when = (BEGUN + timedelta(seconds=step)).isoformat(timespec="microseconds")
        lineage = {"parents": parents, "prev": parents[0] if parents else None, "created_at": when}
        made.append(sealed(ONE | lineage | {"state": {"n": step}, "key": f"k{step}", "nonce": f"{step:04x}"}))
    return {each["id"]: each for each in made}


def led_to(files: dict[str, dict[str, Any]], checkpoint: str) -> list[str]:
    line = [checkpoint]
    while files[line[-1]]["parents"]:
        line.append(files[line[-1]]["parents"][0])
    return line


def check(store: Store, files: dict[str, dict[str, Any]]) -> None:
    assert store.verify().ok
    session = store.session("s")
    assert {each.id for each in store.find()} == files.keys()
    for name, data in files.items():
        assert [each.id for each in session.log(name)] == led_to(files, name)
        assert session.load(name) == data["state"]
    numbers = {each.id: each.seq for each in store.find()}
    for name, data in files.items():
        assert all(numbers[parent] < numbers[name] for parent in data["parents"])
    assert {node.checkpoint.id: set(node.parents) for node in session.tree()} == {
        name: set(data["parents"]) for name, data in files.items()
    }
    followed = {parent for data in files.values() for parent in data["parents"]}
    assert files.keys() - followed <= {each.head.id for each in session.branches()}


histories = st.lists(st.lists(st.integers(0, 9), max_size=2).map(tuple), min_size=1, max_size=8)


@settings(max_examples=50)
@example([(), (0,), (0,), (1, 2), (3,)], [4, 3, 1, 0, 2])
@given(histories, st.permutations(range(8)))
def test_the_order_within_an_import_makes_no_difference(history, order):
    files = files_of(history)
    lines = [json.dumps(each) + "\n" for each in files.values()]
    shuffled = [lines[place] for place in order if place < len(lines)]
    with holdfast.open("memory:") as store:
        assert store.import_(io.BytesIO("".join(shuffled).encode())).sessions[0].cut_off == 0
        check(store, files)


@settings(max_examples=50)
@example([(), (0,), (1,), (2,)], [3, 2, 1, 0], [1, 2, 3])
@example([(), (0,), (0,), (1, 2), (3,)], [4, 3, 1, 0, 2], [1, 2, 3, 4])
@given(histories, st.permutations(range(8)), st.lists(st.integers(1, 8), max_size=8))
def test_an_import_changes_nothing_that_is_there_and_says_what_it_leaves_cut_off(history, order, cuts):
    files = files_of(history)
    lines = [json.dumps(each) + "\n" for each in files.values()]
    chosen = [place for place in order if place < len(lines)]
    edges = sorted({0, len(chosen), *(cut for cut in cuts if cut < len(chosen))})
    names = list(files)
    with holdfast.open("memory:") as store:
        there: dict[str, tuple[Any, ...]] = {}
        for start, end in pairwise(edges):
            some = {names[place] for place in chosen[start:end]}
            told = store.import_(io.BytesIO("".join(lines[place] for place in chosen[start:end]).encode()))
            known = some | there.keys()
            alone = [name for name in some if not known.issuperset(files[name]["parents"][:1])]
            assert told.sessions[0].cut_off == len(alone)
            now = {each.id: (each.seq, each.prev, each.skipped) for each in store.find()}
            assert now.items() >= there.items()
            assert now.keys() == there.keys() | some
            there = now
            assert store.verify().ok
        for name, data in files.items():
            assert store.session("s").load(name) == data["state"]
        again = store.import_(io.BytesIO("".join(lines).encode()))
        assert (again.checkpoints, again.sessions[0].status) == (0, "unchanged")
