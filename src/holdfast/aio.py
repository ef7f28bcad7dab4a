"""AsyncStore and AsyncSession: the same names, awaitable, one worker-thread hop per operation.

The core is synchronous; an "async" SQLite would hop to a thread for every statement anyway, at many times the cost.
What matters for an event loop is done here: a state becomes bytes on the caller's thread before the first await, so
that one checkpoint is one moment whatever other tasks do to the state afterwards, and only bytes cross to the worker.
An operation that was started is finished even if the task that awaits it is cancelled.

The twins get their methods from the classes they wrap; `aio.pyi`, written by tools/async_stub.py, says so to type
checkers.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Mapping
from functools import partial, wraps
from typing import Any, Final

import anyio
import anyio.from_thread
import anyio.to_thread

from holdfast.objects.document.containers import TrackedDict, TrackedList
from holdfast.objects.tree.state import EncodedState
from holdfast.store.composition import system_clock
from holdfast.store.document import Document, TrackedDocument
from holdfast.store.draft import check_draft
from holdfast.store.lease import HeldLease
from holdfast.store.open import open_store
from holdfast.store.place import UNSET
from holdfast.store.rows import Rows
from holdfast.store.session import Session
from holdfast.store.store import Store

__all__ = ["AsyncDocument", "AsyncHeldLease", "AsyncSession", "AsyncStore", "aopen", "in_thread"]

_LOOK_EVERY: Final = 0.1
"""Seconds between two looks at whether a lease is lost: a waiting thread for each lease would cost more."""

STREAMS: Final = frozenset({"history_of", "grep", "watch", "load_each"})
"""What gives many, as they come: `async for`."""
_OPENING: Final = frozenset({"lease"})
"""What gives something to close: await it, or use it in `async with`."""
NOT_AWAITED: Final = frozenset(
    {
        "session",
        "rehearsal",
        "rows",
        "register",
        "on_unknown",
        "pack",
        "unpack",
        "json_form",
        "from_json_form",
        "metrics",
        "collector",
        "count_resume",
    }
    | {"encode", "of"}
)
"""What touches no disk, so that there is nothing to wait for."""
_IN_TURN: Final = frozenset(
    {
        "write",
        "delete",
        "clear",
        "restore",
        "switch",
        "rename_branch",
        "delete_branch",
        "undo",
        "redo",
        "merge",
    }
    | {"resume"}
)
"""What writes, or moves the Session: done in the order of the calls."""


async def in_thread(operation: Callable[[], Any]) -> Any:
    """What `operation` returns. It is finished even if the task that awaits it is cancelled."""
    return await anyio.to_thread.run_sync(operation)


def awaitable_twin(sync: type) -> Callable[[type], type]:
    """Give a class that wraps an object of `sync`, in `_inner`, the methods of that class which it does not define."""

    def add(twin: type) -> type:
        for name, member in inspect.getmembers_static(sync):
            if name.startswith("_") or hasattr(twin, name):
                continue
            made: Any = property(_reads(name)) if isinstance(member, property) else _method(name, member)
            made.__doc__ = f"See `{sync.__name__}.{name}`."
            setattr(twin, name, made)
        return twin

    return add


def _reads(name: str) -> Callable[[Any], Any]:
    return lambda self: getattr(self._inner, name)


def _method(name: str, member: Any) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Callable[[], Any]:
        given = {key: _given(each) for key, each in kwargs.items()}
        return partial(getattr(self._inner, name), *map(_given, args), **given)

    if name in NOT_AWAITED:

        def now(self: Any, *args: Any, **kwargs: Any) -> Any:
            given = {key: _unwrapped(each) for key, each in kwargs.items()}
            return _twin(getattr(self._inner, name)(*args, **given))

        return wraps(member)(now)
    if name in STREAMS:

        def stream(self: Any, *args: Any, **kwargs: Any) -> Any:
            return Stream(call(self, *args, **kwargs))

        return wraps(member)(stream)
    if name in _OPENING:

        def opening(self: Any, *args: Any, **kwargs: Any) -> Any:
            return Opening(call(self, *args, **kwargs))

        return wraps(member)(opening)

    async def awaited(self: Any, *args: Any, **kwargs: Any) -> Any:
        work = call(self, *args, **kwargs)
        if name in _IN_TURN and hasattr(self, "_written"):
            return _twin(await self._written(work))
        return _twin(await in_thread(work))

    return wraps(member)(awaited)


def _given(value: Any) -> Any:
    """An argument as the synchronous method takes it: twins unwrapped, functions that may be `async def` waited for."""
    return _waiting(value) if callable(value) and not isinstance(value, type) else _unwrapped(value)


def _unwrapped(value: Any) -> Any:
    return value._inner if isinstance(value, AsyncStore | AsyncHeldLease) else value


def _waiting(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, called in the worker thread; what it returns to await is awaited in the event loop."""

    def ask(*args: Any) -> Any:
        given = function(*args)
        return anyio.from_thread.run(_result, given) if inspect.isawaitable(given) else given

    return ask


