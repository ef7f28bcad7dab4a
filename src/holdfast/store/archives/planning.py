"""What an import would make of a session: worked out from one reading of the store, before anything is written.

What the store has already is left as it is; what is new comes with its own ids, keys, tags and lineage. No head moves
unless that was asked for (`advancing.py`): a branch that is there stays where it is, and what is new on a branch of
that name gets a branch of its own.

A store numbers checkpoints as they come, an ancestor always has the lower number, and a number never changes. So what
came before something that it was made from stays the beginning of its line. The files of one import are put in order;
of files that came earlier, and of those whose ancestors have not come, the report says that they are cut off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.record import Record
from holdfast.reports.transfer import BranchAdvance, SessionImport
from holdfast.storage.ports import Backend, Reader
from holdfast.storage.records import BranchRow, CheckpointId, CheckpointRow, Move, Query, SessionRow
from holdfast.store.archives.advancing import Find, last_on_branches, moves_beside, moves_forward
from holdfast.store.archives.beginnings import came_before, every_row, parents_missing
from holdfast.store.archives.numbering import free_names
from holdfast.store.archives.ordering import parents_first
from holdfast.store.archives.reading import ReadSession
from holdfast.store.archives.refusing import key_taken, older_than_parent

_ASKED_ALONE: Final = 64
"""Rows; more are looked for by reading all ids of the session."""

_Link = tuple[CheckpointId | None, int]
"""`prev` and `skipped` of a row."""

_Named = tuple[str, CheckpointId]
"""A branch, and where it ends."""


class SessionPlan(Record):
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

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return not self.arriving and not self.moves


def plan_session(backend: Backend, read: ReadSession, *, advance: bool = False) -> SessionPlan:
    """Work out what there is to write.

    Args:
        backend: The store.
        read: The session, as the archives have it.
        advance: Whether branches move forward where what came in goes on from their heads.

    Raises:
        InvalidInputError: The session belongs to somebody else here (`session-mismatch`), or a checkpoint is not
            younger than one that it was made from (`archive-malformed`).
        ConflictError: A key of the archive names another checkpoint here (`key-taken`).
    """
    with backend.reader() as reader:
        known = reader.session(read.id)
        _check_owner(known, read)
        there = {} if known is None else _there(reader, read)
        here = _Here(reader, read, there)
        here.check_times()
        arriving = here.arranged()
        late = came_before(reader, read.id, arriving, read.where)
        missing = parents_missing(read.rows, arriving)
        branches = tuple(reader.branches(read.id))
        ends = _ends(read, there, arriving)
        names = {branch.name for branch in branches}
        wanted = _wanted(read, arriving)
        find = here.finder(arriving)
        ahead = moves_forward(branches, ends, find)
        on_time = {(move.branch, move.head) for move in ahead}
        parted = [each for each in wanted if each[0] in names and each not in on_time]
        moved = {move.branch for move in ahead}
        beside = moves_beside([each for each in branches if each.name not in moved], parted, arriving, find)
    if advance:
        # Every branch is to stand where it stood, also one that others were forked from, or that was merged.
        new = {row.id for row in arriving}
        wanted += [each for each in ends if each not in wanted and each[0] not in names and each[1] in new]
        wanted = [each for each in wanted if each not in on_time and each not in beside]
    could = (*ahead, *beside.values())
    moves = could if advance else ()
    heads = free_names(wanted, {*names})
    # One whose import was taken back is there, with nothing in it.
    fresh = known is None or not (branches or there)
    told = SessionImport(
        read.id,
        "unchanged" if not arriving and not moves else "new" if fresh else "updated",
        len(arriving),
        len(there),
        sum(row.hidden > 0 for row in there.values()),
        tuple(heads),
        late + missing,
        tuple(BranchAdvance(each.branch, *map(_hex, (each.expected, each.head))) for each in moves),
        () if advance else tuple(each.branch for each in could),
        tuple(sorted({name for name, _ in parted} - moved)),
        missing,
    )
    current = read.header.current if read.header is not None and read.header.branches and fresh else None
    return SessionPlan(known, branches, arriving, heads, moves, current, told)


def _check_owner(known: SessionRow | None, read: ReadSession) -> None:
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


def _there(reader: Reader, read: ReadSession) -> dict[CheckpointId, CheckpointRow]:
    """Checkpoints of the archive that the store has, by the ids that they have in the archive."""
    wanted = {row.id for row in read.rows}
    if len(wanted) <= _ASKED_ALONE:
        found = {row.id: row for each in wanted if (row := reader.checkpoint(each)) is not None}
    else:
        found = {row.id: row for row in every_row(reader, read.id) if row.id in wanted}
    for row in read.rows:
        if row.key is None or row.id in found:
            continue
        for holder in reader.checkpoints(Query(session=read.id, key=row.key, include_hidden=True, limit=1)):
            if row.id not in read.foreign or holder.root != row.root:
                raise key_taken(read.where[row.id], read.id, row.key, holder.id)
            found[row.id] = holder
    return found


class _Here:
    """What the store has of what an archive speaks of."""

    def __init__(
        self, reader: Reader, read: ReadSession, there: Mapping[CheckpointId, CheckpointRow]
    ) -> None:
        self._reader = reader
        self._read = read
        self._there = there
        self._asked: dict[CheckpointId, CheckpointRow | None] = {}

    def check_times(self) -> None:
        """A child is younger than what it was made from; what the archive has itself was compared before."""
        known = {row.id for row in self._read.rows}
        for row in self._read.rows:
            for each in dict.fromkeys((*row.parents, row.prev)):
                # Files of another program have no lineage of their own: it was made from their times.
                if each is None or each in known or row.id in self._read.foreign:
                    continue
                parent = self._ask(each)
                if parent is not None and parent.created_at >= row.created_at:
                    raise older_than_parent(self._read.where[row.id], each)

    def arranged(self) -> tuple[CheckpointRow, ...]:
        """What is new, each after what it was made from and with what it follows here."""
        rows = [row for row in self._read.rows if row.id not in self._there]
        made: dict[CheckpointId, CheckpointRow] = {}
        for at in parents_first(rows, by_time=False):
            prev, skipped = self._link(rows[at], made)
            made[rows[at].id] = rows[at]._replace(prev=prev, skipped=skipped)
        return tuple(made.values())

    def _link(self, row: CheckpointRow, made: Mapping[CheckpointId, CheckpointRow]) -> _Link:
        """What a row follows here, and how many that were removed lie between."""
        parent = self._found(row.parents[0], made) if row.parents else None
        if parent is not None:
            return _past(parent, 0)
        if row.prev is None:
            return None, row.skipped
        before = self._found(row.prev, made)
        return (None, 0) if before is None else _past(before, row.skipped)

    def finder(self, arriving: Iterable[CheckpointRow]) -> Find:
        """How to find a checkpoint of the session as it is afterwards."""
        made = {row.id: row for row in arriving}
        return lambda checkpoint: self._found(checkpoint, made)

    def _found(
        self, checkpoint: CheckpointId, made: Mapping[CheckpointId, CheckpointRow]
    ) -> CheckpointRow | None:
        row = made.get(checkpoint) or self._there.get(checkpoint) or self._ask(checkpoint)
        if row is not None:
            # A file of another program has another id here than in the archive.
            row = made.get(row.id, row)
        # A fork into a session of its own was made from something that is no part of its history.
        return row if row is not None and row.session == self._read.id else None

    def _ask(self, checkpoint: CheckpointId) -> CheckpointRow | None:
        if checkpoint not in self._asked:
            self._asked[checkpoint] = self._reader.checkpoint(checkpoint)
        return self._asked[checkpoint]


def _past(row: CheckpointRow, skipped: int) -> _Link:
    """The link to a row; one that was removed here leads on to what was before it."""
    return (row.prev, skipped + 1 + row.skipped) if row.hidden else (row.id, skipped)


def _ends(
    read: ReadSession, there: Mapping[CheckpointId, CheckpointRow], arriving: Iterable[CheckpointRow]
) -> list[_Named]:
    """Where each branch of the archive ends, whether that is new here or not."""
    made = {row.id: row for row in arriving}
    rows = [made.get(row.id) or there.get(row.id, row) for row in read.rows]
    return last_on_branches(rows, None if read.header is None else read.header.branches)


def _wanted(read: ReadSession, arriving: Sequence[CheckpointRow]) -> list[_Named]:
    """The branches that what is new needs, by the names that they have in the archive."""
    if read.header is not None:
        new = {row.id for row in arriving}
        return [(name, head) for name, head in read.header.branches.items() if head in new]
    followed = {each for row in arriving if not row.hidden for each in (row.prev, *row.parents)}
    return [(row.branch, row.id) for row in arriving if row.id not in followed]


def _hex(checkpoint: CheckpointId | None) -> str:
    return "" if checkpoint is None else checkpoint.hex()
