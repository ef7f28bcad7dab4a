"""How the model store undoes: with a snapshot before each operation and one after it.

Nothing is worked out from a log here. What differs between the two snapshots is what the operation did; undoing it
makes exactly that as it was before, provided that it still is as it was after.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.model.lines import Line, ModelCheckpoint

from holdfast.errors import ConflictError, ErrorCode, NotFoundError

_REMOVALS = ("delete", "clear", "prune")


@dataclass
class Snapshot:
    """All of a session that can change."""

    heads: dict[str, str]
    current: str
    rows: dict[str, dict[str, Any]]


@dataclass
class Step:
    """One operation: what it is called, and what was there before and after."""

    kind: str
    before: Snapshot
    after: Snapshot


@dataclass
class Past:
    """The operations of a session: all of them by name, and which can be undone or redone."""

    kinds: list[str] = field(default_factory=list)
    done: list[Step] = field(default_factory=list)
    undone: list[Step] = field(default_factory=list)
    forgotten: bool = False
    """Whether there once was more, which `forget` took away."""

    def add(self, kind: str, before: Snapshot, line: Line, at: int) -> None:
        """An operation happened: there is nothing to redo any more."""
        self.kinds.append(kind)
        self.done.append(Step(kind, before, snapshot(line)))
        self.undone.clear()
        _date(line, before, at)

    def reachable(self, line: Line) -> list[Step]:
        """What can be undone, newest first: until something is gone that would have to come back."""
        found = []
        for step in reversed(self.done):
            back, _ = _back_and_gone(step)
            if any(row.gone for row in line.history if row.id in back):
                break
            found.append(step)
        return found

    def turn(
        self, line: Line, verb: str, claim: Callable[[], object], at: int, *, unsure: bool = False
    ) -> Step:
        """Reverse the newest operation, or the newest undo; `claim` is called once that is known to be possible.

        `unsure`: whether to refuse where a store may, because it cannot tell what followed what comes back.
        """
        stack, other = (self.done, self.undone) if verb == "undo" else (self.undone, self.done)
        step = stack[-1]
        before = snapshot(line)
        reversal = _reversal(line, step)
        if unsure and _can_be_unsure(line, step):
            raise _gone()
        claim()
        reversal()
        stack.pop()
        _date(line, before, at)
        other.append(Step(step.kind, before, snapshot(line)))
        self.kinds.append(verb)
        return step


def snapshot(line: Line) -> Snapshot:
    """A copy of all that can change."""
    return Snapshot(dict(line.heads), line.current, {each.id: _changeable(each) for each in line.history})


def _changeable(row: ModelCheckpoint) -> dict[str, Any]:
    return {
        "removed": row.removed,
        "tags": set(row.tags),
        "pinned": row.pinned,
        "later": copy.deepcopy(row.later),
    }


def _reversal(line: Line, step: Step) -> Callable[[], None]:
    """What reverses a step, if it can be reversed."""
    before, after = step.before, step.after
    was = _was(step)
    back, gone = _back_and_gone(step)
    if any(row.gone for row in line.history if row.id in back):
        raise _gone()
    heads = _heads(line, step, back, gone)
    for row in line.kept():
        if row.id not in was and line.link(row)[0] in gone:
            raise _blocked(f"{row.id} was saved on what would go")
    if after.current not in (before.current, line.current):
        raise _blocked("people are on another branch")

    def reverse() -> None:
        for row in line.history:
            if row.id in was:
                _put_back(row, was[row.id], after.rows[row.id])
        line.heads = heads
        if before.current != after.current:
            line.current = before.current

    return reverse


def _can_be_unsure(line: Line, step: Step) -> bool:
    """Whether several rows that are left may have followed one that comes back, as far as a store can tell.

    The model has everything. Of a row whose parent is gone for good, a store knows only how many lay on its way.
    """
    back, _ = _back_and_gone(step)
    gone = {row.id for row in line.history if row.gone}
    orphans = [row for row in line.kept() if gone.intersection(row.parents[:1])]
    for each in line.history:
        if each.id in back:
            led = line.link(each)[0]
            left = [row for row in orphans if row.seq > each.seq and line.link(row)[0] == led]
            if left:
                return True
    return False


def _was(step: Step) -> dict[str, dict[str, Any]]:
    # What the operation made did not exist before, which is as good as removed.
    return {
        name: step.before.rows.get(name, fields | {"removed": True})
        for name, fields in step.after.rows.items()
    }


def _back_and_gone(step: Step) -> tuple[set[str], set[str]]:
    """What comes back when a step is reversed, and what goes."""
    was, now = _was(step), step.after.rows
    back = {name for name in was if now[name]["removed"] and not was[name]["removed"]}
    gone = {name for name in was if was[name]["removed"] and not now[name]["removed"]}
    return back, gone


def _date(line: Line, before: Snapshot, at: int) -> None:
    """Write down when it was that rows were removed."""
    for row in line.history:
        if row.removed and not before.rows.get(row.id, {"removed": False})["removed"]:
            row.removed_at = at


def _heads(line: Line, step: Step, back: set[str], gone: set[str]) -> dict[str, str]:
    heads = dict(line.heads)
    for name in step.before.heads.keys() | step.after.heads.keys():
        old, new = step.before.heads.get(name), step.after.heads.get(name)
        if old == new:
            continue
        if heads.get(name) != new:
            if step.kind in _REMOVALS and old in back:
                # The branch went on; what was removed comes back beside it.
                continue
            raise _blocked(f"{name} moved")
        if old is None:
            del heads[name]
            continue
        row = line.get(old)
        if row is None or (row.removed and old not in back):
            raise _blocked(f"{name} has nothing to go back to")
        heads[name] = old
    if gone & set(heads.values()):
        raise _blocked("a branch is at what would go")
    return heads


def _put_back(row: ModelCheckpoint, was: dict[str, Any], after: dict[str, Any]) -> None:
    for name, old in was.items():
        if old != after[name]:
            # Whatever changes a row later is an operation too, and was undone before this one.
            assert getattr(row, name) == after[name]
            setattr(row, name, copy.deepcopy(old))


def _gone() -> NotFoundError:
    return NotFoundError("it is gone", code=ErrorCode.UNDO_GONE, hint="the model gives no hints")


def _blocked(why: str) -> ConflictError:
    return ConflictError(why, code=ErrorCode.UNDO_BLOCKED, hint="the model gives no hints")