async def _result(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _twin(value: Any) -> Any:
    twin = _TWINS.get(type(value))
    return value if twin is None else twin._around(value)


class Stream(AsyncIterator[Any]):
    """What comes one by one, as it comes. Tasks that share it take turns, and get each once."""

    def __init__(self, begin: Callable[[], Any]) -> None:
        self._begin = begin
        self._source: Any = None
        self._page: deque[Any] = deque()
        self._turn = anyio.Lock()

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to know about what came so far; see `Findings.notes`."""
        return getattr(self._source, "notes", ())

    async def __anext__(self) -> Any:
        """The next one."""
        async with self._turn:
            while not self._page:
                # Kept here and not returned: a task that is cancelled meanwhile takes nothing away.
                if not await in_thread(self._fetch):
                    raise StopAsyncIteration
            return self._page.popleft()

    async def aclose(self) -> None:
        """End it. Nothing is held open between two, so that this is never needed."""

    def _fetch(self) -> bool:
        """Fetch more, or wait for it for a moment; False at the end."""
        if self._source is None:
            self._source = self._begin()
        if hasattr(self._source, "page"):
            found = self._source.page()
            self._page.extend(found or ())
            return found is not None
        try:
            self._page.append(next(self._source))
        except StopIteration:
            return False
        return True


class Opening:
    """Something to use and to close: await it, or use it in `async with`, which also closes it."""

    def __init__(self, begin: Callable[[], Any]) -> None:
        self._begin = begin
        self._made: Any = None

    async def _begun(self) -> Any:
        # A task that is cancelled while it waits would leave behind what nobody closes.
        with anyio.CancelScope(shield=True):
            self._made = _twin(await in_thread(self._begin))
        return self._made

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._begun().__await__()

    async def __aenter__(self) -> Any:
        return await self._begun()

    async def __aexit__(self, *error: object) -> None:
        if self._made is not None:
            await self._made.__aexit__(*error)


class _Around:
    """What wraps an object whose work is done in another thread."""

    _inner: Any

    @classmethod
    def _around(cls, inner: Any) -> Any:
        self = cls.__new__(cls)
        self._inner = inner
        return self

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *error: object) -> None:
        # A cancelled task still gives it up.
        with anyio.CancelScope(shield=True):
            await in_thread(partial(self._inner.__exit__, *error))

    def __repr__(self) -> str:
        return f"<Async{repr(self._inner)[1:]}"


@awaitable_twin(HeldLease)
class AsyncHeldLease(_Around):
    """`HeldLease`, with a `release` and a `wait_lost` to await; made by `await store.lease(...)`.

    It is renewed by the same thread as any other lease, so that a loop that is held up does not lose it.
    """

    async def wait_lost(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - that of the twin
        """See `HeldLease.wait_lost`."""
        with anyio.move_on_after(timeout):
            while self._inner.held:  # noqa: ASYNC110 - it is another thread that finds out, and it knows of no loop
                await anyio.sleep(_LOOK_EVERY)
        lost: bool = self._inner.lost
        return lost


@awaitable_twin(Rows)
class AsyncRows(_Around):
    """`Rows`, awaitable: the same methods, arguments and errors."""


class AsyncDocument(TrackedDocument):
    """`Document`, with a `save` to await: the same dict or list, the same arguments and errors."""

    __slots__ = ()

    _turn: anyio.Lock

    @wraps(Document.save)
    def save(self, message: str = "", *, check: bool = False, **said: Any) -> Coroutine[Any, Any, Any]:
        """See `Document.save`. The call itself takes what changed; what changes later belongs to the next save."""
        where = _where(said)
        draft = check_draft(message, **said)
        return self._written(partial(self._write, self._encoded(check=check), draft, *where))

    async def _written(self, write: Callable[[], Any]) -> Any:
        # Two saves at once are written in the order in which they were encoded: one builds on the other.
        async with self._turn:
            return await in_thread(write)


class _AsyncDictDocument(AsyncDocument, TrackedDict):
    __slots__ = ("_commit", "_tree", "_turn")


class _AsyncListDocument(AsyncDocument, TrackedList):
    __slots__ = ("_commit", "_tree", "_turn")


def _where(said: dict[str, Any]) -> tuple[Any, Any, Any]:
    """What a save says about where it goes, taken out of what it says."""
    return said.pop("expect", UNSET), said.pop("parent", None), said.pop("on_conflict", "raise")


@awaitable_twin(Session)
class AsyncSession(_Around):
    """`Session`, awaitable: the same methods, arguments and errors."""

    def __init__(self, session: Session) -> None:
        self._inner = session
        # Saves that are under way at once are written in the order in which they were called.
        self._turn = anyio.Lock()

    @classmethod
    def _around(cls, inner: Session) -> AsyncSession:
        return cls(inner)

    @property
    def _session(self) -> Session:
        session: Session = self._inner
        return session

    @wraps(Session.save)
    def save(self, state: Any, message: str = "", **said: Any) -> Coroutine[Any, Any, Any]:
        """See `Session.save`. The state is encoded by the call itself; what is awaited is the writing."""
        where = _where(said)
        draft = check_draft(message, **said)
        encoded = state if isinstance(state, EncodedState) else self._inner.encode(state)
        return self._written(partial(self._inner._writer.save, encoded, draft, *where))

    @wraps(Session.document)
    async def document(self, ref: Any = "@", *, default: Any = UNSET) -> Any:
        """See `Session.document`."""
        kinds = {dict: _AsyncDictDocument, list: _AsyncListDocument}
        document = await in_thread(partial(self._inner._writer.document, ref, default, kinds))
        # One lock: they share one writer.
        document._turn = self._turn
        return document

    @wraps(Session.merge)
    async def merge(self, ref: Any, *, resolve: Any = None, **how: Any) -> Any:
        """See `Session.merge`. A plain function that decides on conflicts is called in a worker thread.

        One that is `async def`, or returns something to await, is awaited in the event loop, one conflict after the
        other. It may use the store, but this session writes nothing else until it has merged: do not await that.
        """
        decide = _given(resolve)
        if isinstance(resolve, Mapping):
            decide = {path: _given(choice) for path, choice in resolve.items()}
        return await self._written(partial(self._inner.merge, ref, resolve=decide, **how))

    async def _written(self, write: Callable[[], Any]) -> Any:
        async with self._turn:
            return await in_thread(write)


@awaitable_twin(Store)
class AsyncStore(_Around):
    """`Store`, awaitable: the same methods, arguments and errors."""

    def __init__(
        self, backend: Any, *, types: Any = (), app_version: str | None = None, clock: Any = system_clock
    ) -> None:
        self._inner = Store(backend, types=types, app_version=app_version, clock=clock)

    @property
    def _store(self) -> Store:
        store: Store = self._inner
        return store

    @staticmethod
    def of(session: AsyncSession) -> Any:
        """See `Store.of`. Not awaited: nothing is read or written."""
        return AsyncStore._around(Store.of(session._inner))


_TWINS: Final[dict[type, Any]] = {
    Store: AsyncStore,
    Session: AsyncSession,
    HeldLease: AsyncHeldLease,
    Rows: AsyncRows,
}


@wraps(open_store)
def aopen(*args: Any, **kwargs: Any) -> Opening:
    """Open a store for asynchronous use: `async with holdfast.aopen() as store`. See `holdfast.open`."""
    return Opening(partial(open_store, *args, **kwargs))
