"""The SQLite backend, against every sentence of the contract, with both durabilities."""

from __future__ import annotations

import apsw
import pytest

from holdfast.backends.sqlite import SqliteBackend
from holdfast.backends.sqlite.connection import Durability
from holdfast.testing.kit import BackendConformance


class SqliteConformance(BackendConformance):
    durability: Durability

    @pytest.fixture
    def backend(self, tmp_path):
        self.path = tmp_path / "store.db"
        backend = self.open(create=True)
        yield backend
        backend.close()

    def open(self, *, create):
        return SqliteBackend.open(self.path, durability=self.durability, create=create, timeout=10.0)

    def reopen(self, backend):
        backend.close()
        return self.open(create=False)

    def open_copy(self, path):
        return SqliteBackend.open(path, durability=self.durability, create=False, timeout=10.0)

    def files(self, backend):
        return sorted(self.path.parent.glob(f"{self.path.name}*"))

    def spoil(self, backend, checkpoint):
        # Through the same checksum VFS, so that the page is sound and only the row is wrong.
        connection = apsw.Connection(str(self.path), vfs="cksmvfs")
        connection.execute("UPDATE checkpoints SET message = message || '!' WHERE id = ?", (checkpoint,))
        assert connection.changes() == 1
        connection.close()


class TestSqliteThatSurvivesPowerCuts(SqliteConformance):
    durability: Durability = "power"


class TestSqliteThatSurvivesItsProcess(SqliteConformance):
    durability: Durability = "process"
