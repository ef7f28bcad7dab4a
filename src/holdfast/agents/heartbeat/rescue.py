"""A damaged store never keeps an agent from starting: what is whole goes on, what was there is kept aside.

First the store is repaired where it is, with its history. Where that cannot be, its file is set aside under another
name, and a new store begins with the newest state of the agent that can be read from it. Where nothing can be read, it
begins empty: the agent wakes up from its own database alone. A file that was never a store is left as it is.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import holdfast
from holdfast import Store
from holdfast.errors import ErrorCode, HoldfastError, IntegrityError
from holdfast.record import Record
from holdfast.recording.resume import newest_bare
from holdfast.store.open import find_target

LOG = logging.getLogger("holdfast.heartbeat")

Step = Literal["repair", "anew", "either"]

_FILE: Final = "store.db"
_LARGE: Final = 1 << 30
"""Bytes of a store that is not looked at as a whole before each start after a crash."""
_MOST_TOLD: Final = 10
_SCRAP: Final = 4096
"""Bytes: a file that is smaller is no database of anybody's."""


class Rescue(Record):
    """What was done about a damaged store."""

    kept_aside: str
    """The file with the store as it was."""
    lost: tuple[str, ...]
    """What is not in the store any more, each with what is wrong."""


def repaired(store: Store) -> Rescue | None:
    """Repair a store where it is; None where that cannot be done, or nothing was found to repair."""
    try:
        report = store.repair()
    except HoldfastError as error:
        LOG.warning("the store cannot be repaired where it is: %s", error)
        return None
    if report.kept_aside is None:
        return None
    lost = [f"#{each.seq or '?'} of session {each.session or '?'} ({each.why})" for each in report.lost]
    return Rescue(report.kept_aside, tuple(lost))


def checked(target: str | Path | None) -> Rescue | None:
    """Look at a store that nobody closed; where it is damaged, keep a copy of it before anything is written.

    SQLite takes a damaged place of its log for the end of it, and writes over what is behind.
    """
    path = _file_of(target)
    log = None if path is None else Path(f"{path}-wal")
    if path is None or log is None or not log.is_file() or not log.stat().st_size:
        return None
    if path.stat().st_size > _LARGE:
        return None
    with suppress(HoldfastError, OSError), holdfast.open(path, create=False, damaged=True) as store:
        problems = store.verify(quick=True).problems
        if problems:
            aside = _set_aside(path, shutil.copy2)
            return Rescue(str(aside), tuple(f"{each.what}: {each.why}" for each in problems[:_MOST_TOLD]))
    return None


def rescued(
    target: str | Path | None, session: str, error: HoldfastError, opened: Callable[..., Store], step: Step
) -> Rescue | None:
    """Make a store that can be opened and written of one that cannot; None where this is no case for it.

    Args:
        target: The store, as `holdfast.open` takes it.
        session: Whose newest state to bring over where a new store has to be made.
        error: What is wrong.
        opened: Opens a store as the heartbeat does, with types and all.
        step: What to try: after a repair that did not help, only a new store is left.
    """
    path = _file_of(target)
    if path is None or not path.is_file():
        return None
    if not isinstance(error, IntegrityError) and not (
        error.code is ErrorCode.NOT_A_STORE and _was_a_store(path)
    ):
        return None
    if step != "anew" and isinstance(error, IntegrityError):
        with suppress(HoldfastError), holdfast.open(path, create=False, damaged=True) as store:
            if (rescue := repaired(store)) is not None:
                return rescue
    if step == "repair":
        return None
    try:
        aside = _set_aside(path)
    except OSError as trouble:
        LOG.warning("the damaged store cannot be set aside: %s", trouble)
        return None
    lost = ["the store's history: only the newest state of this session that could be read is in the new one"]
    with opened(path) as store:
        try:
            with holdfast.open(aside, create=False, damaged=True) as old:
                checkpoint, values = newest_bare(old.session(session))
            store.session(session, agent=checkpoint.agent).save(
                values,
                f"from a damaged store: was #{checkpoint.seq}",
                status=checkpoint.status,
                trigger="restore",
                step=checkpoint.step,
                metadata=checkpoint.metadata,
                tokens=checkpoint.tokens,
                cost_usd=checkpoint.cost_usd,
                duration_ms=checkpoint.duration_ms,
                created_at=checkpoint.created_at,
            )
        except HoldfastError as trouble:
            lost = [f"everything: {trouble}"]
    return Rescue(str(aside), tuple(lost))


def _file_of(target: str | Path | None) -> Path | None:
    """The file of a store; None where it has none."""
    text = str(find_target() if target is None else target).removeprefix("sqlite:///")
    if "://" in text or text.startswith("memory:"):
        return None
    path = Path(text).expanduser()
    return path / _FILE if path.is_dir() else path


def _was_a_store(path: Path) -> bool:
    """Whether a file that is no database any more was a store: by its place, its size, or what is left in it."""
    if path.name == _FILE or path.stat().st_size < _SCRAP:
        return True
    try:
        with holdfast.open(path, create=False, damaged=True) as store:
            return bool(store.sessions() or store.verify().checkpoints)
    except HoldfastError:
        # Our table of chunks is described on its first pages, and on copies of those.
        content: Any = path.read_bytes()
        return b"CREATE TABLE checkpoints" in content and b"CREATE TABLE chunks" in content


def _set_aside(path: Path, put: Callable[[str, str], object] = os.rename) -> Path:
    """Give a store's files another name, which nobody else has."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    aside = path.with_name(f"{path.name}.damaged-{stamp}")
    for ending in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            put(f"{path}{ending}", f"{aside}{ending}")
    return aside
