"""import: verified checkpoints become rows of a store.

Everything is read and verified first: each state is made, encoded as a save would, and its root compared; its chunks
wait in a temporary file. Then each session is planned against the store, and whatever can be refused is refused before
anything is written. Then each session is written in one transaction, on the condition that it is still as it was when
it was planned. Where there is much, chunks go ahead, a megabyte at a time: without a checkpoint they mean nothing to
anybody, and gc takes them if the import is killed. Of several sessions some may be there after a kill or an error; the
same import run again brings the rest.

What the store has already is left as it is. No head moves unless that was asked for, and then only forward: a branch
that is there stays where it is, and what is new for it gets a branch of its own. A store numbers checkpoints as they
come, an ancestor always has the lower number, and a number never changes; so what came before something that it was
made from stays the beginning of its line.
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from holdfast.errors import BackendError, ConflictError, ErrorCode, HoldfastError, InvalidInputError
from holdfast.history.checkpoint import checkpoint_id
from holdfast.history.names import MAX_NAME, check_session
from holdfast.history.oplog import operation
from holdfast.objects.codec.errors import MalformedError, MismatchError
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.codec.tagged_json import from_json
from holdfast.objects.compression import compress, expand
from holdfast.objects.tree.boundaries import Cuts
from holdfast.objects.tree.build import StateMemo
from holdfast.objects.tree.state import encode_state
from holdfast.record import Record
from holdfast.reports.transfer import BranchAdvance, ImportReport, SessionImport
from holdfast.storage.copy_rows import Adoption
from holdfast.storage.ports import Backend, Reader
from holdfast.storage.records import (
    BranchRow,
    CheckpointId,
    CheckpointRow,
    Chunk,
    ChunkHash,
    Move,
    NewChunk,
    Query,
    SessionRow,
)
from holdfast.store.archive.envelope import (
    CHECKPOINT,
    LATEST,
    SESSION,
    ArchiveLimits,
    ReadCheckpoint,
    SessionHeader,
    check_hashes,
    damaged,
    malformed,
    read_checkpoint,
    read_foreign,
    read_header,
    too_large,
)
from holdfast.store.archive.source import Document, Source, documents
from holdfast.store.composition import Composition
from holdfast.store.place import ATTEMPTS, Progress, read_again, silent

_AT_ONCE: Final = 4 << 20
"""Plain bytes of chunks in one transaction; more go ahead in parts."""
_PART: Final = 1 << 20
_IN_MEMORY: Final = 4 << 20
"""Bytes of compressed chunks; less is not worth a file."""
_RACES: Final = frozenset((ErrorCode.SESSION_CHANGED, ErrorCode.CHUNKS_GONE))
"""Somebody wrote to the session since it was read, or a collection took what was sent ahead: it is planned again."""
_NO_TYPES: Final = TypeRegistry()
"""What an archive has of an object stays data."""

_Named = tuple[str, CheckpointId]
"""A branch, and where it ends."""


def import_archives(
    parts: Composition,
    source: Source,
    *,
    session: str | None,
    limits: ArchiveLimits | None,
    advance: bool,
    dry_run: bool,
    progress: Progress | None,
) -> ImportReport:
    """Import all that a source holds; see `Store.import_`."""
    if limits is not None and not isinstance(limits, ArchiveLimits):
        raise InvalidInputError(
            f"limits cannot be a {type(limits).__name__}",
            code=ErrorCode.BAD_ARGUMENT,
            hint="pass holdfast.ArchiveLimits(...)",
        )
    limits = limits or ArchiveLimits()
    name = str(source) if isinstance(source, str | Path) else str(getattr(source, "name", "stream"))
    wanted = None if session is None else check_session(session)
    with _Spool() as spool:
        archives = _ArchiveReader(spool, limits, wanted, parts.cuts, progress or silent).read(source)
        imports = [_SessionImport(parts, each, spool, advance=advance) for each in archives]
        if sum(len(each.plan.heads) for each in imports) > limits.branches:
            why = f"it would make more than {limits.branches:,} new branches"
            raise too_large(name, "too-many-branches", why, "branches")
        written: list[str] = []
        for each in () if dry_run else imports:
            try:
                each.write()
            except HoldfastError as error:
                error.details["imported"] = written
                raise
            written.append(each.plan.told.id)
        return ImportReport(name, parts.backend.url, tuple(each.plan.told for each in imports), dry_run)


class _Spool:
    """The chunks of one import, each once: compressed, in a temporary file once they are many."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, prefix="holdfast-import-")  # noqa: SIM115
        self._chunks: dict[ChunkHash, tuple[int, int, int, int, ChunkHash | None]] = {}
        self.size_bytes = 0

    def add(self, chunks: Iterable[NewChunk]) -> list[ChunkHash]:
        """Keep chunks and return their names."""
        names = []
        for each in chunks:
            names.append(each.hash)
            if each.hash in self._chunks:
                continue
            data = each.data
            codec, packed = compress(data)
            place = (self.size_bytes, len(packed), codec, len(data), each.base)
            try:
                self._file.seek(self.size_bytes)
                self._file.write(packed)
            except OSError as error:
                code = ErrorCode.DISK_FULL if error.errno == errno.ENOSPC else ErrorCode.IO_FAILED
                raise BackendError(
                    f"a temporary file of the import cannot be written: {error.strerror or error}",
                    code=code,
                    hint="make room, or set TMPDIR to a folder that has some",
                ) from error
            self._chunks[each.hash] = place
            self.size_bytes += len(packed)
        return names

    def parts(self, names: Iterable[ChunkHash], limit: int) -> Iterator[tuple[Chunk, ...]]:
        """Yield those chunks, about as many bytes of them at once."""
        some: list[Chunk] = []
        total = 0
        for name in names:
            at, length, codec, size, base = self._chunks[name]
            self._file.seek(at)
            some.append(Chunk(name, expand(codec, self._file.read(length), size), base))
            total += size
            if total >= limit:
                yield tuple(some)
                some, total = [], 0
        if some:
            yield tuple(some)

    def plain_bytes(self, names: Iterable[ChunkHash]) -> int:
        """Return how much those chunks are, uncompressed."""
        return sum(self._chunks[name][3] for name in names)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


