"""What a subclass of the kit provides, and short ways to ask a backend something.

Each test gets a fresh, empty backend from the `backend` fixture. The other hooks are for what not every backend can do;
a test that needs one it does not have is skipped, and says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holdfast.errors import HoldfastError
from holdfast.storage.ports import Backend
from holdfast.storage.records import Batch, CheckpointId, CheckpointRow, Operation, Query, SessionRow
from holdfast.testing.rows import checkpoint_id, contents

T = TypeVar("T")
PATIENCE = 60.0
"""Seconds until a thread that waits for another one is called stuck; a sound backend needs none of them."""


class Contract:
    """The hooks of the kit."""

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


def cases(names: str | tuple[str, ...], table: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Parametrize a test by a table: what to call each case, and its arguments."""
    return pytest.mark.parametrize(names, table.values(), ids=list(table))


def commit_all(backend: Backend, *batches: Batch) -> list[CheckpointRow]:
    """Commit one batch after the other; the rows they wrote, oldest first."""
    return [row for batch in batches for row in backend.commit(batch).checkpoints]


def refused(backend: Backend, bad: Batch) -> HoldfastError:
    """Commit a batch that must be refused; the error, once it is sure that nothing has changed."""
    before = contents(backend)
    with pytest.raises(HoldfastError) as caught:
        backend.commit(bad)
    assert contents(backend) == before
    return caught.value


def ids(*labels: str) -> list[CheckpointId]:
    """The ids of these labels, in this order."""
    return [checkpoint_id(label) for label in labels]


def found(backend: Backend, **filters: Any) -> list[CheckpointId]:
    """The ids of the checkpoints that match, in the order in which the backend gives them."""
    with backend.reader() as reader:
        return [row.id for row in reader.checkpoints(Query(**filters))]


def read_row(backend: Backend, checkpoint: CheckpointId | str) -> CheckpointRow:
    """The row of a checkpoint that must be there, by its id or its label."""
    name = checkpoint_id(checkpoint) if isinstance(checkpoint, str) else checkpoint
    with backend.reader() as reader:
        row = reader.checkpoint(name)
    assert row is not None
    return row


def session_row(backend: Backend, session: str = "work") -> SessionRow:
    """The row of a session that must be there."""
    with backend.reader() as reader:
        row = reader.session(session)
    assert row is not None
    return row


def heads(backend: Backend, session: str = "work") -> dict[str, CheckpointId]:
    """The branches of a session with their heads, in the order in which the backend gives them."""
    with backend.reader() as reader:
        return {each.name: each.head for each in reader.branches(session)}


def log(backend: Backend, session: str = "work", *, after: int = 0) -> list[Operation]:
    """The operation log of a session."""
    with backend.reader() as reader:
        return list(reader.operations(session, after=after))


def elsewhere(work: Callable[[], T]) -> T:
    """Run `work` in another thread and wait for it."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - the test's own thread raises it
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "the other thread is stuck: a reader and a writer wait for each other"
    if errors:
        raise errors[0]
    return results[0]
