"""A storage backend as a user could write one: it keeps one file per commit in a folder.

State is the replay of all files in order, so a commit is whole or absent as its file is, and two processes cannot both
write number 8: the second finds the name taken and reads first.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ormsgpack

from holdfast.backends import rules
from holdfast.backends.intact import ReaderInspection
from holdfast.errors import (
    ConflictError,
    ErrorCode,
    IntegrityError,
    InvalidInputError,
    StateError,
    UnsupportedError,
)
from holdfast.objects.links import refers
from holdfast.storage.copying import Adopted, Adoption, adoption_mark
from holdfast.storage.records import (
    Batch,
    BranchRow,
    CheckpointId,
    CheckpointRow,
    Chunk,
    ChunkHash,
    Claim,
    Edit,
    Guard,
    Move,
    Operation,
    Query,
    Receipt,
    SessionRow,
    StoreStats,
    Swept,
)


@dataclass(frozen=True)
class View:
    """The store at one moment; nothing in it is ever changed, so a reader can simply hold on to it."""

    session_rows: dict[str, SessionRow] = field(default_factory=dict)
    heads: dict[tuple[str, str], BranchRow] = field(default_factory=dict)
    rows: dict[CheckpointId, CheckpointRow] = field(default_factory=dict)
    log: tuple[Operation, ...] = ()
    pieces: dict[ChunkHash, bytes] = field(default_factory=dict)
    stamps: dict[ChunkHash, int] = field(default_factory=dict)
    adopted_rows: dict[str, int] = field(default_factory=dict)
    epoch: int = 0
    position: int = 0

    def session(self, session: str) -> SessionRow | None:
        return self.session_rows.get(session)

    def sessions(self, *, agent: str | None = None, project: str | None = None) -> list[SessionRow]:
        rows = [
            r for r in self.session_rows.values() if agent in (None, r.agent) and project in (None, r.project)
        ]
        return sorted(rows, key=lambda row: row.created_at)

    def branch(self, session: str, name: str) -> BranchRow | None:
        return self.heads.get((session, name))

    def branches(self, session: str) -> list[BranchRow]:
        return sorted(
            (row for row in self.heads.values() if row.session == session), key=lambda row: row.name
        )

    def checkpoint(self, checkpoint: CheckpointId) -> CheckpointRow | None:
        return self.rows.get(checkpoint)

    def checkpoints(self, query: Query) -> list[CheckpointRow]:
        rows = [row for row in self.rows.values() if self._matches(row, query)]
        if query.by_key:
            keyed = [row for row in rows if row.key is not None]
            rows = sorted(keyed, key=lambda row: (str(row.key), row.position))
        return (rows if query.oldest_first else rows[::-1])[: query.limit]

    def operations(self, session: str, *, after: int = 0) -> list[Operation]:
        return [entry for entry in self.log if entry.session == session and entry.number > after]

    def chunks(self, hashes: Iterable[ChunkHash]) -> dict[ChunkHash, bytes]:
        return {name: self.pieces[name] for name in hashes if name in self.pieces}

    def present(self, hashes: Iterable[ChunkHash]) -> set[ChunkHash]:
        return self.pieces.keys() & set(hashes)

    def adopted(self, session: SessionRow) -> Adopted | None:
        mark = self.adopted_rows.get(session.id)
        kinds: tuple[Adopted, ...] = ("whole", "partial")
        return next((each for each in kinds if mark == adoption_mark(session, each)), None)

    def stats(self) -> StoreStats:
        size = sum(map(len, self.pieces.values()))
        hidden = sum(1 for row in self.rows.values() if row.hidden)
        return StoreStats(
            sessions=len(self.session_rows),
            branches=len(self.heads),
            checkpoints=len(self.rows) - hidden,
            hidden=hidden,
            chunks=len(self.pieces),
            chunk_bytes=size,
            stored_bytes=size,
        )

    def _matches(self, row: CheckpointRow, query: Query) -> bool:
        owner = self.session_rows[row.session]
        values = {"agent": owner.agent, "project": owner.project}
        for name in ("session", "branch", "agent", "project", "status", "step", "seq", "key"):
            wanted = getattr(query, name)
            if wanted is not None and wanted != values.get(name, getattr(row, name, None)):
                return False
        return (
            (query.include_hidden or not row.hidden)
            and query.tag in (None, *row.tags)
            and row.id.hex().startswith(query.id_prefix or "")
            and query.prev in (None, row.prev or b"")
            and query.trigger in (None, row.trigger, row.trigger.partition(":")[0])
            and (query.key_from is None or (row.key is not None and row.key >= query.key_from))
            and (query.key_below is None or (row.key is not None and row.key < query.key_below))
            and (query.since is None or row.created_at >= query.since)
            and (query.until is None or row.created_at <= query.until)
            and (query.before_seq is None or row.seq < query.before_seq)
            and (query.after_seq is None or row.seq > query.after_seq)
            and (query.before_position is None or row.position < query.before_position)
            and (query.after_position is None or row.position > query.after_position)
            and all(_metadata_has(row, path, value) for path, value in query.metadata)
        )


def _metadata_has(row: CheckpointRow, path: tuple[str, ...], value: str) -> bool:
    found: Any = json.loads(row.metadata) | json.loads(row.added_metadata or "{}")
    for key in path:
        if not isinstance(found, dict) or key not in found:
            return False
        found = found[key]
    # As text: 1, "1" and true are equal in no JSON, though 1 == True in Python.
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")) == value


def check(view: View, batch: Batch) -> None:
    """Raise what the contract asks for, in its order."""
    claim = batch.claim
    owner = view.session_rows.get(claim.session) or SessionRow(
        id=claim.session, agent=None, project=None, created_at=batch.at
    )
    for mine, its in ((claim.agent, owner.agent), (claim.project, owner.project)):
        if mine is not None and its is not None and mine != its:
            raise InvalidInputError(
                f"session {claim.session!r} belongs to {its!r}",
                code=ErrorCode.SESSION_MISMATCH,
                hint="use another session",
            )
    if batch.guard is not None and (
        batch.guard.log_count != owner.log_count or batch.guard.last_seq not in (None, owner.last_seq)
    ):
        raise ConflictError.session_changed(claim.session)
    for relied_on in rules.relied_on(batch):
        if relied_on not in view.rows:
            raise ConflictError.chunks_gone(relied_on)
    for move in batch.moves:
        branch = view.branch(claim.session, move.branch)
        head = branch.head if branch else None
        if head != move.expected:
            raise ConflictError.branch_moved(claim.session, move.branch, expected=move.expected, actual=head)
    for row in batch.checkpoints:
        taken = (
            view.checkpoints(Query(session=row.session, key=row.key, include_hidden=True)) if row.key else []
        )
        if taken:
            raise ConflictError.key_taken(row.session, str(row.key), existing=taken[0].id)
    known = view.rows | {row.id: row for row in batch.checkpoints}
    hidden = {each.id: each.hidden for each in batch.edits}
    for name in batch.removals:
        if name in known:
            rules.check_removal(known[name], claim.session, hidden=hidden.get(name, known[name].hidden))


def apply(view: View, batch: Batch) -> View:
    """The view after a batch that has been checked."""
    name, claim = batch.claim.session, batch.claim
    old = view.session_rows.get(name) or SessionRow(id=name, agent=None, project=None, created_at=batch.at)
    new_pieces = {piece.hash: piece.data for piece in batch.chunks if piece.hash not in view.pieces}
    rows, heads = dict(view.rows), dict(view.heads)
    for number, row in enumerate(batch.checkpoints):
        rows[row.id] = row._replace(
            seq=old.last_seq + 1 + number,
            position=view.position + 1 + number,
            stored_at=batch.at,
            stored_bytes=0 if number else sum(map(len, new_pieces.values())),
        )
    for each in batch.edits:
        changed = {key: value for key, value in each._asdict().items() if key != "id"}
        rows[each.id] = rows[each.id]._replace(**changed)
    for gone in batch.removals:
        rows.pop(gone, None)
    for move in batch.moves:
        if move.head is None:
            del heads[name, move.branch]
        else:
            heads[name, move.branch] = BranchRow(
                session=name, name=move.branch, head=move.head, moved_at=batch.at
            )
    session = old._replace(
        agent=old.agent or claim.agent,
        project=old.project or claim.project,
        last_seq=old.last_seq + len(batch.checkpoints),
        log_count=old.log_count + len(batch.operations),
        log_tip=batch.operations[-1].hash if batch.operations else old.log_tip,
        current=batch.switch_to or old.current,
    )
    cut = batch.cuts_log_from
    log = tuple(each for each in view.log if not (cut and each.session == name and each.number >= cut))
    return View(
        session_rows=view.session_rows | {name: session},
        heads=heads,
        rows=rows,
        log=log + batch.operations,
        pieces=view.pieces | new_pieces,
        stamps=view.stamps | {piece.hash: view.epoch for piece in batch.chunks},
        adopted_rows=view.adopted_rows,
        epoch=view.epoch,
        position=view.position + len(batch.checkpoints),
    )


def adopt(view: View, batch: Adoption) -> View:
    """The view after rows of another store have been put in their places."""
    name, position = batch.session.id, view.position
    gone = {*batch.removals, *(row.id for row in batch.checkpoints)}
    rows = {key: row for key, row in view.rows.items() if key not in gone or row.session != name}
    for row in batch.checkpoints:
        position += not row.position
        rows[row.id] = row if row.position else row._replace(position=position)
    heads = view.heads
    if batch.branches is not None:
        heads = {key: row for key, row in heads.items() if row.session != name}
        heads |= {(name, row.name): row for row in batch.branches}
    cut = batch.cuts_log_from
    log = tuple(each for each in view.log if not (cut and each.session == name and each.number >= cut))
    stamped = [*(piece.hash for piece in batch.chunks), *batch.found]
    return replace(
        view,
        session_rows=view.session_rows | {name: batch.session},
        heads=heads,
        rows=dict(sorted(rows.items(), key=lambda item: item[1].position)),
        log=log + batch.operations,
        pieces=view.pieces | {piece.hash: piece.data for piece in batch.chunks},
        stamps=view.stamps | dict.fromkeys(stamped, view.epoch),
        adopted_rows=view.adopted_rows
        | {name: adoption_mark(batch.session, "whole" if batch.whole else "partial")},
        position=position,
    )


def erase(view: View, session: str) -> View:
    """The view without a session."""
    return replace(
        view,
        session_rows={name: row for name, row in view.session_rows.items() if name != session},
        heads={key: row for key, row in view.heads.items() if row.session != session},
        rows={key: row for key, row in view.rows.items() if row.session != session},
        log=tuple(each for each in view.log if each.session != session),
        adopted_rows={name: mark for name, mark in view.adopted_rows.items() if name != session},
    )


def sweep(view: View, names: Iterable[ChunkHash]) -> View:
    """The view without these chunks."""
    gone = set(names)
    return replace(
        view,
        pieces={name: data for name, data in view.pieces.items() if name not in gone},
        stamps={name: stamp for name, stamp in view.stamps.items() if name not in gone},
    )


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
            return {"batch": _plain(batch)}

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
            return {"adoption": _plain(batch)}

        self.write(event)

    def write(self, event: Callable[[View], dict[str, Any] | None]) -> View:
        """Write what `event` makes of the newest view, if anything; the view after it."""
        with self._lock:
            while True:
                planned = event(self._catch_up())
                if planned is None or self._write(self._count + 1, ormsgpack.packb(planned)):
                    return self._catch_up()

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
        self.write(lambda view: {"erase": session} if session in view.session_rows else None)

    def scrub(self, *, dry_run: bool = False) -> None:
        """Everything goes into one new file; the older ones keep their names, which nobody may use again."""
        if dry_run:
            return
        self.write(lambda view: {"everything": _plain(view)})
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


def follow(view: View, data: bytes) -> View:
    """The view after one more file. An empty one was scrubbed: a later file has everything."""
    event = ormsgpack.unpackb(data) if data else {}
    if "batch" in event:
        return apply(view, batch_from(event["batch"]))
    if "adoption" in event:
        return adopt(view, adoption_from(event["adoption"]))
    if "erase" in event:
        return erase(view, event["erase"])
    if "sweep" in event:
        return sweep(view, event["sweep"])
    if "everything" in event:
        return view_from(event["everything"])
    return replace(view, epoch=event.get("epoch", view.epoch))


def _plain(value: Any) -> Any:
    if isinstance(value, Batch):
        # Their data may be made when it is asked for.
        chunks = tuple(Chunk(each.hash, each.data, each.base) for each in value.chunks)
        return {name: _plain(each) for name, each in value._replace(chunks=chunks)._asdict().items()}
    if isinstance(value, View):
        return {name: _plain(each) for name, each in vars(value).items()}
    if isinstance(value, dict):
        return [[_plain(key), _plain(each)] for key, each in value.items()]
    if hasattr(value, "_asdict"):
        return {name: _plain(each) for name, each in value._asdict().items()}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def batch_from(raw: dict[str, Any]) -> Batch:
    made = {
        "claim": Claim(**raw["claim"]),
        "chunks": tuple(Chunk(**each) for each in raw["chunks"]),
        "checkpoints": tuple(CheckpointRow(**_tuples(each)) for each in raw["checkpoints"]),
        "moves": tuple(Move(**each) for each in raw["moves"]),
        "edits": tuple(Edit(**_tuples(each)) for each in raw["edits"]),
        "operations": tuple(Operation(**each) for each in raw["operations"]),
        "guard": Guard(**raw["guard"]) if raw["guard"] else None,
        "removals": tuple(raw["removals"]),
    }
    return Batch(**(raw | made))


def adoption_from(raw: dict[str, Any]) -> Adoption:
    made = {
        "session": SessionRow(**raw["session"]),
        "expected": SessionRow(**raw["expected"]) if raw["expected"] else None,
        "chunks": tuple(Chunk(**each) for each in raw["chunks"]),
        "found": tuple(raw["found"]),
        "checkpoints": tuple(CheckpointRow(**_tuples(each)) for each in raw["checkpoints"]),
        "removals": tuple(raw["removals"]),
        "branches": None if raw["branches"] is None else tuple(BranchRow(**each) for each in raw["branches"]),
        "operations": tuple(Operation(**each) for each in raw["operations"]),
    }
    return Adoption(**(raw | made))


def view_from(raw: dict[str, Any]) -> View:
    made = {
        "session_rows": {name: SessionRow(**row) for name, row in raw["session_rows"]},
        "heads": {(session, name): BranchRow(**row) for (session, name), row in raw["heads"]},
        "rows": {name: CheckpointRow(**_tuples(row)) for name, row in raw["rows"]},
        "log": tuple(Operation(**each) for each in raw["log"]),
        "pieces": dict(raw["pieces"]),
        "stamps": dict(raw["stamps"]),
        "adopted_rows": dict(raw["adopted_rows"]),
    }
    return View(**(raw | made))


def _tuples(raw: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in raw.items()}
