"""An inspection of a store that has no damage of its own to tell of: everything is what its reader says.

For backends that keep rows where they cannot be damaged one by one: in memory, or behind a server that answers for
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from holdfast.storage.inspection import Flaw, LostRow
from holdfast.storage.ports import Reader
from holdfast.storage.records import (
    BranchRow,
    CheckpointRow,
    ChunkHash,
    Operation,
    Query,
    SessionRow,
)


class ReaderInspection:
    """An `Inspection` through a reader.

    Args:
        reader: One view of the store.
        names: The chunks that there are, where the backend can list them; without it, those that no checkpoint needs
            are not looked at.
    """

    def __init__(self, reader: Reader, names: Iterable[ChunkHash] = ()) -> None:
        self._reader = reader
        self._names = names

    def flaws(self) -> Sequence[Flaw]:
        """None."""
        return []

    def lost(self) -> Sequence[LostRow]:
        """None."""
        return []

    def sessions(self) -> Sequence[SessionRow]:
        """See `Inspection.sessions`."""
        return self._reader.sessions()

    def branches(self) -> Sequence[BranchRow]:
        """See `Inspection.branches`."""
        return [each for session in self.sessions() for each in self._reader.branches(session.id)]

    def checkpoints(self) -> Iterator[CheckpointRow]:
        """See `Inspection.checkpoints`."""
        return iter(self._reader.checkpoints(Query(include_hidden=True, oldest_first=True)))

    def operations(self, session: str) -> Sequence[Operation]:
        """See `Inspection.operations`."""
        return self._reader.operations(session)

    def chunk_names(self) -> Iterator[ChunkHash]:
        """See `Inspection.chunk_names`."""
        return iter(self._names)

    def chunks(self, hashes: Iterable[ChunkHash]) -> Mapping[ChunkHash, bytes]:
        """See `Inspection.chunks`."""
        return self._reader.chunks(hashes)
