"""The slow, obvious store: what `Store` and `Session` must do, said in plain dicts and lists.

Nothing is encoded, hashed, indexed or cached here. A state is kept as a deep copy, history is a list per session, and
`prev` is worked out each time by walking back over what was removed. The real store is compared with it step by step
(`tests/property/test_store_machine.py`): same answers, same errors, by code.

`save(..., as_id=)` takes the id that the real store gave, so that both can be asked by the same ref.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from tests.model.lines import ModelCheckpoint, has, within
from tests.model.removal import RemovalFromSession, RemovalFromStore
from tests.model.writer import ANY, refused

from holdfast.errors import ConflictError, ErrorCode, InvalidInputError, NotFoundError
from holdfast.history import jsontext
from holdfast.history.checkpoint import moment


class ModelStore(RemovalFromStore):
    """Sessions by name, and what can be asked across them."""

    def session(
        self,
        id: str = "default",  # noqa: A002 - the name that Store.session gives it
        *,
        agent: str | None = None,
        project: str | None = None,
        branch: str | None = None,
    ) -> ModelSession:
        """One writer on one branch: the session's current one where none is named."""
        if branch is None:
            line = self.lines.get(id)
            branch = line.current if line is not None and line.current in line.heads else "main"
        return ModelSession(self, id, agent, project, branch)

    def sessions(self) -> list[tuple[str, str | None, str | None, int, int]]:
        """(id, agent, project, created_at, saves) of each, oldest first."""
        return [
            (name, line.agent, line.project, line.created_at, len(line.history))
            for name, line in self.lines.items()
        ]

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


