"""Telling how far long work has come, and whom to warn."""

from __future__ import annotations

import sys
from collections.abc import Callable

Progress = Callable[[str, int], None]
"""Told what is being done and how many of it are done so far."""


def silent(_what: str, _done: int) -> None:
    """Tell nobody."""


def callers_level() -> int:
    """How many frames up the one is that called `save`, of a Session or of a Document."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001 - documented, and what warnings itself uses
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("holdfast."):
        level, frame = level + 1, frame.f_back
    return level
