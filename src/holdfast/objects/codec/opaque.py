"""A record whose type this program does not know.

Loading a state never imports anything, so a class that was not registered cannot come back as itself. It comes back as
an `Opaque` instead: readable, comparable, and saved again to the very bytes it was loaded from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

_OWN: Final = ("name", "version", "data", "extra")


@dataclass(frozen=True, slots=True)
class Opaque:
    """What was stored of an object: the name and version of its type, its fields, and what else the type kept.

    A field reads as an attribute, unless it has the name of one of these four: `record.goal` is `record.data["goal"]`.
    Register a class under `name` (see `holdfast.register`) to get the object itself.
    """

    name: str
    version: int
    data: Any
    extra: Any = None

    def __getattr__(self, name: str) -> Any:
        # A copy that is being made has none of its own four yet; names with underscores are Python's.
        if (
            name not in _OWN
            and not name.startswith("__")
            and isinstance(self.data, dict)
            and name in self.data
        ):
            return self.data[name]
        raise AttributeError(f"this record has no field {name!r}")

    def __hash__(self) -> int:
        # Fields come as a dict, which has no hash of its own; without it, the members of a set would all collide.
        data = self.data
        try:
            content = frozenset(data.items()) if type(data) is dict else data
            return hash((self.name, self.version, content))
        except TypeError:
            return hash((self.name, self.version))
