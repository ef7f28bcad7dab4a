"""One writer of the model store: how it saves and reads, and which head it expects."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, Final

from tests.model.lines import Line, ModelCheckpoint, said
from tests.model.past import Past, Snapshot, snapshot
from tests.values import identical

from holdfast.errors import ConflictError, ErrorCode, HoldfastError, InvalidInputError, NotFoundError
from holdfast.history import refs

ANY: Final = object()
"""Stands for an argument that was not given, and for a writer that has seen nothing."""


class ModelData:
    """Everything that a model store holds: a line and a past of each session."""

    def __init__(self, *, clock: Callable[[], int], app_version: str | None = None) -> None:
        self.clock = clock
        self.app_version = app_version
        self.lines: dict[str, Line] = {}
        self.pasts: dict[str, Past] = {}
        self.arrivals = count(1)

    def branches(self, session: str) -> dict[str, str]:
        """The head of each branch."""
        return dict(self.lines[session].heads) if session in self.lines else {}


class ModelWriter:
    """A branch in use, and the head that was seen."""

    def __init__(
        self, store: ModelData, name: str, agent: str | None, project: str | None, branch: str
    ) -> None:
        self.store, self.id, self.agent, self.project, self.branch = store, name, agent, project, branch
        self.expected: Any = ANY
        self.last: str | None = None
        """What this writer saved last."""

    def save(
        self,
        state: Any,
        message: str = "",
        *,
        tags: Iterable[str] = (),
        key: str | None = None,
        expect: Any = ANY,
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
        if expect is ANY and parent is None and self._same_state(line, expected):
            # Another checkpoint, the same state: the writer goes on from it.
            expected = self.store.branches(self.id)[self.branch]
        branch, onto = self._place(line, expected, parent, on_conflict, begins=expect is None)
        line = self._claimed()
        saved = self._append(line, branch, onto, state, as_id, message=message, key=key, **fields)
        saved.tags = set(tags)
        self.expected = self.last = saved.id
        self.branch = branch
        return line.shown(saved)

    def load(self, ref: str | ModelCheckpoint = "@", *, default: Any = ANY) -> Any:
        """A copy of a state; seeing the tip sets what the next save expects, and so does seeing that there is none."""
        try:
            found = self._resolve(ref)
        except NotFoundError as missing:
            if default is ANY or missing.code is ErrorCode.REF_AMBIGUOUS:
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

    def keyed(
        self, start: str = "", stop: str | None = None, *, reverse: bool = False, limit: int | None = None
    ) -> list[ModelCheckpoint]:
        """What has a key in this range, in the order of its bytes."""
        line = self.store.lines.get(self.id)
        keys = {each.fields["key"]: each for each in line.kept()} if line is not None else {}
        wanted = sorted((key for key in keys if key is not None), key=str.encode, reverse=reverse)
        wanted = [key for key in wanted if key.encode() >= start.encode()]
        wanted = [key for key in wanted if stop is None or key.encode() < stop.encode()]
        return [self._line().shown(keys[key]) for key in wanted[:limit]]

    def exists(self, ref: str | ModelCheckpoint) -> bool:
        """Whether a ref names something."""
        try:
            self._resolve(ref)
        except NotFoundError as error:
            if error.code is ErrorCode.REF_AMBIGUOUS:
                raise
            return False
        return True

    def _begin(self) -> Snapshot:
        """An operation is going to change the session: what there is until then."""
        return snapshot(self._claimed())

    def _end(self, kind: str, before: Snapshot) -> None:
        self._past().add(kind, before, self._line(), self.store.clock())

    def _past(self) -> Past:
        return self.store.pasts.setdefault(self.id, Past())

    def _head(self, branch: str) -> ModelCheckpoint:
        line = self.store.lines.get(self.id)
        if line is None:
            raise refused(NotFoundError, ErrorCode.SESSION_MISSING, f"{self.id} has no checkpoint yet")
        head = line.get(line.heads.get(branch))
        if head is None:
            code = ErrorCode.BRANCH_MISSING if line.heads else ErrorCode.CHECKPOINT_MISSING
            raise refused(NotFoundError, code, f"no branch {branch}")
        return head

    def _free(self, taken: Iterable[str]) -> str:
        return next(name for n in count(1) if (name := f"{self.branch}-{n}") not in taken)

    def _append(
        self,
        line: Line,
        branch: str,
        onto: ModelCheckpoint | None,
        state: Any,
        as_id: str | None,
        **fields: Any,
    ) -> ModelCheckpoint:
        now = self.store.clock()
        made = ModelCheckpoint(
            id=as_id if as_id is not None else f"{next(self.store.arrivals):064x}",
            session=self.id,
            branch=branch,
            seq=len(line.history) + 1,
            position=next(self.store.arrivals),
            parents=(onto.id,) if onto else (),
            created_at=max(now, onto.created_at + 1) if onto else now,
            stored_at=now,
            state=copy.deepcopy(state),
            fields=said(app_version=self.store.app_version, **fields),
            tags=set(),
            onto_removed=onto is not None and onto.removed,
            cut_off=onto is not None and onto.gone,
        )
        line.history.append(made)
        line.heads[branch] = made.id
        return made

    def _line(self) -> Line:
        return self.store.lines[self.id]

    def _claimed(self) -> Line:
        """The line of this session, made where there is none, with this writer's agent and project."""
        line = self.store.lines.get(self.id) or Line(None, None, self.store.clock())
        for mine, its in ((self.agent, line.agent), (self.project, line.project)):
            if mine is not None and its is not None and mine != its:
                raise refused(InvalidInputError, ErrorCode.SESSION_MISMATCH, f"{self.id} belongs to {its}")
        line.agent, line.project = self.agent or line.agent, self.project or line.project
        self.store.lines[self.id] = line
        return line

    def _expectation(self, expect: Any, parent: object) -> Any:
        if expect is ANY:
            return self.expected if parent is None else ANY
        if expect is None:
            return None
        if isinstance(expect, ModelCheckpoint):
            return expect.id
        # A whole id need not be there any more: expecting one that was removed is a conflict, not a wrong ref.
        return expect if len(expect) == 64 else self._resolve(expect).id

    def _with_key(self, line: Line | None, key: str | None, state: Any) -> ModelCheckpoint | None:
        if line is None or key is None:
            return None
        found = next((each for each in line.present() if each.fields["key"] == key), None)
        if found is not None and (found.removed or not identical(found.state, state)):
            raise refused(ConflictError, ErrorCode.KEY_TAKEN, f"{key} names {found.id}")
        return found

    def _place(
        self,
        line: Line | None,
        expected: Any,
        parent: str | ModelCheckpoint | None,
        on_conflict: str,
        *,
        begins: bool,
    ) -> tuple[str, ModelCheckpoint | None]:
        """The branch a save goes to, and the checkpoint it becomes a child of."""
        heads = self.store.branches(self.id)
        # A branch whose last checkpoint was deleted comes back with the next save; one that was renamed does not.
        born = [] if line is None else [each for each in line.present() if each.branch == self.branch]
        once_there = bool(born) and all(each.removed for each in born)
        unseen = expected is ANY or expected is None
        if heads and self.branch not in heads and unseen and not once_there and not begins:
            raise refused(NotFoundError, ErrorCode.BRANCH_MISSING, f"no branch {self.branch}")
        head = heads.get(self.branch)
        base = None if parent is None else self._resolve(parent)
        if expected is not ANY and expected != head:
            seen = line.get(expected) if line is not None else None
            if seen is not None and seen.gone and seen.id != self.last:
                seen = None
            if on_conflict == "raise" or (base is None and expected is not None and seen is None):
                raise refused(ConflictError, ErrorCode.BRANCH_MOVED, f"{self.branch} is at {head}")
            base = base or seen
        elif parent is None:
            return self.branch, line.get(head) if line is not None else None
        if not heads or (base is not None and base.id == head) or (begins and self.branch not in heads):
            return self.branch, base
        return self._free(heads), base

    def _same_state(self, line: Line | None, expected: Any, *, saved: bool = True) -> bool:
        """Whether the head of the branch in use has the state that this writer has seen."""
        head = self.store.branches(self.id).get(self.branch)
        if line is None or head is None or expected is None or expected is ANY:
            return False
        seen, there = line.get(expected), line.get(head)
        if seen is None or there is None or (seen.gone and not (saved and seen.id == self.last)):
            return False
        return identical(seen.state, there.state)

    def _notice(self, seen: ModelCheckpoint) -> None:
        if self.store.branches(self.id).get(self.branch) == seen.id:
            self.expected = seen.id

    def _resolve(self, ref: str | ModelCheckpoint) -> ModelCheckpoint:
        parsed = refs.Ref("name", ref.id, 0, ref.id) if isinstance(ref, ModelCheckpoint) else refs.parse(ref)
        line = self.store.lines.get(self.id)
        if line is None:
            raise refused(NotFoundError, ErrorCode.SESSION_MISSING, f"{self.id} has no checkpoint yet")
        found = self._start(line, parsed)
        for _ in range(parsed.back):
            older = line.get(line.link(found)[0])
            if older is None:
                raise refused(NotFoundError, ErrorCode.HISTORY_TOO_SHORT, parsed.text)
            found = older
        return found

    def _start(self, line: Line, ref: refs.Ref) -> ModelCheckpoint:
        newest_first = line.kept()[::-1]
        if ref.kind == "head":
            return self._head(self.branch)
        if ref.kind == "tag":
            matches = [each for each in newest_first if ref.value in each.tags][:1]
        elif ref.kind == "seq":
            matches = [each for each in newest_first if each.seq == int(ref.value)]
        elif ref.kind == "name" and ref.value.isdecimal():
            # A bare number: the branch of that name, the checkpoint with that number, or the first digits of an id.
            matches = [
                each
                for each in newest_first
                if each.id == line.heads.get(ref.value)
                or each.seq == int(ref.value)
                or (len(ref.value) >= 4 and each.id.startswith(ref.value))
            ]
        elif ref.value in line.heads:
            matches = [each for each in newest_first if each.id == line.heads[ref.value]]
        else:
            long_enough = len(ref.value) >= 4
            matches = [each for each in newest_first if long_enough and each.id.startswith(ref.value.lower())]
        if len(matches) > 1:
            raise refused(NotFoundError, ErrorCode.REF_AMBIGUOUS, ref.text)
        if not matches:
            raise refused(NotFoundError, ErrorCode.CHECKPOINT_MISSING, ref.text)
        return matches[0]


def refused(kind: type[HoldfastError], code: ErrorCode, message: str) -> HoldfastError:
    """An error of the same class and code as the real one."""
    return kind(message, code=code, hint="the model gives no hints")
