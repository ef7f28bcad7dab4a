"""What has to stay so that lines still know where they met last, and what may go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Keep
from holdfast.history import crossings, retention
from holdfast.history.crossings import LEADS, MEET, find_crossings
from holdfast.history.retention import plan
from holdfast.storage.records import BranchRow, CheckpointId, CheckpointRow
from holdfast.testing.rows import START, checkpoint_id, row


def rows(**parents: str) -> list[CheckpointRow]:
    """Rows in the order of arrival, each with the names of those that it was made from."""
    made = []
    for number, (name, told) in enumerate(parents.items(), start=1):
        ids = tuple(checkpoint_id(each) for each in told.split())
        made.append(
            row(
                name,
                parents=ids,
                prev=ids[0] if ids else None,
                seq=number,
                position=number,
                created_at=START + number,
                trigger="merge" if len(ids) > 1 else "auto:tick",
            )
        )
    return made


def kept(history: list[CheckpointRow], *tips: str, wanted: str = "") -> dict[str, str]:
    """What stays of the rest, if only the tips and some others are wanted."""
    names = {checkpoint_id(name): name for name in NAMES}
    stays = {checkpoint_id(name) for name in (*tips, *wanted.split())}
    removed = {each.id for each in history} - stays
    found: dict[CheckpointId, str] = {}
    while more := find_crossings(
        history[::-1], [checkpoint_id(name) for name in tips], removed - found.keys()
    ):
        found |= more
    return {names[each]: why for each, why in found.items()}


NAMES = ["y", *(f"{letter}{number}" for letter in "abcm" for number in range(10))]


def test_a_line_alone_needs_nothing():
    assert kept(rows(y="", a1="y", a2="a1", a3="a2"), "a3") == {}


def test_what_was_merged_stays_while_both_go_on_and_so_does_the_merge():
    history = rows(y="", a1="y", b1="y", b2="b1", m1="a1 b2", b3="b2", a2="m1")
    assert kept(history, "a2", "b3") == {"m1": LEADS, "b2": MEET}


def test_only_the_last_of_many_merges_counts():
    history = rows(y="", b1="y", m1="y b1", b2="b1", m2="m1 b2", b3="b2", m3="m2 b3", b4="b3", a1="m3")
    assert kept(history, "a1", "b4") == {"m3": LEADS, "b3": MEET}
    # But a checkpoint between two of them may be gone on from, and knows nothing of the later one.
    assert kept(history, "a1", "b4", wanted="m2") == {"m3": LEADS, "b3": MEET, "b2": MEET}


def test_a_branch_that_was_merged_and_ended_goes_as_a_whole():
    history = rows(y="", b1="y", b2="b1", a1="y", m1="a1 b2", a2="m1")
    assert kept(history, "a2") == {}
    assert kept(history, "a2", wanted="m1") == {}
    # A checkpoint of it that is wanted is still known to have been merged.
    assert kept(history, "a2", wanted="b1") == {"m1": LEADS, "b2": LEADS}


def test_crosswise_merges_leave_both_places():
    history = rows(y="", a1="y", b1="y", m1="a1 b1", m2="b1 a1", a2="m1", b2="m2")
    assert kept(history, "a2", "b2") == {"m1": LEADS, "m2": LEADS, "a1": MEET, "b1": MEET, "y": MEET}


def test_two_lines_that_merge_each_other_all_the_time_need_the_last_time_only():
    history = rows(
        y="",
        a1="y",
        b1="y",
        m1="b1 a1",
        a2="a1",
        m2="a2 m1",
        b2="m1",
        m3="b2 m2",
        a3="m2",
        m4="a3 m3",
        b3="m3",
    )
    assert kept(history, "m4", "b3") == {"m3": MEET}


def test_what_no_branch_leads_to_keeps_nothing():
    history = rows(y="", a1="y", b1="y", m1="a1 b1", c1="b1", a2="m1")
    assert kept(history, "a2", wanted="c1") == {}


def test_the_reason_is_in_the_plan_and_no_count_pays_for_it():
    history = rows(y="", a1="y", b1="y", b2="b1", m1="a1 b2", b3="b2", a2="m1", a3="a2", a4="a3")
    heads = [
        BranchRow(session="work", name=name, head=checkpoint_id(tip), moved_at=0)
        for name, tip in (("main", "a4"), ("b", "b3"))
    ]
    decided = plan(history, heads, Keep(at_most=3), START).decisions
    assert {each.row.seq: each.reasons for each in decided if each.kept} == {
        9: ("tip of main", "newest 3"),
        8: ("newest 3",),
        7: ("newest 3",),
        6: ("tip of b",),
        5: (LEADS,),
        4: (MEET,),
        1: ("branches part here",),
    }


def test_a_part_where_branches_meet_keeps_its_owner():
    history = rows(y="", a1="y", b1="y", b2="b1", m1="a1 b2", b3="b2", a2="m1")
    history[2] = history[2]._replace(key="run")
    history[3] = history[3]._replace(key="run log")
    heads = [
        BranchRow(session="work", name=name, head=checkpoint_id(tip), moved_at=0)
        for name, tip in (("main", "a2"), ("b", "b3"))
    ]
    decided = plan(history, heads, Keep(within="1s"), START + 10**9).decisions
    told = {each.row.seq: each.reasons for each in decided if each.kept}
    assert told[3] == (f"a part: {MEET}",)
    assert 4 in told


def test_workers_that_never_take_anything_back_keep_their_merges_in_a_few_passes(monkeypatch):
    made = rows(y="")
    names = {"main": "y", "w0": "y", "w1": "y"}

    def add(branch, *others):
        number = len(made) + 1
        parents = tuple(checkpoint_id(names[each]) for each in (branch, *others))
        name = f"r{number}"
        made.append(
            row(
                name, parents=parents, prev=parents[0], seq=number, position=number, created_at=START + number
            )
        )
        names[branch] = name

    for _ in range(30):
        for worker in ("w0", "w1"):
            add(worker)
            add("main", worker)
    asked: list[int] = []

    def counted(newest_first, heads, removed):
        asked.append(len(removed))
        return find_crossings(newest_first, heads, removed)

    monkeypatch.setattr(retention, "find_crossings", counted)
    heads = [
        BranchRow(session="work", name=name, head=checkpoint_id(tip), moved_at=0)
        for name, tip in names.items()
    ]
    decided = plan(made, heads, Keep(last=5), START)
    assert len(asked) <= retention._PASSES + 3
    stays = {each.row.id for each in decided.decisions if each.kept}
    # All that a merge needs is there, and asked once more nothing is added.
    assert not find_crossings(made[::-1], [each.head for each in heads], {row.id for row in made} - stays)


@st.composite
def histories(draw):
    """Rows with up to two parents, branches that lead to some of them, and a part that a policy wants."""
    made: list[CheckpointRow] = []
    for number in range(1, draw(st.integers(2, 14)) + 1):
        older = [each.id for each in made]
        first = [draw(st.sampled_from(older[-4:]))] if older else []
        second = [draw(st.sampled_from(older))] if older and draw(st.booleans()) else []
        parents = tuple(dict.fromkeys([*first, *second]))
        made.append(
            row(
                f"r{number}",
                parents=parents,
                prev=parents[0] if parents else None,
                seq=number,
                position=number,
                created_at=START + number,
                trigger=draw(st.sampled_from(["manual", "auto:tick", "auto:tick"])),
            )
        )
    tips = draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique=True))
    return made, tips


def meetings(ways, one, other):
    both = before(ways, one) & before(ways, other)
    return {each for each in both if not any(each != more and each in before(ways, more) for more in both)}


def before(ways, start):
    found, waiting = {start}, [start]
    while waiting:
        for each in ways[waiting.pop()]:
            if each not in found:
                found.add(each)
                waiting.append(each)
    return found


@given(histories())
def test_what_stays_meets_where_it_met(drawn):
    made, tips = drawn
    heads = [BranchRow("work", f"n{n}", tip.id, 0) for n, tip in enumerate(tips)]
    removed = plan(made, heads, Keep(manual=True), START).removed
    known = {each.id: each for each in made}
    whole = {each.id: each.parents for each in made}
    left = {}
    for each in made:
        first = each.parents[0] if each.parents else None
        while first in removed:
            first = known[first].parents[0] if known[first].parents else None
        left[each.id] = [] if first is None else [first]
        left[each.id] += [parent for parent in each.parents[1:] if parent not in removed]
    alive = set().union(*(before(whole, tip.id) for tip in tips)) - removed
    for one in alive:
        assert before(left, one) == before(whole, one) - removed
        for other in alive:
            assert meetings(left, one, other) == meetings(whole, one, other)


@pytest.mark.parametrize("branches", [2, 40])
def test_branches_that_merge_main_again_and_again_leave_one_place_each(branches, monkeypatch):
    made = rows(y="")
    tips = dict.fromkeys(range(branches), made[0])
    main = made[0]
    for step in range(1200):
        number = step % branches
        for name, parents in ((f"b{step}", (tips[number],)), (f"m{step}", (main,)), (f"x{step}", ())):
            ids = tuple(each.id for each in parents) or (tips[number].id, main.id)
            new = row(name, parents=ids, prev=ids[0], seq=len(made) + 1, position=len(made) + 1)
            made.append(new)
            main = new if name[0] == "m" else main
            tips[number] = new if name[0] != "m" else tips[number]
    heads = {main.id, *(tip.id for tip in tips.values())}
    removed = {each.id for each in made} - heads
    found = find_crossings(made[::-1], heads, removed)
    assert branches - 1 <= len(found) <= branches + 1
    # No question on the way needed more than a few rows for each branch, of 3,600, to be answered.
    monkeypatch.setattr(crossings, "_PATIENCE", 4 * branches)
    assert find_crossings(made[::-1], heads, removed) == found
