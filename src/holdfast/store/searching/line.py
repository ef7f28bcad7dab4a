"""The line of a history, newest first, by position: read page by page, as far as somebody looks.

Of each checkpoint only what a search needs is kept, its id and its root, so that a long history takes little memory.
Behind the oldest there is nothing, which is a value like any other: who has a value there is the one that added it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from holdfast.errors import ErrorCode, IntegrityError, NotFoundError
from holdfast.history.checkpoint import Checkpoint
from holdfast.history.refs import ancestors, is_range, nothing_in, resolve_range
from holdfast.record import Record
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointId, CheckpointRow, ChunkHash
from holdfast.store.place import Place, read_again, session_of

_T = TypeVar("_T")

_PAGE: Final = 256


class Stop(Record):
    """A checkpoint on the line."""

    id: CheckpointId
    seq: int
    root: ChunkHash
    prev: CheckpointId | None

    def shown(self) -> str:
        """How it is called in messages: `#12 (0f3a9c21)`."""
        return f"#{self.seq} ({self.id.hex()[:8]})"


class Line:
    """A checkpoint and its ancestors; or, where ranges are taken, those of a range."""

    def __init__(self, place: Place, ref: str | Checkpoint | CheckpointRow, *, ranges: bool = True) -> None:
        self._place = place
        self._ranges = ranges
        self._stops: list[Stop] = []
        self._ended = False
        self._beyond: Stop | None = None
        self.empty: str | None = None
        """Where it is a range with nothing in it: what is said of that."""
        self.view(partial(self._begin, ref))

    def view(self, work: Callable[[Reader], _T]) -> _T:
        """What `work` reads in one view of the store; a view is never held while somebody else does something."""

        def once() -> _T:
            with self._place.backend.reader() as reader:
                return work(reader)

        return read_again(once)

    def at(self, position: int) -> Stop | None:
        """The stop so many steps back; None behind the oldest."""
        while position >= len(self._stops) and not self._ended:
            self.view(self._extend)
        if position < len(self._stops):
            return self._stops[position]
        # A range begins after a checkpoint, and what that one has is what the first of the range found there.
        return self._beyond if position == len(self._stops) else None

    def count(self) -> int:
        """How many stops there are; all of them are read for it."""
        while not self._ended:
            self.view(self._extend)
        return len(self._stops)

    def has(self, position: int) -> bool:
        """Whether that position is on the line."""
        self.at(position)
        return position < len(self._stops)

    def position(self, row: CheckpointRow) -> int | None:
        """Where a checkpoint is on the line; None where it is not."""
        position = 0
        while self.has(position) and self._stops[position].seq > row.seq:
            position += 1
        return position if self.has(position) and self._stops[position].id == row.id else None

    def find(self, ref: str | Checkpoint) -> CheckpointRow:
        """The row that a ref names."""
        return self.view(lambda reader: self._place.find(reader, ref))

    def checkpoint(self, stop: Stop) -> Checkpoint:
        """The record of a stop."""

        def work(reader: Reader) -> Checkpoint:
            row = reader.checkpoint(stop.id)
            if row is None:
                raise removed(stop)
            return Checkpoint(row, session_of(reader, row))

        return self.view(work)

    def _begin(self, ref: str | Checkpoint | CheckpointRow, reader: Reader) -> None:
        place = self._place
        self._stops, self.empty = [], None
        if self._ranges and isinstance(ref, str) and is_range(ref):
            session, branch = place.claim.session, place.branch
            rows = resolve_range(reader, session, branch, ref, now=place.clock())
            self._stops = [stop_of(row) for row in rows]
            self._ended = True
            last = self._stops[-1].prev if self._stops else None
            before = None if last is None else reader.checkpoint(last)
            self._beyond = None if before is None else stop_of(before)
            if not self._stops:
                self.empty = nothing_in(ref, partial(self._has, reader))
            return
        self._append(reader, ref if isinstance(ref, CheckpointRow) else place.find(reader, ref))

    def _has(self, reader: Reader, text: str) -> bool:
        session, branch = self._place.claim.session, self._place.branch
        rows = resolve_range(reader, session, branch, text, now=self._place.clock())
        return next(rows, None) is not None

    def _extend(self, reader: Reader) -> None:
        last = self._stops[-1]
        row = None if last.prev is None else reader.checkpoint(last.prev)
        if row is None or row.hidden:
            # Somebody prunes while we look: the line that was begun leads nowhere any more.
            raise removed(last)
        self._append(reader, row)

    def _append(self, reader: Reader, row: CheckpointRow) -> None:
        found = [stop_of(each) for each in islice(ancestors(reader, row, limit=_PAGE), _PAGE)]
        self._stops += found
        self._ended = found[-1].prev is None


def read_stops(line: Line, stops: Sequence[Stop], work: Callable[[Reader], _T]) -> _T:
    """What `work` reads of the states of some stops; where chunks are gone with one of them, the error says so."""

    def checked(reader: Reader) -> _T:
        try:
            return work(reader)
        except IntegrityError as error:
            gone = (stop for stop in stops if reader.checkpoint(stop.id) is None)
            if error.code is ErrorCode.CHUNK_MISSING and (stop := next(gone, None)) is not None:
                raise removed(stop) from error
            raise

    return line.view(checked)


def removed(stop: Stop) -> NotFoundError:
    """The error for a checkpoint that went away while it was looked for."""
    return NotFoundError(
        f"checkpoint {stop.shown()} or one before it was removed while history was searched",
        code=ErrorCode.CHECKPOINT_MISSING,
        hint="search again: what is left of the history is found then",
        ref=stop.id.hex(),
    )


def stop_of(row: CheckpointRow) -> Stop:
    """What a search keeps of a row."""
    return Stop(row.id, row.seq, row.root, row.prev)