class ModelSession(RemovalFromSession):
    """One writer, and all that it can do to history."""

    def delete(self, ref: str | ModelCheckpoint, *, force: bool = False) -> ModelCheckpoint:
        """Take a checkpoint out of history; branches whose tip it was go back to what came before."""
        found, line = self._resolve(ref), self._line()
        tips = [name for name, head in line.heads.items() if head == found.id]
        children = [each for each in line.kept() if line.link(each)[0] == found.id]
        if not force and (found.pinned or len(tips) + len(children) > 1):
            raise refused(InvalidInputError, ErrorCode.PROTECTED, f"branches part at {found.id}")
        before = self._begin()
        prev, _ = line.link(found)
        found.removed = True
        for name in tips:
            if prev is None:
                del line.heads[name]
            else:
                line.heads[name] = prev
        if self.expected == found.id:
            self.expected = prev
        self._end("delete", before)
        return line.shown(found)

    def clear(self, *, force: bool = False) -> int:
        """Take everything out of history."""
        line = self.store.lines.get(self.id)
        kept = line.kept() if line is not None else []
        if not force and any(each.pinned for each in kept):
            raise refused(InvalidInputError, ErrorCode.PROTECTED, "something is pinned")
        if line is not None and (kept or line.heads):
            before = self._begin()
            for each in kept:
                each.removed = True
            line.heads.clear()
            self._end("clear", before)
        self.expected = None
        return len(kept)

    def fork(
        self,
        ref: str | ModelCheckpoint = "@",
        name: str | None = None,
        *,
        session: str | None = None,
        as_id: str | None = None,
    ) -> ModelSession:
        """Begin a new branch, here or in another session."""
        source, owner = self._resolve(ref), self._line()
        target = self
        if session not in (None, self.id):
            known = session in self.store.lines
            whose = (None, None) if known else (owner.agent, owner.project)
            target = ModelSession(self.store, str(session), *whose, "main")
        taken = self.store.branches(target.id)
        if name is None:
            name = "main" if target is not self else self._free(taken)
        if name in taken:
            raise refused(ConflictError, ErrorCode.BRANCH_EXISTS, name)
        before = target._begin()
        made = target._copy(source, name, source, as_id, trigger="fork", message=f"fork of #{source.seq}")
        target._end("fork", before)
        forked = ModelSession(self.store, target.id, target.agent, target.project, name)
        forked.expected = made.id
        return forked

    def restore(self, ref: str | ModelCheckpoint, *, as_id: str | None = None) -> ModelCheckpoint:
        """The state of a checkpoint again, at the tip of the branch in use."""
        source, line = self._resolve(ref), self._line()
        head = self._head(self.branch)
        is_head = self.expected in (ANY, head.id)
        if not is_head and not self._same_state(line, self.expected, saved=False):
            raise refused(ConflictError, ErrorCode.BRANCH_MOVED, f"{self.branch} is at {head.id}")
        before = self._begin()
        words = str(line.shown(source).fields["message"]).partition("\n")[0]
        made = self._copy(
            source,
            self.branch,
            head,
            as_id,
            trigger="restore",
            message=f"restore of #{source.seq}{f': {words}' if words else ''}",
            metadata={"restored_from": source.id},
        )
        self._end("restore", before)
        self.expected = made.id
        return line.shown(made)

    def switch(self, name: str, *, remember: bool = True) -> ModelCheckpoint:
        """Go on with another branch."""
        head = self._head(name)
        line = self._line()
        if remember and line.current != name:
            before = self._begin()
            line.current = name
            self._end("switch", before)
        self.branch, self.expected = name, head.id
        return line.shown(head)

    def rename_branch(self, old: str, new: str) -> None:
        """Another name for a branch."""
        head = self._head(old)
        line = self._line()
        if new in line.heads:
            raise refused(ConflictError, ErrorCode.BRANCH_EXISTS, new)
        before = self._begin()
        del line.heads[old]
        line.heads[new] = head.id
        line.current = new if line.current == old else line.current
        self.branch = new if self.branch == old else self.branch
        self._end("rename", before)

    def delete_branch(self, name: str, *, force: bool = False) -> ModelCheckpoint:
        """Forget a name."""
        head = self._head(name)
        line = self._line()
        others = [each for each in line.heads if each != name]
        led_to = {
            each.id for other in others for each in ModelSession(self.store, self.id, None, None, other).log()
        }
        if not force and (name in (self.branch, line.current) or head.id not in led_to):
            raise refused(InvalidInputError, ErrorCode.PROTECTED, name)
        before = self._begin()
        del line.heads[name]
        if line.current == name and others:
            line.current = "main" if "main" in others else min(others)
        if self.branch == name:
            self.expected = head.id
        self._end("drop", before)
        return line.shown(head)

    def undo(self, *, unsure: bool = False) -> tuple[str, ModelCheckpoint | None]:
        """Take back the newest operation; what it was, and the head of the branch in use. `unsure`: see `Past.turn`."""
        return self._turn("undo", ErrorCode.NOTHING_TO_UNDO, unsure=unsure)

    def redo(self, *, unsure: bool = False) -> tuple[str, ModelCheckpoint | None]:
        """Take back the newest undo."""
        return self._turn("redo", ErrorCode.NOTHING_TO_REDO, unsure=unsure)

    def _turn(self, verb: str, none: ErrorCode, *, unsure: bool) -> tuple[str, ModelCheckpoint | None]:
        line, past = self.store.lines.get(self.id), self._past()
        if line is None:
            raise refused(NotFoundError, ErrorCode.SESSION_MISSING, self.id)
        if verb == "undo" and past.forgotten and not past.done:
            raise refused(NotFoundError, ErrorCode.UNDO_GONE, self.id)
        if not (past.done if verb == "undo" else past.undone):
            raise refused(NotFoundError, none, self.id)
        heads, current, branch = dict(line.heads), line.current, self.branch
        step = past.turn(line, verb, self._claimed, self.store.clock(), unsure=unsure)
        if step.kind == "switch" and branch == current and line.current in line.heads:
            self.branch = line.current
        elif step.kind == "rename" and branch in heads and branch not in line.heads:
            self.branch = next(name for name in line.heads if name not in heads)
        head = line.get(line.heads.get(self.branch))
        if self.branch != branch or line.heads.get(self.branch) != heads.get(branch):
            self.expected = head.id if head else (heads.get(branch) if line.heads else None)
        return step.kind, line.shown(head) if head else None

    def annotate(
        self,
        ref: str | ModelCheckpoint,
        *,
        message: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> ModelCheckpoint:
        """Say something else about a checkpoint, or more."""
        if message is None and not metadata:
            raise refused(InvalidInputError, ErrorCode.BAD_ARGUMENT, "nothing to write")
        found = self._resolve(ref)
        later = dict(found.later)
        if message is not None:
            later["message"] = message
        if metadata:
            later["metadata"] = copy.deepcopy(later.get("metadata", {}) | dict(metadata))
        # As text, because 1, 1.0 and True are three values of metadata, and equal in Python.
        if jsontext.dump(later) != jsontext.dump(found.later):
            before = self._begin()
            found.later = later
            self._end("annotate", before)
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
            raise refused(InvalidInputError, ErrorCode.BAD_ARGUMENT, "no tag was given")
        found = self._resolve(ref)
        if change(found.tags) != found.tags:
            before = self._begin()
            found.tags = change(found.tags)
            self._end("tag", before)
        return self._line().shown(found)

    def pin(self, ref: str | ModelCheckpoint) -> ModelCheckpoint:
        """Protect a checkpoint."""
        return self._set_pin(ref, pinned=True)

    def unpin(self, ref: str | ModelCheckpoint) -> ModelCheckpoint:
        """End the protection."""
        return self._set_pin(ref, pinned=False)

    def _set_pin(self, ref: str | ModelCheckpoint, *, pinned: bool) -> ModelCheckpoint:
        found = self._resolve(ref)
        if found.pinned != pinned:
            before = self._begin()
            found.pinned = pinned
            self._end("pin", before)
        return self._line().shown(found)

    def _copy(
        self, source: ModelCheckpoint, branch: str, onto: ModelCheckpoint, as_id: str | None, **fields: Any
    ) -> ModelCheckpoint:
        """One more checkpoint with the state of another one."""
        same = {name: source.fields[name] for name in ("status", "step", "tokens", "cost_usd", "duration_ms")}
        return self._append(self._line(), branch, onto, source.state, as_id, key=None, **same, **fields)
