"""K7: a custom storage backend can be written by a user, and a kit proves it right."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.requirements.folder_backend import FolderBackend

import holdfast
from holdfast.errors import ConflictError
from holdfast.storage.ports import Backend
from holdfast.testing.kit import BackendConformance
from holdfast.testing.kit.commit import REFUSED


class TestFolderBackend(BackendConformance):
    """The whole proof: every sentence of the contract."""

    @pytest.fixture
    def backend(self, tmp_path: Path) -> Backend:
        self.folder = tmp_path / "commits"
        return FolderBackend(self.folder)

    def reopen(self, backend: Backend) -> Backend:
        backend.close()
        return FolderBackend(self.folder)

    def files(self, backend: Backend) -> list[Path]:
        return list(self.folder.iterdir())


@pytest.mark.requirement("K7")
def test_a_store_works_on_a_backend_of_ones_own(tmp_path):
    with holdfast.Store(FolderBackend(tmp_path / "commits")) as store:
        session = store.session("research", agent="scout")
        first = session.save({"found": []}, "start")
        session.save({"found": ["a", ("b", 2)]}, "more", tags=["verified"])
        with pytest.raises(ConflictError):
            store.session("research").save({"found": None}, expect=first)

    # Everything is in the files: another process would open the same folder.
    with holdfast.Store(FolderBackend(tmp_path / "commits")) as store:
        session = store.session("research")
        assert session.load() == {"found": ["a", ("b", 2)]}
        assert [each.message for each in session.log()] == ["more", "start"]
        assert store.find(agent="scout", tag="verified") == [session.checkpoint()]
        session.delete("@")
        assert session.load() == {"found": []}


@pytest.mark.requirement("K7")
def test_the_kit_finds_what_is_wrong_with_a_backend(tmp_path):
    class Forgetful(FolderBackend):
        """Takes whatever head there is for the expected one: the second of two writers wins in silence."""

        def commit(self, batch):
            with self.reader() as view:
                heads = {branch.name: branch.head for branch in view.branches(batch.claim.session)}
            moves = tuple(move._replace(expected=heads.get(move.branch)) for move in batch.moves)
            return super().commit(batch._replace(moves=moves))

    kit = BackendConformance()
    bad, code = REFUSED["a branch that moved on"]
    kit.test_what_does_not_hold_is_refused(FolderBackend(tmp_path / "sound"), bad, code)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        kit.test_what_does_not_hold_is_refused(Forgetful(tmp_path / "forgetful"), bad, code)
