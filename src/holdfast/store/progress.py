"""Telling how far long work has come."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int], None]
"""Told what is being done and how many of it are done so far."""


def silent(_what: str, _done: int) -> None:
    """Tell nobody."""
