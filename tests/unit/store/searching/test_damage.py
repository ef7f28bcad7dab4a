"""Damaged states: every search passes over them, and says so; where none can be read, that is an error."""

from __future__ import annotations

import asyncio
import re
import warnings
from typing import Any

import apsw
import pytest
from tests.unit.store.searching.counting import counted_session

import holdfast


def of_ten(spoiled):
    """Ten checkpoints whose value goes up at #4 and #7; the states of some cannot be read."""
    session, backend = counted_session()
    made = [session.save({"n": n, "v": (n >= 4) + (n >= 7), "t": f"needle {n}"}) for n in range(1, 11)]
    backend.spoiled = {made[n - 1].root for n in spoiled}
    return session


def noted(notes):
    """The checkpoints of which a note says that they cannot be read."""
    (note,) = [each for each in notes if "cannot be read" in each]
    listed = note[note.index("(") : note.index(")")] if "states" in note else note.split(" ")[0]
    found: list[int] = []
    for first, last in re.findall(r"#(\d+)(?: to #(\d+))?", listed):
        found += range(int(first), int(last or first) + 1)
    return found


def quietly(findings) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", holdfast.HoldfastWarning)
        return list(findings)


SEARCHES = {
    "bisect": lambda s: s.bisect("v >= 1", check="all"),
    "blame": lambda s: s.blame("t", exact=True),
    "history_of": lambda s: s.history_of("v"),
    "grep": lambda s: s.grep("needle"),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_damaged_state_is_passed_over_and_noted(name):
    session = of_ten([10])

    found = SEARCHES[name](session)
    if name in ("history_of", "grep"):
        quietly(found)

    assert noted(found.notes) == [10]
    assert all("#10 (" in note and "damaged" in note for note in found.notes)


@pytest.mark.parametrize("name", SEARCHES)
def test_where_no_state_can_be_read_that_is_an_error(name):
    session = of_ten(range(1, 11))

    with pytest.raises(holdfast.IntegrityError):
        quietly(SEARCHES[name](session))


@pytest.mark.parametrize(("name", "find"), [("history_of", "v"), ("grep", "needle")])
def test_who_only_goes_through_what_is_found_is_warned_once(name, find):
    session = of_ten([3, 9])

    found = getattr(session, name)(find)
    with pytest.warns(holdfast.HoldfastWarning, match=r"passed over: #9 .*\.notes") as caught:
        count = len(list(found))

    assert count == {"history_of": 3, "grep": 8}[name]
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert noted(found.notes) == [3, 9]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("oldest_first", [True, False])
@pytest.mark.parametrize(
    ("spoiled", "changes"),
    [
        # Each change: who, from whom on, and who may have been it as well.
        ([], [(1, None, []), (4, 3, []), (7, 6, [])]),
        ([4], [(1, None, []), (5, 3, [4]), (7, 6, [])]),
        ([5, 6], [(1, None, []), (4, 3, []), (7, 4, [5, 6])]),
        ([10, 9], [(1, None, []), (4, 3, []), (7, 6, [])]),
        ([1, 2], [(3, None, [2, 1]), (4, 3, []), (7, 6, [])]),
        ([4, 5, 6], [(1, None, []), (7, 3, [4, 5, 6])]),
    ],
)
def test_a_change_is_told_of_a_state_that_was_seen(spoiled, changes, oldest_first, exact):
    found = quietly(of_ten(spoiled).history_of("v", oldest_first=oldest_first, exact=exact))

    told = [
        (c.checkpoint.seq, c.before and c.before.seq, sorted(each.seq for each in c.skipped)) for c in found
    ]
    assert sorted(told) == sorted((who, before, sorted(passed)) for who, before, passed in changes)


def test_blame_is_not_certain_where_it_passed_over_something():
    whole, gap, before = of_ten([]), of_ten([8]), of_ten([6])

    for session, certain, skipped in ((whole, True, []), (gap, False, []), (before, False, [6])):
        found = session.blame("v", exact=True)
        assert (found.checkpoint.seq, found.certain) == (7, certain)
        assert [each.seq for each in found.skipped] == skipped


def test_a_value_that_is_damaged_inside_makes_its_state_a_damaged_one():
    session, backend = counted_session()
    large = [[f"{n} " + str(at) * 400 for n in range(300)] for at in range(3)]
    made = [session.save({"n": n, "v": large[n // 2]}) for n in range(6)]
    backend.asked.clear()
    session.load(made[2])
    of_the_middle = {name.hex() for name in backend.asked} - {each.root for each in made}
    backend.spoiled = {min(of_the_middle)}

    found = session.history_of("v")
    changes = quietly(found)

    assert [(c.checkpoint.seq, c.value == large[at]) for c, at in zip(changes, (2, 0), strict=True)] == [
        (5, True),
        (1, True),
    ]
    assert changes[0].old == large[0]
    assert [each.seq for each in changes[0].skipped] == [4, 3]
    assert noted(found.notes) == [3, 4]


def test_new_texts_are_told_against_the_next_state_that_can_be_read():
    session, backend = counted_session()
    made = [session.save({"t": [f"needle {each}" for each in range(n // 2 + 1)], "n": n}) for n in range(6)]
    backend.spoiled = {made[3].root}

    assert [m.checkpoint.seq for m in quietly(session.grep("needle", new=True))] == [5, 3, 1]


def test_many_damaged_states_are_one_note():
    session, backend = counted_session()
    made = [session.save({"n": n}) for n in range(1, 41)]
    backend.spoiled = {each.root for each in made[:30]} | {made[n - 1].root for n in (32, 33, 35, 37, 39, 40)}

    found = session.history_of("n")

    assert len(quietly(found)) == 4
    assert len(found.notes) == 1
    assert found.notes[0].startswith(
        "36 states cannot be read (#1 to #30, #32, #33, #35, #37 and 2 more); that of #40"
    )


def test_what_is_missing_in_many_states_is_told_once_and_hides_no_damage():
    session, backend = counted_session()
    made = [session.save({"n": n}) for n in range(30)]
    session.save({"score": 1})
    backend.spoiled = {made[20].root}

    report = session.bisect("score == 1", check="all")

    assert noted(report.notes) == [21]
    assert len(report.notes) == 2
    assert "#1 " in report.notes[1]
    assert report.notes[1].endswith("and 28 more: there is no score")


def test_notes_are_there_for_those_who_await(tmp_path):
    async def work():
        async with holdfast.aopen(tmp_path / "store") as store:
            session = store.session("s")
            made = [await session.save({"t": f"needle {n}"}) for n in range(3)]
            spoil(tmp_path / "store", made[1].root)
            found = session.grep("needle")
            before = found.notes
            return before, [match.checkpoint.seq async for match in found], found.notes

    with pytest.warns(holdfast.HoldfastWarning):
        before, seqs, after = asyncio.run(work())
    assert (before, seqs, noted(after)) == ((), [3, 1], [2])


def spoil(path, root):
    """Other bytes for a chunk, written behind the back of the store."""
    (file,) = [each for each in path.rglob("*.db") if each.is_file()]
    damage = apsw.Connection(str(file), vfs="cksmvfs")
    damage.execute("UPDATE chunks SET data = x'00' WHERE hash = ?", (bytes.fromhex(root),)).fetchall()
    damage.close()
