"""What can be undone, read off a log; and where rows lead once some of them come and go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.backends.memory import MemoryBackend
from holdfast.errors import ErrorCode, IntegrityError, NotFoundError
from holdfast.history.oplog import Edited, check_chain, edit, operation, recorded, retirement
from holdfast.history.relinking import relink
from holdfast.history.undoing import Log, next_redo, next_undo, undoable
from holdfast.storage.records import Batch, CheckpointId, ChunkHash, Claim, Move, SessionRow
from holdfast.testing.rows import row as make_row

KINDS = st.sampled_from(
    ["tag", "delete", "restore", "undo", "undo", "undo", "redo", "redo", "retire", "retire", "gc", "forget"]
)


class Journal:
    """A session whose log is written entry by entry."""

    def __init__(self):
        self.backend = MemoryBackend()

    def add(self, kind, of=None):
        with self.backend.reader() as reader:
            session = reader.session("s") or SessionRow("s", None, None, created_at=0)
            entries = reader.operations("s")
        entry, cut = operation(session, kind, at=session.log_count, of=of), int(kind == "forget")
        if kind == "retire":
            newest = entries[-1] if entries else None
            entry, cut = retirement(session, session.log_count, newest, edits=(), moves=())
        self.backend.commit(Batch(Claim("s"), at=0, operations=(entry,), cuts_log_from=cut))
        return entry.number

    def entries(self):
        with self.backend.reader() as reader:
            return list(reader.operations("s"))

    def log(self):
        with self.backend.reader() as reader:
            session = reader.session("s") or SessionRow("s", None, None, created_at=0)
            return Log(reader, session)


def outcome(call, log):
    try:
        return call(log).number
    except NotFoundError as error:
        return error.code


@given(st.lists(KINDS, max_size=60))
def test_the_log_gives_the_same_answers_as_two_stacks(kinds):
    journal = Journal()
    done: list[int] = []
    undone: list[int] = []
    ended = False
    for kind in kinds:
        if kind == "undo":
            if done:
                undone.append(journal.add("undo", of=done.pop()))
        elif kind == "redo":
            if undone:
                done.append(journal.add("redo", of=undone.pop()))
        elif kind == "forget":
            journal.add(kind)
            # Nobody knows that there was anything.
            ended = True
            done, undone = [], []
        else:
            number = journal.add(kind)
            if kind not in ("retire", "gc"):
                done.append(number)
                undone = []
    log = journal.log()
    there = [entry.number for entry in log.backwards()]
    assert there == [entry.number for entry in reversed(journal.entries())]
    nothing = ErrorCode.UNDO_GONE if ended else ErrorCode.NOTHING_TO_UNDO
    assert outcome(next_undo, log) == (done[-1] if done else nothing)
    assert [entry.number for entry in undoable(log) if entry.kind != "forget"] == done[::-1]
    assert outcome(next_redo, log) == (undone[-1] if undone else ErrorCode.NOTHING_TO_REDO)


def test_an_operation_that_came_and_went_is_still_what_it_was():
    journal = Journal()
    first = journal.add("tag")
    undo = journal.add("undo", of=first)
    redo = journal.add("redo", of=undo)
    again = journal.add("undo", of=redo)
    log = journal.log()
    for number in (first, undo, redo, again):
        assert log.origin(log.entry(number)).number == first


@pytest.mark.parametrize("of", [None, 0, 2, 3])
def test_an_undo_that_does_not_say_what_it_reverses_is_damage(of):
    journal = Journal()
    journal.add("tag")
    journal.add("undo", of=of)
    with pytest.raises(IntegrityError):
        next_undo(journal.log())


def test_an_entry_that_is_missing_is_damage():
    journal = Journal()
    journal.add("tag")
    log = journal.log()
    with pytest.raises(IntegrityError):
        log.entry(2)


def test_a_log_that_was_cut_is_whole_from_there_on():
    journal = Journal()
    for kind in ("tag", "pin", "forget", "tag", "pin"):
        journal.add(kind)
    with journal.backend.reader() as reader:
        session, entries = reader.session("s"), reader.operations("s")
    assert session is not None
    assert [entry.kind for entry in entries] == ["forget", "tag", "pin"]
    check_chain(session, entries)
    for damaged in (
        entries[1:],
        entries[:-1],
        [entries[0], entries[2]],
        [entries[0]._replace(at=9), *entries[1:]],
    ):
        with pytest.raises(IntegrityError):
            check_chain(session, damaged)
    assert [entry.number for entry in journal.log().backwards()] == [5, 4, 3]


def test_what_an_entry_says_is_read_back_as_it_was():
    row = make_row("a")
    changed = edit(
        row,
        prev=CheckpointId(b"p" * 32),
        skipped=2,
        hidden=4,
        tags=("a", "b"),
        pinned=True,
        edited_message="é",
        added_metadata='{"a":1}',
    )
    moves = [Move("main", row.id, None), Move("x", None, row.id)]
    session = SessionRow("s", None, None, created_at=0, last_seq=7, log_count=3, log_tip=b"t" * 32)
    entry = operation(
        session, "odd", 5, edits=[(row, changed)], moves=moves, made=[row], of=3, switch=("main", "x")
    )
    data = recorded(entry)
    assert data.edits == [
        Edited(
            row.id,
            {name: getattr(row, name) for name in changed._fields if name != "id"},
            {name: value for name, value in changed._asdict().items() if name != "id"},
        )
    ]
    assert (data.moves, data.made, data.of, data.switch, data.seq) == (moves, [row.id], 3, ("main", "x"), 7)
    with pytest.raises(IntegrityError):
        recorded(entry._replace(kind="other"))


def name(number):
    return CheckpointId(number.to_bytes(32, "big"))


@st.composite
def lineages(draw):
    """Rows with any parents, some hidden, some gone for good, with links that fit; and what comes and goes next."""
    count = draw(st.integers(1, 12))
    parents = [draw(st.integers(0, number)) for number in range(count)]
    hidden = [draw(st.booleans()) for _ in range(count)]
    toggled = draw(st.lists(st.integers(1, count), unique=True, min_size=1))
    return parents, hidden, toggled


def linked(parents, hidden):
    """The nearest ancestor that is there, and how many lie between, walked from scratch."""
    links = []
    for parent in parents:
        skipped, nearest = 0, parent
        while nearest and hidden[nearest - 1]:
            skipped, nearest = skipped + 1, parents[nearest - 1]
        links.append((name(nearest) if nearest else None, skipped))
    return links


def rows_of(parents, hidden):
    return [
        make_row("a")._replace(
            id=name(number),
            root=ChunkHash(b"r" * 32),
            seq=number,
            parents=(name(parent),) if parent else (),
            hidden=int(gone),
            prev=prev,
            skipped=skipped,
        )
        for number, (parent, gone, (prev, skipped)) in enumerate(
            zip(parents, hidden, linked(parents, hidden), strict=True), start=1
        )
    ]


@given(lineages())
def test_links_are_those_of_a_walk_from_scratch(lineage):
    parents, hidden, toggled = lineage
    rows = rows_of(parents, hidden)
    after = [gone != (number in toggled) for number, gone in enumerate(hidden, start=1)]
    shown = {name(number) for number in toggled if hidden[number - 1]}
    gone = {name(number) for number in toggled if not hidden[number - 1]}
    # Rows before the first one that changes are not read.
    part = rows[min(toggled) - 1 :]
    found = relink(part, shown=shown, hidden=gone)
    assert [found[row.id] for row in part] == linked(parents, after)[min(toggled) - 1 :]


@given(lineages(), st.integers(1, 12))
def test_links_stay_whole_where_rows_are_gone_for_good(lineage, lost):
    parents, hidden, toggled = lineage
    toggled = [number for number in toggled if number != lost]
    hidden = [True if number == lost else gone for number, gone in enumerate(hidden, start=1)]
    rows = [row for row in rows_of(parents, hidden) if row.seq != lost]
    shown = {name(number) for number in toggled if hidden[number - 1]}
    gone = {name(number) for number in toggled if not hidden[number - 1]}
    found = relink(rows, shown=shown, hidden=gone)
    there = {row.id: row.seq for row in rows if row.id in shown or not (row.id in gone or row.hidden)}
    for row in rows:
        prev, _ = found[row.id]
        assert prev is None or there[prev] < row.seq