class _Archived:
    """All that the archives of one import have of a session, verified."""

    def __init__(self, name: str) -> None:
        self.id = name
        self.agent: str | None = None
        self.project: str | None = None
        self.header: SessionHeader | None = None
        self.header_file = ""
        self.found: list[ReadCheckpoint] = []
        """As they were read, without their states."""
        self.rows: list[CheckpointRow] = []
        """Parents first."""
        self.where: dict[CheckpointId, str] = {}
        """The file of each checkpoint, and the line."""
        self.foreign: set[CheckpointId] = set()
        """Those of another program, which are known by their keys."""
        self.chunks: dict[ChunkHash, None] = {}
        self.memo: StateMemo | None = None

    def own(self, agent: str | None, project: str | None, where: str) -> None:
        """Note whose the session is: every file says so, and all of them the same."""
        for name, mine, theirs in (("agent", self.agent, agent), ("project", self.project, project)):
            if mine is not None and theirs is not None and mine != theirs:
                why = f"session {self.id!r} has the {name} {theirs!r} here and {mine!r} before"
                raise malformed(where, "two-owners", why, "import them one after the other")
        self.agent, self.project = self.agent or agent, self.project or project


class _ArchiveReader:
    """Reads and verifies everything that one import was given."""

    def __init__(
        self, spool: _Spool, limits: ArchiveLimits, session: str | None, cuts: Cuts | None, progress: Progress
    ) -> None:
        self._spool = spool
        self._limits = limits
        self._wanted = session
        self._cuts = cuts
        self._progress = progress
        self._sessions: dict[str, _Archived] = {}
        self._seen: dict[object, str | CheckpointRow] = {}
        """Of each checkpoint its seal; of another program's, known by session and key, all that there is."""
        self._keys: dict[tuple[str, str], object] = {}
        self._count = 0

    def read(self, source: Source) -> list[_Archived]:
        """Read to the end, and return the sessions."""
        header: SessionHeader | None = None
        listed: set[CheckpointId] = set()
        file = ""
        for each in documents(source, self._limits):
            if each.first:
                _check_complete(header, listed, file)
                header, listed, file = None, set(), each.file
            if each.value.get("format") == SESSION:
                header = self._header(each)
                continue
            read = self._checkpoint(each)
            if header is not None:
                if read.foreign or read.row.session != header.id:
                    raise malformed(
                        each.where, "not-of-session", "the first line of the file speaks of others"
                    )
                listed.add(read.row.id)
        _check_complete(header, listed, file)
        times = {
            each.row.id: each.row.created_at
            for session in self._sessions.values()
            for each in session.found
            if not each.foreign
        }
        for session in self._sessions.values():
            _put_in_order(session, times)
        return list(self._sessions.values())

    def _header(self, each: Document) -> SessionHeader:
        if not each.first or each.alone:
            raise malformed(each.where, "misplaced-header", "this is the first line of a session")
        header = read_header(each.value, each.where)
        session = self._sessions.setdefault(header.id, _Archived(header.id))
        session.own(header.agent, header.project, each.where)
        session.header, session.header_file = header, each.file
        return header

    def _checkpoint(self, each: Document) -> ReadCheckpoint:
        read = self._described(each)
        self._count += 1
        if self._count > self._limits.checkpoints:
            most = f"there are more than {self._limits.checkpoints:,} checkpoints"
            raise too_large(each.where, "too-many-checkpoints", most, "checkpoints")
        session = self._sessions.setdefault(read.row.session, _Archived(read.row.session))
        session.own(read.agent, read.project, each.where)
        read = self._encoded(session, read)
        if self._is_new(read):
            session.found.append(read)
        self._progress("reading checkpoints", self._count)
        return read

    def _described(self, each: Document) -> ReadCheckpoint:
        data, where = each.value, each.where
        if "format" not in data and "snapshot" in data:
            return read_foreign(data, where, self._wanted)
        if data.get("format") != CHECKPOINT:
            why = f"its 'format' is {data.get('format')!r:.40}, and that of an archive is {CHECKPOINT!r}"
            raise malformed(where, "not-an-archive", why, "pass what export wrote")
        try:
            data = from_json(data, canonical=True) if each.tagged else data
        except (MalformedError, MismatchError) as error:
            raise malformed(where, "bad-value", f"{error}") from error
        read = read_checkpoint(data, where)
        if self._wanted is not None and read.row.session != self._wanted:
            why = f"it is of session {read.row.session!r}, which is part of its id"
            hint = "session= is for files of other programs; store.copy_session() gives a copy another name"
            raise malformed(where, "other-session", why, hint)
        return read

    def _encoded(self, session: _Archived, read: ReadCheckpoint) -> ReadCheckpoint:
        """Return the checkpoint, verified and without its state, whose chunks go to the spool."""
        try:
            encoded = encode_state(read.state, _NO_TYPES, session.memo, cuts=self._cuts)
        except InvalidInputError as error:
            raise malformed(read.where, "bad-value", f"its state cannot be kept: {error}") from error
        if not read.foreign:
            check_hashes(read, encoded.root)
        session.memo = encoded.memo
        before = self._spool.size_bytes
        session.chunks.update(dict.fromkeys(self._spool.add(encoded.chunks)))
        row = read.row._replace(
            root=encoded.root,
            size_bytes=encoded.size_bytes,
            stored_bytes=self._spool.size_bytes - before,
        )
        return read._replace(row=row, state=None)

    def _is_new(self, read: ReadCheckpoint) -> bool:
        """Return whether it comes for the first time. The same one twice is no matter; two of one name are."""
        row = read.row
        mark: object = (row.session, row.key) if read.foreign else row.id
        same = row._replace(stored_bytes=0) if read.foreign else read.seal
        name = row.key if read.foreign else row.id.hex()[:12]
        if mark in self._seen:
            if self._seen[mark] != same:
                why = f"checkpoint {name} comes twice, and not the same both times"
                raise malformed(read.where, "twice", why, "leave one of the two files out")
            return False
        self._seen[mark] = same
        if row.key is not None and self._keys.setdefault((row.session, row.key), mark) != mark:
            why = f"the key {row.key!r:.60} of checkpoint {name} names another one of the archive too"
            raise malformed(read.where, "key-twice", why, "leave one of the two files out")
        return True


