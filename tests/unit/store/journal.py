"""What tests look up in the operation log of a store."""

from __future__ import annotations

from holdfast import Store
from holdfast.history.oplog import Recorded, check_chain, recorded
from holdfast.storage.records import Query


def kinds_of(store: Store, name: str = "s") -> list[str]:
    """The kinds of all operations, oldest first, once the log is known to be whole."""
    with store._backend.reader() as reader:
        session = reader.session(name)
        entries = reader.operations(name)
        if session is not None:
            check_chain(session, entries)
        return [entry.kind for entry in entries]


def entries_of(store: Store, name: str = "s") -> list[Recorded]:
    """The data of all operations, oldest first."""
    with store._backend.reader() as reader:
        return [recorded(entry) for entry in reader.operations(name)]


def current_of(store: Store, name: str = "s") -> str:
    """The branch that people are on."""
    with store._backend.reader() as reader:
        session = reader.session(name)
        assert session is not None
        return session.current


def check_links(store: Store, name: str = "s") -> None:
    """Every row, hidden or not, leads to one that is there and older, and every head is there."""
    with store._backend.reader() as reader:
        rows = {row.id: row for row in reader.checkpoints(Query(session=name, include_hidden=True))}
        for row in rows.values():
            if row.prev is not None:
                assert not rows[row.prev].hidden
                assert rows[row.prev].seq < row.seq
        for branch in reader.branches(name):
            assert not rows[branch.head].hidden
