"""The checkpoints that a search goes through, newest first, read page by page; and the notes that it takes on the way.

A search never holds a view of the store while the caller's code runs, so each page and each state has its own view. Of
each checkpoint only what a search needs is kept, so that a long history takes little memory.

One rule holds for every search: a damaged state is skipped with a note, because those around it hold the answer. Where
no state at all can be read, that is an error.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice, pairwise
from typing import Final, Generic, TypeVar

from holdfast.errors import (
    ErrorCode,
    HoldfastError,
    HoldfastWarning,
    IntegrityError,
    NotFoundError,
    StateError,
    UnsupportedError,
)
from holdfast.history.checkpoint import Checkpoint
from holdfast.history.refs import ancestors, is_range, nothing_in, resolve_range
from holdfast.record import Record
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointId, CheckpointRow, ChunkHash, Query
from holdfast.store.place import Place, callers_level, read_again, session_of

_T = TypeVar("_T")

DAMAGED: Final = (IntegrityError, StateError, UnsupportedError)
"""What can be wrong with one state, while those around it are whole."""

_PAGE: Final = 256
_BATCH: Final = 64
_MOST_NOTES: Final = 10


class Stop(Record):
    """A checkpoint that a search comes by."""

    id: CheckpointId
    seq: int
    root: ChunkHash
    prev: CheckpointId | None

    def __str__(self) -> str:
        return f"#{self.seq} ({self.id.hex()[:8]})"


class Line:
    """A checkpoint and its ancestors; those of a range; or, where no ref is given, all checkpoints of the session."""

    def __init__(
        self, place: Place, ref: str | Checkpoint | CheckpointRow | None, *, ranges: bool = True
    ) -> None:
        self._place = place
        self.empty: str | None = None
        """What to say of a range with nothing in it."""
        self._next: Callable[[Stop, Reader], list[Stop]] | None = None
        self._first = self.view(partial(self._begin, ref, ranges=ranges))

    def view(self, work: Callable[[Reader], _T]) -> _T:
        """What `work` reads in one view of the store."""

        def once() -> _T:
            with self._place.backend.reader() as reader:
                return work(reader)

        return read_again(once)

    def read(self, stops: Sequence[Stop], work: Callable[[Reader], _T]) -> _T:
        """What `work` reads of the states of some stops; if one of them was removed meanwhile, the error says so."""

        def checked(reader: Reader) -> _T:
            try:
                return work(reader)
            except IntegrityError as error:
                gone = (stop for stop in stops if reader.checkpoint(stop.id) is None)
                if error.code is ErrorCode.CHUNK_MISSING and (stop := next(gone, None)) is not None:
                    raise _removed(stop) from error
                raise

        return self.view(checked)

    def stops(self) -> Iterator[Stop]:
        """The stops, newest first, read as they are asked for."""
        page = self._first
        while page:
            yield from page
            page = [] if self._next is None else self.view(partial(self._next, page[-1]))

    def batches(self) -> Iterator[list[Stop]]:
        """The stops in batches: small at first, for callers that stop early."""
        stops, size = self.stops(), 1
        while batch := list(islice(stops, size)):
            yield batch
            size = min(size * 2, _BATCH)

    def older(self, stop: Stop) -> Stop | None:
        """The checkpoint before a stop, on the line or not."""
        return None if stop.prev is None else self.view(lambda reader: before(reader, stop))

    def find(self, ref: str | Checkpoint) -> CheckpointRow:
        """The row that a ref names."""
        return self.view(lambda reader: self._place.find(reader, ref))

    def checkpoint(self, stop: Stop) -> Checkpoint:
        """The record of a stop."""

        def work(reader: Reader) -> Checkpoint:
            row = reader.checkpoint(stop.id)
            if row is None:
                raise _removed(stop)
            return Checkpoint(row, session_of(reader, row))

        return self.view(work)

    def _begin(
        self, ref: str | Checkpoint | CheckpointRow | None, reader: Reader, *, ranges: bool
    ) -> list[Stop]:
        place = self._place
        if ref is None:
            place.find(reader, "@")
            self._next = self._all_before
            return _stops(reader.checkpoints(Query(session=place.claim.session, limit=_PAGE)))
        if ranges and isinstance(ref, str) and is_range(ref):
            found = self._in_range(reader, ref)
            self.empty = None if found else nothing_in(ref, lambda text: bool(self._in_range(reader, text)))
            return found
        self._next = self._ancestors_of
        row = ref if isinstance(ref, CheckpointRow) else place.find(reader, ref)
        return _stops(islice(ancestors(reader, row, limit=_PAGE), _PAGE))

    def _in_range(self, reader: Reader, text: str) -> list[Stop]:
        place = self._place
        return _stops(resolve_range(reader, place.claim.session, place.branch, text, now=place.clock()))

    def _ancestors_of(self, stop: Stop, reader: Reader) -> list[Stop]:
        if stop.prev is None:
            return []
        row = reader.checkpoint(stop.prev)
        if row is None or row.hidden:
            # Somebody prunes meanwhile: the line that was begun leads nowhere any more.
            raise _removed(stop)
        return _stops(islice(ancestors(reader, row, limit=_PAGE), _PAGE))

    def _all_before(self, stop: Stop, reader: Reader) -> list[Stop]:
        query = Query(session=self._place.claim.session, before_seq=stop.seq, limit=_PAGE)
        return _stops(reader.checkpoints(query))


def before(reader: Reader, stop: Stop) -> Stop | None:
    """The checkpoint before a stop."""
    row = None if stop.prev is None else reader.checkpoint(stop.prev)
    return None if row is None else stop_of(row)


def stop_of(row: CheckpointRow) -> Stop:
    """What a search keeps of a row."""
    return Stop(row.id, row.seq, row.root, row.prev)


def _stops(rows: Iterable[CheckpointRow]) -> list[Stop]:
    return [stop_of(row) for row in rows]


def _removed(stop: Stop) -> NotFoundError:
    return NotFoundError(
        f"checkpoint {stop} or one before it was removed during the search",
        code=ErrorCode.CHECKPOINT_MISSING,
        hint="search again: it finds what is left of the history",
        ref=stop.id.hex(),
    )


class Notes:
    """What else there is to know about the answer: first of all the states that could not be read."""

    def __init__(self) -> None:
        self.failure: HoldfastError | None = None
        """Why the first unreadable state could not be read."""
        self._unreadable: dict[CheckpointId, Stop] = {}
        self._said: dict[str, tuple[Stop | None, int]] = {}

    def unreadable(self, stop: Stop, error: HoldfastError) -> None:
        """Note a state that was skipped."""
        self.failure = self.failure or error
        self._unreadable[stop.id] = stop

    def add(self, text: str, stop: Stop | None = None) -> None:
        """Note something else; what is the same for many states is said once."""
        first, count = self._said.get(text, (stop, 0))
        self._said[text] = first, count + 1

    def texts(self) -> tuple[str, ...]:
        """All notes in words."""
        found = [self._damage()] if self._unreadable else []
        for text, (first, count) in list(self._said.items())[:_MOST_NOTES]:
            others = f" and {count - 1:,} more" if count > 1 else ""
            found.append(text if first is None else f"{first}{others}: {text}")
        if len(self._said) > _MOST_NOTES:
            found.append(f"{len(self._said) - _MOST_NOTES:,} more notes")
        return tuple(found)

    def _damage(self) -> str:
        # One note for all of them: one damaged chunk that they share may be all there is to it.
        first, *others = self._unreadable.values()
        if not others:
            return f"{first}: the state cannot be read: {self.failure}"
        shown = _numbered(sorted(stop.seq for stop in (first, *others)))
        return f"{len(others) + 1:,} states cannot be read ({shown}); that of {first}: {self.failure}"


def _numbered(seqs: list[int]) -> str:
    """Sequence numbers with runs joined: `#1, #5 to #9`."""
    ends = [at for at, (one, two) in enumerate(pairwise(seqs), 1) if two != one + 1]
    runs = [seqs[start:stop] for start, stop in pairwise([0, *ends, len(seqs)])]
    shown = [f"#{run[0]}" if len(run) == 1 else f"#{run[0]} to #{run[-1]}" for run in runs[:4]]
    more = sum(map(len, runs[4:]))
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


class Findings(Iterator[_T], Generic[_T]):
    """What a search finds, as it is found. At the end, `notes` says which states could not be read."""

    def __init__(self, found: Iterator[_T], notes: Notes) -> None:
        self._found = found
        self._notes = notes
        self._warned = False

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to know about the findings so far: states that were skipped because they are damaged."""
        return self._notes.texts()

    def __next__(self) -> _T:
        """The next one. Warns when the first state was skipped."""
        try:
            return next(self._found)
        finally:
            # Whoever only iterates would not know that something may be missing.
            if self._notes.failure is not None and not self._warned:
                self._warned = True
                warnings.warn(
                    f"a state was skipped: {self._notes.texts()[0]}; .notes has them all in the end",
                    HoldfastWarning,
                    stacklevel=callers_level(),
                )
