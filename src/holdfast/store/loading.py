"""load_each: many states one after the other, read in pages.

A page is read from one view of the store, and the view is let go before the first state of the page is handed out: who
takes long over a state holds up nobody. What is kept of a page is bytes; a state is built when its turn comes. States
that follow each other share most of their chunks, which are read once and put into each from there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
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
from holdfast.objects.joining import join_state
from holdfast.objects.registry import TypeRegistry
from holdfast.objects.state import decode_joined
from holdfast.objects.verified import Read
from holdfast.storage.ports import Backend, Reader
from holdfast.storage.records import CheckpointId, ChunkHash
from holdfast.store.rereading import read_again

_PAGE: Final = 32
_PAGE_BYTES: Final = 8 << 20
"""Of encoded states, after which a page ends: with large states it has few, and one at least."""
_REMEMBERED_BYTES: Final = 16 << 20
"""Of chunks: all of a page, and what the next one shares with it."""

_OF_ONE_STATE: Final = (IntegrityError, StateError, UnsupportedError)
"""What can be wrong with a state, while those around it are whole."""


class LoadedState:
    """A state on its way to who asked for it, or what is wrong with it."""

    __slots__ = ("_error", "_pieces", "_types", "_value")

    def __init__(
        self, types: TypeRegistry, pieces: list[bytes | memoryview], error: HoldfastError | None
    ) -> None:
        self._types = types
        self._pieces: list[bytes | memoryview] | None = pieces if error is None else None
        self._error = error
        self._value: Any = None

    def build(self) -> None:
        """Make the state of its bytes, if that was not done before; what is wrong with it is raised by `take`."""
        if self._pieces is None:
            return
        try:
            self._value = decode_joined(self._pieces, self._types)
        except _OF_ONE_STATE as error:
            self._error = error
        self._pieces = None

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
        self._types = types
        self._checkpoints = iter(checkpoints)
        self._recent = _RecentChunks()

    def choose(self) -> list[Checkpoint]:
        """The checkpoints of the next page; none where there are no more."""
        # Before the view is opened: the iterable may well read from the store itself.
        chosen: list[Checkpoint] = []
        size = 0
        while len(chosen) < _PAGE and size < _PAGE_BYTES:
            each = next(self._checkpoints, None)
            if each is None:
                break
            if not isinstance(each, Checkpoint):
                raise InvalidInputError(
                    f"load_each takes checkpoints, not a {type(each).__name__}",
                    code=ErrorCode.BAD_ARGUMENT,
                    hint="pass Checkpoints, as s.log() and store.find() give them",
                )
            chosen.append(each)
            size += each.size_bytes
        return chosen

    def read(self, chosen: Sequence[Checkpoint]) -> deque[LoadedState]:
        """Read what is needed for the states of a page, from one view."""
        return read_again(partial(self._read, chosen))

    def _read(self, chosen: Sequence[Checkpoint]) -> deque[LoadedState]:
        with self._backend.reader() as reader:
            read = partial(self._recent.read, reader.chunks)
            roots = [ChunkHash(bytes.fromhex(each.root)) for each in chosen]
            # Where one of them is damaged, which it is shows below, when each is read for itself.
            with suppress(IntegrityError):
                # Most states are one chunk, or little more: one question instead of one for each.
                read(roots)
            return deque(
                self._loaded(reader, read, each, root) for each, root in zip(chosen, roots, strict=True)
            )

    def _loaded(self, reader: Reader, read: Read, of: Checkpoint, root: ChunkHash) -> LoadedState:
        try:
            return LoadedState(self._types, join_state(root, read), None)
        except _OF_ONE_STATE as error:
            gone = error.code is ErrorCode.CHUNK_MISSING and _is_gone(reader, of)
            return LoadedState(self._types, [], _removed(of) if gone else error)


class EachState(Iterator[Any]):
    """The states themselves. What is wrong with one does not end it: the next call goes on with the one after."""

    def __init__(self, pages: StatePages) -> None:
        self._pages = pages
        self._chosen: Sequence[Checkpoint] = ()
        self._page: deque[LoadedState] = deque()

    def __next__(self) -> Any:
        if not self._page:
            # Kept until it was read: a page that could not be is tried again by the next call, not passed over.
            self._chosen = self._chosen or self._pages.choose()
            if not self._chosen:
                raise StopIteration
            self._page, self._chosen = self._pages.read(self._chosen), ()
        return self._page.popleft().take()


class AsyncEachState(AsyncIterator[Any]):
    """The same, awaitable: a page is read and built by one call of `run`, which knows a thread for it."""

    def __init__(
        self,
        pages: StatePages,
        run: Callable[[Callable[[], deque[LoadedState]]], Awaitable[deque[LoadedState]]],
    ) -> None:
        self._pages = pages
        self._run = run
        self._chosen: Sequence[Checkpoint] = ()
        self._page: deque[LoadedState] = deque()

    async def __anext__(self) -> Any:
        if not self._page:
            self._chosen = self._chosen or self._pages.choose()
            if not self._chosen:
                raise StopAsyncIteration
            self._page = await self._run(partial(self._built, self._chosen))
            self._chosen = ()
        return self._page.popleft().take()

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
        found = {name: self._chunks[name] for name in wanted if name in self._chunks}
        missing = [name for name in wanted if name not in found]
        if missing:
            new = read(missing)
            found.update(new)
            self._remember(new)
        return found

    def _remember(self, new: Mapping[ChunkHash, bytes]) -> None:
        self._chunks.update(new)
        self._size += sum(map(len, new.values()))
        while self._size > _REMEMBERED_BYTES:
            self._size -= len(self._chunks.pop(next(iter(self._chunks))))


def _is_gone(reader: Reader, checkpoint: Checkpoint) -> bool:
    """Whether chunks are missing because the checkpoint was removed for good."""
    try:
        return reader.checkpoint(CheckpointId(bytes.fromhex(checkpoint.id))) is None
    except IntegrityError:
        # The row is damaged too, so it is there.
        return False


def _removed(checkpoint: Checkpoint) -> NotFoundError:
    return NotFoundError(
        f"checkpoint {checkpoint.id[:12]} of session {checkpoint.session!r} is not in this store: it was removed for "
        "good, or is of another one",
        code=ErrorCode.CHECKPOINT_MISSING,
        hint="list the checkpoints there are with s.log() or store.find()",
        session=checkpoint.session,
        checkpoint=checkpoint.id,
    )