def _check_complete(header: SessionHeader | None, listed: set[CheckpointId], file: str) -> None:
    """Compare the lines of a whole session with what its first line says."""
    if header is None:
        return
    if len(listed) != header.checkpoints:
        why = f"it has {len(listed):,} of {header.checkpoints:,} checkpoints of session {header.id!r}"
        raise damaged(file, "cut-short", why)
    for name, head in header.branches.items():
        if head not in listed:
            why = f"its branch {name!r} ends at {head.hex()[:12]}, which it does not have"
            raise malformed(file, "no-such-head", why)
    if header.branches and header.current not in header.branches:
        why = f"its branch in use, {header.current!r:.60}, is none of its branches"
        raise malformed(file, "no-such-branch", why)


def _put_in_order(session: _Archived, times: Mapping[CheckpointId, int]) -> None:
    """Sort the checkpoints of a session, each after what it was made from: a parent is always older."""
    ours = [each for each in session.found if not each.foreign]
    for each in ours:
        for parent in (*each.row.parents, each.row.prev):
            if parent is not None and times.get(parent, each.row.created_at - 1) >= each.row.created_at:
                raise _older_than_parent(each.where, parent)
    if session.header is None or not _is_in_order([each.row for each in ours]):
        ours.sort(key=lambda each: each.row.created_at)
    for each in ours:
        session.rows.append(each.row)
        session.where[each.row.id] = each.where
    before: CheckpointRow | None = None
    theirs = (each for each in session.found if each.foreign)
    for each in sorted(theirs, key=lambda each: each.row.created_at):
        # They say nothing about lineage: what came later followed from what was before.
        row = each.row
        if before is not None:
            row = row._replace(parents=(before.id,), created_at=max(row.created_at, before.created_at + 1))
            if row.created_at > LATEST:
                raise malformed(
                    each.where, "bad-field", "its 'timestamp' is too late to save anything after it"
                )
        before = row._replace(id=checkpoint_id(row))
        session.rows.append(before)
        session.foreign.add(before.id)
        session.where[before.id] = each.where
    session.found = []


