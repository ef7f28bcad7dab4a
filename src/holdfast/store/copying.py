"""copy: sessions of one store into another, whatever keeps the two.

Afterwards the session at the target is what it was at the source at one moment: ids, roots, seq, keys, tags, removed
checkpoints that undo can bring back, the log with its hashes. What is there already is not sent again, and what is
gone at the source goes at the target.

It is written in batches, and each leaves the target in order: a checkpoint comes after the one that it follows, and
goes after all that follow it; branches move in between. So it may be interrupted anywhere, and the next copy finds what
is left to do by comparing again. Every batch says how it expects the session to be: whoever writes to it meanwhile ends
the copy, and nothing of theirs is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final

from holdfast.backends.registry import connect, url_of
from holdfast.errors import ConflictError, ErrorCode, InvalidInputError, NotFoundError
from holdfast.reports.transfer import CopyReport, SessionCopy
from holdfast.storage.ports import Backend, Reader
from holdfast.storage.records import BranchRow, CheckpointRow, ChunkHash, Query, SessionRow
from holdfast.store.carrying import PREPARED, Carrier, Extra, Tally
from holdfast.store.comparing import Pair, Standing, compare, pairs, read_logs, saved_after
from holdfast.store.place import Progress, silent
from holdfast.store.rows import copy_rows

_PATIENCE: Final = 10.0
"""Seconds to wait for another writer of the target."""


def copy_sessions(
    source: Backend,
    target: Backend,
    *,
    sessions: Sequence[str] | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> CopyReport:
    """Copy some sessions, or all; see `Store.copy_to`."""
    if source is target or (source.url == target.url != "memory:"):
        raise InvalidInputError(
            f"{source.url} cannot be copied to itself",
            code=ErrorCode.BAD_ARGUMENT,
            hint="name another store as the target",
        )
    told = progress or silent
    tally = Tally()
    names = _names(source, sessions)
    copied: list[SessionCopy] = []
    # All are compared before any is written: a session that cannot be copied leaves the target as it was.
    for done, name in enumerate(names, start=1):
        each, size = _looked_at(source, target, name)
        copied.append(each)
        tally.bytes += size
        told("comparing sessions", done)
    if not dry_run:
        tally = Tally()
        copied = [
            _copied(source, target, each, tally, told) if each.status != "ahead" else each for each in copied
        ]
    return CopyReport(source.url, target.url, tuple(copied), tally.chunks, tally.bytes, dry_run)


@contextmanager
def open_target(target: str | Path | Backend, *, dry_run: bool) -> Iterator[Backend]:
    """The store that something is to be copied to: an open one, or one that is opened for it and closed again.

    A dry run makes none. Where there is none to look at, an empty one stands in for it.
    """
    if not isinstance(target, str | Path):
        yield _checked(target)
        return
    try:
        opened = connect(target, durability="power", create=not dry_run, timeout=_PATIENCE)
    except NotFoundError as error:
        if not dry_run or error.code is not ErrorCode.STORE_MISSING:
            raise
        opened = _stand_in(str(error.details.get("path", "")))
    try:
        yield opened
    finally:
        opened.close()


def _checked(target: object) -> Any:
    if not hasattr(target, "adopt"):
        # None would mean the nearest store elsewhere, which may well be the one that is copied.
        raise InvalidInputError(
            f"a store cannot be copied to {target!r:.60}",
            code=ErrorCode.BAD_URL,
            hint="pass a Store, a path or a URL",
        )
    return target


def _stand_in(place: str) -> Backend:
    from holdfast.backends.memory import MemoryBackend

    class NotMadeYet(MemoryBackend):
        @property
        def url(self) -> str:
            return url_of(place)

    return NotMadeYet()


def _names(source: Backend, wanted: Sequence[str] | None) -> list[str]:
    with source.reader() as reader:
        known = [row.id for row in reader.sessions()]
    if wanted is None:
        return known
    if isinstance(wanted, str) or not all(type(each) is str for each in wanted):
        raise InvalidInputError(
            "sessions= takes a list of session ids",
            code=ErrorCode.BAD_ARGUMENT,
            hint='pass them as text: sessions=["research-42"]',
        )
    for each in wanted:
        if each not in known:
            raise NotFoundError(
                f"there is no session {each!r} in {source.url}",
                code=ErrorCode.SESSION_MISSING,
                hint="store.sessions() lists the sessions there are",
                session=each,
            )
    return list(dict.fromkeys(wanted))


def _looked_at(source: Backend, target: Backend, name: str) -> tuple[SessionCopy, int]:
    """What there is to do for a session, and about how many bytes that is."""
    with source.reader() as reader:
        mine = reader.session(name)
        if mine is None:
            return SessionCopy(name, "unchanged", 0, 0, 0), 0
        standing = compare(reader, target, mine)
        if standing.status in ("unchanged", "ahead"):
            return SessionCopy(name, "ahead" if standing.status == "ahead" else "unchanged", 0, 0, 0), 0
        new = changed = removed = size = 0
        for a, b in _differences(reader, target, mine, standing):
            new += b is None
            size += a.stored_bytes if a is not None and b is None else 0
            removed += a is None
            changed += a is not None and b is not None
    return SessionCopy(name, "new" if standing.status == "new" else "updated", new, changed, removed), size


def _copied(
    source: Backend, target: Backend, planned: SessionCopy, tally: Tally, progress: Progress
) -> SessionCopy:
    with source.reader() as reader:
        mine = reader.session(planned.id)
        if mine is None:
            # It was forgotten since: what is at the target is not for a copy to remove.
            return planned.replace(status="unchanged", checkpoints=0, changed=0, removed=0)
        standing = compare(reader, target, mine)
        if standing.status in ("unchanged", "ahead"):
            if standing.status == "unchanged":
                copy_rows(reader, target, mine.id)
            return planned
        mirror = _Mirror(reader, target, mine, standing, tally, progress)
        try:
            mirror.run()
        except ConflictError as conflict:
            if conflict.code is ErrorCode.SESSION_CHANGED:
                raise _interfered(mine.id) from conflict
            raise
        copy_rows(reader, target, mine.id)
    return planned.replace(checkpoints=mirror.new, changed=mirror.changed, removed=mirror.removed)


def _differences(source: Reader, target: Backend, mine: SessionRow, standing: Standing) -> Iterator[Pair]:
    if standing.only_saves:
        last = standing.theirs.last_seq if standing.theirs else 0
        return ((row, None) for row in saved_after(source, mine.id, last))
    return ((a, b) for a, b in pairs(source, target, mine.id) if not _equal(a, b))


def _equal(mine: CheckpointRow | None, theirs: CheckpointRow | None) -> bool:
    return mine is not None and theirs is not None and mine._replace(position=theirs.position) == theirs


class _Mirror:
    """Makes the session of the target what the source's is."""

    def __init__(
        self,
        source: Reader,
        target: Backend,
        mine: SessionRow,
        standing: Standing,
        tally: Tally,
        progress: Progress,
    ) -> None:
        self._source = source
        self._target = target
        self._mine = mine
        self._standing = standing
        self._carrier = Carrier(source, target, mine, standing.theirs, tally, progress)
        self._roots: dict[str, ChunkHash] = {}
        """The newest root of each branch so far: the next checkpoint there is probably much like it."""
        self._differ = self._left_over = False
        self.new = self.changed = self.removed = 0

    def run(self) -> None:
        """Write what is different."""
        branches = tuple(self._source.branches(self._mine.id))
        if self._standing.only_saves:
            self._bring_saves()
        else:
            self._write_log()
            self._bring_missing()
            if self._differ:
                self._change_those_that_stay()
            if self._left_over:
                # Nothing may point to what goes: by now no checkpoint that stays does, nor any branch.
                self._move_branches(branches)
                self._take_out()
        self._carrier.send(Extra(branches=branches), self._mine, whole=True)

    def _bring_saves(self) -> None:
        last = 0
        if self._standing.theirs is not None:
            last = self._standing.theirs.last_seq
        elif entries := self._source.operations(self._mine.id):
            # Before the rows: a gc over there has to know when what is hidden was removed.
            self._carrier.write_log(entries, cuts_from=0, before=None)
        rows = saved_after(self._source, self._mine.id, last)
        while some := list(islice(rows, PREPARED)):
            self._carrier.prepare(some)
            for row in some:
                self._bring(row)

    def _write_log(self) -> None:
        theirs = self._carrier.theirs
        logs, stripped, _ = read_logs(self._source, self._target, theirs)
        shared = logs.shared()
        cuts_from = 0
        if len(logs.theirs) > shared:
            cuts_from = logs.theirs[shared].number
        elif stripped != theirs:
            cuts_from = stripped.log_count + 1
        rest = logs.mine[shared:]
        if rest or cuts_from:
            before = logs.mine[shared - 1] if shared else None
            self._carrier.write_log(rest, cuts_from=cuts_from, before=before)

    def _bring_missing(self) -> None:
        """Write what is not there, and show again what undo brought back: oldest first, after what each follows."""
        newest = self._newest_there()
        moving = False
        for mine, theirs in pairs(self._source, self._target, self._mine.id):
            if mine is None:
                self._left_over = True
                continue
            if theirs is None:
                # Gone at the target alone, in the middle: what came after it comes after it again.
                moving = moving or mine.seq < newest
                self._free_key(mine)
                self._bring(mine)
                continue
            self._roots[mine.branch] = mine.root
            position = 0 if moving else theirs.position
            if theirs.hidden and not mine.hidden:
                self._carrier.put(mine._replace(position=position))
                self.changed += 1
                continue
            if moving:
                self._carrier.put(theirs._replace(position=0))
            if not _equal(mine, theirs):
                self._differ = True
                self._left_over = self._left_over or _is_to_be_hidden(mine, theirs)
        self._carrier.flush()

    def _change_those_that_stay(self) -> None:
        for mine, theirs in pairs(self._source, self._target, self._mine.id):
            if mine is None or theirs is None or _equal(mine, theirs) or _is_to_be_hidden(mine, theirs):
                continue
            self._carrier.put(mine._replace(position=theirs.position))
            self.changed += 1

    def _move_branches(self, branches: tuple[BranchRow, ...]) -> None:
        with self._target.reader() as reader:
            moved = tuple(reader.branches(self._mine.id)) == branches
        if moved:
            # By a copy that was interrupted.
            self._carrier.flush()
        else:
            self._carrier.send(Extra(branches=branches))

    def _take_out(self) -> None:
        """Hide and remove, newest first: what follows a checkpoint goes before it."""
        for mine, theirs in pairs(self._source, self._target, self._mine.id, newest_first=True):
            if theirs is None:
                continue
            if mine is None:
                self._carrier.remove(theirs.id)
                self.removed += 1
            elif not _equal(mine, theirs):
                self._carrier.put(mine._replace(position=theirs.position))
                self.changed += 1

    def _bring(self, row: CheckpointRow) -> None:
        base = self._roots.get(row.branch)
        if base is None and row.prev is not None:
            before = self._source.checkpoint(row.prev)
            base = None if before is None else before.root
        self._carrier.bring(row._replace(position=0), base)
        self._roots[row.branch] = row.root
        self.new += 1

    def _free_key(self, row: CheckpointRow) -> None:
        """Take the key of a checkpoint from another that is gone at the source, and will be at the target."""
        if row.key is None:
            return
        with self._target.reader() as reader:
            holders = reader.checkpoints(Query(session=row.session, key=row.key, include_hidden=True))
        for holder in holders:
            if holder.id != row.id:
                self._carrier.put(holder._replace(key=None))

    def _newest_there(self) -> int:
        with self._target.reader() as reader:
            found = reader.checkpoints(Query(session=self._mine.id, include_hidden=True, limit=1))
        return found[0].seq if found else 0


def _is_to_be_hidden(mine: CheckpointRow, theirs: CheckpointRow) -> bool:
    return bool(mine.hidden) and not theirs.hidden


def _interfered(session: str) -> ConflictError:
    return ConflictError(
        f"somebody wrote to session {session!r} of the target while it was being copied",
        code=ErrorCode.SESSION_CHANGED,
        hint="let nobody write to the copy of a session, and copy again",
        session=session,
    )
