"""import: verified checkpoints become rows of a store, all or nothing.

Everything is read and verified first (`reading.py`), then all sessions are planned (`planning.py`): whatever can be
refused is refused before anything is written. Then each session is written in one transaction (`bringing.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.errors import ErrorCode, HoldfastError, InvalidInputError
from holdfast.history.names import check_session
from holdfast.objects.tree.boundaries import Cuts
from holdfast.reports.transfer import ImportReport
from holdfast.store.archives.bringing import Delivery
from holdfast.store.archives.limits import ArchiveLimits
from holdfast.store.archives.planning import plan_session
from holdfast.store.archives.reading import ArchiveReader, ReadSession
from holdfast.store.archives.refusing import too_large
from holdfast.store.archives.sources import Source
from holdfast.store.archives.spool import Spool
from holdfast.store.composition import Composition
from holdfast.store.place import read_again
from holdfast.store.progress import Progress, silent


class ReadArchives:
    """Archives that were read to their end and verified, and wait in a temporary file; ends with its block.

    Args:
        source: Where they are.
        session: See `Store.import_`.
        limits: How much they may hold.
        progress: Called as checkpoints are read.
        cuts: For tests; those of the format by default.
    """

    def __init__(
        self,
        source: Source,
        *,
        session: str | None = None,
        limits: ArchiveLimits | None = None,
        progress: Progress | None = None,
        cuts: Cuts | None = None,
    ) -> None:
        if limits is not None and not isinstance(limits, ArchiveLimits):
            raise InvalidInputError(
                f"limits cannot be a {type(limits).__name__}",
                code=ErrorCode.BAD_ARGUMENT,
                hint="pass holdfast.ArchiveLimits(...)",
            )
        self.limits = limits or ArchiveLimits()
        self.name = str(source) if isinstance(source, str | Path) else str(getattr(source, "name", "stream"))
        wanted = None if session is None else check_session(session)
        self.spool = Spool()
        try:
            self.sessions = ArchiveReader(self.spool, self.limits, wanted, cuts, progress or silent).read(
                source
            )
        except BaseException:
            # Whatever it was: nobody will have this object to end it.
            self.spool.__exit__(None, None, None)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.spool.__exit__(kind, error, trace)


def import_archives(
    parts: Composition,
    source: Source,
    *,
    session: str | None,
    limits: ArchiveLimits | None,
    advance: bool,
    dry_run: bool,
    progress: Progress | None,
) -> ImportReport:
    """Import all that a source holds; see `Store.import_`."""
    with ReadArchives(source, session=session, limits=limits, progress=progress, cuts=parts.cuts) as read:
        return import_read(parts, read, advance=advance, dry_run=dry_run)


def import_read(parts: Composition, read: ReadArchives, *, advance: bool, dry_run: bool) -> ImportReport:
    """Import what was read; it can be done again, into another store."""
    deliveries = [_planned(parts, each, read.spool, advance=advance) for each in read.sessions]
    _check_branches(deliveries, read.limits, read.name)
    if not dry_run:
        _write(deliveries)
    sessions = tuple(each.plan.told for each in deliveries)
    return ImportReport(read.name, parts.backend.url, sessions, dry_run)


def _planned(parts: Composition, read: ReadSession, spool: Spool, *, advance: bool) -> Delivery:
    plan = partial(read_again, partial(plan_session, parts.backend, read, advance=advance))
    return Delivery(parts.backend, read, spool, plan, parts.clock)


def _check_branches(deliveries: Sequence[Delivery], limits: ArchiveLimits, name: str) -> None:
    count = sum(len(each.plan.heads) for each in deliveries)
    if count > limits.branches:
        why = f"it would make {count:,} new branches, and more than {limits.branches:,} are not made at once"
        raise too_large(name, "too-many-branches", why, "branches")


def _write(deliveries: Sequence[Delivery]) -> None:
    for each in deliveries:
        each.send_ahead()
    done: list[Delivery] = []
    try:
        for each in deliveries:
            done.append(each)
            each.write()
    except BaseException as error:
        # Whatever ended it, an interruption by the person included: what was written of it must not stay.
        left = [each.plan.told.id for each in reversed(done) if not each.take_back()]
        if left and isinstance(error, HoldfastError):
            error.details["imported"] = left
            error.hint = (
                f"{error.hint}; what was imported before it could not be taken back: run the import again"
            )
        raise