def _is_in_order(rows: Sequence[CheckpointRow]) -> bool:
    there = {row.id for row in rows}
    seen: set[CheckpointId] = set()
    for row in rows:
        if any(each in there and each not in seen for each in (*row.parents, row.prev) if each is not None):
            return False
        seen.add(row.id)
    return True


def _older_than_parent(where: str, parent: bytes) -> InvalidInputError:
    return malformed(where, "older-than-parent", f"it is not younger than its ancestor {parent.hex()[:12]}")


class _Plan(Record):
    """What there is to write of a session."""

    known: SessionRow | None
    branches: tuple[BranchRow, ...]
    """Those that are there."""
    arriving: tuple[CheckpointRow, ...]
    """All that is new, in its order and with what each follows here."""
    heads: Mapping[str, CheckpointId]
    """The branches to be made."""
    moves: tuple[Move, ...]
    """The branches that go forward."""
    current: str | None
    """The branch that people are on from then on; None leaves it as it is."""
    told: SessionImport


def _planned(backend: Backend, read: _Archived, *, advance: bool) -> _Plan:
    """Work out what there is to write, from one view of the store.

    Raises:
        InvalidInputError: The session belongs to somebody else here (`session-mismatch`), or a checkpoint is not
            younger than one that it was made from (`archive-malformed`).
        ConflictError: A key of the archive names another checkpoint here (`key-taken`).
    """
    with backend.reader() as reader:
        known = reader.session(read.id)
        _check_owner(known, read)
        there = {} if known is None else _already_there(reader, read)
        line = _Line(reader, read, there)
        branches = tuple(reader.branches(read.id))
        ends = _ends(read, line)
        moves = _forward(branches, ends, line)
    new = line.arriving
    moved = {(move.branch, move.head) for move in moves}
    taken = {each.name for each in branches}
    wanted = [each for each in ends if each[1] in new and not (advance and each in moved)]
    heads = _free_names(wanted, taken)
    fresh = known is None or not (branches or there)
    told = SessionImport(
        read.id,
        "unchanged" if not new and not (advance and moves) else "new" if fresh else "updated",
        len(new),
        len(there),
        sum(row.hidden > 0 for row in there.values()),
        tuple(heads),
        line.cut_off,
        tuple(BranchAdvance(each.branch, _hex(each.expected), _hex(each.head)) for each in moves)
        if advance
        else (),
        () if advance else tuple(each.branch for each in moves),
    )
    current = read.header.current if read.header is not None and read.header.branches and fresh else None
    return _Plan(known, branches, tuple(new.values()), heads, moves if advance else (), current, told)


