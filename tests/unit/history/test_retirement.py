"""What automatic retention leaves in the log: one entry for all that went in a row, in a chain that still holds."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.backends.memory import MemoryBackend
from holdfast.errors import IntegrityError
from holdfast.history import jsontext, oplog
from holdfast.history.oplog import check_chain, edit, operation, recorded, retirement
from holdfast.history.undoing import Log, next_redo, undoable
from holdfast.storage.records import Batch, Claim, Operation, SessionRow
from holdfast.testing.rows import row as make_row

KINDS = st.lists(st.sampled_from(["tag", "forget", "retire", "retire", "retire"]), min_size=1, max_size=14)
HASHES = st.binary(min_size=32, max_size=32)


def gone(count):
    """As many checkpoints that go, with the edits that hide them."""
    rows = [make_row(f"r{n}") for n in range(count)]
    return [(row, edit(row, hidden=1)) for row in rows]


def written(kinds, *, each=2):
    """A session, and the log that these operations leave behind."""
    session = SessionRow("s", None, None, created_at=0)
    log: list[Operation] = []
    for at, kind in enumerate(kinds):
        cut = int(kind == "forget")
        if kind == "retire":
            entry, cut = retirement(session, at, log[-1] if log else None, edits=gone(each), moves=())
        else:
            entry = operation(session, kind, at)
        log = [old for old in log if not cut or old.number < cut] + [entry]
        session = session._replace(log_count=entry.number, log_tip=entry.hash)
    return session, log


def rewritten(session, log, place, **changes):
    """The log with one entry changed, by somebody who makes all hashes right again, and the session to go with it."""
    made = list(log[:place])
    for entry in [log[place]._replace(**changes), *log[place + 1 :]]:
        data = jsontext.parse(entry.data)
        if len(made) > place and "replaces" in data:
            entry = entry._replace(data=jsontext.dump(data | {"since": made[-1].hash.hex()}))  # noqa: PLW2901
        elif len(made) > place:
            entry = entry._replace(previous=made[-1].hash)  # noqa: PLW2901
        made.append(entry._replace(hash=oplog._hash(entry)))
    return session._replace(log_tip=made[-1].hash, log_count=made[-1].number), made


def collapsed(log):
    """The places of the entries that took the place of others."""
    return [at for at, entry in enumerate(log) if "replaces" in jsontext.parse(entry.data)]


@given(KINDS)
def test_a_run_of_retires_is_one_entry_and_the_chain_holds(kinds):
    session, log = written(kinds)
    check_chain(session, log)
    since = len(kinds) - kinds[::-1].index("forget") - 1 if "forget" in kinds else 0
    runs = [
        (kind, number)
        for number, kind in enumerate(kinds, start=1)
        if number > since and not (kind == "retire" and kinds[number : number + 1] == ["retire"])
    ]
    assert [(entry.kind, entry.number) for entry in log] == runs
    assert session.log_count == len(kinds)
    assert sum(recorded(entry).removed for entry in log) == 2 * kinds[since:].count("retire")


@given(KINDS, st.data())
def test_a_log_that_lacks_an_entry_or_has_one_too_many_shows(kinds, data):
    session, log = written(kinds)
    at = data.draw(st.integers(0, len(log) - 1))
    # What was before a forget is not missed, and the forget itself is then the first.
    assume(not (at == 0 and len(log) > 1 and log[1].kind == "forget"))
    with pytest.raises(IntegrityError):
        check_chain(session, log[:at] + log[at + 1 :])
    with pytest.raises(IntegrityError):
        check_chain(session, [*log[: at + 1], *log[at:]])


@given(KINDS, st.data())
def test_a_gap_is_right_only_where_the_entry_after_it_names_it(kinds, data):
    session, log = written(kinds)
    places = collapsed(log)
    assume(places)
    at = data.draw(st.sampled_from(places))
    entry = log[at]
    said = jsontext.parse(entry.data)
    check_chain(*rewritten(session, log, at, data=jsontext.dump(said | {"retired": 9})))
    other = data.draw(
        st.one_of(
            st.integers(-2, entry.number + 2).map(lambda number: {"replaces": number}),
            st.sampled_from([None, "1", [], {}]).map(lambda odd: {"replaces": odd}),
            HASHES.map(lambda name: {"since": name.hex()}),
            st.sampled_from([None, "", 1, entry.previous.hex()]).map(lambda odd: {"since": odd}),
        )
    )
    assume(said | other != said)
    with pytest.raises(IntegrityError):
        check_chain(*rewritten(session, log, at, data=jsontext.dump(said | other)))
    for name in ("replaces", "since"):
        less = {key: value for key, value in said.items() if key != name}
        with pytest.raises(IntegrityError):
            check_chain(*rewritten(session, log, at, data=jsontext.dump(less)))
    with pytest.raises(IntegrityError):
        check_chain(*rewritten(session, log, at, kind="tag"))


@pytest.mark.parametrize("kinds", [["tag", "tag"], ["tag", "retire"], ["retire", "tag"], ["forget", "tag"]])
def test_a_number_that_is_skipped_shows_where_nothing_names_the_gap(kinds):
    session, log = written(kinds)
    check_chain(*rewritten(session, log, 1, at=9))
    with pytest.raises(IntegrityError):
        check_chain(*rewritten(session, log, 1, number=log[1].number + 1))


def test_what_an_entry_took_the_place_of_has_to_be_gone():
    session, log = written(["tag", "retire"])
    entry, cut = retirement(session, 9, log[-1], edits=gone(1), moves=())
    session = session._replace(log_count=3, log_tip=entry.hash)
    assert (entry.number, entry.previous, cut) == (3, log[-1].hash, 2)
    check_chain(session, [log[0], entry])
    with pytest.raises(IntegrityError):
        check_chain(session, [*log, entry])


def test_an_entry_does_not_grow_with_what_went():
    _, short = written(["retire"] * 2, each=1)
    _, long = written(["retire"] * 90, each=5)
    (first,), (last,) = short, long
    assert recorded(last).removed == 450
    # Two digits more in the number of checkpoints.
    assert len(last.data) == len(first.data) + 2


def test_an_entry_that_is_no_longer_what_was_written_is_not_taken_away():
    session, log = written(["tag", "retire"])
    for newest in (log[-1]._replace(at=77), log[-1]._replace(hash=b"x" * 32), log[0], None):
        entry, cut = retirement(session, 9, newest, edits=gone(1), moves=())
        assert (cut, recorded(entry).replaces, entry.previous) == (0, None, session.log_tip)
    other = session._replace(log_tip=b"y" * 32)
    assert retirement(other, 9, log[-1], edits=gone(1), moves=())[1] == 0


@pytest.mark.parametrize("replaces", [0, -1, 2, 3])
def test_an_entry_that_does_not_say_what_it_took_the_place_of_is_damage(replaces):
    session, log = written(["retire", "retire"])
    said = jsontext.parse(log[0].data) | {"replaces": replaces}
    _, (entry,) = rewritten(session, log, 0, data=jsontext.dump(said))
    backend = MemoryBackend()
    first = operation(SessionRow("s", None, None, created_at=0), "retire", 0)
    entry = entry._replace(previous=first.hash)
    entry = entry._replace(hash=oplog._hash(entry))
    backend.commit(Batch(Claim("s"), at=0, operations=(first, entry), cuts_log_from=0))
    with backend.reader() as reader:
        owner = reader.session("s")
        assert owner is not None
        for walk in (lambda log: list(log.backwards()), lambda log: list(undoable(log)), next_redo):
            with pytest.raises(IntegrityError, match="does not say what it took the place of"):
                walk(Log(reader, owner))
