"""What a store is made of, shared by the Store and the Sessions it hands out."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from holdfast.objects.registry import TypeRegistry
from holdfast.storage.ports import Backend


def system_clock() -> int:
    """Microseconds since 1970 UTC."""
    return time.time_ns() // 1000


class Composition(NamedTuple):
    """A backend, the types that states may hold, the application's version, and a clock in microseconds."""

    backend: Backend
    types: TypeRegistry
    app_version: str | None
    clock: Callable[[], int]
