"""A storage backend as a user could write one: it keeps one file per commit in a folder.

State is the replay of all files in order, so a commit is whole or absent as its file is, and two processes cannot both
write number 8: the second finds the name taken and reads first.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import ormsgpack
from tests.requirements.folder_view import View, check, follow, plain

from holdfast.backends import lease_rules, rules
from holdfast.backends.damage import ReaderInspection
from holdfast.errors import (
    ConflictError,
    ErrorCode,
    IntegrityError,
    StateError,
    UnsupportedError,
)
from holdfast.objects.tree.nodes import refers
from holdfast.storage.copy_rows import Adoption
from holdfast.storage.leases import Fence, Holder, Lease
from holdfast.storage.records import (
    Batch,
    ChunkHash,
    Receipt,
    Swept,
)
from holdfast.storage.tables import RowChange


class FolderCollection:
    """Each step that changes something is a file like any other commit."""

    def __init__(self, backend: FolderBackend, epoch: int, *, dry_run: bool) -> None:
        self._backend = backend
        self._epoch = epoch
        self._dry_run = dry_run
        self._marked: set[ChunkHash] = set()

    def mark(self, names: Iterable[ChunkHash]) -> list[ChunkHash]:
        self._show()
        with self._backend.reader() as view:
            new = [name for name in dict.fromkeys(names) if name not in self._marked]
            for name in new:
                if name not in view.pieces:
                    raise IntegrityError.chunk_missing(name)
            self._marked.update(new)
            return [name for name in new if refers(view.pieces[name])]

    def unneeded(self) -> Swept:
        with self._backend.reader() as view:
            gone = self._gone(view)
        return Swept(len(gone), sum(len(view.pieces[name]) for name in gone), done=not gone)

    def sweep(self, limit: int) -> Swept:
        self._show()
        swept = Swept()

        def event(view: View) -> dict[str, Any] | None:
            nonlocal swept
            superseded = not self._dry_run and view.epoch != self._epoch
            gone = [] if self._dry_run or superseded else self._gone(view)
            size = sum(len(view.pieces[name]) for name in gone[:limit])
            swept = Swept(len(gone[:limit]), size, done=len(gone) <= limit, superseded=superseded)
            return {"sweep": gone[:limit]} if gone else None

        self._backend.write(event)
        return swept

    def _show(self) -> None:
        if not self._dry_run:
            self._backend.show_sign(self._epoch)

    def _gone(self, view: View) -> list[ChunkHash]:
        return [name for name, at in view.stamps.items() if at < self._epoch and name not in self._marked]


class FolderBackend:
    """One file per commit: `1`, `2`, `3` ... in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._lock = threading.Lock()
        self._view = View()
        self._count = 0
        self._closed = False

    @property
    def url(self) -> str:
        return f"folder:{self._folder}"

    def commit(self, batch: Batch) -> Receipt:
        def event(view: View) -> dict[str, Any] | None:
            if batch.checkpoints and all(row.id in view.rows for row in batch.checkpoints):
                return None
            check(view, batch)
            tables = view.tables_there.changed(batch.rows)
            return {"batch": plain(batch._replace(rows=())), "tables": tables.to_data()}

        view = self.write(event)
        return Receipt(tuple(view.rows[row.id] for row in batch.checkpoints))

    def adopt(self, batch: Adoption) -> None:
        rules.check_adoption(batch)

        def event(view: View) -> dict[str, Any]:
            if view.session_rows.get(batch.session.id) != batch.expected:
                raise ConflictError.session_changed(batch.session.id)
            for name in batch.found:
                if name not in view.pieces:
                    raise rules.chunk_gone(name)
            return {"adoption": plain(batch)}

        self.write(event)

    def write_rows(self, changes: Sequence[RowChange], fence: Fence | None = None) -> None:
        def event(view: View) -> dict[str, Any]:
            if fence is not None:
                lease_rules.check_fence(view.leases.get(fence.name), fence)
            return {"tables": view.tables_there.changed(changes).to_data()}

        self.write(event)

    def write(self, event: Callable[[View], dict[str, Any] | None]) -> View:
        """Write what `event` makes of the newest view, if anything; the view after it."""
        with self._lock:
            while True:
                planned = event(self._catch_up())
                if planned is None or self._write(self._count + 1, ormsgpack.packb(planned)):
                    return self._catch_up()

    def claim(self, name: str, holder: Holder, seconds: float, *, at: int, ticks: int) -> Lease:
        length, now = lease_rules.microseconds(seconds), lease_rules.ticking(at, ticks)

        def make(view: View) -> Lease:
            at, ticks = now()
            lease_rules.check_free(view.leases.get(name), holder, at=at, ticks=ticks)
            epoch = view.lease_epoch + 1
            return lease_rules.taken(name, holder, length, epoch=epoch, at=at, ticks=ticks)

        return self._put_lease(name, make)

    def renew(self, lease: Lease, seconds: float, *, at: int, ticks: int) -> Lease:
        length, now = lease_rules.microseconds(seconds), lease_rules.ticking(at, ticks)

        def make(view: View) -> Lease:
            at, ticks = now()
            return lease_rules.renewed(view.leases.get(lease.name), lease, length, at=at, ticks=ticks)

        return self._put_lease(lease.name, make)

    def _put_lease(self, name: str, make: Callable[[View], Lease]) -> Lease:
        made: list[Lease] = []

        def event(view: View) -> dict[str, Any]:
            # The last one is the one that was written: before it, others were first.
            made.append(make(view))
            return {"lease": [name, plain(made[-1])]}

        self.write(event)
        return made[-1]

    def release(self, lease: Lease) -> None:
        def event(view: View) -> dict[str, Any] | None:
            current = view.leases.get(lease.name)
            held = current is not None and lease_rules.is_same(current, lease)
            return {"lease": [lease.name, None]} if held else None

        self.write(event)

    def lease(self, name: str) -> Lease | None:
        with self.reader() as view:
            return view.leases.get(name)

    def turn(self, session: str) -> AbstractContextManager[object]:
        """A courtesy that is not needed where commits are this short."""
        return nullcontext()

    @contextmanager
    def collection(
        self, *, dry_run: bool = False, stale_after: float | None = None
    ) -> Iterator[FolderCollection]:
        with self.reader() as view:
            epoch = view.epoch + 1
        if dry_run:
            yield FolderCollection(self, epoch, dry_run=True)
            return
        # A file beside the commits: what is in it says whose sign it is, its time when it was given.
        sign = self._folder / "collecting"
        if stale_after is not None and sign.exists() and time.time() - sign.stat().st_mtime < stale_after:
            raise ConflictError.collection_running()
        epoch = self.write(lambda view: {"epoch": view.epoch + 1}).epoch
        sign.write_text(str(epoch))
        try:
            yield FolderCollection(self, epoch, dry_run=False)
        finally:
            if self._signed_by(epoch):
                sign.unlink()

    def show_sign(self, epoch: int) -> None:
        if self._signed_by(epoch):
            (self._folder / "collecting").touch()

    def _signed_by(self, epoch: int) -> bool:
        sign = self._folder / "collecting"
        return sign.exists() and sign.read_text() == str(epoch)

    def erase_session(self, session: str) -> None:
        self.write(
            lambda view: (
                {"erase": session, "tables": view.tables_there.without(session).to_data()}
                if session in view.session_rows
                else None
            )
        )

    def scrub(self, *, dry_run: bool = False) -> None:
        """Everything goes into one new file; the older ones keep their names, which nobody may use again."""
        if dry_run:
            return
        self.write(lambda view: {"everything": plain(view)})
        for number in range(1, self._count):
            os.truncate(self._folder / str(number), 0)

    def wait_for_checkpoint(self, after: int, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        while True:
            with self.reader() as view:
                if view.position > after or time.monotonic() >= deadline:
                    return view.position
            time.sleep(0.01)

    @contextmanager
    def inspect(self) -> Iterator[ReaderInspection]:
        with self.reader() as view:
            yield ReaderInspection(view, view.pieces)

    def rebuild(self, plan: Any) -> str | None:
        self._check_open()
        raise UnsupportedError(
            f"no repair for {plan}", code=ErrorCode.NOT_SUPPORTED, hint="bring back the folder"
        )

    @contextmanager
    def reader(self) -> Iterator[View]:
        with self._lock:
            view = self._catch_up()
        yield view

    def backup(self, target: Path) -> None:
        self._check_open()
        raise UnsupportedError(
            "no backups", code=ErrorCode.NOT_SUPPORTED, hint=f"copy the folder to {target}"
        )

    def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StateError("this store is closed", code=ErrorCode.STORE_CLOSED, hint="open it again")

    def _catch_up(self) -> View:
        self._check_open()
        while (path := self._folder / str(self._count + 1)).exists():
            self._view = follow(self._view, path.read_bytes())
            self._count += 1
        return self._view

    def _write(self, number: int, data: bytes) -> bool:
        """Put a whole file under its number, durably; False if another process was first."""
        draft = self._folder / f"draft-{os.getpid()}-{threading.get_ident()}"
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            # The bytes before the name: a name that survives a power cut must not lead to an empty file.
            os.fsync(file.fileno())
        try:
            os.link(draft, self._folder / str(number))
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            # And the name before the answer.
            os.fsync(folder)
        finally:
            os.close(folder)
        return True