def _check_owner(known: SessionRow | None, read: _Archived) -> None:
    if known is None:
        return
    where = read.header_file or next(iter(read.where.values()), "the archive")
    for name, here, there in (("agent", known.agent, read.agent), ("project", known.project, read.project)):
        if here is not None and there is not None and here != there:
            raise InvalidInputError(
                f"session {read.id!r} belongs to {name} {here!r} here, and to {there!r} in {where}",
                code=ErrorCode.SESSION_MISMATCH,
                hint="import it into another store; "
                "store.copy_session() and store.forget() give the session that is here another name",
                session=read.id,
                file=where,
            )


def _already_there(reader: Reader, read: _Archived) -> dict[CheckpointId, CheckpointRow]:
    """Return the checkpoints of the archive that the store has, by the ids that they have in the archive."""
    wanted = {row.id for row in read.rows}
    found = {row.id: row for row in _every_row(reader, read.id) if row.id in wanted}
    for row in read.rows:
        if row.key is None or row.id in found:
            continue
        for holder in reader.checkpoints(Query(session=read.id, key=row.key, include_hidden=True, limit=1)):
            if row.id in read.foreign and holder.root == row.root:
                found[row.id] = holder
                continue
            where = read.where[row.id]
            error = ConflictError.key_taken(
                read.id, row.key, existing=holder.id, why=f"which is another one than {where} has"
            )
            error.hint = "a key names one checkpoint of a session, for good: import into another store"
            error.details["file"] = where
            raise error
    return found


def _every_row(reader: Reader, session: str) -> Iterator[CheckpointRow]:
    query = Query(session=session, include_hidden=True, oldest_first=True, limit=1000)
    while page := reader.checkpoints(query):
        yield from page
        query = query._replace(after_seq=page[-1].seq)


