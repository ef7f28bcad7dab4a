"""load_each: many states one after the other, read in pages.

A page is read from one view of the store, and the view is let go before the first state of the page is handed out: who
takes long over a state holds up nobody. What is kept of a page is bytes; a state is built when its turn comes. States
that follow each other share most of their chunks, which are read once and put into each from there.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
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
from holdfast.objects.recurring import RecurringRuns, RecurringState
from holdfast.objects.registry import TypeRegistry
from holdfast.objects.verified import Read, checked
from holdfast.storage.ports import Backend, Reader
from holdfast.storage.records import CheckpointId, ChunkHash, Query
from holdfast.store.rereading import read_again

_PAGE: Final = 32
_PAGE_BYTES: Final = 8 << 20
"""Of encoded states, after which a page ends: with large states it has few, and one at least."""
_REMEMBERED_BYTES: Final = 16 << 20
"""Of chunks: all of a page, and what the next one shares with it."""

_APART: Final = 8
"""So many rows for each that is asked for are read at most to find out which are there."""

_OF_ONE_STATE: Final = (IntegrityError, StateError, UnsupportedError)
"""What can be wrong with a state, while those around it are whole."""


class LoadedState:
    """A state on its way to who asked for it, or what is wrong with it."""

    __slots__ = ("_error", "_read", "_value")

    def __init__(self, read: RecurringState | None, error: HoldfastError | None) -> None:
        self._read = read
        self._error = error
        self._value: Any = None

    def build(self) -> None:
        """Make the state of its bytes, if that was not done before; what is wrong with it is raised by `take`."""
        if self._read is None:
            return
        try:
            self._value = self._read.build()
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

    def __init__(self, backend: Backend, types: TypeRegistry, checkpoints: Iterable[Checkpoint]) -> None:
        self._backend = backend
        self._runs = RecurringRuns(types)
        given: object = checkpoints
        if not isinstance(given, Iterable) or isinstance(given, str | Checkpoint):
            raise _no_checkpoints(given)
        self._checkpoints: Iterator[object] = iter(given)
        self._failure: BaseException | None = None
        self._recent = _RecentChunks()

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
        with self._backend.reader() as reader:
            read = partial(self._recent.read, reader.chunks)
            there = _there(reader, chosen)
            roots = [ChunkHash(bytes.fromhex(each.root)) for each in chosen]
            # Most states are one chunk, or little more: one question instead of one for each.
            found = read(roots)
            for root in dict.fromkeys(roots):
                # Where one of them is damaged, which it is shows below, when each is read for itself.
                with suppress(IntegrityError):
                    self._recent.keep(root, checked(root, found))
            return deque(
                self._loaded(read, root, None if each.id in there else _removed(each))
                for each, root in zip(chosen, roots, strict=True)
            )

    def _loaded(self, read: Read, root: ChunkHash, removed: HoldfastError | None) -> LoadedState:
        if removed is not None:
            # Its chunks may well be there, or even be remembered; nobody can load what is forgotten.
            return LoadedState(None, removed)
        try:
            return LoadedState(self._runs.state(root, read, self._recent.keep), None)
        except _OF_ONE_STATE as error:
            return LoadedState(None, error)


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


class _RecentChunks:
    """The chunks that were read last, by their hash; which is also why those of an older view are as good."""

    def __init__(self) -> None:
        self._chunks: dict[ChunkHash, bytes] = {}
        self._size = 0

    def read(self, read: Read, names: Iterable[ChunkHash]) -> Mapping[ChunkHash, bytes]:
        """What `read` would give, with no chunk read that is remembered."""
        wanted = list(names)
        known = {name: self._chunks[name] for name in wanted if name in self._chunks}
        missing = [name for name in wanted if name not in known]
        return _Found(known, read(missing)) if missing else known

    def keep(self, name: ChunkHash, data: bytes) -> None:
        """Remember a chunk that is what it should be; of one that was not, others would be told, too."""
        if name in self._chunks or len(data) > _REMEMBERED_BYTES:
            return
        self._chunks[name] = data
        self._size += len(data)
        while self._size > _REMEMBERED_BYTES:
            self._size -= len(self._chunks.pop(next(iter(self._chunks))))


class _Found(Mapping[ChunkHash, bytes]):
    """What is remembered, and what was read. Each chunk of that may be expanded when it is looked at, and only then."""

    __slots__ = ("_known", "_read")

    def __init__(self, known: Mapping[ChunkHash, bytes], read: Mapping[ChunkHash, bytes]) -> None:
        self._known = known
        self._read = read

    def __getitem__(self, name: ChunkHash) -> bytes:
        return self._known[name] if name in self._known else self._read[name]

    def __iter__(self) -> Iterator[ChunkHash]:
        yield from self._known
        yield from self._read

    def __len__(self) -> int:
        return len(self._known) + len(self._read)


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
