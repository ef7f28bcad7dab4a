"""Archives read to their end and verified: nothing has been written when this is done, and nothing is left to doubt.

Each state is made, encoded as a save would, and its root compared; its chunks go to the spool. Then the lineage is put
in order, parents first, and each id is compared. What comes out needs only to be written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import Any

from holdfast.errors import InvalidInputError
from holdfast.history.identity import checkpoint_id
from holdfast.objects.cutting import Cuts
from holdfast.objects.exact import from_json
from holdfast.objects.memo import StateMemo
from holdfast.objects.refusal import MalformedError, MismatchError
from holdfast.objects.registry import TypeRegistry
from holdfast.objects.state import encode_state
from holdfast.storage.records import CheckpointId, CheckpointRow, ChunkHash
from holdfast.store.archives.envelope import (
    CHECKPOINT,
    SESSION,
    ReadCheckpoint,
    SessionHeader,
    check_hashes,
    read_checkpoint,
    read_header,
)
from holdfast.store.archives.foreign import is_foreign, read_foreign
from holdfast.store.archives.limits import ArchiveLimits
from holdfast.store.archives.parsing import parse
from holdfast.store.archives.refusing import damaged, malformed, too_large
from holdfast.store.archives.sources import Document, Source, documents
from holdfast.store.archives.spool import Spool
from holdfast.store.progress import Progress


class ReadSession:
    """All that the archives of one import have of a session."""

    def __init__(self, name: str) -> None:
        self.id = name
        self.agent: str | None = None
        self.project: str | None = None
        self.header: SessionHeader | None = None
        self.rows: list[CheckpointRow] = []
        """Verified, and parents first."""
        self.foreign: set[CheckpointId] = set()
        """Those of another program, which are known by their keys."""
        self.chunks: dict[ChunkHash, None] = {}
        self.found: list[ReadCheckpoint] = []
        """As they were read, without their states."""
        self.memo: StateMemo | None = None

    def own(self, agent: str | None, project: str | None, where: str) -> None:
        """Every file says whose the session is, and all of them the same."""
        for name, mine, theirs in (("agent", self.agent, agent), ("project", self.project, project)):
            if mine is not None and theirs is not None and mine != theirs:
                raise malformed(
                    where,
                    "two-owners",
                    f"session {self.id!r} has the {name} {theirs!r} here and {mine!r} before",
                    "import them one after the other",
                )
        self.agent, self.project = self.agent or agent, self.project or project


class ArchiveReader:
    """Reads everything that one import was given."""

    def __init__(
        self, spool: Spool, limits: ArchiveLimits, session: str | None, cuts: Cuts | None, progress: Progress
    ) -> None:
        self._spool = spool
        self._limits = limits
        self._session = session
        self._cuts = cuts
        self._progress = progress
        self._sessions: dict[str, ReadSession] = {}
        self._seen: set[CheckpointId | tuple[str, str]] = set()
        self._count = 0

    def read(self, source: Source) -> list[ReadSession]:
        """The sessions, verified."""
        header: SessionHeader | None = None
        left = 0
        for each in documents(source, self._limits):
            if each.first:
                _check_complete(header, left)
                header, left = None, 0
            data = self._document(each)
            if data.get("format") == SESSION:
                header = self._header(data, each)
                left = header.checkpoints
                continue
            read = self._checkpoint(data, each.where)
            if header is not None:
                if read.row.session != header.id or not left:
                    raise malformed(
                        each.where, "not-of-session", "the first line of the file speaks of others"
                    )
                left -= 1
        _check_complete(header, left)
        for session in self._sessions.values():
            _put_in_order(session)
        return list(self._sessions.values())

    def _document(self, each: Document) -> dict[str, Any]:
        data = parse(each.data, self._limits, each.where)
        if type(data) is not dict:
            raise malformed(each.where, "not-an-archive", f"it is a {type(data).__name__}, and no checkpoint")
        return data

    def _header(self, data: Mapping[str, Any], each: Document) -> SessionHeader:
        if not each.first or each.last:
            raise malformed(each.where, "misplaced-header", "this is the first line of a session")
        header = read_header(data, each.where)
        session = self._of(header.id)
        session.own(header.agent, header.project, each.where)
        session.header = header
        return header

    def _of(self, name: str) -> ReadSession:
        return self._sessions.setdefault(name, ReadSession(name))

    def _checkpoint(self, data: dict[str, Any], where: str) -> ReadCheckpoint:
        read = self._described(data, where)
        row = read.row
        mark = (row.session, str(row.key)) if read.foreign else row.id
        if mark in self._seen:
            raise malformed(
                where, "twice", f"checkpoint {row.key if read.foreign else row.id.hex()[:12]} comes twice"
            )
        self._seen.add(mark)
        self._count += 1
        if self._count > self._limits.checkpoints:
            most = f"there are more than {self._limits.checkpoints:,} checkpoints"
            raise too_large(where, "too-many-checkpoints", most, "checkpoints")
        session = self._of(row.session)
        session.own(read.agent, read.project, where)
        self._encode(session, read)
        self._progress("reading checkpoints", self._count)
        return read

    def _described(self, data: dict[str, Any], where: str) -> ReadCheckpoint:
        if is_foreign(data):
            return read_foreign(data, where, self._session)
        if data.get("format") != CHECKPOINT:
            raise malformed(
                where,
                "not-an-archive",
                f"its 'format' is {data.get('format')!r:.40}, not {CHECKPOINT!r}",
                "pass what export wrote",
            )
        try:
            data = from_json(data)
        except (MalformedError, MismatchError) as error:
            raise malformed(where, "bad-value", f"{error}") from error
        read = read_checkpoint(data, where)
        if self._session is not None and read.row.session != self._session:
            raise malformed(
                where,
                "other-session",
                f"it is of session {read.row.session!r}, which is part of its id",
                "leave session= out; store.copy_session() gives a session another name",
            )
        return read

    def _encode(self, session: ReadSession, read: ReadCheckpoint) -> None:
        try:
            encoded = encode_state(read.state, _NOBODY, session.memo, cuts=self._cuts)
        except InvalidInputError as error:
            raise malformed(read.where, "bad-value", f"its state cannot be kept: {error}") from error
        session.memo = encoded.memo
        session.chunks.update(dict.fromkeys(self._spool.add(encoded.chunks)))
        row = read.row._replace(size_bytes=encoded.size_bytes)
        if read.foreign:
            row = row._replace(root=encoded.root)
        elif encoded.root != row.root:
            check_hashes(read, encoded.root)
        session.found.append(read._replace(row=row, state=None))


_NOBODY = TypeRegistry()
"""No classes: what an archive has of an object stays data."""


def _check_complete(header: SessionHeader | None, left: int) -> None:
    if header is not None and left:
        raise damaged(
            f"the archive of session {header.id!r}",
            "cut-short",
            f"{left:,} of {header.checkpoints:,} checkpoints are missing",
        )


def _put_in_order(session: ReadSession) -> None:
    """Sort the checkpoints of a session, each after what it was made from, and compare their ids."""
    ours = [each for each in session.found if not each.foreign]
    for each in _parents_first(ours, keep_order=session.header is not None):
        check_hashes(each, each.row.root)
        session.rows.append(each.row)
    parent: CheckpointRow | None = None
    for each in sorted(
        (each for each in session.found if each.foreign), key=lambda each: each.row.created_at
    ):
        # They say nothing about lineage: what came later followed from what was before.
        row = each.row
        if parent is not None:
            row = row._replace(parents=(parent.id,), created_at=max(row.created_at, parent.created_at + 1))
        parent = row._replace(id=checkpoint_id(row))
        session.rows.append(parent)
        session.foreign.add(parent.id)
    if session.header is not None:
        _check_branches(session.header, {row.id for row in session.rows})
    session.found = []


def _check_branches(header: SessionHeader, known: set[CheckpointId]) -> None:
    for name, head in header.branches.items():
        if head not in known:
            raise malformed(
                f"the archive of session {header.id!r}",
                "no-such-head",
                f"its branch {name!r} ends at {head.hex()[:12]}, which it does not have",
            )
    if header.branches and header.current not in header.branches:
        raise malformed(
            f"the archive of session {header.id!r}", "no-such-branch", f"it is on {header.current!r:.60}"
        )


def _parents_first(found: list[ReadCheckpoint], *, keep_order: bool) -> Iterator[ReadCheckpoint]:
    waiting = {each.row.id: {*each.row.parents} for each in found}
    children: dict[CheckpointId, list[int]] = {}
    for at, each in enumerate(found):
        # What is not in the archive is not waited for.
        waiting[each.row.id] = {parent for parent in each.row.parents if parent in waiting}
        for parent in waiting[each.row.id]:
            children.setdefault(parent, []).append(at)

    def turn(at: int) -> tuple[int, int]:
        return (0 if keep_order else found[at].row.created_at), at

    ready = [turn(at) for at, each in enumerate(found) if not waiting[each.row.id]]
    heapify(ready)
    done = 0
    while ready:
        each = found[heappop(ready)[1]]
        done += 1
        yield each
        for at in children.get(each.row.id, ()):
            waiting[found[at].row.id].discard(each.row.id)
            if not waiting[found[at].row.id]:
                heappush(ready, turn(at))
    if done < len(found):
        stuck = next(each for each in found if waiting[each.row.id])
        raise malformed(
            stuck.where, "lineage-cycle", f"checkpoint {stuck.row.id.hex()[:12]} is an ancestor of itself"
        )
