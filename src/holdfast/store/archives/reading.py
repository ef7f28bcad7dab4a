"""Archives read to their end and verified: nothing has been written when this is done, and nothing is left to doubt.

Each state is made, encoded as a save would, and its root compared; its chunks go to the spool. Then the lineage is put
in order, parents first, and each id is compared. What comes out needs only to be written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.errors import InvalidInputError
from holdfast.history.checkpoint import checkpoint_id
from holdfast.objects.codec.errors import MalformedError, MismatchError
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.exact import from_json
from holdfast.objects.tree.boundaries import Cuts
from holdfast.objects.tree.memo import StateMemo
from holdfast.objects.tree.state import encode_state
from holdfast.storage.records import CheckpointId, CheckpointRow, ChunkHash
from holdfast.store.archives.envelope import (
    CHECKPOINT,
    LATEST,
    SESSION,
    ReadCheckpoint,
    SessionHeader,
    check_hashes,
    read_checkpoint,
    read_header,
)
from holdfast.store.archives.foreign import is_foreign, read_foreign
from holdfast.store.archives.limits import ArchiveLimits
from holdfast.store.archives.ordering import parents_first
from holdfast.store.archives.parsing import parse
from holdfast.store.archives.refusing import damaged, kind_of, malformed, older_than_parent, too_large
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
        self.header_file = ""
        self.where: dict[CheckpointId, str] = {}
        """The file of each checkpoint, and the line."""
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
        self._seen: dict[_Mark, str | CheckpointRow] = {}
        """Of each checkpoint its seal, or of another program's all that there is."""
        self._keys: dict[tuple[str, str], _Mark] = {}
        self._count = 0

    def read(self, source: Source) -> list[ReadSession]:
        """The sessions, verified."""
        header: SessionHeader | None = None
        listed: set[CheckpointId] = set()
        file = ""
        for each in documents(source, self._limits):
            if each.first:
                _check_complete(header, len(listed), file)
                header, listed, file = None, set(), each.file
            data = self._document(each)
            if data.get("format") == SESSION:
                header = self._header(data, each)
                continue
            read = self._checkpoint(data, each)
            if header is not None:
                _check_listed(header, listed, read)
        _check_complete(header, len(listed), file)
        times = {
            each.row.id: each.row.created_at
            for session in self._sessions.values()
            for each in session.found
            if not each.foreign
        }
        for session in self._sessions.values():
            _put_in_order(session, times)
        return list(self._sessions.values())

    def _document(self, each: Document) -> dict[str, Any]:
        data = parse(each.data, self._limits, each.where)
        if type(data) is not dict:
            raise malformed(
                each.where, "not-an-archive", f"it holds {kind_of(type(data))}, and no checkpoint"
            )
        return data

    def _header(self, data: Mapping[str, Any], each: Document) -> SessionHeader:
        if not each.first or each.last:
            raise malformed(each.where, "misplaced-header", "this is the first line of a session")
        header = read_header(data, each.where)
        session = self._of(header.id)
        session.own(header.agent, header.project, each.where)
        session.header, session.header_file = header, each.file
        return header

    def _of(self, name: str) -> ReadSession:
        return self._sessions.setdefault(name, ReadSession(name))

    def _checkpoint(self, data: dict[str, Any], each: Document) -> ReadCheckpoint:
        where = each.where
        read = self._described(data, where, tagged=may_be_tagged(each.data))
        self._count += 1
        if self._count > self._limits.checkpoints:
            most = f"there are more than {self._limits.checkpoints:,} checkpoints"
            raise too_large(where, "too-many-checkpoints", most, "checkpoints")
        session = self._of(read.row.session)
        session.own(read.agent, read.project, where)
        read = self._encoded(session, read)
        if self._is_new(read):
            session.found.append(read)
        self._progress("reading checkpoints", self._count)
        return read

    def _is_new(self, read: ReadCheckpoint) -> bool:
        """Whether a checkpoint comes for the first time. The same one twice is no matter; two of one name are."""
        row = read.row
        mark: _Mark = (row.session, str(row.key)) if read.foreign else row.id
        same = row._replace(stored_bytes=0) if read.foreign else read.seal
        name = row.key if read.foreign else row.id.hex()[:12]
        if mark in self._seen:
            if self._seen[mark] != same:
                why = f"checkpoint {name} comes twice, and not the same both times"
                raise malformed(read.where, "twice", why, _ONE_OF_THEM)
            if not read.foreign:
                # Here and now: of those that come once, the hashes are compared when all have been read.
                check_hashes(read, row.root)
            return False
        self._seen[mark] = same
        if row.key is not None and self._keys.setdefault((row.session, row.key), mark) != mark:
            raise malformed(
                read.where,
                "key-twice",
                f"the key {row.key!r:.60} of checkpoint {name} names another one of the archive too",
                _ONE_OF_THEM,
            )
        return True

    def _described(self, data: dict[str, Any], where: str, *, tagged: bool) -> ReadCheckpoint:
        if is_foreign(data):
            return read_foreign(data, where, self._session)
        if data.get("format") != CHECKPOINT:
            said = f"its 'format' is {data['format']!r:.40}" if "format" in data else "it has no 'format'"
            raise malformed(
                where,
                "not-an-archive",
                f"{said}, and that of an archive is {CHECKPOINT!r}",
                "pass what export wrote",
            )
        try:
            data = from_json(data) if tagged else data
        except (MalformedError, MismatchError) as error:
            raise malformed(where, "bad-value", f"{error}") from error
        read = read_checkpoint(data, where)
        if self._session is not None and read.row.session != self._session:
            raise malformed(
                where,
                "other-session",
                f"it is of session {read.row.session!r}, which is part of its id",
                "leave session= out, which is for files of other programs; "
                "store.copy_session() gives a copy another name",
            )
        return read

    def _encoded(self, session: ReadSession, read: ReadCheckpoint) -> ReadCheckpoint:
        """The checkpoint without its state, whose chunks are in the spool."""
        try:
            encoded = encode_state(read.state, _NOBODY, session.memo, cuts=self._cuts)
        except InvalidInputError as error:
            raise malformed(read.where, "bad-value", f"its state cannot be kept: {error}") from error
        session.memo = encoded.memo
        before = self._spool.size_bytes
        session.chunks.update(dict.fromkeys(self._spool.add(encoded.chunks)))
        row = read.row._replace(size_bytes=encoded.size_bytes, stored_bytes=self._spool.size_bytes - before)
        if read.foreign:
            row = row._replace(root=encoded.root)
        elif encoded.root != row.root:
            check_hashes(read, encoded.root)
        return read._replace(row=row, state=None)


