"""Views for loads: what comes along with one is what any view would have answered. For backends that have them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import pytest

from holdfast.storage.ports import Backend, Reader
from holdfast.storage.records import CheckpointId, Chunk, ChunkHash
from holdfast.testing.conformance.contract import Contract, commit_all
from holdfast.testing.conformance.views import elsewhere
from holdfast.testing.rows import batch, checkpoint_id, chunk, edit, save


class OpenFor(Protocol):
    """`ReadsAhead.reader_for` of a backend."""

    def __call__(
        self, session: str, name: str, known: ChunkHash | None = None
    ) -> AbstractContextManager[Reader]:
        """Open a view."""


def reader_for(backend: Backend) -> OpenFor:
    """How a backend opens views for loads; it need not."""
    opened: OpenFor | None = getattr(backend, "reader_for", None)
    if opened is None:
        pytest.skip(f"{backend.url} brings nothing along with a view, and need not")
    return opened


def first_answers(reader: Reader, session: str, name: str) -> list[object]:
    """What a load asks first, and some more."""
    branch = reader.branch(session, name)
    ids = [] if branch is None else [branch.head]
    if len(name) == len(checkpoint_id("a").hex()):
        ids.append(CheckpointId(bytes.fromhex(name)))
    rows = [reader.checkpoint(each) for each in ids]
    roots = [dict(reader.chunks([row.root])) for row in rows if row is not None]
    return [branch, rows, roots, reader.branch(session, "main"), list(reader.branches(session))]


class AheadContract(Contract):
    """A view for a load is a view like any other, whatever came with it."""

    def test_a_view_for_a_load_answers_what_any_view_does(self, backend: Backend) -> None:
        """Branches come before ids; what is of another session, hidden or not there is as it always is."""
        opened = reader_for(backend)
        versions = _save_versions(backend, 5)
        named = checkpoint_id("0").hex()
        [other] = commit_all(backend, save("elsewhere", session="other"))
        [hidden] = commit_all(backend, save("hidden", branch=named))
        backend.commit(batch(edits=(edit(hidden, hidden=1),)))
        for session, name in [
            ("work", "main"),
            ("work", checkpoint_id("2").hex()),
            ("work", named),
            ("work", hidden.id.hex()),
            ("work", other.id.hex()),
            ("work", checkpoint_id("nobody").hex()),
            ("work", "nothing"),
            ("work", "\0"),
            ("other", named),
            ("nobody", "main"),
            ("\ud800", "main"),
        ]:
            for known in (None, other.root, versions[-1].hash, versions[2].hash):
                with backend.reader() as reader:
                    expected = first_answers(reader, session, name)
                with opened(session, name, known) as reader:
                    assert first_answers(reader, session, name) == expected, (session, name)

    def test_a_view_for_a_load_shows_the_moment_at_which_it_was_opened(self, backend: Backend) -> None:
        """What came with it and what is asked later belong together."""
        opened = reader_for(backend)
        commit_all(backend, save("a"))
        with opened("work", "main") as reader:
            elsewhere(lambda: commit_all(backend, save("b", after="a")))
            assert reader.checkpoint(checkpoint_id("b")) is None
            branch = reader.branch("work", "main")
            assert branch is not None
            assert branch.head == checkpoint_id("a")
            assert [each.head for each in reader.branches("work")] == [checkpoint_id("a")]


def _save_versions(backend: Backend, count: int) -> list[Chunk]:
    """Save states that are versions of each other, as a backend may store them."""
    versions: list[Chunk] = []
    last: str | None = None
    for number in range(count):
        made = chunk(b"a line that stays\n" * 60 + b"and one more\n" * number)
        made = made._replace(base=versions[-1].hash if versions else None)
        versions.append(made)
        backend.commit(save(f"{number}", after=last, root=made.hash)._replace(chunks=(made,)))
        last = f"{number}"
    return versions
