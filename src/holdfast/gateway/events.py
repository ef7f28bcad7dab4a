"""Live events over SSE: checkpoints as any process saves them, for any number of listeners.

One thread watches the store and writes each event down once, in a log of the newest ones. A listener is a place in that
log and nothing else, so that a slow one costs no memory: where the log has gone past its place, it reads from the store
instead. The id of an event is the checkpoint's position in the store, and Last-Event-ID goes on after it, also after a
restart of the server.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncGenerator
from itertools import islice
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast import Checkpoint, Store
from holdfast.errors import HoldfastError
from holdfast.gateway.rpc import LOG

_KEPT = 1000
_KEPT_BYTES = 16 << 20
"""Metadata can be of any size: where the log has more than this, older events are read from the store instead."""
_PAGE = 500
_ALIVE_SECONDS = 15.0
"""A comment so often: proxies close what is silent, and a listener that is gone is noticed."""
_WATCH_SECONDS = 0.5
_RETRY_SECONDS = 5.0


class _Entry(NamedTuple):
    position: int
    session: str
    text: bytes


def _entry(checkpoint: Checkpoint) -> _Entry:
    kind = "checkpoint.restored" if checkpoint.trigger == "restore" else "checkpoint.created"
    told = {"type": kind, "session": checkpoint.session, "checkpoint": checkpoint.to_dict()}
    data = msgspec.json.encode(told)
    text = b"id: %d\nevent: %s\ndata: %s\n\n" % (checkpoint.position, kind.encode(), data)
    return _Entry(checkpoint.position, checkpoint.session, text)


class EventLog:
    """The newest events of a store, and who waits for more."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._entries: deque[_Entry] = deque()
        self._bytes = 0
        self._wake: anyio.Event | None = None
        self._portal: Any = None
        self._stopped = threading.Event()
        newest = store.find(limit=1)
        self._last = newest[0] if newest else None
        self.floor = self._last.position if self._last else 0
        """Every event after this position is in the log."""
        self.newest = self.floor
        self.listeners = 0
        self._thread = threading.Thread(target=self._watch, name="holdfast-events", daemon=True)

    def start(self) -> None:
        """Begin to watch; on the event loop of the listeners."""
        import asyncio

        self._portal = asyncio.get_running_loop()
        self._wake = anyio.Event()
        self._thread.start()

    def stop(self) -> None:
        """Watch no more."""
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopped.is_set():
            try:
                if self._last is None:
                    found = _after(self._store, 0)
                    self._stopped.wait(0 if found else _WATCH_SECONDS)
                    self._put(found)
                else:
                    for each in self._store.watch(after=self._last, timeout=_WATCH_SECONDS):
                        self._put([each])
                        if self._stopped.is_set():
                            return
            except HoldfastError as error:
                LOG.warning("the store cannot be watched: %s", error)
                self._stopped.wait(_RETRY_SECONDS)
            except Exception:  # noqa: BLE001 - without this thread nobody hears anything any more
                LOG.exception("watching the store failed, and is tried again")
                self._stopped.wait(_RETRY_SECONDS)

    def _put(self, found: list[Checkpoint]) -> None:
        if found:
            self._last = found[-1]
            entries = [_entry(each) for each in found]
            self._portal.call_soon_threadsafe(self._take, entries)

    def _take(self, entries: list[_Entry]) -> None:
        for entry in entries:
            self._entries.append(entry)
            self._bytes += len(entry.text)
            self.newest = entry.position
            while len(self._entries) > _KEPT or self._bytes > _KEPT_BYTES:
                oldest = self._entries.popleft()
                self._bytes -= len(oldest.text)
                self.floor = oldest.position
        waiting, self._wake = self._wake, anyio.Event()
        if waiting is not None:
            waiting.set()

    async def listen(self, after: int | None, session: str | None) -> AsyncGenerator[bytes, None]:
        """Yield events from a place on, or from now on; a comment where nothing happens."""
        place = self.newest if after is None else after
        self.listeners += 1
        try:
            yield b": here\nretry: 2000\n\n"
            while True:
                waiting = self._wake
                if place < self.floor:
                    older = await anyio.to_thread.run_sync(_after, self._store, place)
                    found = [_entry(each) for each in older]
                    # Nothing may be left of what lies before: what was removed meanwhile is passed over.
                    rest = found[-1].position if found else self.floor
                else:
                    found = [each for each in self._entries if each.position > place]
                    rest = self.newest
                for each in found:
                    if session is None or each.session == session:
                        yield each.text
                place = max(place, rest)
                if place >= self.newest and waiting is not None:
                    with anyio.move_on_after(_ALIVE_SECONDS) as scope:
                        await waiting.wait()
                    if scope.cancelled_caught:
                        yield b": alive\n\n"
        finally:
            self.listeners -= 1


def _after(store: Store, position: int) -> list[Checkpoint]:
    """The oldest checkpoints after a position, in the order in which they came."""
    newer: deque[Checkpoint] = deque(maxlen=_PAGE)
    last: Checkpoint | None = None
    while True:
        page = store.find(before=last, limit=_PAGE)
        newer.extend(each for each in page if each.position > position)
        if len(page) < _PAGE or page[-1].position <= position:
            return list(islice(reversed(newer), _PAGE))
        last = page[-1]


class Stream(Response):
    """The response of one listener."""

    def __init__(self, log: EventLog, after: int | None, session: str | None) -> None:
        super().__init__()
        self._log, self._after, self._session = log, after, session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the other side leaves; the server closes on one that does not read."""
        del scope
        headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async with anyio.create_task_group() as tasks:

            async def leave() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                tasks.cancel_scope.cancel()

            tasks.start_soon(leave)
            async for text in self._log.listen(self._after, self._session):
                await send({"type": "http.response.body", "body": text, "more_body": True})
            tasks.cancel_scope.cancel()
