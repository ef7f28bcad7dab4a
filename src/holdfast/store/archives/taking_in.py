"""Taking archives in: the part of Store that reads files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from holdfast.store.composition import Composition

# Imported where they are needed: a process that only saves is started faster.
if TYPE_CHECKING:
    from holdfast.reports.transfer import ImportReport
    from holdfast.store.archives.limits import ArchiveLimits


class ArchiveStore:
    """What takes in files that `Session.export` wrote."""

    _parts: Composition

    def import_(
        self,
        path: str | Path | BinaryIO,
        *,
        session: str | None = None,
        limits: ArchiveLimits | None = None,
        advance: bool = False,
        dry_run: bool = False,
        progress: Callable[[str, int], None] | None = None,
    ) -> ImportReport:
        """Take in what `Session.export` wrote, here or elsewhere: a file, or all archives in a folder.

        Everything is verified before anything is written: a file that was changed is refused. It is all or nothing;
        only where the process is killed may some sessions be there whole, and others not, and then the same import
        brings the rest. Checkpoints keep their ids, keys, tags and lineage; those that are there already are left
        alone, so that it can be run again. The files of one import may come in any order; what came before something
        that it was made from stays the beginning of its line (`cut_off`). No branch that is there moves: a head that is
        new gets the branch that it was on if that name is free, and `main-1` or the like if not.

        With `advance`, a branch that is there moves forward where what came in on a branch of its name goes on from its
        head, in the transaction of the rows; `undo` brings the head back. Where the lines have parted, because somebody
        saved here or what lies between did not come, it stays, and what is new has a branch beside it, which goes
        forward with the next import.

        Args:
            path: The file, or a folder with files (folders in it are not searched); or a file that was opened to read
                bytes.
            session: Of a file that another program wrote: the session it goes into. Archives of holdfast say it
                themselves, and are refused if it is another one.
            limits: How much an archive may hold.
            advance: Move branches forward where what came in goes on from them.
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
        from holdfast.store.archives.importing import ReadArchives, import_archives, import_read

        given: object = path
        if isinstance(given, ReadArchives):
            # The command line reads before it makes a store.
            return import_read(self._parts, given, advance=advance, dry_run=dry_run)
        return import_archives(
            self._parts,
            path,
            session=session,
            limits=limits,
            advance=advance,
            dry_run=dry_run,
            progress=progress,
        )
