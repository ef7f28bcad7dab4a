"""migrate: bring the tables of a store to the version that this code is written for.

A SQLite file has one format, and nothing to bring anywhere. The tables of a PostgreSQL store outlive many versions of
the code, and several machines use them at once: so nothing is changed by opening such a store, only by asking for it.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.backends.registry import migrate_target
from holdfast.record import Record
from holdfast.store.locate import find_target


class MigrateReport(Record):
    """What a migration did, or would do."""

    store: str
    """The URL of the store."""
    steps: tuple[str, ...]
    """The steps, each with its number; none where the store is up to date."""
    dry_run: bool


def migrate(
    target: str | Path | None = None, *, dry_run: bool = False, timeout: float = 10.0
) -> MigrateReport:
    """Bring the tables of a store to the version of this holdfast, in one transaction.

    Writers of other versions are waited for, and refused from then on: nothing is written by two versions at once.

    Args:
        target: As for `holdfast.open`; the store must be there.
        dry_run: Only say which steps would be taken.
        timeout: How many seconds to wait for writers.

    Raises:
        NotFoundError: There is no store.
        UnsupportedError: The store is of a newer version than this holdfast.
    """
    place = find_target() if target is None else target
    url, steps = migrate_target(place, dry_run=dry_run, timeout=timeout)
    return MigrateReport(url, tuple(steps), dry_run)