class _Line:
    """What is new of a session, joined to what the store has of it."""

    def __init__(self, reader: Reader, read: _Archived, there: Mapping[CheckpointId, CheckpointRow]) -> None:
        self._reader = reader
        self._session = read.id
        self._there = there
        self._asked: dict[CheckpointId, CheckpointRow | None] = {}
        self.arriving: dict[CheckpointId, CheckpointRow] = {}
        self.cut_off = 0
        """Those that follow a checkpoint which is neither among them nor here."""
        for row in read.rows:
            if row.id in there:
                continue
            # Files of another program have no lineage of their own: it was made from their times.
            for each in () if row.id in read.foreign else (*row.parents, row.prev):
                parent = None if each is None or each in self.arriving else self._ask(each)
                if parent is not None and parent.created_at >= row.created_at:
                    raise _older_than_parent(read.where[row.id], parent.id)
            prev, skipped = self._link(row)
            self.cut_off += prev is None and row.prev is not None and not skipped
            self.arriving[row.id] = row._replace(prev=prev, skipped=skipped)

    def find(self, checkpoint: CheckpointId) -> CheckpointRow | None:
        """Return a checkpoint of the session as it is afterwards, by its id in the archive or here."""
        row = self.arriving.get(checkpoint) or self._there.get(checkpoint) or self._ask(checkpoint)
        # A fork into a session of its own was made from something that is no part of its history.
        return row if row is not None and row.session == self._session else None

    def _link(self, row: CheckpointRow) -> tuple[CheckpointId | None, int]:
        """Return what a row follows here, and how many that were removed lie between."""
        if row.parents and (parent := self.find(row.parents[0])) is not None:
            return _past(parent, 0)
        if row.prev is None:
            return None, row.skipped
        before = self.find(row.prev)
        return (None, 0) if before is None else _past(before, row.skipped)

    def _ask(self, checkpoint: CheckpointId) -> CheckpointRow | None:
        if checkpoint not in self._asked:
            self._asked[checkpoint] = self._reader.checkpoint(checkpoint)
        return self._asked[checkpoint]


def _past(row: CheckpointRow, skipped: int) -> tuple[CheckpointId | None, int]:
    """Return the link to a row; one that was removed here leads on to what was before it."""
    return (row.prev, skipped + 1 + row.skipped) if row.hidden else (row.id, skipped)


def _ends(read: _Archived, line: _Line) -> list[_Named]:
    """Return where each branch of the archive ends: as its first line says, or else where nothing on it follows."""
    if read.header is not None:
        ends = list(read.header.branches.items())
    else:
        followed = {(row.branch, each) for row in read.rows for each in (row.prev, *row.parents[:1])}
        ends = [(row.branch, row.id) for row in read.rows if (row.branch, row.id) not in followed]
    here = [(name, line.find(end)) for name, end in ends]
    return [(name, row.id) for name, row in here if row is not None and not row.hidden]


def _forward(branches: Iterable[BranchRow], ends: Sequence[_Named], line: _Line) -> tuple[Move, ...]:
    """Return how branches fast-forward: each whose head the one line of its name goes on from."""
    by_name: dict[str, list[CheckpointId]] = {}
    for name, end in ends:
        by_name.setdefault(name, []).append(end)
    moves = []
    for branch in branches:
        head = line.find(branch.head) if branch.name in by_name else None
        extending = [] if head is None else _extending(head, by_name[branch.name], line)
        if len(extending) == 1:
            moves.append(Move(branch.name, expected=branch.head, head=extending[0]))
    return tuple(moves)


def _extending(head: CheckpointRow, ends: Iterable[CheckpointId], line: _Line) -> list[CheckpointId]:
    """Return those of some checkpoints, other than the head, that have it among their ancestors."""
    # Shared by all of them: each checkpoint is passed once, however many lines there are.
    known = {head.id: True}
    found = []
    for end in ends:
        passed: list[CheckpointId] = []
        here = line.find(end)
        # A child is younger than what it follows, so that this ends in a damaged store too.
        while here is not None and here.id not in known and here.created_at > head.created_at:
            passed.append(here.id)
            here = None if here.prev is None else line.find(here.prev)
        reached = here is not None and known.get(here.id, False)
        known.update(dict.fromkeys(passed, reached))
        if reached and end != head.id:
            found.append(end)
    return found


def _free_names(wanted: Iterable[_Named], taken: set[str]) -> dict[str, CheckpointId]:
    """Return new branches by names that are free: `main`, or else `main-1` and so on."""
    numbers: dict[str, int] = {}
    made: dict[str, CheckpointId] = {}
    for name, head in wanted:
        free, stem = name, name[: MAX_NAME - 16]
        while free in taken or free in made:
            # Counted on from the last one: thousands may want the same name.
            numbers[stem] = numbers.get(stem, 0) + 1
            free = f"{stem}-{numbers[stem]}"
        made[free] = head
    return made


