"""A record whose type this program does not know.

Loading a state never imports anything, so a class that was not registered cannot come back as itself. It comes back as
an `Opaque` instead: readable, comparable, and saved again to the very bytes it was loaded from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Opaque:
    """What was stored of an object: the name and version of its type, its fields, and what else the type kept.

    Register a class under `name` (see `holdfast.register`) to get the object itself.
    """

    name: str
    version: int
    data: Any
    extra: Any = None

    def __hash__(self) -> int:
        # Fields come as a dict, which has no hash of its own; without it, the members of a set would all collide.
        data = self.data
        try:
            content = frozenset(data.items()) if type(data) is dict else data
            return hash((self.name, self.version, content))
        except TypeError:
            return hash((self.name, self.version))
