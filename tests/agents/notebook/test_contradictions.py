"""Contradictions on generated graphs are those that trying every path finds."""

from __future__ import annotations

from itertools import pairwise, permutations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.agents import BeliefGraph

KINDS = ("supports", "contradicts", "requires", "derived_from")


@st.composite
def graphs(draw):
    count = draw(st.integers(2, 6))
    edges = st.tuples(st.integers(0, count - 1), st.sampled_from(KINDS), st.integers(0, count - 1))
    links = [each for each in draw(st.lists(edges, max_size=12)) if each[0] != each[2]]
    confidences = draw(st.lists(st.sampled_from([0.1, 0.49, 0.5, 0.9]), min_size=count, max_size=count))
    retracted = draw(st.sets(st.integers(0, count - 1), max_size=2))
    return count, links, confidences, retracted


def paths_to(target, count, commits):
    """Every way without a repetition that leads to a belief over what commits to it, by trying all of them."""
    others = [each for each in range(count) if each != target]
    found = [(target,)]
    for length in range(1, count):
        for way in permutations(others, length):
            whole = (*way, target)
            if all(pair in commits for pair in pairwise(whole)):
                found.append(whole)
    return found


@given(graphs())
def test_contradictions_are_those_of_a_brute_force_search(made):
    count, links, confidences, retracted = made
    graph = BeliefGraph()
    told: list[dict] = []
    graph.on_contradiction(told.append)
    names = [graph.add(f"belief {n}", confidence=confidence) for n, confidence in enumerate(confidences)]
    for one, kind, other in links:
        graph.link(names[one], kind, names[other])
    for each in retracted:
        graph.retract(names[each])
    held = {n for n in range(count) if confidences[n] >= 0.5 and n not in retracted}
    commits = {(one, other) for one, kind, other in links if kind in ("requires", "derived_from")}
    expected = {}
    for one, kind, other in links:
        if kind == "contradicts":
            sides = []
            for side in sorted((one, other), key=lambda n: names[n]):
                ways = [way for way in paths_to(side, count, commits) if way[0] in held]
                sides.append(({names[way[0]] for way in ways}, min((len(way) for way in ways), default=0)))
            if all(each for each, _ in sides):
                expected[tuple(sorted((names[one], names[other])))] = sides

    found = {each.between: each for each in graph.contradictions()}

    assert set(found) == set(expected)
    # Whatever there is now was told when it came up, or again later.
    assert set(found) <= {tuple(each["between"]) for each in told}
    for between, ((left, left_length), (right, right_length)) in expected.items():
        one = found[between]
        assert (set(one.left), set(one.right)) == (left, right)
        assert one.direct == (between[0] in left and between[1] in right)
        assert len(one.path) == left_length + right_length - 1
        edges = {(names[a], kind, names[b]) for a, kind, b in links}
        edges |= {(b, kind, a) for a, kind, b in edges if kind == "contradicts"}
        assert set(one.path) <= edges
        fall = graph.what_falls(between[0])
        assert set(fall.falls) == left - {between[0]}
