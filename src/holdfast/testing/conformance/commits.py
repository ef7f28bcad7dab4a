"""What a commit writes: rows, what the store gives them, chunks, sessions, branches, and what a repeat does."""

from __future__ import annotations

import pytest

from holdfast.errors import ConflictError
from holdfast.storage.ports import Backend
from holdfast.storage.records import ChunkHash, Guard, Move
from holdfast.testing.conformance.contract import Contract, commit_all, read_row
from holdfast.testing.rows import (
    START,
    batch,
    checkpoint_id,
    chunk,
    contents,
    history,
    row,
    save,
    state_chunk,
)


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


EVERYTHING_SET = {
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
}


class CommitContract(Contract):
    """A commit writes all of its batch, and the store adds what only it knows."""

    def test_a_row_comes_back_as_its_writer_gave_it(self, backend: Backend) -> None:
        """Every field of the writer survives, whatever is in it."""
        given = row("a", **EVERYTHING_SET)
        backend.commit(batch(given))
        kept = read_row(backend, given.id)
        assert kept._replace(seq=0, position=0, stored_at=0, stored_bytes=0) == given

    def test_fields_that_are_none_come_back_as_none(self, backend: Backend) -> None:
        """None is not 0 and not the empty string."""
        backend.commit(save("a"))
        kept = read_row(backend, checkpoint_id("a"))
        assert (kept.step, kept.tokens, kept.cost_usd, kept.duration_ms) == (None, None, None, None)
        assert (kept.app_version, kept.key, kept.prev) == (None, None, None)
        assert (kept.edited_message, kept.added_metadata) == (None, None)

    def test_zero_and_empty_text_are_not_none(self, backend: Backend) -> None:
        """A step of 0 is a step; an empty message is a message."""
        given = row("a", step=0, tokens=0, cost_usd=0.0, duration_ms=0.0, app_version="", key="", message="")
        backend.commit(batch(given))
        kept = read_row(backend, given.id)
        assert (kept.step, kept.tokens, kept.cost_usd, kept.duration_ms) == (0, 0, 0.0, 0.0)
        assert (kept.app_version, kept.key, kept.message) == ("", "", "")

    def test_the_receipt_has_the_rows_as_they_are_stored(self, backend: Backend) -> None:
        """What commit returns is what a reader sees."""
        receipt = backend.commit(batch(row("a"), row("b")))
        assert receipt.checkpoints == tuple(read_row(backend, checkpoint_id(name)) for name in ("a", "b"))

    def test_seq_counts_from_one_in_batch_order(self, backend: Backend) -> None:
        """1, 2, 3 ... in the order of the batch, and on from there in the next one."""
        first = backend.commit(batch(row("a"), row("b")))
        second = backend.commit(batch(row("c")))
        assert [each.seq for each in (*first.checkpoints, *second.checkpoints)] == [1, 2, 3]

    def test_each_session_has_its_own_seq(self, backend: Backend) -> None:
        """A save elsewhere leaves no gap."""
        rows = commit_all(
            backend,
            save("a"),
            save("x", session="other"),
            save("b", after="a"),
            save("y", after="x", session="other"),
        )
        assert [(each.session, each.seq) for each in rows] == [
            ("work", 1),
            ("other", 1),
            ("work", 2),
            ("other", 2),
        ]

    def test_a_refused_batch_uses_up_no_seq(self, backend: Backend) -> None:
        """Seq continues one by one, also after a conflict."""
        backend.commit(save("a"))
        with pytest.raises(ConflictError):
            backend.commit(save("b"))
        assert backend.commit(save("c", after="a")).checkpoints[0].seq == 2

    def test_position_grows_over_the_whole_store(self, backend: Backend) -> None:
        """Arrival is one order, whatever the sessions."""
        rows = commit_all(backend, save("a"), save("x", session="other"), save("b", after="a"))
        positions = [each.position for each in rows]
        assert positions == sorted(set(positions))
        assert positions[0] > 0

    def test_stored_at_is_the_time_of_the_batch(self, backend: Backend) -> None:
        """The store's clock comes with the batch, and may be behind the writer's."""
        backend.commit(batch(row("a", created_at=START + 99), at=START + 7))
        kept = read_row(backend, checkpoint_id("a"))
        assert (kept.created_at, kept.stored_at) == (START + 99, START + 7)

    def test_what_the_store_gives_is_ignored_in_a_batch(self, backend: Backend) -> None:
        """A writer cannot choose its seq, position, stored_at or stored_bytes."""
        backend.commit(save("a"))
        forged = row("b", seq=77, position=77, stored_at=77, stored_bytes=77)
        kept = backend.commit(batch(forged, chunks=())).checkpoints[0]
        assert (kept.seq, kept.stored_at, kept.stored_bytes) == (2, START, 0)
        assert kept.position != 77

    def test_stored_bytes_counts_new_chunks_only(self, backend: Backend) -> None:
        """A checkpoint whose chunks are all there takes nothing."""
        first = backend.commit(batch(row("a"))).checkpoints[0]
        again = backend.commit(batch(row("b", root=first.root), chunks=(state_chunk("a"),))).checkpoints[0]
        assert first.stored_bytes > 0
        assert again.stored_bytes == 0

    @pytest.mark.parametrize(
        "data",
        [b"", b"\x00", bytes(range(256)), b"a" * 300_000, b"\x28\xb5\x2f\xfd looks compressed"],
        ids=["empty", "zero", "every-byte", "long", "magic"],
    )
    def test_a_chunk_comes_back_exactly(self, backend: Backend, data: bytes) -> None:
        """However a backend keeps it, the bytes are the bytes."""
        piece = chunk(data)
        backend.commit(batch(row("a", root=piece.hash), chunks=(piece,)))
        with backend.reader() as reader:
            assert dict(reader.chunks([piece.hash])) == {piece.hash: data}

    @pytest.mark.parametrize("there", [True, False], ids=["base-there", "base-not-there"])
    def test_a_chunk_with_a_base_comes_back_exactly(self, backend: Backend, *, there: bool) -> None:
        """A base is a hint about what a chunk is like. It need not be there, and need not be like it."""
        base = chunk(b"line of an older state\n" * 500)
        like = chunk(base.data + b"and a new line")._replace(base=base.hash)
        unlike = chunk(bytes(range(256)) * 40)._replace(base=base.hash)
        if there:
            backend.commit(batch(row("base", root=base.hash), chunks=(base,)))
        backend.commit(batch(row("a", root=like.hash), chunks=(like, unlike)))
        with backend.reader() as reader:
            found = dict(reader.chunks([like.hash, unlike.hash]))
        assert found == {like.hash: like.data, unlike.hash: unlike.data}

    def test_a_chunk_that_is_made_when_it_is_asked_for_comes_back_exactly(self, backend: Backend) -> None:
        """As a root, as a plain chunk, and as one with a base; and again where all of it is there."""
        first = [MadeWhenAsked(f"part {at} of a large state\n", 40 + at) for at in range(20)]
        second = [MadeWhenAsked(f"part {at} of a large state\n", 41 + at, first[at].hash) for at in range(20)]
        for label, pieces in (("a", first), ("b", second), ("c", second)):
            backend.commit(batch(row(label, root=pieces[-1].hash), chunks=tuple(pieces)))
        with backend.reader() as reader:
            found = dict(reader.chunks([each.hash for each in (*first, *second)]))
        assert found == {each.hash: each.data for each in (*first, *second)}

    def test_a_long_line_of_bases_comes_back_exactly(self, backend: Backend) -> None:
        """Each chunk is like the one before, over many commits; all of them can be read, in any order."""
        pieces = [chunk(b"the first of many lines\n" * 300)]
        for number in range(1, 40):
            older = pieces[-1]
            pieces.append(chunk(older.data + b"line %d\n" % number)._replace(base=older.hash))
        for number, piece in enumerate(pieces):
            backend.commit(batch(row(f"{number}", root=piece.hash), chunks=(piece,)))
        with backend.reader() as reader:
            assert dict(reader.chunks([piece.hash for piece in pieces[::-1]])) == {
                piece.hash: piece.data for piece in pieces
            }
            assert dict(reader.chunks([pieces[-1].hash])) == {pieces[-1].hash: pieces[-1].data}

    def test_bases_in_the_same_batch_may_come_in_any_order_and_in_a_ring(self, backend: Backend) -> None:
        """A chunk may name one that comes later in the batch, or itself, or one that names it."""
        data = [b"very much alike\n" * 400 + b"%d" % number for number in range(3)]
        names = [chunk(each).hash for each in data]
        ring = [chunk(each)._replace(base=names[(at + 1) % 3]) for at, each in enumerate(data)]
        own = chunk(b"my own base" * 300)._replace(base=chunk(b"my own base" * 300).hash)
        backend.commit(batch(row("a", root=names[0]), chunks=(*ring, own)))
        with backend.reader() as reader:
            found = dict(reader.chunks([*names, own.hash]))
        assert found == {**dict(zip(names, data, strict=True)), own.hash: own.data}

    def test_a_chunk_is_stored_once(self, backend: Backend) -> None:
        """In one batch or in two, a second copy costs nothing."""
        piece = chunk(b"the same")
        backend.commit(batch(row("a", root=piece.hash), chunks=(piece, piece)))
        backend.commit(batch(row("b", root=piece.hash), chunks=(piece,)))
        with backend.reader() as reader:
            stats = reader.stats()
        assert (stats.chunks, stats.chunk_bytes) == (1, len(piece.data))

    def test_a_new_session_is_made_by_its_first_commit(self, backend: Backend) -> None:
        """Its row has the claim, the time of the batch, and counts."""
        backend.commit(save("a", agent="scout", project="acme", at=START + 3))
        with backend.reader() as reader:
            session = reader.session("work")
        assert session is not None
        assert (session.id, session.agent, session.project) == ("work", "scout", "acme")
        assert (session.created_at, session.last_seq) == (START + 3, 1)
        assert (session.log_count, session.log_tip) == (0, b"")

    def test_a_session_keeps_its_time_and_counts_on(self, backend: Backend) -> None:
        """created_at is the first commit's; last_seq is the newest."""
        commit_all(backend, save("a"), save("b", after="a", at=START + 50))
        with backend.reader() as reader:
            session = reader.session("work")
        assert session is not None
        assert (session.created_at, session.last_seq) == (START, 2)

    def test_a_batch_without_checkpoints_makes_its_session(self, backend: Backend) -> None:
        """A claim alone is enough."""
        assert backend.commit(batch(session="empty", agent="scout")).checkpoints == ()
        with backend.reader() as reader:
            session = reader.session("empty")
        assert session is not None
        assert (session.agent, session.last_seq) == ("scout", 0)

    def test_an_agent_or_project_is_set_where_there_is_none(self, backend: Backend) -> None:
        """A session can find its agent later, and its project later still."""
        commit_all(backend, save("a"), save("b", after="a", agent="scout"))
        commit_all(backend, save("c", after="b", project="acme"), save("d", after="c"))
        with backend.reader() as reader:
            session = reader.session("work")
        assert session is not None
        assert (session.agent, session.project) == ("scout", "acme")

    def test_a_repeated_batch_changes_nothing_and_returns_its_rows(self, backend: Backend) -> None:
        """A lost reply is settled by committing again, though the moves and the guard no longer hold."""
        lost = save("a", key="k")._replace(guard=Guard(log_count=0, last_seq=0))
        first = backend.commit(lost)
        commit_all(backend, save("b", after="a"))
        before = contents(backend)
        assert backend.commit(lost._replace(at=START + 99)) == first
        assert contents(backend) == before

    def test_a_repeat_of_one_of_two_checkpoints_is_no_repeat(self, backend: Backend) -> None:
        """Only a batch whose checkpoints are all there is settled: here the move does not hold."""
        backend.commit(save("a"))
        with pytest.raises(ConflictError):
            backend.commit(batch(row("a"), row("b"), moves=save("b").moves))
        with backend.reader() as reader:
            assert reader.checkpoint(checkpoint_id("b")) is None

    def test_whatever_else_a_repeated_batch_says_is_ignored(self, backend: Backend) -> None:
        """Other chunks, moves, operations and claims do not sneak in with a known checkpoint."""
        backend.commit(save("a", agent="scout"))
        before = contents(backend)
        backend.commit(
            batch(
                row("a"),
                agent="somebody else",
                chunks=(chunk(b"stowaway"),),
                moves=(Move(branch="sneaky", expected=None, head=checkpoint_id("a")),),
                operations=history(1),
            )
        )
        assert contents(backend) == before