def _hex(checkpoint: CheckpointId | None) -> str:
    return "" if checkpoint is None else checkpoint.hex()


class _SessionImport:
    """One session on its way into a store."""

    def __init__(self, parts: Composition, read: _Archived, spool: _Spool, *, advance: bool) -> None:
        self._backend = parts.backend
        self._clock = parts.clock
        self._read = read
        self._spool = spool
        self._plan_anew: Callable[[], _Plan] = partial(
            read_again, partial(_planned, parts.backend, read, advance=advance)
        )
        self.plan = self._plan_anew()

    def write(self) -> None:
        """Write what is planned; where somebody came in between, what is planned then."""
        for _ in range(ATTEMPTS):
            if not self.plan.arriving and not self.plan.moves:
                return None
            try:
                return self._write()
            except ConflictError as conflict:
                if conflict.code not in _RACES:
                    raise
                self.plan = self._plan_anew()
        raise ConflictError.session_changed(self._read.id)

    def _write(self) -> None:
        with self._backend.reader() as reader:
            present = reader.present(self._read.chunks)
        missing = [name for name in self._read.chunks if name not in present]
        row = self.plan.known
        if self._spool.plain_bytes(missing) > _AT_ONCE:
            # Nobody's yet: where the import ends here, an empty session must not be in anybody's way.
            ahead = row or SessionRow(self._read.id, None, None, self._clock())
            for some in self._spool.parts(missing, _PART):
                self._backend.adopt(Adoption(session=ahead, expected=row, chunks=some, whole=None))
                row = ahead
            missing = []
        chunks = next(self._spool.parts(missing, 2 * _AT_ONCE), ())
        batch = self._adoption(row, chunks)
        try:
            self._backend.adopt(batch)
        except BackendError as failure:
            self._settle(batch, failure)

    def _adoption(self, row: SessionRow | None, chunks: tuple[Chunk, ...]) -> Adoption:
        plan, read, now = self.plan, self._read, self._clock()
        before = row or SessionRow(read.id, None, None, now)
        arriving = tuple(
            each._replace(seq=seq, position=0, stored_at=now)
            for seq, each in enumerate(plan.arriving, start=before.last_seq + 1)
        )
        heads = {**plan.heads, **{move.branch: move.head for move in plan.moves if move.head is not None}}
        branches = {each.name: each for each in plan.branches}
        branches |= {name: BranchRow(read.id, name, head, now) for name, head in heads.items()}
        after = before._replace(
            agent=before.agent or read.agent,
            project=before.project or read.project,
            last_seq=before.last_seq + len(arriving),
            current=plan.current or before.current,
        )
        # A head that moved can be moved back by undo; what is new is no operation, as a save is none.
        entries = (operation(after, "import", now, moves=plan.moves),) if plan.moves else ()
        for each in entries:
            after = after._replace(log_count=each.number, log_tip=each.hash)
        sent = {each.hash for each in chunks}
        return Adoption(
            session=after,
            expected=row,
            chunks=chunks,
            found=tuple(name for name in read.chunks if name not in sent),
            checkpoints=arriving,
            branches=tuple(branches[name] for name in sorted(branches)),
            operations=entries,
            whole=None,
        )

    def _settle(self, batch: Adoption, failure: BackendError) -> None:
        """Find out whether a transaction whose reply was an error took place after all; raise the error if not."""
        try:
            with self._backend.reader() as reader:
                if not batch.checkpoints:
                    session = reader.session(batch.session.id)
                    done = session is not None and session.log_tip == batch.session.log_tip
                else:
                    last = batch.checkpoints[-1]
                    found = reader.checkpoint(last.id)
                    # Another process may import the same at the same time; when it did so is its own.
                    done = found is not None and (found.seq, found.stored_at) == (last.seq, last.stored_at)
        except HoldfastError:
            # The store cannot be read either: the first failure is the one to report.
            raise failure from None
        if not done:
            raise failure
