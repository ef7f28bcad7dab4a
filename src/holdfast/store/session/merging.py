"""Bringing another line of work into the branch in use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from holdfast.store.session.identity import Ref, SessionIdentity

# Each is imported by the method that needs it: a process that only saves is started faster.
if TYPE_CHECKING:
    from holdfast.objects.merging.resolving import Resolve
    from holdfast.store.merging import MergeReport


class SessionMerging(SessionIdentity):
    """Merges."""

    def merge(
        self,
        ref: Ref,
        *,
        resolve: Resolve = None,
        message: str = "",
        dry_run: bool = False,
        tags: Iterable[str] = (),
    ) -> MergeReport:
        """Merge a checkpoint, with all that led to it, into the branch in use: what both changed since they parted.

        Dicts are merged by key and objects by field, lists by the `id` of their items or as sequences, texts by lines;
        everything else is one thing. One checkpoint is written, with two parents, and `undo` takes it back. If a
        conflict is left, nothing is written, and the report has it. Where the checkpoint at which both met last is gone
        for good (`base_exact`), everything that differs is a conflict.

        Args:
            ref: What to merge: a branch, or any other ref; or a Checkpoint of another session that began as a fork.
            resolve: Who decides on conflicts: "ours", "theirs", a function that gets a `MergeConflict` and returns the
                value (`ABSENT` for none, the conflict itself to leave it open), or a dict of these by path, in which
                `*` is any step: `{"messages": "ours", "beliefs.*.confidence": lambda c: max(c.ours, c.theirs)}`.
                Places in lists count from the beginning, as those of the conflicts do.
                A path without a `*` that decided nothing is in `unused` of the report.
            message: What happened, for people; says what was merged unless given.
            dry_run: Work it out and write nothing.
            tags: Labels of the new checkpoint.

        Raises:
            ConflictError: The branch moved since this Session saw it.
            NotFoundError: `ref` names nothing, or has no checkpoint in common with the branch (`no-common-ancestor`).
            InvalidInputError: `resolve` is none of these, returned what cannot be kept, or has a path without a `*` at
                which neither side has anything, while there are conflicts elsewhere.
        """
        from holdfast.store.merging import check_wanted, merge

        writer = self._writer
        wanted = check_wanted(ref, message, tags, dry_run=dry_run)
        report = merge(writer.place, writer.parts, writer.expected, wanted, resolve)
        if report.checkpoint is not None:
            writer.went_on(report.checkpoint)
        return report
