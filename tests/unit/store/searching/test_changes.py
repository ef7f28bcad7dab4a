"""blame and history_of: who changed a value, how few states that takes, and what is certain about it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
from tests.unit.store.searching.counting import counted_session

import holdfast
from holdfast import ErrorCode
from holdfast.backends.memory import MemoryBackend


def seqs(changes):
    return [change.checkpoint.seq for change in changes]


def five_changes(session, count=1000, at=(150, 420, 421, 700, 888)):
    for n in range(count):
        value = sum(n >= each for each in at)
        session.save({"n": n, "beliefs": {"b7": {"confidence": value}}, "log": [n]})
    return [each + 1 for each in at]


def test_blame_over_a_thousand_checkpoints_takes_at_most_thirty_looks():
    session, backend = counted_session()
    changed = five_changes(session)
    backend.asked.clear()

    found = session.blame("beliefs.b7.confidence")

    assert found.checkpoint.seq == changed[-1]
    assert (found.value, found.old, found.op) == (5, 4, "replace")
    assert found.before is not None
    assert found.before.seq == changed[-1] - 1
    assert found.loads <= 30
    # Each look is one chunk here: the states are small.
    assert len(backend.asked) <= 30
    for older, value in zip(changed[-2::-1], [4, 3, 2, 1], strict=True):
        before = session.blame("beliefs.b7.confidence", f"#{found.checkpoint.seq - 1}")
        assert (before.checkpoint.seq, before.value) == (older, value)
        assert before.loads <= 30
        found = before


@pytest.mark.parametrize("at", [(1, 2, 3, 4, 5), (2, 4, 500, 600, 990), (994, 995, 996, 997, 999)])
def test_it_takes_no_more_wherever_the_changes_are(at):
    session, _ = counted_session()
    changed = five_changes(session, at=at)

    found = session.blame("beliefs.b7.confidence")

    assert (found.checkpoint.seq, found.loads <= 30) == (changed[-1], True)


def test_a_large_state_is_read_in_part_only():
    session, backend = counted_session()
    messages = [{"role": "user", "content": f"{n} " + "word " * 80} for n in range(3000)]
    for n in range(40):
        messages.append({"role": "user", "content": str(n)})
        session.save({"messages": messages, "score": n // 10})
    whole = len(set(_chunks_of_the_newest(session, backend)))
    backend.asked.clear()

    found = session.blame("score")

    assert found.checkpoint.seq == 31
    assert whole > 50
    assert len(backend.asked) <= found.loads * 3


def _chunks_of_the_newest(session, backend):
    backend.asked.clear()
    session.load()
    return list(backend.asked)


def test_the_value_of_the_first_checkpoint_was_added_by_it(session):
    session.save({"a": 1})
    session.save({"a": 1, "b": 2})

    found = session.blame("a")

    assert (found.checkpoint.seq, found.op, found.value, found.old, found.before) == (1, "add", 1, None, None)
    assert session.blame("b").op == "add"
    assert session.blame("b").before.seq == 1


def test_what_was_removed_is_blamed_on_who_removed_it(session):
    for state in ({"a": None}, {"a": 1}, {}, {"b": 1}):
        session.save(state)

    found = session.blame("a")

    assert (found.checkpoint.seq, found.op, found.value, found.old) == (3, "remove", None, 1)
    assert [(each.op, each.value) for each in session.history_of("a")] == [
        ("remove", None),
        ("replace", 1),
        ("add", None),
    ]


def test_a_value_that_went_away_and_came_back_is_seen_by_exact_alone(session):
    for n in range(64):
        session.save({"n": n, "mode": "b" if n == 40 else "a"})

    leaped, exact = session.blame("mode"), session.blame("mode", exact=True)

    assert exact.checkpoint.seq == 42
    assert exact.certain
    assert (leaped.checkpoint.seq, leaped.op, leaped.certain) == (1, "add", False)
    assert leaped.loads < exact.loads
    assert seqs(session.history_of("mode")) == [42, 41, 1]
    assert seqs(session.history_of("mode", exact=False)) == [1]


def test_it_is_certain_where_every_state_between_was_looked_into(session):
    for n in range(20):
        session.save({"n": n, "mode": "a" if n < 18 else "b"})

    assert session.blame("mode").certain
    # Equal roots are the same state, looked into once.
    for _ in range(10):
        session.save({"n": 19, "mode": "b"})
    again = session.blame("mode")
    assert (again.checkpoint.seq, again.certain) == (19, True)
    assert again.loads <= 4


def test_history_has_every_change_both_ways_round(session):
    values = [1, 1, 2, 2, 2, 1, 3, 3]
    for n, value in enumerate(values):
        session.save({"n": n, "v": value})

    newest = list(session.history_of("v"))

    assert [(c.checkpoint.seq, c.value, c.old) for c in newest] == [
        (7, 3, 1),
        (6, 1, 2),
        (3, 2, 1),
        (1, 1, None),
    ]
    assert list(session.history_of("v", oldest_first=True)) == newest[::-1]
    assert list(session.history_of("v", limit=2)) == newest[:2]
    assert seqs(session.history_of("v", "#5")) == [3, 1]
    assert seqs(session.history_of("v", "#3..#7")) == [7, 6]
    assert seqs(session.history_of("v", "#2..#5")) == [3]
    assert seqs(session.history_of("v", "#3..#5")) == []


def test_types_and_order_count_as_changes(session):
    for value in (1, 1.0, True, {"a": 1, "b": 2}, {"b": 2, "a": 1}, float("nan"), float("nan")):
        session.save({"v": value})

    assert seqs(session.history_of("v", oldest_first=True)) == [1, 2, 3, 4, 5, 6]


def test_a_long_history_is_read_as_it_is_asked_for():
    session, backend = counted_session()
    for n in range(600):
        session.save({"n": n})
    backend.asked.clear()

    newest = list(itertools.islice(session.history_of("n"), 3))

    assert seqs(newest) == [600, 599, 598]
    assert len(backend.asked) < 20


def test_values_that_did_not_change_are_not_built():
    built = []

    @dataclass
    class Counted:
        n: int

        def __post_init__(self):
            built.append(self.n)

    session = holdfast.Store(MemoryBackend(), types=[Counted]).session("s")
    for n in range(50):
        session.save({"n": n, "thing": Counted(n // 25)})
    built.clear()

    assert seqs(session.history_of("thing")) == [26, 1]
    assert len(built) <= 4


def test_a_large_value_is_compared_by_its_node(session):
    for n in range(6):
        session.save({"n": n, "items": [f"{i} " + "x" * 300 for i in range(200 + n // 3)]})

    found = session.blame("items")

    assert (found.checkpoint.seq, len(found.value), len(found.old)) == (4, 201, 200)
    assert seqs(session.history_of("items")) == [4, 1]
    assert seqs(session.history_of("items[-1]")) == [4, 1]
    assert seqs(session.history_of("items[-2:]")) == [4, 1]


def test_the_same_value_in_a_tuple_and_in_a_list_is_the_same(session):
    big = "long text " * 4000
    session.save({"v": (big, 1)})
    session.save({"v": [big, 1]})

    assert seqs(session.history_of("v")) == [2, 1]
    assert seqs(session.history_of("v[0]")) == [1]


@pytest.mark.parametrize("exact", [True, False])
def test_a_path_that_leads_nowhere_says_what_there_is(session, exact):
    for n in range(5):
        session.save({"score": n})

    for look in (
        lambda: session.blame("scoer", exact=exact),
        lambda: list(session.history_of("scoer", exact=exact)),
    ):
        with pytest.raises(holdfast.NotFoundError, match=r"there is no state\['scoer'\]") as caught:
            look()
        assert caught.value.code is ErrorCode.PATH_MISSING


@pytest.mark.parametrize("path", ["", "][", None, "a..b"])
def test_what_is_no_path_is_refused_at_once(session, path):
    session.save({"a": 1})

    for look in (session.blame, session.history_of):
        with pytest.raises(holdfast.InvalidInputError) as caught:
            look(path)
        assert caught.value.code is ErrorCode.BAD_PATH


def test_a_range_is_no_checkpoint_to_look_back_from(session):
    session.save({"a": 1})
    session.save({"a": 1})

    for look in (lambda: session.blame("a", "#1..@"), lambda: session.bisect("a", bad="#1..@")):
        with pytest.raises(holdfast.InvalidInputError, match="is not a ref"):
            look()


def test_a_range_with_nothing_in_it_has_no_history(session):
    for n in range(3):
        session.save({"a": n})

    for asked, note in (
        ("@..@", "nothing is in @..@"),
        ("#3..#1", "nothing is in #3..#1; did you mean #1..#3?"),
        ("#3..@-", "nothing is in #3..@-; did you mean @-..#3?"),
    ):
        for found in (session.history_of("a", asked), session.grep("x", asked)):
            assert list(found) == []
            assert found.notes == (note,)
        assert session.log(asked) == []


def test_refs_that_name_nothing_are_refused_at_once(session):
    with pytest.raises(holdfast.NotFoundError):
        session.blame("a")
    session.save({"a": 1})
    with pytest.raises(holdfast.NotFoundError):
        session.history_of("a", "no-such-branch")
    with pytest.raises(holdfast.InvalidInputError, match="limit"):
        session.history_of("a", limit=0)


def test_what_was_pruned_in_between_is_passed_over(session):
    for n in range(10):
        session.save({"v": n // 4})
    session.delete("#5")

    found = session.blame("v", "#8")

    assert (found.checkpoint.seq, found.checkpoint.skipped) == (6, 1)
    assert found.before.seq == 4


def test_branches_are_walked_as_log_does(session):
    for n in range(4):
        session.save({"v": n})
    aside = session.fork("#2", "aside")
    aside.save({"v": 7})

    assert seqs(aside.history_of("v")) == [6, 2, 1]
    assert seqs(session.history_of("v")) == [4, 3, 2, 1]
    assert next(session.history_of("v", "aside")).value == 7


@pytest.mark.parametrize(("path", "shown"), [(5, "5"), (["n"], "a list"), (b"n", "b'n'"), ({}, "a dict")])
def test_what_is_no_text_is_no_path_to_anybody(session, path, shown):
    session.save({"n": 1})
    session.save({"n": 2})

    for look in (
        lambda: session.load(path=path),
        lambda: session.diff(path=path),
        lambda: session.bisect("n > 1", path=path),
        lambda: session.grep("n", path=path),
        lambda: session.blame(path),
        lambda: session.history_of(path),
    ):
        with pytest.raises(holdfast.InvalidInputError) as caught:
            look()
        assert caught.value.code is ErrorCode.BAD_PATH
        assert str(caught.value) == f"{shown} is not a path"


def test_a_path_as_deep_as_a_state_is_refused_in_one_line(session):
    session.save({"n": 1})
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]

    with pytest.raises(holdfast.InvalidInputError, match="a list is not a path"):
        session.load(path=deep)


@pytest.mark.parametrize(("ref", "shown"), [(5, "5"), (None, "None"), (2.5, "2.5"), ({"n": 1}, "a dict")])
def test_what_is_no_ref_is_named_as_it_is(session, ref, shown):
    session.save({"n": 1})

    for look in (session.diff, session.merge, session.load):
        with pytest.raises(holdfast.InvalidInputError) as caught:
            look(ref)
        assert caught.value.code is ErrorCode.BAD_REF
        assert str(caught.value) == f"{shown} is not a ref"
