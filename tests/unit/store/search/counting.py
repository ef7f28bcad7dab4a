"""A backend whose reads are counted, and a session over it: what a search reads is what the tests are about."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

import holdfast
from holdfast.backends.memory import MemoryBackend


class CountingReader:
    """Passes everything on, and remembers which chunks were asked for, in the order of asking."""

    def __init__(self, reader: Any, backend: CountingBackend) -> None:
        self._reader = reader
        self._backend = backend

    def chunks(self, names: Any) -> Any:
        wanted = list(names)
        self._backend.asked += wanted
        found = dict(self._reader.chunks(wanted))
        return {name: b"damaged" if name.hex() in self._backend.spoiled else found[name] for name in found}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


class CountingBackend:
    """A store in memory."""

    def __init__(self) -> None:
        self._backend = MemoryBackend()
        self.asked: list[bytes] = []
        self.spoiled: set[str] = set()
        """Chunks that come back with other bytes."""

    @contextmanager
    def reader(self) -> Any:
        with self._backend.reader() as reader:
            yield CountingReader(reader, self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


def counted_session() -> tuple[holdfast.Session, CountingBackend]:
    backend: Any = CountingBackend()
    session = holdfast.Store(backend).session("s")
    return session, backend
