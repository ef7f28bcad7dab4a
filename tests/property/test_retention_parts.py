"""Retention of checkpoints that belong to others by their keys: an owner and its parts have one fate."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.property.test_retention import AGENTS, EPOCH, NOW, World, policies, worlds

from holdfast import Keep
from holdfast.history.removal import remove
from holdfast.history.retention import owners, plan

AT = (NOW - EPOCH).total_seconds() * 1_000_000
KEYS = ["a", "a 1", "a 2", "a 1 x", "b", "b 1", "ab", "b ", "c d", "c d 1"]
"""More of them are parts than not: whoever counts those, keeps others."""


@st.composite
def keyed_worlds(draw):
    world = draw(worlds(sessions="ab"))
    free = {session: draw(st.permutations([*KEYS, None])) for session in "ab"}
    rows = [
        each._replace(key=free[each.session].pop() if free[each.session] else None) for each in world.rows
    ]
    return World(rows, world.heads, world.parent)


def owner_of(row, rows):
    """The outermost owner, as the words say it."""
    found = [
        each
        for each in rows
        if each.session == row.session
        and each.key is not None
        and row.key is not None
        and row.key.startswith(f"{each.key} ")
        and row.key != f"{each.key} "
    ]
    return min(found, key=lambda each: len(each.key), default=None)


@given(keyed_worlds(), policies(), st.booleans())
def test_an_owner_is_kept_exactly_when_its_parts_are(world, keep, after_save):
    there = [each for each in world.rows if not each.hidden]
    decided = plan(world.rows, world.heads, keep, int(AT), agents=AGENTS, after_save=after_save)
    kept = {each.row.id: each.kept for each in decided.decisions}
    assert kept.keys() == {each.id for each in there}
    for part in there:
        if (owner := owner_of(part, there)) is not None:
            assert kept[part.id] == kept[owner.id]
        if part.pinned or (after_save and part.id in {head.head for head in world.heads}):
            assert kept[part.id]


@given(
    keyed_worlds(),
    st.sampled_from([Keep(last=1), Keep(last=2), Keep(at_most=1), Keep(at_most=2), Keep(daily=1)]),
)
def test_parts_are_not_counted(world, keep):
    """Without its parts, a world without pins and forks keeps the same checkpoints."""
    rows = [each._replace(pinned=False, hidden=0) for each in world.rows]
    parts = {each.id for each in rows if owner_of(each, rows) is not None}
    whole = plan(rows, [], keep, int(AT), agents=AGENTS)
    alone = plan([each for each in rows if each.id not in parts], [], keep, int(AT), agents=AGENTS)
    assert {each.row.id: each.reasons for each in alone.decisions} == {
        each.row.id: each.reasons for each in whole.decisions if each.row.id not in parts
    }
    assert owners(rows).keys() == parts


@given(keyed_worlds(), st.integers(1, 3))
def test_a_branch_whose_tip_goes_with_its_owner_goes_back_to_what_stays(world, last):
    removed = plan(world.rows, world.heads, Keep(last=last), int(AT), agents=AGENTS).removed
    for session in "ab":
        rows = [each for each in world.rows if each.session == session]
        heads = [each for each in world.heads if each.session == session]
        gone = removed & {each.id for each in rows}
        moved = {each.branch: each.head for each in remove(rows, heads, gone, number=1).moves}
        hidden = {each.id for each in rows if each.hidden}
        for head in heads:
            left = moved.get(head.name, head.head)
            assert left is None or left not in gone | hidden
