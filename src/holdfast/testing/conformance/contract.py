"""What a subclass of the kit provides: a backend, and where it has them, a second opening and a way to harm it.

Each test gets a fresh, empty backend from the `backend` fixture. The other hooks are for what not every backend can do;
a test that needs one it does not have is skipped, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.storage.ports import Backend
from holdfast.storage.records import Batch, CheckpointId, CheckpointRow, Query


class Contract:
    """The hooks of the kit, and two short ways to ask a backend something."""

    def make_backend(self) -> Backend:
        """A new, empty backend. Override this, or the `backend` fixture where one needs pytest's own fixtures."""
        raise NotImplementedError

    @pytest.fixture
    def backend(self) -> Iterator[Backend]:
        """A new, empty backend, closed after the test."""
        backend = self.make_backend()
        yield backend
        backend.close()

    def reopen(self, backend: Backend) -> Backend:
        """Close a backend and open the same store again. Override this where the store outlives its process."""
        pytest.skip(f"{backend.url} does not outlive its process")

    def open_copy(self, path: Path) -> Backend:
        """Open what `Backend.backup` wrote. Override this where `backup` is supported."""
        pytest.skip(f"there is no way to open {path.name}")

    def spoil(self, backend: Backend, checkpoint: CheckpointId) -> None:
        """Change the stored message of a checkpoint behind the backend's back. Override this where that can be done."""
        pytest.skip(f"{backend.url} offers no way to harm {checkpoint.hex()[:8]} from outside")

    def files(self, backend: Backend) -> list[Path]:
        """The files that the store is in. Override this where it is in files."""
        pytest.skip(f"{backend.url} is in no file")


def commit_all(backend: Backend, *batches: Batch) -> list[CheckpointRow]:
    """Commit one batch after the other; the rows they wrote, oldest first."""
    return [row for batch in batches for row in backend.commit(batch).checkpoints]


def found(backend: Backend, query: Query) -> list[CheckpointId]:
    """The ids of the checkpoints that match, in the order in which the backend gives them."""
    with backend.reader() as reader:
        return [row.id for row in reader.checkpoints(query)]


def read_row(backend: Backend, checkpoint: CheckpointId) -> CheckpointRow:
    """The row of a checkpoint that must be there."""
    with backend.reader() as reader:
        row = reader.checkpoint(checkpoint)
    assert row is not None
    return row
