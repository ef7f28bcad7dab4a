"""What is erased: a session with all that belongs to it, and what is left of it in the files."""

from __future__ import annotations

from holdfast.errors import ErrorCode
from holdfast.storage.ports import Backend
from holdfast.storage.records import Chunk, Move, Query
from holdfast.testing.conformance.changes import heads, session_row
from holdfast.testing.conformance.collecting import collect
from holdfast.testing.conformance.contract import Contract, commit_all, found
from holdfast.testing.conformance.refusals import refused
from holdfast.testing.conformance.removals import relying
from holdfast.testing.rows import batch, checkpoint_id, chunk, contents, edit, history, operation, row, save

SECRET = "the secret that nobody may find"  # noqa: S105 - it is to be looked for


class ErasureContract(Contract):
    """Erased means that nothing tells of it, neither a question nor a file."""

    def test_an_erased_session_is_gone_with_all_that_belongs_to_it(self, backend: Backend) -> None:
        """Its row, its branches, its checkpoints, hidden ones too, and its log."""
        first, second = commit_all(
            backend, save("a", agent="scout", tags=("t",), key="k"), save("b", after="a", tags=("t",))
        )
        backend.commit(batch(edits=(edit(first, hidden=1),), operations=history(2)))
        backend.erase_session("work")
        assert contents(backend).sessions == []
        assert contents(backend).checkpoints == []
        with backend.reader() as reader:
            assert reader.checkpoint(first.id) is None
            assert reader.checkpoint(second.id) is None
            assert list(reader.branches("work")) == []
            assert list(reader.operations("work")) == []
            assert (reader.stats().branches, reader.stats().hidden) == (0, 0)
        for query in (Query(tag="t"), Query(agent="scout"), Query(key="k")):
            assert found(backend, query._replace(include_hidden=True)) == []

    def test_other_sessions_are_not_touched(self, backend: Backend) -> None:
        """Though they have the same branches, tags, keys and numbers."""
        for name in ("before", "work", "after"):
            backend.commit(save(name, session=name, tags=("t",), key="k", agent="scout"))
            backend.commit(batch(session=name, operations=history(2, session=name), switch_to="idea"))
        kept = contents(backend)
        backend.erase_session("work")
        left = contents(backend)
        for part in ("sessions", "branches", "checkpoints", "operations"):
            theirs = [each for each in getattr(kept, part) if "work" not in each]
            assert list(getattr(left, part)) == theirs
            assert len(theirs) in (2, 4)
        assert found(backend, Query(tag="t")) == [checkpoint_id("after"), checkpoint_id("before")]

    def test_its_id_is_free_again(self, backend: Backend) -> None:
        """A session of that name begins from nothing: another agent, the first seq, any key, an empty log."""
        (old,) = commit_all(backend, save("a", agent="scout", key="k"))
        backend.commit(batch(operations=history(2), switch_to="idea"))
        backend.erase_session("work")
        (new,) = commit_all(backend, save("b", agent="other", key="k"))
        assert (new.seq, session_row(backend).agent) == (1, "other")
        assert (session_row(backend).log_count, session_row(backend).current) == (0, "main")
        assert new.position > old.position
        assert heads(backend) == {"main": new.id}
        backend.commit(batch(operations=history(1)))

    def test_erasing_what_is_not_there_is_no_error(self, backend: Backend) -> None:
        """There is nothing of it: that is what was asked for."""
        backend.commit(save("a"))
        before = contents(backend)
        backend.erase_session("nobody")
        assert contents(backend) == before

    def test_the_chunks_of_an_erased_session_wait_for_a_collection(self, backend: Backend) -> None:
        """Those that another session needs stay after it too; and nobody may rely on the checkpoint any more."""
        own, shared = chunk(b"only here"), chunk(b"in both sessions")
        (first, _) = commit_all(
            backend,
            batch(row("a", root=own.hash), chunks=(own, shared)),
            batch(row("x", session="other", root=shared.hash), session="other", chunks=(shared,)),
        )
        backend.erase_session("work")
        assert self._data(backend, own, shared) == [own.data, shared.data]
        assert refused(backend, relying("b", first)).code is ErrorCode.CHUNKS_GONE
        collect(backend)
        assert self._data(backend, own, shared) == [None, shared.data]

    def test_a_scrubbed_store_is_the_same_to_every_question(self, backend: Backend) -> None:
        """And takes new commits."""
        first, second = commit_all(backend, save("a", tags=("t",)), save("b", after="a"))
        backend.commit(batch(edits=(edit(first, hidden=1),), removals=(first.id,), operations=history(1)))
        collect(backend)
        before = contents(backend)
        backend.scrub(dry_run=True)
        backend.scrub()
        assert contents(backend) == before
        (third,) = commit_all(backend, save("c", after="b"))
        assert third.position > second.position
        assert third.seq == 3

    def test_nothing_of_what_was_erased_is_left_in_the_files(self, backend: Backend) -> None:
        """Names, messages, metadata, tags, keys, the log and the state, of a session and of single checkpoints."""
        told = chunk(b"a state with " + SECRET.encode())
        secret = row(
            "a",
            session=f"session {SECRET}",
            branch=f"branch {SECRET}",
            message=f"message {SECRET}",
            metadata=f'{{"{SECRET}":1}}',
            tags=(f"tag {SECRET}",),
            key=f"key {SECRET}",
            app_version=f"version {SECRET}",
            root=told.hash,
        )
        name = secret.session
        backend.commit(
            batch(
                secret,
                session=name,
                chunks=(told,),
                moves=(Move(secret.branch, None, secret.id),),
                operations=(operation(1, session=name, data=f'{{"said":"{SECRET}"}}'),),
            )
        )
        kept = (row("k"), row("l", message=f"also {SECRET}"))
        entry = operation(1, data=f'{{"said":"{SECRET}"}}')
        first, second = backend.commit(batch(*kept, operations=(entry,))).checkpoints
        backend.erase_session(name)
        hide = (edit(second, hidden=1),)
        last = operation(2, previous=entry.hash, data="{}")
        backend.commit(batch(edits=hide, removals=(second.id,), operations=(last,), cuts_log_from=1))
        collect(backend)
        backend.scrub()
        assert found(backend, Query(include_hidden=True)) == [first.id]
        for path in self.files(backend):
            assert SECRET.encode() not in path.read_bytes(), f"it is still in {path.name}"

    @staticmethod
    def _data(backend: Backend, *pieces: Chunk) -> list[bytes | None]:
        with backend.reader() as reader:
            there = reader.chunks([each.hash for each in pieces])
        return [there.get(each.hash) for each in pieces]
