"""Searching against the plain way: load every state and look; on random histories of small and of cut states."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.backends.memory import MemoryBackend

FEW = settings(max_examples=60, deadline=None)

values = st.one_of(
    st.integers(0, 2), st.sampled_from(["a", "b", None, True, 1.0]), st.lists(st.integers(0, 1), max_size=2)
)
histories = st.lists(st.one_of(st.just(...), values), min_size=1, max_size=24)


def session_of(states):
    session = holdfast.Store(MemoryBackend()).session("s")
    for state in states:
        session.save(state)
    return session


def same(one, other):
    return repr(one) == repr(other)


def expected_changes(history):
    """Position, old and new for each neighbour that differs; `...` is nothing."""
    before = ...
    found = []
    for seq, value in enumerate(history, start=1):
        if not same(before, value):
            found.append((seq, before, value))
        before = value
    return found


@FEW
@given(histories, st.booleans())
def test_history_of_has_exactly_the_neighbours_that_differ(history, large):
    pad = {"pad": ["x" * 100] * 400} if large else {}
    states = [pad | ({"n": n} if value is ... else {"n": n, "v": value}) for n, value in enumerate(history)]
    session = session_of(states)
    expected = expected_changes(history)
    if not expected:
        return

    changes = list(session.history_of("v", oldest_first=True))

    assert [change.checkpoint.seq for change in changes] == [seq for seq, _, _ in expected]
    for change, (_, old, new) in zip(changes, expected, strict=True):
        assert change.op == ("add" if old is ... else "remove" if new is ... else "replace")
        assert same(change.value, None if new is ... else new)
        assert same(change.old, None if old is ... else old)
    assert [c.checkpoint.seq for c in session.history_of("v")] == [seq for seq, _, _ in reversed(expected)]
    assert session.blame("v").checkpoint.seq == expected[-1][0]


@FEW
@given(st.lists(st.booleans(), min_size=1, max_size=40), st.sampled_from(["ends", "all"]))
def test_what_bisect_finds_is_a_place_where_it_begins_to_hold(holds, check):
    session = session_of({"n": n, "h": each} for n, each in enumerate(holds))
    if not holds[-1] and (check != "all" or not any(holds)):
        with pytest.raises(holdfast.NotFoundError) as caught:
            session.bisect("h", check=check)
        assert caught.value.code is holdfast.ErrorCode.NEVER_HOLDS
        return

    report = session.bisect("h", check=check)

    at = report.found.seq - 1
    assert holds[at]
    assert (report.before is None) == (at == 0)
    assert at == 0 or not holds[at - 1]
    monotonic = holds == sorted(holds)
    if monotonic or check == "all":
        assert at == holds.index(True)
    if monotonic:
        assert report.monotonic != "contradicted"
    if report.monotonic == "checked":
        assert monotonic
    for each in report.contradictions:
        assert holds[each.seq - 1] == (each.seq - 1 < at)


texts = st.text(alphabet="abAB é\n", max_size=6)
trees = st.recursive(
    st.one_of(texts, st.integers(), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)
    ),
    max_leaves=12,
)


def walk(value, path=""):
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from walk(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from walk(item, f"{path}[{at}]")


@FEW
@given(
    st.lists(trees, min_size=1, max_size=5),
    st.text(alphabet="abAB é", min_size=1, max_size=2),
    st.booleans(),
    st.booleans(),
)
def test_grep_finds_exactly_the_texts_that_have_it(states, pattern, ignore_case, large):
    pad = {"pad": ["0123456789" * 20] * 300} if large else {}
    states = [pad | {"t": state, "n": n} for n, state in enumerate(states)]
    session = session_of(states)

    def has(text):
        return pattern.lower() in text.lower() if ignore_case else pattern in text

    def texts(seq):
        return dict(walk(states[seq - 1])) if seq else {}

    # All that matches in the first state; then, at least each text that was not there at all before.
    first = [(m.checkpoint.seq, m.path) for m in session.grep(pattern, "#1", ignore_case=ignore_case)]
    assert first == [(1, path) for path, text in texts(1).items() if has(text)]
    found = [(m.checkpoint.seq, m.path) for m in session.grep(pattern, ignore_case=ignore_case)]
    assert [seq for seq, _ in found] == sorted((seq for seq, _ in found), reverse=True)
    for seq, path in found:
        assert has(texts(seq)[path])
        assert seq == 1 or texts(seq - 1) != texts(seq)
    for seq in range(2, len(states) + 1):
        told = {texts(seq)[path] for at, path in found if at == seq}
        before = "\0".join(texts(seq - 1).values())
        assert {text for text in texts(seq).values() if has(text) and not has(before)} <= told
    within = [(m.checkpoint.seq, m.path) for m in session.grep(pattern, path="t", ignore_case=ignore_case)]
    assert within == found
