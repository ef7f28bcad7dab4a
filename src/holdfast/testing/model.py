"""The slow, obvious store: what `Store` and `Session` must do, said in plain dicts and lists.

Nothing is encoded, hashed, indexed or cached here. A state is kept as a deep copy, history is a list per session, and
`prev` is worked out each time by walking back over what was removed. The real store is compared with it step by step
(`tests/property/test_store_machine.py`): same answers, same errors, by code.

`save(..., as_id=)` takes the id that the real store gave, so that both can be asked by the same ref.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from itertools import count
from typing import Any, Final

from holdfast.errors import ConflictError, ErrorCode, HoldfastError, InvalidInputError, NotFoundError
from holdfast.history import jsontext, refs
from holdfast.history.checkpoint import moment
from holdfast.testing.lines import Line, ModelCheckpoint, has, said, within
from holdfast.testing.values import identical

_ANY: Final = object()
"""Stands for an argument that was not given, and for a writer that has seen nothing."""


class ModelStore:
    """Sessions by name, and what can be asked across them."""

    def __init__(self, *, clock: Callable[[], int], app_version: str | None = None) -> None:
        self.clock = clock
        self.app_version = app_version
        self.lines: dict[str, Line] = {}
        self.arrivals = count(1)

    def session(
        self,
        id: str = "default",  # noqa: A002 - the name that Store.session gives it
        *,
        agent: str | None = None,
        project: str | None = None,
        branch: str = "main",
    ) -> ModelSession:
        """One writer on one branch."""
        return ModelSession(self, id, agent, project, branch)

    def sessions(self) -> list[tuple[str, str | None, str | None, int, int]]:
        """(id, agent, project, created_at, saves) of each, oldest first."""
        return [
            (name, line.agent, line.project, line.created_at, len(line.history))
            for name, line in self.lines.items()
        ]

    def branches(self, session: str) -> dict[str, str]:
        """The head of each branch."""
        return dict(self.lines[session].heads) if session in self.lines else {}

    def find(
        self,
        *,
        before: ModelCheckpoint | None = None,
        limit: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        **equal: Any,
    ) -> list[ModelCheckpoint]:
        """What matches every filter, newest first."""
        rows = [line.shown(each) for line in self.lines.values() for each in line.kept()]
        rows.sort(key=lambda each: each.position, reverse=True)
        rows = [each for each in rows if all(has(each, name, wanted) for name, wanted in equal.items())]
        rows = [each for each in rows if within(metadata or {}, each.fields["metadata"])]
        rows = [each for each in rows if since is None or moment(each.created_at) >= since]
        rows = [each for each in rows if until is None or moment(each.created_at) <= until]
        rows = [each for each in rows if before is None or each.position < before.position]
        return rows[:limit]


class ModelSession:
    """One writer: a branch in use, and the head it has seen."""

    def __init__(
        self, store: ModelStore, name: str, agent: str | None, project: str | None, branch: str
    ) -> None:
        self.store, self.id, self.agent, self.project, self.branch = store, name, agent, project, branch
        self.expected: Any = _ANY

    def save(
        self,
        state: Any,
        message: str = "",
        *,
        tags: Iterable[str] = (),
        key: str | None = None,
        expect: Any = _ANY,
        parent: str | ModelCheckpoint | None = None,
        on_conflict: str = "raise",
        as_id: str | None = None,
        **fields: Any,
    ) -> ModelCheckpoint:
        """Add a checkpoint; the same key with the same state gives the one that is there."""
        expected = self._expectation(expect, parent)
        line = self.store.lines.get(self.id)
        existing = self._with_key(line, key, state)
        if existing is not None and line is not None:
            # Nothing was written, so the writer stands where it stood.
            return line.shown(existing)
        branch, onto = self._place(line, expected, parent, on_conflict)
        line = self._claimed()
        now = self.store.clock()
        saved = ModelCheckpoint(
            id=as_id if as_id is not None else f"{next(self.store.arrivals):064x}",
            session=self.id,
            branch=branch,
            seq=len(line.history) + 1,
            position=next(self.store.arrivals),
            parents=(onto.id,) if onto else (),
            created_at=max(now, onto.created_at + 1) if onto else now,
            stored_at=now,
            state=copy.deepcopy(state),
            fields=said(message=message, key=key, app_version=self.store.app_version, **fields),
            tags=set(tags),
        )
        line.history.append(saved)
        line.heads[branch] = saved.id
        self.branch, self.expected = branch, saved.id
        return line.shown(saved)

    def load(self, ref: str | ModelCheckpoint = "@", *, default: Any = _ANY) -> Any:
        """A copy of a state; seeing the tip sets what the next save expects, and so does seeing that there is none."""
        try:
            found = self._resolve(ref)
        except NotFoundError as missing:
            if default is _ANY or missing.code is ErrorCode.REF_AMBIGUOUS:
                raise
            if ref == "@":
                self.expected = None
            return default
        self._notice(found)
        return copy.deepcopy(found.state)

    def checkpoint(self, ref: str | ModelCheckpoint = "@") -> ModelCheckpoint:
        """A checkpoint without its state; seeing the tip counts here too."""
        found = self._resolve(ref)
        self._notice(found)
        return self._line().shown(found)

    def log(self, ref: str | ModelCheckpoint = "@", *, limit: int | None = None) -> list[ModelCheckpoint]:
        """A checkpoint and its ancestors that are still there, newest first."""
        if ref == "@" and not self.store.branches(self.id):
            return []
        walk, line = [self._resolve(ref)], self._line()
        while (older := line.get(line.link(walk[-1])[0])) is not None:
            walk.append(older)
        return [line.shown(each) for each in walk[:limit]]

    def exists(self, ref: str | ModelCheckpoint) -> bool:
        """Whether a ref names something."""
        try:
            self._resolve(ref)
        except NotFoundError as error:
            if error.code is ErrorCode.REF_AMBIGUOUS:
                raise
            return False
        return True

    def delete(self, ref: str | ModelCheckpoint, *, force: bool = False) -> ModelCheckpoint:
        """Take a checkpoint out of history; branches whose tip it was go back to what came before."""
        found, line = self._resolve(ref), self._line()
        tips = [name for name, head in line.heads.items() if head == found.id]
        children = [each for each in line.kept() if line.link(each)[0] == found.id]
        if not force and len(tips) + len(children) > 1:
            raise _error(InvalidInputError, ErrorCode.PROTECTED, f"branches part at {found.id}")
        self._claimed()
        prev, _ = line.link(found)
        found.removed = True
        for name in tips:
            if prev is None:
                del line.heads[name]
            else:
                line.heads[name] = prev
        if self.expected == found.id:
            self.expected = prev
        return line.shown(found)

    def annotate(
        self,
        ref: str | ModelCheckpoint,
        *,
        message: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> ModelCheckpoint:
        """Say something else about a checkpoint, or more."""
        if message is None and not metadata:
            raise _error(InvalidInputError, ErrorCode.BAD_ARGUMENT, "nothing to write")
        found = self._resolve(ref)
        later = dict(found.later)
        if message is not None:
            later["message"] = message
        if metadata:
            later["metadata"] = copy.deepcopy(later.get("metadata", {}) | dict(metadata))
        # As text, because 1, 1.0 and True are three values of metadata, and equal in Python.
        if jsontext.dump(later) != jsontext.dump(found.later):
            self._claimed()
            found.later = later
        return self._line().shown(found)

    def tag(self, ref: str | ModelCheckpoint, *tags: str) -> ModelCheckpoint:
        """Put labels on a checkpoint."""
        return self._retag(ref, tags, lambda old: old | set(tags))

    def untag(self, ref: str | ModelCheckpoint, *tags: str) -> ModelCheckpoint:
        """Take labels off a checkpoint."""
        return self._retag(ref, tags, lambda old: old - set(tags))

    def _retag(
        self, ref: str | ModelCheckpoint, tags: tuple[str, ...], change: Callable[[set[str]], set[str]]
    ) -> ModelCheckpoint:
        if not tags:
            raise _error(InvalidInputError, ErrorCode.BAD_ARGUMENT, "no tag was given")
        found = self._resolve(ref)
        if change(found.tags) != found.tags:
            self._claimed()
            found.tags = change(found.tags)
        return self._line().shown(found)

    def _line(self) -> Line:
        return self.store.lines[self.id]

    def _claimed(self) -> Line:
        """The line of this session, made where there is none, with this writer's agent and project."""
        line = self.store.lines.get(self.id) or Line(None, None, self.store.clock())
        for mine, its in ((self.agent, line.agent), (self.project, line.project)):
            if mine is not None and its is not None and mine != its:
                raise _error(InvalidInputError, ErrorCode.SESSION_MISMATCH, f"{self.id} belongs to {its}")
        line.agent, line.project = self.agent or line.agent, self.project or line.project
        self.store.lines[self.id] = line
        return line

    def _expectation(self, expect: Any, parent: object) -> Any:
        if expect is _ANY:
            return self.expected if parent is None else _ANY
        if expect is None:
            return None
        if isinstance(expect, ModelCheckpoint):
            return expect.id
        # A whole id need not be there any more: expecting one that was removed is a conflict, not a wrong ref.
        return expect if len(expect) == 64 else self._resolve(expect).id

    def _with_key(self, line: Line | None, key: str | None, state: Any) -> ModelCheckpoint | None:
        if line is None or key is None:
            return None
        found = next((each for each in line.history if each.fields["key"] == key), None)
        if found is not None and (found.removed or not identical(found.state, state)):
            raise _error(ConflictError, ErrorCode.KEY_TAKEN, f"{key} names {found.id}")
        return found

    def _place(
        self, line: Line | None, expected: Any, parent: str | ModelCheckpoint | None, on_conflict: str
    ) -> tuple[str, ModelCheckpoint | None]:
        """The branch a save goes to, and the checkpoint it becomes a child of."""
        heads = self.store.branches(self.id)
        # A branch whose last checkpoint was deleted comes back with the next save.
        once_there = line is not None and any(each.branch == self.branch for each in line.history)
        if heads and self.branch not in heads and not once_there:
            raise _error(NotFoundError, ErrorCode.BRANCH_MISSING, f"no branch {self.branch}")
        head = heads.get(self.branch)
        base = None if parent is None else self._resolve(parent)
        if expected is not _ANY and expected != head:
            seen = line.get(expected) if line is not None else None
            if on_conflict == "raise" or (base is None and expected is not None and seen is None):
                raise _error(ConflictError, ErrorCode.BRANCH_MOVED, f"{self.branch} is at {head}")
            base = base or seen
        elif parent is None:
            return self.branch, line.get(head) if line is not None else None
        if not heads or (base is not None and base.id == head):
            return self.branch, base
        return next(name for n in count(1) if (name := f"{self.branch}-{n}") not in heads), base

    def _notice(self, seen: ModelCheckpoint) -> None:
        if self.store.branches(self.id).get(self.branch) == seen.id:
            self.expected = seen.id

    def _resolve(self, ref: str | ModelCheckpoint) -> ModelCheckpoint:
        parsed = refs.Ref("name", ref.id, 0, ref.id) if isinstance(ref, ModelCheckpoint) else refs.parse(ref)
        line = self.store.lines.get(self.id)
        if line is None:
            raise _error(NotFoundError, ErrorCode.SESSION_MISSING, f"{self.id} has no checkpoint yet")
        found = self._start(line, parsed)
        for _ in range(parsed.back):
            older = line.get(line.link(found)[0])
            if older is None:
                raise _error(NotFoundError, ErrorCode.HISTORY_TOO_SHORT, parsed.text)
            found = older
        return found

    def _start(self, line: Line, ref: refs.Ref) -> ModelCheckpoint:
        newest_first = line.kept()[::-1]
        if ref.kind == "head":
            head = line.get(line.heads.get(self.branch))
            if head is None:
                code = ErrorCode.BRANCH_MISSING if line.heads else ErrorCode.CHECKPOINT_MISSING
                raise _error(NotFoundError, code, f"no branch {self.branch}")
            return head
        if ref.kind == "tag":
            matches = [each for each in newest_first if ref.value in each.tags][:1]
        elif ref.kind == "seq":
            matches = [each for each in newest_first if each.seq == int(ref.value)]
        elif ref.value in line.heads:
            matches = [each for each in newest_first if each.id == line.heads[ref.value]]
        else:
            long_enough = len(ref.value) >= 4
            matches = [each for each in newest_first if long_enough and each.id.startswith(ref.value.lower())]
        if len(matches) > 1:
            raise _error(NotFoundError, ErrorCode.REF_AMBIGUOUS, ref.text)
        if not matches:
            raise _error(NotFoundError, ErrorCode.CHECKPOINT_MISSING, ref.text)
        return matches[0]


def _error(kind: type[HoldfastError], code: ErrorCode, message: str) -> HoldfastError:
    return kind(message, code=code, hint="the model gives no hints")
