"""migrate: bring a store to the version that this code is written for.

Opening a store never changes its tables. There is one version so far, and older stores are refused: nothing has to be
brought anywhere yet.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.backends.registry import migrate_target
from holdfast.reports.upkeep import MigrateReport
from holdfast.store.open import find_target


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
    url, steps = migrate_target(place, timeout=timeout)
    return MigrateReport(url, tuple(steps), dry_run)