def may_be_tagged(data: bytes) -> bool:
    """Whether a JSON text can hold an object with `$type`; where it does not, what was parsed is the value itself."""
    # Letters can be written by their numbers, and in no other way than that.
    # A single byte is found ten times as fast as two, and most texts have none of these.
    return (b"$" in data and b"$type" in data) or (b"\\" in data and b"\\u" in data)


_Mark = CheckpointId | tuple[str, str]
"""What a checkpoint is known by: its id, or the session and the key of another program's."""

_ONE_OF_THEM = "leave one of the two files out"

_NOBODY = TypeRegistry()
"""No classes: what an archive has of an object stays data."""


def _check_listed(header: SessionHeader, listed: set[CheckpointId], read: ReadCheckpoint) -> None:
    """Each line of a whole session is one of those that its first line counts."""
    name = read.row.id
    if name in listed and not read.foreign:
        raise malformed(read.where, "twice", f"checkpoint {name.hex()[:12]} comes twice in one session")
    if read.foreign or read.row.session != header.id or len(listed) == header.checkpoints:
        raise malformed(read.where, "not-of-session", "the first line of the file speaks of others")
    listed.add(name)


def _check_complete(header: SessionHeader | None, found: int, file: str) -> None:
    left = 0 if header is None else header.checkpoints - found
    if header is not None and left:
        why = f"{left:,} of {header.checkpoints:,} checkpoints of session {header.id!r} are missing"
        raise damaged(file, "cut-short", why)


def _put_in_order(session: ReadSession, times: Mapping[CheckpointId, int]) -> None:
    """Sort the checkpoints of a session, each after what it was made from, and compare their ids."""
    ours = [each for each in session.found if not each.foreign]
    order = parents_first([each.row for each in ours], by_time=session.header is None)
    if len(order) < len(ours):
        stuck = ours[min({*range(len(ours))}.difference(order))]
        raise malformed(
            stuck.where, "lineage-cycle", f"checkpoint {stuck.row.id.hex()[:12]} is an ancestor of itself"
        )
    for at in order:
        each = ours[at]
        check_hashes(each, each.row.root)
        _check_times(each, times)
        session.rows.append(each.row)
        session.where[each.row.id] = each.where
    parent: CheckpointRow | None = None
    for each in sorted(
        (each for each in session.found if each.foreign), key=lambda each: each.row.created_at
    ):
        # They say nothing about lineage: what came later followed from what was before.
        row = each.row
        if parent is not None:
            row = row._replace(parents=(parent.id,), created_at=max(row.created_at, parent.created_at + 1))
            if row.created_at > LATEST:
                raise malformed(
                    each.where, "bad-field", "its 'timestamp' is too late to save anything after it"
                )
        parent = row._replace(id=checkpoint_id(row))
        session.rows.append(parent)
        session.foreign.add(parent.id)
        session.where[parent.id] = each.where
    if session.header is not None:
        _check_branches(session.header, {row.id for row in session.rows}, session.header_file)
    session.found = []


def _check_branches(header: SessionHeader, known: set[CheckpointId], file: str) -> None:
    for name, head in header.branches.items():
        if head not in known:
            raise malformed(
                file,
                "no-such-head",
                f"its branch {name!r} ends at {head.hex()[:12]}, which it does not have",
            )
    if header.branches and header.current not in header.branches:
        why = f"its branch in use, {header.current!r:.60}, is none of its branches"
        raise malformed(file, "no-such-branch", why)


def _check_times(read: ReadCheckpoint, times: Mapping[CheckpointId, int]) -> None:
    """A child is younger than what it was made from: the writer sees to that, and a merge counts on it."""
    row = read.row
    for parent in (*row.parents, row.prev):
        if parent is not None and times.get(parent, row.created_at - 1) >= row.created_at:
            raise older_than_parent(read.where, parent)
