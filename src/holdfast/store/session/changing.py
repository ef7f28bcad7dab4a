"""Changing what is known about checkpoints, and removing them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.history.checkpoint import Checkpoint
from holdfast.history.names import check_tags
from holdfast.storage.records import CheckpointId
from holdfast.store.intent import Unset
from holdfast.store.session.identity import Ref, SessionIdentity

# Each is imported by the methods that need it: a process that only saves is started faster.
if TYPE_CHECKING:
    from holdfast.history.keep import Keep
    from holdfast.store.pruning import PruneReport


class SessionChanging(SessionIdentity):
    """Labels, pins, notes and removals."""

    def annotate(
        self, ref: Ref, *, message: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> Checkpoint:
        """Edit the message of a checkpoint, or lay metadata over what it has; the id stays the same."""
        from holdfast.store import changing

        return changing.annotate(self._writer.place, ref, message=message, metadata=metadata)

    def tag(self, ref: Ref, *tags: str) -> Checkpoint:
        """Put labels on a checkpoint."""
        from holdfast.store import changing

        return changing.retag(self._writer.place, ref, add=check_tags(tags))

    def untag(self, ref: Ref, *tags: str) -> Checkpoint:
        """Take labels off a checkpoint."""
        from holdfast.store import changing

        return changing.retag(self._writer.place, ref, remove=check_tags(tags))

    def pin(self, ref: Ref) -> Checkpoint:
        """Protect a checkpoint: deleting it needs force, and retention keeps it."""
        from holdfast.store import changing

        return changing.set_pin(self._writer.place, ref, pinned=True)

    def unpin(self, ref: Ref) -> Checkpoint:
        """End the protection of a checkpoint."""
        from holdfast.store import changing

        return changing.set_pin(self._writer.place, ref, pinned=False)

    def delete(self, ref: Ref, *, force: bool = False) -> Checkpoint:
        """Remove a checkpoint from history and return its record; deleting the tip moves the branch back.

        The row is hidden, and goes for good only with gc; until then `undo` brings it back. A pinned checkpoint, or
        one where branches part, needs `force`.
        """
        from holdfast.store.removing import delete

        row, owner = delete(self._writer.place, ref, force=force)
        if not isinstance(self._writer.expected, Unset) and self._writer.expected == row.id:
            self._writer.expected = row.prev
        self._writer.parts.metrics.removed(self.id, "delete", [row.id.hex()])
        return Checkpoint(row, owner)

    def prune(self, keep: Keep, *, dry_run: bool = False) -> PruneReport:
        """Remove the checkpoints that a policy does not keep, and say why each stays or goes.

        They are hidden, and go for good only with gc; `undo` brings them back until then. The tips of branches, the
        checkpoints where branches part or meet and pinned ones always stay; what is part of another checkpoint goes
        with that one. With `per="agent"`, all sessions of this session's agent are pruned.

        Args:
            keep: The policy, such as `Keep(last=100, days=7)`.
            dry_run: Only say what would go.
        """
        from holdfast.store.pruning import prune, removed_by

        parts = self._writer.parts
        report = prune(self._writer.place, keep, dry_run=dry_run)
        for session, ids in removed_by(report).items():
            parts.metrics.removed(session, "prune", ids)
        self._go_back(report)
        return report

    def _go_back(self, report: PruneReport) -> None:
        """Expect the branch where a prune left it: a tip that is a part of another checkpoint goes with that one."""
        at = self._writer.expected
        if report.dry_run or isinstance(at, Unset):
            return
        gone = {each.checkpoint.id: each.checkpoint.prev for each in report.decisions if not each.kept}
        while at is not None and at.hex() in gone:
            prev = gone[at.hex()]
            at = None if prev is None else CheckpointId(bytes.fromhex(prev))
        self._writer.expected = at

    def clear(self, *, force: bool = False) -> int:
        """Remove every checkpoint and every branch of the session; return how many checkpoints that were.

        They are hidden, as with `delete`, and one `undo` brings them back. If one of them is pinned, it needs `force`.
        """
        from holdfast.store.removing import clear

        removed = clear(self._writer.place, force=force)
        self._writer.expected = None
        self._writer.parts.metrics.removed(self.id, "clear", removed)
        return len(removed)
