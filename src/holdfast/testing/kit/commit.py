"""Commits: what one writes, what the store gives to it, when it is refused, and what it changes and takes away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.errors import ConflictError, ErrorCode, InvalidInputError
from holdfast.storage.ports import Backend
from holdfast.storage.records import Batch, CheckpointId, CheckpointRow, ChunkHash, Guard, Move, Query
from holdfast.testing.kit.contract import (
    Contract,
    cases,
    commit_all,
    found,
    heads,
    ids,
    log,
    read_row,
    refused,
    session_row,
)
from holdfast.testing.rows import (
    START,
    batch,
    checkpoint_id,
    chunk,
    contents,
    edit,
    history,
    operation,
    removal,
    row,
    save,
    state_chunk,
)

NOTHING: dict[str, Any] = dict.fromkeys(("step", "tokens", "cost_usd", "duration_ms", "app_version", "key"))
ROWS: dict[str, dict[str, Any]] = {
    "everything": {
        "branch": "wild idea",
        "parents": (checkpoint_id("mother"), checkpoint_id("father")),
        "created_at": START - 5,
        "trigger": "auto:hypothesis.confirmed",
        "status": "interrupted",
        "step": -3,
        "message": "line one\nline two \u2028 \N{SNOWMAN} '; DROP TABLE checkpoint; --",
        "metadata": '{"a":{"b":[1,2.5,null,true,"\N{SNOWMAN}"]}}',
        "tokens": 2**62,
        "cost_usd": 0.1 + 0.2,
        "duration_ms": 1e-300,
        "app_version": "1.2.3+local",
        "nonce": bytes(range(16)),
        "key": "the caller's own id",
        "size_bytes": 2**40,
        "prev": checkpoint_id("mother"),
        "skipped": 4,
        "tags": ("golden", "\N{SNOWMAN}"),
        "pinned": True,
    },
    "none is not zero": NOTHING,
    "zero is not none": NOTHING
    | {
        "step": 0,
        "tokens": 0,
        "cost_usd": 0.0,
        "duration_ms": 0.0,
        "app_version": "",
        "key": "",
        "message": "",
    },
}
EDITS: dict[str, dict[str, Any]] = {
    "prev": {"prev": checkpoint_id("b"), "skipped": 3},
    "no prev": {"prev": None, "skipped": 7},
    "hidden": {"hidden": 5},
    "tags": {"tags": ("a", "b", "it's")},
    "pinned": {"pinned": True},
    "message": {"edited_message": "said better"},
    "empty message": {"edited_message": ""},
    "metadata": {"added_metadata": '{"reviewed":true}'},
}


def move(branch: str, expected: str | None, head: str | None) -> Move:
    """A move between checkpoints named by their labels."""
    return Move(branch, checkpoint_id(expected) if expected else None, checkpoint_id(head) if head else None)


def relying(label: str, on: CheckpointRow | CheckpointId) -> Batch:
    """A batch that saves the same state as another checkpoint and leaves its chunks out."""
    name = on.id if isinstance(on, CheckpointRow) else on
    return batch(row(label, root=state_chunk(name).hash), chunks=(), relies_on=name)


GUARDED = Guard(log_count=9)
BEFORE = (save("a", agent="scout", project="acme", key="mine"), batch(operations=history(1)))
"""What each of these is refused after: the first check that does not hold says why."""
REFUSED: dict[str, tuple[Batch, ErrorCode]] = {
    "another agent": (save("b", after="a", agent="other"), ErrorCode.SESSION_MISMATCH),
    "another project": (save("b", after="a", project="other"), ErrorCode.SESSION_MISMATCH),
    "the claim before the guard": (
        save("b", after="a", agent="other")._replace(guard=GUARDED),
        ErrorCode.SESSION_MISMATCH,
    ),
    "a log that has grown": (save("b", after="a")._replace(guard=Guard(0)), ErrorCode.SESSION_CHANGED),
    "a log that is shorter": (save("b", after="a")._replace(guard=Guard(2)), ErrorCode.SESSION_CHANGED),
    "a new checkpoint": (
        save("b", after="a")._replace(guard=Guard(log_count=1, last_seq=0)),
        ErrorCode.SESSION_CHANGED,
    ),
    "a session that is not there": (
        save("x", session="new")._replace(guard=Guard(log_count=1)),
        ErrorCode.SESSION_CHANGED,
    ),
    "the guard before what it relies on": (
        relying("b", checkpoint_id("never"))._replace(guard=GUARDED),
        ErrorCode.SESSION_CHANGED,
    ),
    "what it relies on is not there": (relying("b", checkpoint_id("never")), ErrorCode.CHUNKS_GONE),
    "what it relies on before the moves": (
        relying("b", checkpoint_id("never"))._replace(moves=save("b").moves),
        ErrorCode.CHUNKS_GONE,
    ),
    "the guard before the moves": (save("b")._replace(guard=GUARDED), ErrorCode.SESSION_CHANGED),
    "a branch that is there": (save("b"), ErrorCode.BRANCH_MOVED),
    "a branch that moved on": (save("b", after="x"), ErrorCode.BRANCH_MOVED),
    "a branch that is not there": (save("b", after="a", branch="gone"), ErrorCode.BRANCH_MOVED),
    "no such session": (save("b", after="a", session="none"), ErrorCode.BRANCH_MOVED),
    "nothing to remove": (batch(moves=(move("gone", "a", None),)), ErrorCode.BRANCH_MOVED),
    "a bad move first": (
        batch(moves=(move("main", "x", "a"), move("new", None, "a"))),
        ErrorCode.BRANCH_MOVED,
    ),
    "a bad move last": (
        batch(moves=(move("new", None, "a"), move("main", "x", "a"))),
        ErrorCode.BRANCH_MOVED,
    ),
    "the moves before the keys": (save("b", key="mine"), ErrorCode.BRANCH_MOVED),
    "a key that is taken": (save("b", after="a", key="mine"), ErrorCode.KEY_TAKEN),
    "a key, and all else would do": (
        batch(
            row("b", parents=(checkpoint_id("a"),)),
            row("c", parents=(checkpoint_id("a"),), key="mine"),
            moves=(move("new", None, "b"),),
            edits=(edit(row("a"), tags=("golden",), pinned=True),),
            operations=history(2)[1:],
            switch_to="idea",
            cuts_log_from=1,
        ),
        ErrorCode.KEY_TAKEN,
    ),
    "a visible row removed": (batch(removals=tuple(ids("a"))), ErrorCode.BAD_ARGUMENT),
    "one that is shown again": (
        batch(edits=(edit(row("a"), hidden=0),), removals=tuple(ids("a"))),
        ErrorCode.BAD_ARGUMENT,
    ),
    "one it saves itself": (
        save("b", after="a")._replace(removals=tuple(ids("b"))),
        ErrorCode.BAD_ARGUMENT,
    ),
    "seen hidden, and visible": (
        batch(removals=tuple(ids("a")), seen=(row("a", hidden=1),)),
        ErrorCode.BAD_ARGUMENT,
    ),
}


class MadeWhenAsked:
    """A chunk whose bytes nobody holds: they are made anew each time."""

    def __init__(self, text: str, times: int, base: ChunkHash | None = None) -> None:
        self._text, self._times = text, times
        self.hash = chunk(self.data).hash
        self.base = base

    @property
    def data(self) -> bytes:
        """The bytes."""
        return self._text.encode() * self._times


LINES = b"line of an older state\n" * 500
NAMES = [chunk(b"very much alike\n" * 400 + b"%d" % number).hash for number in range(3)]
OWN = chunk(b"my own base" * 300)
PIECES: dict[str, Sequence[Any]] = {
    "empty": [chunk(b"")],
    "zero": [chunk(b"\x00")],
    "every byte": [chunk(bytes(range(256)))],
    "long": [chunk(b"a" * 300_000)],
    "looks compressed": [chunk(b"\x28\xb5\x2f\xfd looks compressed")],
    # A base is a hint about what a chunk is like. It need not be there, and need not be like it.
    "a base": [chunk(LINES), chunk(LINES + b"more")._replace(base=chunk(LINES).hash)],
    "no such base": [chunk(LINES + b"more")._replace(base=chunk(b"nobody").hash)],
    "an unlike base": [chunk(LINES), chunk(bytes(range(256)) * 40)._replace(base=chunk(LINES).hash)],
    "a ring of bases": [
        chunk(b"very much alike\n" * 400 + b"%d" % number)._replace(base=NAMES[(number + 1) % 3])
        for number in range(3)
    ],
    "its own base": [OWN._replace(base=OWN.hash)],
    "made when asked for": [
        MadeWhenAsked(f"part {number} of a state\n", 40 + number) for number in range(20)
    ],
}


class CommitContract(Contract):
    """A commit writes all of its batch or nothing, and the store adds what only it knows."""

    @cases("fields", ROWS)
    def test_a_row_comes_back_as_its_writer_gave_it(self, backend: Backend, fields: dict[str, Any]) -> None:
        """Every field of the writer survives, whatever is in it."""
        given = row("a", **fields)
        receipt = backend.commit(batch(given))
        kept = read_row(backend, "a")
        assert receipt.checkpoints == (kept,)
        assert kept._replace(seq=0, position=0, stored_at=0, stored_bytes=0) == given
        assert (kept.edited_message, kept.added_metadata) == (None, None)

    def test_what_the_store_gives(self, backend: Backend) -> None:
        """Seq by session and in batch order, position over all, the batch's time; whatever the writer says."""
        forged = row("b", seq=77, position=77, stored_at=77, stored_bytes=77, created_at=START + 99)
        rows = commit_all(
            backend, batch(row("a"), forged, at=START + 7), save("x", session="other"), save("c")
        )
        assert [(each.session, each.seq) for each in rows] == [
            ("work", 1),
            ("work", 2),
            ("other", 1),
            ("work", 3),
        ]
        positions = [each.position for each in rows]
        assert positions == sorted(set(positions))
        assert positions[0] > 0
        assert (rows[1].created_at, rows[1].stored_at) == (START + 99, START + 7)
        # What new chunks take counts for the first checkpoint of a batch; one whose chunks are there takes nothing.
        assert [each.stored_bytes > 0 for each in rows] == [True, False, True, True]
        again = row("d", root=rows[0].root)
        assert commit_all(backend, batch(again, chunks=(state_chunk("a"),)))[0].stored_bytes == 0
        refused(backend, save("e"))
        assert commit_all(backend, save("e", after="c"))[0].seq == 5

    @cases("pieces", PIECES)
    def test_chunks_come_back_exactly(self, backend: Backend, pieces: Sequence[Any]) -> None:
        """In one batch, one after the other, and again where all of it is there; however a backend keeps them."""
        for number, some in enumerate(([*pieces], *([each] for each in pieces), [*pieces, *pieces])):
            backend.commit(batch(row(f"{number}", root=some[0].hash), chunks=tuple(some)))
        with backend.reader() as reader:
            assert dict(reader.chunks([each.hash for each in pieces])) == {
                each.hash: each.data for each in pieces
            }
            assert reader.stats().chunks == len(pieces)

    def test_a_long_line_of_bases_comes_back_exactly(self, backend: Backend) -> None:
        """Each chunk is like the one before, over many commits; all of them can be read, in any order."""
        pieces = [chunk(b"the first of many lines\n" * 300)]
        for number in range(1, 40):
            pieces.append(chunk(pieces[-1].data + b"line %d\n" % number)._replace(base=pieces[-1].hash))
        for number, piece in enumerate(pieces):
            backend.commit(batch(row(f"{number}", root=piece.hash), chunks=(piece,)))
        with backend.reader() as reader:
            assert dict(reader.chunks([each.hash for each in pieces[::-1]])) == {
                e.hash: e.data for e in pieces
            }

    def test_a_session_is_made_by_its_first_commit(self, backend: Backend) -> None:
        """With the claim, the time and counts; an agent or project may come later, and a claim alone is enough."""
        backend.commit(save("a", at=START + 3))
        made = session_row(backend)
        assert (made.id, made.agent, made.project, made.created_at) == ("work", None, None, START + 3)
        assert (made.last_seq, made.log_count, made.log_tip, made.current) == (1, 0, b"", "main")
        commit_all(
            backend, save("b", after="a", agent="scout", at=START + 9), save("c", after="b", project="acme")
        )
        commit_all(backend, save("d", after="c"))
        expected = made._replace(agent="scout", project="acme", last_seq=4)
        assert session_row(backend) == expected
        assert backend.commit(batch(session="empty", agent="scout")).checkpoints == ()
        assert (session_row(backend, "empty").agent, session_row(backend, "empty").last_seq) == ("scout", 0)

    def test_a_repeated_batch_changes_nothing_and_returns_its_rows(self, backend: Backend) -> None:
        """A lost reply is settled by committing again: whatever else it says, and whatever holds no more."""
        lost = save("a", key="k")._replace(guard=Guard(log_count=0, last_seq=0))
        first = backend.commit(lost)
        _, hidden = commit_all(backend, save("b", after="a"), save("h", branch="h"))
        backend.commit(batch(edits=(edit(hidden, hidden=1),), operations=history(1)))
        before = contents(backend)
        assert backend.commit(lost._replace(at=START + 99)) == first
        backend.commit(
            batch(
                row("a"),
                agent="somebody else",
                chunks=(chunk(b"stowaway"),),
                moves=(move("sneaky", None, "a"),),
                operations=history(1),
                removals=(hidden.id,),
                switch_to="idea",
                cuts_log_from=1,
            )
        )
        assert contents(backend) == before
        # Only a batch whose checkpoints are all there is settled.
        assert (
            refused(backend, batch(row("a"), row("c"), moves=save("c").moves)).code is ErrorCode.BRANCH_MOVED
        )

    @cases(("bad", "code"), REFUSED)
    def test_what_does_not_hold_is_refused(self, backend: Backend, bad: Batch, code: ErrorCode) -> None:
        """Claim, guard, what it relies on, moves, keys: in this order, and nothing of the batch stays behind."""
        commit_all(backend, *BEFORE)
        assert refused(backend, bad).code is code

    def test_a_conflict_says_what_is_there(self, backend: Backend) -> None:
        """The head and the checkpoint that has the key."""
        commit_all(backend, save("a", key="mine"), save("b", after="a"))
        moved = refused(backend, save("c", after="a")).details
        assert (moved["expected"], moved["actual"]) == (checkpoint_id("a").hex(), checkpoint_id("b").hex())
        assert refused(backend, save("c")).details["expected"] is None
        assert (
            refused(backend, save("c", after="b", key="mine")).details["existing"] == checkpoint_id("a").hex()
        )
        gone = refused(backend, relying("c", checkpoint_id("never")))
        assert gone.details["checkpoint"] == checkpoint_id("never").hex()

    def test_what_holds_is_let_through(self, backend: Backend) -> None:
        """Guards with both numbers or one, of a session that is not there; a key of another session."""
        commit_all(backend, save("a", key="mine")._replace(guard=Guard(log_count=0, last_seq=0)))
        commit_all(backend, batch(operations=history(1)), save("x", session="other", key="mine"))
        commit_all(backend, save("b", after="a")._replace(guard=Guard(log_count=1, last_seq=1)))
        commit_all(backend, save("c", after="b")._replace(guard=Guard(log_count=1)))

    def test_branches_are_made_moved_and_removed(self, backend: Backend) -> None:
        """Each step names the head it starts from; several at one moment; by name, and each of its session."""
        commit_all(backend, save("a"), save("x", session="other"), save("b", after="a", at=START + 60))
        with backend.reader() as reader:
            branch = reader.branch("work", "main")
        assert branch == ("work", "main", checkpoint_id("b"), START + 60)
        backend.commit(
            batch(moves=(move("main", "b", "a"), move("zeta", None, "b"), move("alpha", None, "a")))
        )
        assert list(heads(backend).items()) == list(
            zip(("alpha", "main", "zeta"), ids("a", "a", "b"), strict=True)
        )
        commit_all(backend, batch(moves=(move("main", "a", None),)), save("c"))
        assert heads(backend) == dict(zip(("alpha", "main", "zeta"), ids("a", "c", "b"), strict=True))
        assert heads(backend, "other") == {"main": checkpoint_id("x")}

    @cases("change", EDITS)
    def test_an_edit_changes_what_it_names_and_nothing_else(
        self, backend: Backend, change: dict[str, Any]
    ) -> None:
        """Seq, times and all the writer said stay; the other checkpoints stay too; and it can be taken back."""
        _, second, third = commit_all(
            backend, save("a"), save("b", after="a", tags=("old",)), save("c", after="b", tags=("old",))
        )
        backend.commit(batch(edits=(edit(third, **change),)))
        assert read_row(backend, third.id) == third._replace(**change)
        assert read_row(backend, second.id) == second
        backend.commit(batch(edits=(edit(third),)))
        assert read_row(backend, third.id) == third
        assert found(backend, tag="old") == ids("c", "b")

    def test_what_the_writer_saw_is_no_proof(self, backend: Backend) -> None:
        """Rows may have changed since they were read, or be gone; a new row is written all the same."""
        first, second, third = commit_all(backend, save("a"), save("b", after="a"), save("c", after="b"))
        backend.commit(batch(edits=(edit(first, tags=("newer",)),), operations=history(1)))
        backend.commit(batch(edits=(edit(first, pinned=True),), seen=(first,)))
        assert read_row(backend, first.id) == first._replace(pinned=True)
        backend.commit(batch(edits=(edit(second, hidden=1),), removals=(second.id,), seen=(second,)))
        refused(
            backend,
            batch(edits=(edit(second, pinned=True), edit(third, pinned=True)), seen=(second, third)),
        )
        following = save("d", after="c")
        (fourth,) = backend.commit(following._replace(seen=following.checkpoints)).checkpoints
        assert heads(backend) == {"main": fourth.id}
        assert read_row(backend, fourth.id) == fourth

    def test_operations_come_back_in_order(self, backend: Backend) -> None:
        """Oldest first, every field as it was given, each session's own; the session has their count and tip."""
        odd = operation(1, session="other", kind="it's", at=START + 1, data='{"\N{SNOWMAN}":"\\u0000\\""}')
        entries = history(5)
        commit_all(
            backend, save("a"), batch(operations=entries[:2]), batch(session="other", operations=(odd,))
        )
        commit_all(backend, batch(operations=entries[2:]), save("b", after="a"))
        assert (log(backend), log(backend, after=3), log(backend, after=5)) == (
            list(entries),
            list(entries[3:]),
            [],
        )
        assert (log(backend, "other"), log(backend, "nobody")) == ([odd], [])
        owner = session_row(backend)
        assert (owner.log_count, owner.log_tip, owner.last_seq) == (5, entries[4].hash, 2)

    @cases(
        ("first", "cut", "left"),
        {
            "all": (4, 1, [4]),
            "from a number on": (4, 3, [0, 1, 4]),
            "the last": (4, 4, [0, 1, 2, 4]),
            "after the end": (4, 5, [0, 1, 2, 3, 4]),
            "of nothing": (0, 1, [0]),
        },
    )
    def test_a_log_is_cut_from_a_number_on(
        self, backend: Backend, first: int, cut: int, left: list[int]
    ) -> None:
        """What comes with the cut stays; numbers and hashes go on, and other sessions keep theirs."""
        entries, theirs = history(first + 2), history(4, session="other")
        commit_all(backend, batch(operations=entries[:first]), batch(session="other", operations=theirs))
        backend.commit(batch(operations=entries[first : first + 1], cuts_log_from=cut, guard=Guard(first)))
        assert log(backend) == [entries[n] for n in left]
        owner = session_row(backend)
        assert (owner.log_count, owner.log_tip) == (first + 1, entries[first].hash)
        backend.commit(batch(cuts_log_from=cut))
        assert log(backend) == [entries[n] for n in left if n + 1 < cut]
        assert session_row(backend) == owner
        backend.commit(batch(operations=entries[first + 1 :], guard=Guard(first + 1)))
        assert log(backend, after=first + 1) == [entries[first + 1]]
        assert log(backend, "other") == list(theirs)

    def test_people_are_on_main_until_they_switch(self, backend: Backend) -> None:
        """A save leaves them where they are; a switch concerns its session, one that it makes included."""
        commit_all(backend, save("a"), batch(switch_to="idea", operations=history(1)), save("b", after="a"))
        backend.commit(batch(session="new", switch_to="other"))
        backend.commit(batch(operations=history(2)[1:]))
        assert (session_row(backend).current, session_row(backend, "new").current) == ("idea", "other")
        backend.commit(batch(switch_to="main"))
        assert session_row(backend).current == "main"

    def test_chunks_can_be_left_out_where_the_checkpoint_that_has_them_is_there(
        self, backend: Backend
    ) -> None:
        """Hidden or not, of any session; not where it was removed for good, though its chunks may be there."""
        first, other = commit_all(backend, save("a"), save("x", session="other"))
        backend.commit(batch(edits=(edit(first, hidden=1),)))
        second, third = commit_all(backend, relying("b", first), relying("c", other))
        assert (second.root, third.root, second.stored_bytes) == (first.root, other.root, 0)
        both: dict[str, Any] = {"session": "copy", "chunks": (), "also_relies_on": (second.id, other.id)}
        copies = [row(label, session="copy", root=each.root) for label, each in (("u", second), ("v", other))]
        assert len(backend.commit(batch(*copies, **both)).checkpoints) == 2
        backend.commit(removal(first))
        assert refused(backend, relying("d", first)).code is ErrorCode.CHUNKS_GONE
        assert backend.commit(relying("b", first)).checkpoints == (second,)
        for gone in (second, other):
            backend.commit(removal(gone, session=gone.session))
            error = refused(backend, batch(row("z", session="copy", root=gone.root), **both))
            assert isinstance(error, ConflictError)
            assert (error.code, error.details["checkpoint"]) == (ErrorCode.CHUNKS_GONE, gone.id.hex())
            both["also_relies_on"] = (other.id,)

    def test_what_is_removed_for_good_is_found_no_more(self, backend: Backend) -> None:
        """By no question; the others stay, its chunks wait, and its key, its tags and its id are free again."""
        first, second, third = commit_all(
            backend, save("a", tags=("t",)), save("b", after="a", key="k", tags=("t",)), save("c", after="b")
        )
        backend.commit(batch(edits=(edit(second, hidden=1),), operations=history(1)))
        assert read_row(backend, second.id).hidden == 1
        backend.commit(batch(removals=(second.id,)))
        for query in ({}, {"session": "work"}, {"tag": "t"}, {"key": "k"}, {"id_prefix": second.id.hex()}):
            assert second.id not in found(backend, **query, include_hidden=True)
        with backend.reader() as reader:
            assert reader.checkpoint(second.id) is None
            assert (reader.stats().checkpoints, reader.stats().hidden) == (2, 0)
            assert dict(reader.chunks([second.root])) == {second.root: state_chunk("b").data}
        assert (read_row(backend, first.id), read_row(backend, third.id)) == (first, third)
        backend.commit(removal(third))
        fourth, again = commit_all(backend, save("d", after="c", key="k", tags=("t",)), batch(row("b")))
        assert (found(backend, key="k"), found(backend, tag="t")) == ([fourth.id], [fourth.id, first.id])
        # No number is given twice, and this is no repetition.
        assert (fourth.seq, again.seq, again.id) == (4, 5, second.id)
        assert third.position < fourth.position < again.position

    def test_removals_concern_their_session_and_find_none_in_peace(self, backend: Backend) -> None:
        """One that is gone is no error; one of another session is; one that may go takes no other with it."""
        first, second, other = commit_all(
            backend, save("a"), save("b", after="a"), save("x", session="other")
        )
        backend.commit(batch(session="other", edits=(edit(other, hidden=1),)))
        for bad in (
            batch(removals=(other.id,)),
            batch(edits=(edit(first, hidden=1),), removals=(first.id, second.id)),
        ):
            assert isinstance(refused(backend, bad), InvalidInputError)
        backend.commit(removal(first))
        gone = (first.id, second.id, checkpoint_id("never saved"))
        backend.commit(batch(edits=(edit(second, hidden=1),), removals=gone, operations=history(1)))
        assert found(backend, session="work", include_hidden=True) == []
        assert session_row(backend).log_count == 1

    def test_numbers_go_on_after_reopening(self, backend: Backend) -> None:
        """Also where the newest row is gone."""
        first, second = commit_all(backend, save("a"), save("b", after="a"))
        backend.commit(removal(second))
        again = self.reopen(backend)
        try:
            (third,) = commit_all(again, save("c", after="b"))
        finally:
            again.close()
        assert third.seq == 3
        assert third.position > second.position > first.position

    def test_stats_count_what_is_there(self, backend: Backend) -> None:
        """Sessions, branches, checkpoints, removed ones, chunks and their bytes."""
        first, *_ = commit_all(backend, save("a"), save("b", after="a"), save("x", session="other"))
        backend.commit(batch(edits=(edit(first, hidden=1),), operations=history(1)))
        with backend.reader() as reader:
            stats = reader.stats()
            size = sum(each.size_bytes for each in reader.checkpoints(Query(include_hidden=True)))
        counted = (stats.sessions, stats.branches, stats.checkpoints, stats.hidden, stats.chunks)
        assert (counted, stats.chunk_bytes) == ((2, 2, 2, 1, 3), size)
        assert stats.stored_bytes > 0
