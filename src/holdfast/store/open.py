"""Which store a program means: an explicit target, HOLDFAST_STORE, or the nearest `.holdfast/` upward.

The search goes up from the working folder and stops at the home folder and at the edge of the file system, as git's
does, so that a stray folder high up is not picked up by accident. Where there is none, one is made here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from holdfast.backends.fork import watched
from holdfast.backends.registry import connect
from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.store.store import Store

FOLDER = ".holdfast"


def open_store(
    target: str | Path | None = None,
    *,
    types: Iterable[type] = (),
    durability: Literal["power", "process"] = "power",
    create: bool = True,
    timeout: float = 10.0,
    app_version: str | None = None,
    damaged: bool = False,
    compress: bool = True,
) -> Store:
    """Open a store, and make it if there is none.

    Args:
        target: A folder, a file ending in .db, `sqlite:///path`, `postgresql://user:password@host/database` or
            `memory:`. Without one: HOLDFAST_STORE, else the nearest `.holdfast/` upward, else a new one here.
        types: Classes whose instances may be part of a state.
        durability: "power": a save that returned survives a power cut. "process": it survives the death of the
            process, and a power cut may take the newest saves; the store stays whole in both.
        create: Make the store if there is none; otherwise that is a NotFoundError.
        timeout: How many seconds to wait for another writer, and for a server that does not answer.
        app_version: The version of the application, written into each checkpoint.
        damaged: Open a store whose first pages are damaged, for `verify`, `repair` and `recover`: whatever else is
            asked of it may still be an IntegrityError.
        compress: False: what is saved from here is stored as it is, which takes more room and less time. Each store
            can be read either way, and both kinds of checkpoints can be in one.

    Raises:
        NotFoundError: There is no store, and `create` is false.
        InvalidInputError: The target is not a store, or not a target.
        UnsupportedError: The store has a newer format, or lies on a network file system.
    """
    if durability not in ("power", "process"):
        raise InvalidInputError(
            f"durability cannot be {durability!r}",
            code=ErrorCode.BAD_ARGUMENT,
            hint='use "power" or "process"',
        )
    if target is not None and not isinstance(target, str | Path):
        raise InvalidInputError(
            f"a store cannot be opened from {target!r:.60}",
            code=ErrorCode.BAD_URL,
            hint="pass a path, sqlite:///path, postgresql://user:password@host/database or memory:",
        )
    if type(timeout) not in (int, float):
        raise InvalidInputError(
            f"timeout cannot be {timeout!r:.60}", code=ErrorCode.BAD_ARGUMENT, hint="give a number of seconds"
        )
    if type(compress) is not bool:
        raise InvalidInputError(
            f"compress cannot be {compress!r:.60}", code=ErrorCode.BAD_ARGUMENT, hint="use True or False"
        )
    place = find_target() if target is None else target
    backend = connect(
        place,
        durability=durability,
        create=create,
        timeout=timeout,
        damaged=damaged,
        compress=compress,
    )
    return Store(
        backend,
        types=types,
        app_version=app_version,
    )


def find_target() -> str | Path:
    """The target that `open_store` uses when it is given none."""
    configured = os.environ.get("HOLDFAST_STORE")
    if configured:
        return configured
    here = Path.cwd()
    return _nearest(here) or here / FOLDER


def _nearest(start: Path) -> Path | None:
    home, device = Path.home(), start.stat().st_dev
    for folder in (start, *start.parents):
        if folder.stat().st_dev != device:
            return None
        if (folder / FOLDER).is_dir():
            return folder / FOLDER
        if folder == home:
            return None
    return None


def is_open_here(path: Path) -> bool:
    """Whether a store of this process has this file open.

    Nobody else in the process may open it then, not even to read: the locks of a file belong to the process, and fall
    when any descriptor of it is closed. A second SQLite library does not know that, nor does `open`.
    """
    try:
        found = path.stat()
    except OSError:
        return False
    # Of the backends, only those in files can say.
    return any(each.has_open((found.st_dev, found.st_ino)) for each in watched() if hasattr(each, "has_open"))
