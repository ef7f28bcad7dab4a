"""A layer beneath SQLite that sees every write on its way to the file system.

SQLite reaches files through a VFS. This one passes everything on to the ordinary VFS, and tells a listener first. It
must be there before the checksum VFS is loaded, which puts itself on top of whatever is the default at that time: so
use it in a process of its own, and call `listen` before any store is opened.

The shared-memory file is not seen: SQLite maps it, and makes it anew after a crash.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apsw

Listener = Callable[[str, str, Any], None]
"""Called with what is about to happen (open, write, sync, truncate, delete), to which file, and the details."""


class _File(apsw.VFSFile):
    def __init__(self, inner: str, name: Any, flags: list[int], listener: Listener) -> None:
        super().__init__(inner, name, flags)
        self._name = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self._listener = listener
        listener("open", self._name, None)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._listener("write", self._name, (offset, bytes(data)))
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self._listener("sync", self._name, None)
        super().xSync(flags)

    def xTruncate(self, newsize: int) -> None:
        self._listener("truncate", self._name, newsize)
        super().xTruncate(newsize)


class _Vfs(apsw.VFS):
    def __init__(self, inner: str, listener: Listener) -> None:
        self._inner, self._listener = inner, listener
        super().__init__("listening", inner, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> _File:
        return _File(self._inner, name, flags, self._listener)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self._listener("delete", filename, syncdir)
        super().xDelete(filename, syncdir)


def listen(listener: Listener) -> object:
    """Put the layer in place for this process; it lasts as long as the object that is returned."""
    names = apsw.vfs_names()
    assert "cksmvfs" not in names, "too late: a store was opened in this process already"
    return _Vfs(names[0], listener)
