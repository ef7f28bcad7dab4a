"""How the model store gets rid of things: by a policy, for good after a while, and at once.

What stays is said in sets here: the newest, the tips, the pins, and where lines part that lead to a tip. A checkpoint
whose key is that of another one, a blank and more shares the fate of that one. What is gone for good stays in the list
with a mark, so that everything around it can still be told by walking.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tests.model.lines import Line, ModelCheckpoint
from tests.model.past import Past, snapshot
from tests.model.writer import ModelData, ModelWriter, refused

from holdfast.errors import ErrorCode, NotFoundError
from holdfast.record import Record

_DAY = 86_400 * 1_000_000


class Collected(Record):
    """What a gc removed for good."""

    checkpoints: int
    sessions: set[str]
    waiting: int


class RemovalFromSession(ModelWriter):
    """A writer that prunes."""

    def prune(
        self, newest: int, *, per_branch: bool = False, dry_run: bool = False
    ) -> tuple[set[str], set[str]]:
        """Remove all but the newest so many and what always stays; what stayed, and what went."""
        line = self.store.lines.get(self.id)
        if line is None:
            raise refused(NotFoundError, ErrorCode.SESSION_MISSING, f"{self.id} has no checkpoint yet")
        whole = {each.id: _whole(line, each) for each in line.kept()}
        counted = [each for each in line.kept() if whole[each.id] == each.id]
        chosen = _always(line, whole)
        for branch in {each.branch for each in counted} if per_branch else {None}:
            group = [each.id for each in counted if branch in (None, each.branch)]
            chosen |= set(group[-newest:])
        stay = {name for name, owner in whole.items() if owner in chosen}
        go = whole.keys() - stay
        if go and not dry_run:
            before = snapshot(line)
            for each in line.kept():
                each.removed = each.id in go
            self._go_back(line, go)
            # Nobody's agent or project matters to it, so that it is not claimed.
            self._end("prune", before)
        return stay, go

    def _go_back(self, line: Line, go: set[str]) -> None:
        """Lead the branches, and this writer, from a part that went to what came before it."""
        if self.expected in go:
            self.expected = line.link(_there(line, self.expected))[0]
        for branch, head in list(line.heads.items()):
            if head in go:
                del line.heads[branch]
                prev, _ = line.link(_there(line, head))
                if prev is not None:
                    line.heads[branch] = prev


class RemovalFromStore(ModelData):
    """A store that can be collected, and that forgets."""

    def gc(self, *, keep_days: float = 14, dry_run: bool = False) -> Collected:
        """What was removed so many days ago cannot come back."""
        removed = {
            name: [each for each in line.present() if each.removed] for name, line in self.lines.items()
        }
        horizon = self.clock() - keep_days * _DAY
        due = {
            name: old
            for name, rows in removed.items()
            if (old := [each for each in rows if each.removed_at <= horizon])
        }
        count = sum(map(len, due.values()))
        if not dry_run:
            for name, rows in due.items():
                self.pasts.setdefault(name, Past()).kinds.append("gc")
                for each in rows:
                    each.gone = True
        return Collected(count, set(due), sum(map(len, removed.values())) - count)

    def gc_hides_a_way(self, *, keep_days: float) -> bool:
        """Whether a row would lose a parent that was removed before the row was saved.

        No operation had to lead that row past what lies behind its parent, so that nothing in a real store tells where
        it leads once some of that comes back. It then leads on to what it led to before, which is an ancestor too.
        """
        horizon = self.clock() - keep_days * _DAY
        return any(
            each.onto_removed and not each.cut_off and _goes(line.get(each.parents[0]), horizon)
            for line in self.lines.values()
            for each in line.present()
        )

    def forget(self, session: str, ref: str | ModelCheckpoint) -> int:
        """One checkpoint goes for good at once, and with it the memory of what was done."""
        writer = ModelWriter(self, session, None, None, "main")
        if session not in self.lines:
            raise refused(NotFoundError, ErrorCode.SESSION_MISSING, session)
        line = self.lines[session]
        name = ref.id if isinstance(ref, ModelCheckpoint) else ref
        # The whole id of one that was removed before names it here, and nowhere else.
        known = any(each.id == name for each in line.present())
        found = _there(line, str(name) if known else writer.checkpoint(ref).id)
        prev, _ = line.link(found)
        for branch, head in list(line.heads.items()):
            if head == found.id:
                del line.heads[branch]
                if prev is not None:
                    line.heads[branch] = prev
        found.removed = found.gone = True
        for each in line.history:
            # When the others were removed was in what is forgotten.
            each.removed_at = 0
        self.pasts[session] = Past(kinds=["forget"], forgotten=True)
        return 1


def _goes(row: ModelCheckpoint | None, horizon: float) -> bool:
    return row is not None and row.removed and not row.gone and row.removed_at <= horizon


def _whole(line: Line, checkpoint: ModelCheckpoint) -> str:
    """What a checkpoint is a part of: the one with the shortest key that its own goes on from; or itself."""
    key = checkpoint.fields["key"] or ""
    wholes = [
        (len(other), each.id)
        for each in line.kept()
        if (other := each.fields["key"]) is not None and key.startswith(f"{other} ") and key != f"{other} "
    ]
    return min(wholes)[1] if wholes else checkpoint.id


def _always(line: Line, whole: Mapping[str, str]) -> set[str]:
    """What no policy removes, where a part stands for its whole. That it is a tip alone does not protect that."""
    led_to: set[str] = set()
    ways: Counter[str | None] = Counter(line.heads.values())
    for head in line.heads.values():
        at: str | None = head
        while at is not None and at not in led_to:
            led_to.add(at)
            at = line.link(_there(line, at))[0]
            ways[at] += 1
    parting = {name for name, count in ways.items() if count > 1 and name is not None}
    tips = {head for head in line.heads.values() if whole[head] == head}
    pinned = {each.id for each in line.kept() if each.pinned}
    return tips | {whole[name] for name in pinned | parting}


def _there(line: Line, name: str) -> ModelCheckpoint:
    return next(each for each in line.history if each.id == name)
