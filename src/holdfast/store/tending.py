"""Looking after a store: the part of Store that frees, erases, checks and mends what is in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.store.archives.taking_in import ArchiveStore
from holdfast.store.filters import check_filters
from holdfast.store.place import Ref

# Imported where they are needed: a process that only saves is started faster.
if TYPE_CHECKING:
    from holdfast.reports.upkeep import ForgetReport, GcReport, RepairReport, VerifyReport


class TendedStore(ArchiveStore):
    """What keeps a store small, whole and safe."""

    def gc(
        self,
        *,
        keep_days: float = 14,
        dry_run: bool = False,
        progress: Callable[[str, int], None] | None = None,
    ) -> GcReport:
        """Remove for good what was deleted or pruned, and free the room that nothing needs any more.

        Safe beside running writers. What was removed longer ago than `keep_days` cannot be brought back by undo
        afterwards. With `dry_run` nothing is changed, and the report says what would be.

        Args:
            keep_days: Removed checkpoints stay for so long; 0 removes all of them now.
            dry_run: Only say what would go.
            progress: Called now and then with what is being done, and how many of it are done.

        Raises:
            IntegrityError: A checkpoint is damaged; no chunk is removed then.
        """
        from holdfast.store.gc import collect_garbage

        now = self._parts.clock()
        return collect_garbage(
            self._parts.backend, now=now, keep_days=keep_days, dry_run=dry_run, progress=progress
        )

    def forget(self, session: str, *refs: Ref, dry_run: bool = False, clean: bool = True) -> ForgetReport:
        """Erase a session, or some of its checkpoints, at once and for good; there is no undo.

        The rows, the session's operation log and every chunk that nothing else needs go, and the files of the store
        are written anew without them. What other checkpoints hold too stays with those.

        Args:
            session: The session.
            refs: Its checkpoints, removed ones by their whole id; all of the session if none is given.
            dry_run: Only say what would go.
            clean: False ends it with the rows and the log, which takes no longer than any other change, and no other
                rights: nobody can load what is forgotten, and its bytes are freed by the next gc.

        Raises:
            NotFoundError: There is no such session or checkpoint.
            BackendError: Somebody still reads an older moment of the store; what is forgotten is gone for every
                reader, and calling it again for anything cleans the files.
        """
        check_filters(session=session)
        from holdfast.store.gc import forget

        now = self._parts.clock()
        try:
            report = forget(self._parts.backend, session, refs, now=now, dry_run=dry_run, clean=clean)
        finally:
            if not dry_run:
                # Whatever came of it: what is forgotten does not stay at hand. Not before it is gone, or somebody
                # might load it once more.
                self._parts.at_hand.clear()
        if not dry_run:
            self._parts.metrics.removed(session, "forget", count=report.checkpoints)
        return report

    def verify(
        self,
        *,
        quick: bool = False,
        session: str | None = None,
        progress: Callable[[str, int], None] | None = None,
    ) -> VerifyReport:
        """Check that everything in the store is as it was written, and name each checkpoint that cannot be loaded.

        Damage does not end it: it is in the report. Safe beside running writers.

        Args:
            quick: Leave out the states: rows, ids, links, heads and logs are checked, and no chunk is read.
            session: Of this session only.
            progress: Called now and then with what is being done, and how many of it are done.
        """
        check_filters(session=session)
        from holdfast.store.verifying import verify

        return verify(self._parts.backend, quick=quick, session=session, progress=progress)

    def repair(
        self, *, dry_run: bool = False, progress: Callable[[str, int], None] | None = None
    ) -> RepairReport:
        """Put what is whole of a damaged store in its place, and keep what was there in a file beside it.

        Checkpoints that are whole stay as they are, with their ids and numbers. Those that are not are left out and
        named; history leads past them. A store that is whole is left alone. Others may have the store open meanwhile;
        writers wait.

        Args:
            dry_run: Only say what would be done.
            progress: Called now and then with what is being done, and how many of it are done.

        Raises:
            IntegrityError: The first page of the file cannot be read: nothing can be put in its place.
            UnsupportedError: This kind of store cannot be repaired.
            BackendError: There is no room for the new store beside the old one, or another writer holds it.
        """
        from holdfast.store.repairing import repair

        return repair(self._parts.backend, now=self._parts.clock(), dry_run=dry_run, progress=progress)

    def backup(self, path: str | Path) -> Path:
        """Write a consistent copy of the whole store to a new file, beside running writers; return its path."""
        target = Path(path)
        self._parts.backend.backup(target)
        return target
