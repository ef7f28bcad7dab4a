"""load_each: many states one after the other, read in pages.

A page is read from one view of the store, and the view is let go before the first state of the page is handed out: who
takes long over a state holds up nobody. What is kept of a page is bytes; a state is built when its turn comes.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
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

_OF_ONE_STATE: Final = (IntegrityError, StateError, UnsupportedError)
"""What can be wrong with a state, while those around it are whole."""


class LoadedState:
    """A state on its way to who asked for it, or what is wrong with it."""

    __slots__ = ("_error", "_read", "_types", "_value")

    def __init__(self, types: TypeRegistry, read: JoinedState | None, error: HoldfastError | None) -> None:
        self._types = types
        self._read = read
        self._error = error
        self._value: Any = None

    def build(self) -> None:
        """Make the state of its bytes, if that was not done before; what is wrong with it is raised by `take`."""
        if self._read is None:
            return
        try:
            self._value = self._read.decode(self._types)
        except _OF_ONE_STATE as error:
            self._error = error
        self._read = None

    def take(self) -> Any:
        """The state.

        Raises:
            HoldfastError: It is damaged, gone, or does not fit the program.
        """
        self.build()
        if self._error is not None:
            raise self._error
        return self._value


class StatePages:
    """The states of checkpoints, page by page."""

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

    def choose(self) -> list[Checkpoint]:
        """The checkpoints of the next page; none where there are no more.

        Raises:
            InvalidInputError: The next one is no checkpoint. Those before it have been a page.
        """
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
                chosen.append(_checked(each))
                size += chosen[-1].size_bytes
        except BaseException as failure:
            # Whatever the iterable raised: what it gave before comes first.
            if not chosen:
                raise
            self._failure = failure
        return chosen

    def read(self, chosen: Sequence[Checkpoint]) -> deque[LoadedState]:
        """Read what is needed for the states of a page, from one view."""
        return read_again(partial(self._read, chosen))

    def _read(self, chosen: Sequence[Checkpoint]) -> deque[LoadedState]:
        # Before the view is opened: what that still sees and is forgotten meanwhile does not stay at hand.
        kept = self._at_hand.begin()
        with self._backend.reader() as reader:
            read = kept.through(reader.chunks)
            there = _there(reader, chosen)
            roots = [ChunkHash(bytes.fromhex(each.root)) for each in chosen]
            # Most states are one chunk, or little more: one question instead of one for each.
            fetch(roots, read)
            return deque(
                self._loaded(read, root, None if each.id in there else _removed(each))
                for each, root in zip(chosen, roots, strict=True)
            )

    def _loaded(self, read: Read, root: ChunkHash, removed: HoldfastError | None) -> LoadedState:
        if removed is not None:
            # Its chunks may well be there, or even be remembered; nobody can load what is forgotten.
            return LoadedState(self._types, None, removed)
        try:
            return LoadedState(self._types, read_state(root, read), None)
        except _OF_ONE_STATE as error:
            return LoadedState(self._types, None, error)


class EachState(Iterator[Any]):
    """The states themselves. What is wrong with one does not end it: the next call goes on with the one after."""

    def __init__(self, pages: StatePages) -> None:
        self._pages = pages
        self._chosen: Sequence[Checkpoint] = ()
        self._page: deque[LoadedState] = deque()
        # Threads that share it get each state once.
        self._turn = threading.Lock()

    def __next__(self) -> Any:
        with self._turn:
            if not self._page:
                # Kept until it was read: a page that could not be is tried again by the next call, not passed over.
                self._chosen = self._chosen or self._pages.choose()
                if not self._chosen:
                    raise StopIteration
                self._page, self._chosen = self._pages.read(self._chosen), ()
            taken = self._page.popleft()
        return taken.take()


class AsyncEachState(AsyncIterator[Any]):
    """The same, awaitable: a page is read and built by one call of `run`, which knows a thread for it.

    Tasks that share it take turns, which `turn` sees to, and get each state once.
    """

    def __init__(
        self,
        pages: StatePages,
        run: Callable[[Callable[[], deque[LoadedState]]], Awaitable[deque[LoadedState]]],
        turn: AbstractAsyncContextManager[Any],
    ) -> None:
        self._pages = pages
        self._run = run
        self._chosen: Sequence[Checkpoint] = ()
        self._page: deque[LoadedState] = deque()
        self._turn = turn

    async def __anext__(self) -> Any:
        async with self._turn:
            if not self._page:
                self._chosen = self._chosen or self._pages.choose()
                if not self._chosen:
                    raise StopAsyncIteration
                self._page = await self._run(partial(self._built, self._chosen))
                self._chosen = ()
            taken = self._page.popleft()
        return taken.take()

    def _built(self, chosen: Sequence[Checkpoint]) -> deque[LoadedState]:
        page = self._pages.read(chosen)
        for each in page:
            each.build()
        return page


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


def _checked(each: object) -> Checkpoint:
    if not isinstance(each, Checkpoint):
        raise _no_checkpoints(each)
    return each


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
