"""How a session in one store stands to the session of the same id in another: which one has what the other has not.

Two stores have the same session if one was copied from the other. Then a seq names the same checkpoint in both, and the
log of one is the beginning of the other's. Where both were written to since, neither is a copy of the other any more,
and that is refused: nothing here can merge two histories.

Checkpoints go at the source: gc, retention and forgetting take them for good, and not always by name. So a checkpoint
that only the target has may have gone at the source, or have been saved at the target. The target knows whether
anybody wrote to the session since it was copied (`Reader.adopted`). If so, and if what was saved last at the target is
not known at the source, only what the source's log names is believed to have been there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal

from holdfast.errors import ConflictError, ErrorCode
from holdfast.history.oplog import recorded
from holdfast.record import Record
from holdfast.storage.copy_rows import Adopted
from holdfast.storage.ports import Backend, Reader
from holdfast.storage.records import CheckpointId, CheckpointRow, Operation, Query, SessionRow

_PAGE: Final = 256

Pair = tuple[CheckpointRow | None, CheckpointRow | None]
"""A checkpoint at the source and at the target; None where it is not there."""

Status = Literal["new", "behind", "unchanged", "ahead"]


class Standing(Record):
    """How the target's session stands to the source's."""

    status: Status
    theirs: SessionRow | None = None
    """The session at the target."""
    only_saves: bool = False
    """Whether nothing but saves happened at the source since it was copied."""


class Logs(Record):
    """Two operation logs."""

    mine: Sequence[Operation]
    theirs: Sequence[Operation]
    """The target's, without what gc wrote there at the end: it takes nothing that a copy does not bring again."""

    def shared(self) -> int:
        """With how many entries both begin."""
        pairs = zip(self.mine, self.theirs, strict=False)
        return next((at for at, (a, b) in enumerate(pairs) if a.hash != b.hash), min(map(len, self)))


def compare(source: Reader, target: Backend, mine: SessionRow) -> Standing:
    """Find out how the target's session stands to the source's.

    Raises:
        ConflictError: They are two sessions, or both were written to (`history-differs`).
    """
    with target.reader() as reader:
        theirs = reader.session(mine.id)
        if theirs is None:
            return Standing("new", only_saves=True)
        adopted = reader.adopted(theirs)
        heads_match = reader.branches(mine.id) == source.branches(mine.id)
        newest = reader.checkpoints(Query(session=mine.id, include_hidden=True, limit=1))
    if theirs.created_at != mine.created_at:
        raise differs(mine.id, "they began at different times")
    if theirs == mine and adopted != "partial" and heads_match:
        return Standing("unchanged", theirs)
    if adopted == "whole" and _has_only_saves(source, mine, theirs, newest):
        return Standing("behind", theirs, only_saves=True)
    return _compare_all(source, target, mine, theirs)


def _has_only_saves(
    source: Reader, mine: SessionRow, theirs: SessionRow, newest: Sequence[CheckpointRow]
) -> bool:
    """Whether the source's session is what was copied, and what was saved since: every other change is in the log."""
    if (mine.log_count, mine.log_tip) != (
        theirs.log_count,
        theirs.log_tip,
    ) or mine.last_seq < theirs.last_seq:
        return False
    # A source that was brought back from a backup and went on has another checkpoint under this seq.
    return all(_same(source.checkpoint(row.id), row) for row in newest)


def _same(mine: CheckpointRow | None, theirs: CheckpointRow) -> bool:
    return mine is not None and mine._replace(position=theirs.position) == theirs


def _compare_all(source: Reader, target: Backend, mine: SessionRow, theirs: SessionRow) -> Standing:
    logs, stripped, adopted = read_logs(source, target, theirs)
    ahead = _check_logs(mine, logs)
    proven = adopted is not None or _knows_the_newest(source, target, theirs)
    extra: list[CheckpointRow] = []
    for a, b in pairs(source, target, mine.id):
        if a is not None and b is not None and a.id != b.id:
            raise differs(mine.id, f"#{a.seq} is another checkpoint there")
        if a is None and b is not None:
            ahead = ahead or b.seq > mine.last_seq
            if b.seq <= mine.last_seq and not proven:
                extra.append(b)
    ahead = ahead or theirs.last_seq > mine.last_seq
    if ahead:
        if mine.last_seq > theirs.last_seq or mine.log_count > stripped.log_count:
            raise differs(mine.id, "both have been written to since they were the same")
        return Standing("ahead", theirs)
    named = _named(logs.mine) if extra else frozenset()
    for row in extra:
        if row.id not in named:
            raise differs(mine.id, f"checkpoint {row.id.hex()[:12]} (#{row.seq}) is only there")
    return Standing("behind", theirs)


