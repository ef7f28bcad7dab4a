"""A source for tests of recorders: one value, captured and restored."""

from __future__ import annotations

from typing import Any


class Part:
    """Has `value`, and nothing else."""

    def __init__(self, value: Any = None) -> None:
        self.value = value

    def snapshot(self) -> Any:
        return {"value": self.value}

    def restore(self, value: Any) -> Any:
        self.value = value["value"]
