"""Taking archives in: the part of Store that reads files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from holdfast.store.composition import Composition

# Imported where they are needed: a process that only saves is started faster.
if TYPE_CHECKING:
    from holdfast.store.archives.limits import ArchiveLimits
    from holdfast.store.archives.report import ImportReport


class ArchiveStore:
    """What takes in files that `Session.export` wrote."""

    _parts: Composition

    def import_(
        self,
        path: str | Path | BinaryIO,
        *,
        session: str | None = None,
        limits: ArchiveLimits | None = None,
        dry_run: bool = False,
        progress: Callable[[str, int], None] | None = None,
    ) -> ImportReport:
        """Take in what `Session.export` wrote, here or elsewhere: a file, or all archives in a folder.

        Everything is verified before anything is written: a file that was changed is refused. Each session comes in
        whole or not at all. Checkpoints keep their ids, keys, tags and lineage; those that are there already are left
        alone, so that it can be run again. No branch that is there moves: what is new gets the branch that it was on if
        that name is free, and `main-1` or the like if not.

        Args:
            path: The file or folder; or a file that was opened to read bytes.
            session: Of a file that another program wrote: the session it goes into. Archives of holdfast say it
                themselves, and are refused if it is another one.
            limits: How much an archive may hold.
            dry_run: Only say what would be imported.
            progress: Called now and then with what is being done, and how many of it are done.

        Raises:
            InvalidInputError: It is no archive (`archive-malformed`), too large (`archive-too-large`), or of a session
                that belongs to somebody else here (`session-mismatch`).
            IntegrityError: It was changed since it was written (`archive-damaged`).
            UnsupportedError: A newer version of holdfast wrote it.
            ConflictError: A key of it names another checkpoint here (`key-taken`).
            NotFoundError: There is no such file.
        """
        from holdfast.store.archives.importing import import_archives

        return import_archives(
            self._parts, path, session=session, limits=limits, dry_run=dry_run, progress=progress
        )