def _knows_the_newest(source: Reader, target: Backend, theirs: SessionRow) -> bool:
    """Whether the source has what was saved last at the target; then it had all that was saved before that."""
    newest = _ask(target, Query(session=theirs.id, include_hidden=True, limit=1))
    return bool(newest) and newest[0].seq == theirs.last_seq and source.checkpoint(newest[0].id) is not None


def read_logs(source: Reader, target: Backend, theirs: SessionRow) -> tuple[Logs, SessionRow, Adopted | None]:
    """Both logs, the target's session as it was before gc ran there, and how a copy left that."""
    mine = source.operations(theirs.id)
    known = {each.hash for each in mine}
    with target.reader() as reader:
        there = list(reader.operations(theirs.id))
        stripped = theirs
        while there and there[-1].kind == "gc" and there[-1].hash not in known:
            last = there.pop()
            stripped = stripped._replace(log_count=last.number - 1, log_tip=last.previous)
        return Logs(mine, there), stripped, reader.adopted(stripped)


def _check_logs(mine: SessionRow, logs: Logs) -> bool:
    """Whether the target's log goes further than the source's; raises where it goes elsewhere."""
    by_number = {each.number: each for each in logs.mine}
    first = logs.mine[0] if logs.mine else None
    cut = first.number if first is not None and first.kind in ("forget", "repair") else 0
    for entry in logs.theirs:
        same = by_number.get(entry.number)
        if same is not None and same.hash != entry.hash:
            raise differs(mine.id, f"operation {entry.number} is another one there")
        # Gone at the source for a reason: the log was cut, or a run of retirements became one.
        gone = entry.number < cut or entry.kind == "retire"
        if same is None and entry.number <= mine.log_count and not gone:
            raise differs(mine.id, f"operation {entry.number} is only there")
    return bool(logs.theirs) and logs.theirs[-1].number > mine.log_count


def _named(entries: Sequence[Operation]) -> frozenset[CheckpointId]:
    """The checkpoints that a log speaks of."""
    said = [recorded(each) for each in entries]
    edited = [change.checkpoint for each in said for change in each.edits]
    return frozenset([*edited, *(name for each in said for name in each.made)])


def pairs(source: Reader, target: Backend, session: str, *, newest_first: bool = False) -> Iterator[Pair]:
    """The checkpoints of both sides, removed ones too, side by side in order of seq."""
    mine = _rows(source.checkpoints, session, newest_first=newest_first)
    theirs = _rows(lambda query: _ask(target, query), session, newest_first=newest_first)
    a, b = next(mine, None), next(theirs, None)
    while a is not None or b is not None:
        if a is not None and b is not None and a.seq == b.seq:
            yield a, b
            a, b = next(mine, None), next(theirs, None)
        elif b is None or (a is not None and (a.seq < b.seq) != newest_first):
            yield a, None
            a = next(mine, None)
        else:
            yield None, b
            b = next(theirs, None)


def _ask(target: Backend, query: Query) -> Sequence[CheckpointRow]:
    # A view of its own for each page: the target is written to between them.
    with target.reader() as reader:
        return reader.checkpoints(query)


def _rows(
    ask: Callable[[Query], Sequence[CheckpointRow]],
    session: str,
    *,
    newest_first: bool = False,
    after: int = 0,
) -> Iterator[CheckpointRow]:
    query = Query(
        session=session,
        include_hidden=True,
        oldest_first=not newest_first,
        limit=_PAGE,
        after_seq=None if newest_first else after,
    )
    while page := ask(query):
        yield from page
        last = page[-1].seq
        query = query._replace(before_seq=last) if newest_first else query._replace(after_seq=last)


def saved_after(source: Reader, session: str, seq: int) -> Iterator[CheckpointRow]:
    """The checkpoints of a session after that number, oldest first."""
    return _rows(source.checkpoints, session, after=seq)


def differs(session: str, why: str) -> ConflictError:
    """The error for two sessions of one id that are not the same."""
    return ConflictError(
        f"session {session!r} of the target is not a copy of the source's: {why}",
        code=ErrorCode.HISTORY_DIFFERS,
        hint="copy to another store, leave the session out, or forget it at the target first",
        session=session,
    )
