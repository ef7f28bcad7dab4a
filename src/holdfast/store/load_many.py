"""load_each: many states one after the other, read in pages.

A page is read from one view of the store, and the view is let go before the first state of the page is handed out: who
takes long over a state holds up nobody. What is kept of a page is bytes; a state is built when its turn comes.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from holdfast.errors import (
    ErrorCode,
    HoldfastError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    StateError,
    UnsupportedError,
)
from holdfast.history.checkpoint import Checkpoint
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.tree.chunk_cache import ChunksAtHand
from holdfast.objects.tree.read import Read, fetch
from holdfast.objects.tree.state import JoinedState, read_state
from holdfast.storage.ports import Backend, Reader
from holdfast.storage.records import CheckpointId, ChunkHash, Query
from holdfast.store.place import read_again

_PAGE: Final = 32
_PAGE_BYTES: Final = 8 << 20
"""Of encoded states, after which a page ends: with large states it has few, and one at least."""

_APART: Final = 8
"""So many rows for each that is asked for are read at most to find out which are there."""


class EachState(Iterator[Any]):
    """The states of checkpoints. What is wrong with one does not end it: the next call goes on with the one after."""

    def __init__(
        self,
        backend: Backend,
        types: TypeRegistry,
        checkpoints: Iterable[Checkpoint],
        at_hand: ChunksAtHand,
    ) -> None:
        self._backend = backend
        # The roots of a page are read together, and found there when each state is read.
        self._at_hand = at_hand.or_own()
        self._types = types
        given: object = checkpoints
        if not isinstance(given, Iterable) or isinstance(given, str | Checkpoint):
            raise _no_checkpoints(given)
        self._checkpoints: Iterator[object] = iter(given)
        self._failure: BaseException | None = None
        self._chosen: Sequence[Checkpoint] = ()
        self._page: deque[JoinedState | HoldfastError] = deque()
        # Threads that share it get each state once.
        self._turn = threading.Lock()

    def __next__(self) -> Any:
        """The next state, or what is wrong with it."""
        with self._turn:
            if not self._page:
                # Kept until it was read: a page that could not be is tried again by the next call, not passed over.
                self._chosen = self._chosen or self._choose()
                if not self._chosen:
                    raise StopIteration
                self._page, self._chosen = read_again(partial(self._read, self._chosen)), ()
            taken = self._page.popleft()
        if isinstance(taken, HoldfastError):
            raise taken
        return taken.decode(self._types)

    def _choose(self) -> list[Checkpoint]:
        """The checkpoints of the next page; none where there are no more."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        # Before the view is opened: the iterable may well read from the store itself.
        chosen: list[Checkpoint] = []
        size = 0
        try:
            while len(chosen) < _PAGE and size < _PAGE_BYTES:
                each = next(self._checkpoints, None)
                if each is None:
                    break
                if not isinstance(each, Checkpoint):
                    raise _no_checkpoints(each)  # noqa: TRY301 - told like a failure of the iterable
                chosen.append(each)
                size += each.size_bytes
        except BaseException as failure:
            # Whatever the iterable raised: what it gave before comes first.
            if not chosen:
                raise
            self._failure = failure
        return chosen

    def _read(self, chosen: Sequence[Checkpoint]) -> deque[JoinedState | HoldfastError]:
        """What is needed for the states of a page, read from one view."""
        # Before the view is opened: what that still sees and is forgotten meanwhile does not stay at hand.
        kept = self._at_hand.begin()
        with self._backend.reader() as reader:
            read = kept.through(reader.chunks)
            there = _there(reader, chosen)
            # Most states are one chunk, or little more: one question instead of one for each.
            fetch([ChunkHash(bytes.fromhex(each.root)) for each in chosen], read)
            # The chunks of one that was removed may well be remembered; nobody can load what is forgotten.
            return deque(_joined(read, each) if each.id in there else _removed(each) for each in chosen)


def _joined(read: Read, checkpoint: Checkpoint) -> JoinedState | HoldfastError:
    try:
        return read_state(ChunkHash(bytes.fromhex(checkpoint.root)), read)
    except (IntegrityError, StateError, UnsupportedError) as error:
        return error


def _there(reader: Reader, chosen: Iterable[Checkpoint]) -> set[str]:
    """The ids of those that are in the store, removed ones included as long as they can be brought back."""
    found: set[str] = set()
    sessions: dict[str, list[Checkpoint]] = {}
    for each in chosen:
        sessions.setdefault(each.session, []).append(each)
    for session, some in sessions.items():
        first, last = min(each.seq for each in some), max(each.seq for each in some)
        near = Query(session=session, after_seq=first - 1, before_seq=last + 1, include_hidden=True)
        try:
            # Checkpoints that follow each other are one question; of those far apart each is one.
            if last - first < _APART * len(some):
                found.update(row.id.hex() for row in reader.checkpoints(near))
                continue
        except IntegrityError:
            # One of the rows is damaged, perhaps one that nobody asked for: each for itself, then.
            pass
        found.update(each.id for each in some if _is_there(reader, each))
    return found


def _is_there(reader: Reader, checkpoint: Checkpoint) -> bool:
    try:
        return reader.checkpoint(CheckpointId(bytes.fromhex(checkpoint.id))) is not None
    except IntegrityError:
        # Damaged, so it is there.
        return True


def _no_checkpoints(given: object) -> InvalidInputError:
    return InvalidInputError(
        f"load_each takes checkpoints, not a {type(given).__name__}",
        code=ErrorCode.BAD_ARGUMENT,
        hint="pass Checkpoints, as s.log() and store.find() give them",
    )


def _removed(checkpoint: Checkpoint) -> NotFoundError:
    return NotFoundError(
        f"checkpoint {checkpoint.id[:12]} of session {checkpoint.session!r} is not in this store: it was removed for "
        "good, or is of another one",
        code=ErrorCode.CHECKPOINT_MISSING,
        hint="list the checkpoints there are with s.log() or store.find()",
        session=checkpoint.session,
        checkpoint=checkpoint.id,
    )
