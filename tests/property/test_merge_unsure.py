"""Merging with several ancestors, or with one that is too old: only what follows from all of them is done unasked."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.property.test_merge import TYPES, Writer, same, without_order

from holdfast.objects.merging.states import MergedValue, merge_unsurely, merge_values
from holdfast.testing.values import identical, values


def merged(
    bases: list[Any], ours: Any, theirs: Any, resolve: Any = None, *, exact: bool = True
) -> MergedValue:
    return merge_unsurely(bases, ours, theirs, TYPES, resolve, exact=exact)


def alike(one: Any, other: Any) -> bool:
    return same(without_order(one), without_order(other))


@st.composite
def fours(draw):
    """Two ancestors that come from one, and two states that come from either."""
    first = Writer(draw, "f").value()
    bases = [Writer(draw, name).edited(first, 2) for name in "bc"]
    sides = [Writer(draw, name).edited(draw(st.sampled_from(bases)), 2) for name in "ot"]
    return bases, *sides


@given(fours())
def test_what_is_decided_follows_from_each_ancestor_alone(four):
    bases, ours, theirs = four
    result = merged(bases, ours, theirs)
    alone = [merge_values(base, ours, theirs, TYPES) for base in bases]
    agree = same(alone[0].value, alone[1].value) and not any(each.conflicts for each in alone)
    assert not (agree and result.conflicts)
    if not result.conflicts:
        assert all(alike(result.value, each.value) and not each.conflicts for each in alone)


@given(fours())
def test_whose_ancestor_comes_first_does_not_matter(four):
    bases, ours, theirs = four
    one, other = merged(bases, ours, theirs), merged(bases[::-1], ours, theirs)
    assert {each.path for each in one.conflicts} == {each.path for each in other.conflicts}
    assert alike(one.value, other.value)


@given(fours())
def test_an_ancestor_that_is_there_twice_is_one(four):
    bases, ours, theirs = four
    twice, once = merged([bases[0], bases[0]], ours, theirs), merge_values(bases[0], ours, theirs, TYPES)
    if not once.conflicts:
        assert not twice.conflicts
        assert alike(twice.value, once.value)


@given(fours(), st.sampled_from(["ours", "theirs"]))
def test_with_an_ancestor_that_is_too_old_everything_that_differs_is_asked_about(four, side):
    bases, ours, theirs = four
    wanted = ours if side == "ours" else theirs
    decided = merged(bases[:1], ours, theirs, side, exact=False)
    assert not decided.conflicts
    assert same(sorted_rows(decided.value), sorted_rows(wanted))
    # An order of keys alone may be asked about, as a part of something that is asked about as a whole.
    assert decided.resolved or alike(ours, theirs)
    assert not (decided.resolved and same(ours, theirs))


def sorted_rows(value: Any) -> Any:
    """Without the order of keys, and of items that are dicts: whose new one comes first is no part of what was said."""
    if isinstance(value, dict):
        return {key: sorted_rows(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        rows = [sorted_rows(each) for each in value]
        return sorted(rows, key=repr) if all(isinstance(each, dict) for each in rows) else rows
    return value


@given(values(), values(), values(), st.booleans())
def test_values_of_every_type_can_always_be_decided(base, ours, theirs, exact):
    bases = [base, ours, theirs]
    result = merged(bases, ours, theirs, exact=exact)
    assert bool(result.conflicts) == (not identical(ours, theirs))
    for conflict in result.conflicts:
        assert not identical(conflict.ours, conflict.theirs)
    for side in ("ours", "theirs"):
        decided = merged(bases, ours, theirs, side, exact=exact)
        assert not decided.conflicts
        assert [each.conflict.path for each in decided.resolved] == [each.path for each in result.conflicts]
