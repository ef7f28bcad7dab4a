"""Working memory: a few things that are on the agent's mind, the most salient of what there is.

It is bounded: what is least salient makes room. Salience decays with each beat unless an item is attended to, and what
nobody attends to is gone after a while.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.agents.heartbeat.stored import NUMBER, as_dict, at_least_one, parts, rows, unknown, within

_GONE = 0.01
"""Below this an item is forgotten."""


@dataclass(slots=True)
class Item:
    """One thing on the mind."""

    id: str
    content: Any
    salience: float
    kind: str = ""


class WorkingMemory:
    """Items by id.

    Args:
        capacity: How many items there is room for.
        decay: How much of its salience an item loses with each beat.
    """

    def __init__(self, capacity: int = 7, *, decay: float = 0.02) -> None:
        self.capacity = at_least_one(capacity, "capacity")
        self.decay = within(decay, "decay")
        self._items: dict[str, Item] = {}
        self._held = 0

    def hold(self, content: Any, salience: float = 0.5, *, kind: str = "") -> Item | None:
        """Keep something in mind; None where it is less salient than everything that fills the memory."""
        self._held += 1
        item = Item(f"i{self._held}", content, within(salience, "salience"), kind)
        self._items[item.id] = item
        if len(self._items) > self.capacity:
            # Of equals the oldest goes: it comes first.
            least = min(self._items.values(), key=lambda each: each.salience)
            del self._items[least.id]
            return None if least is item else item
        return item

    def attend(self, id: str, amount: float = 0.2) -> Item:  # noqa: A002 - the glossary's word
        """Turn to an item: it becomes more salient."""
        if id not in self._items:
            raise unknown("item", id)
        item = self._items[id]
        item.salience = min(1.0, item.salience + within(amount, "amount"))
        return item

    def drop(self, id: str) -> None:  # noqa: A002 - the same
        """Put an item out of mind."""
        if self._items.pop(id, None) is None:
            raise unknown("item", id)

    def items(self, kind: str | None = None) -> list[Item]:
        """What is on the mind, most salient first; of one kind only, if that is given."""
        found = [item for item in self._items.values() if kind is None or item.kind == kind]
        return sorted(found, key=lambda item: -item.salience)

    def settle(self) -> None:
        """Let one beat pass: everything fades a little, and what has faded is gone."""
        for item in self._items.values():
            item.salience *= 1 - self.decay
        if any(item.salience < _GONE for item in self._items.values()):
            self._items = {item.id: item for item in self._items.values() if item.salience >= _GONE}

    def __len__(self) -> int:
        return len(self._items)

    def snapshot(self) -> dict[str, Any]:
        """Every item, oldest first."""
        return {"items": [as_dict(item) for item in self._items.values()], "held": self._held}

    def restore(self, value: Any) -> None:
        """Take over what `snapshot` gave. What does not fit into the capacity of today is not kept."""
        found = parts(value, "working_memory", items=list, held=int)
        kinds: dict[str, Any] = {"id": str, "content": object, "salience": NUMBER, "kind": str}
        items = [Item(**row) for row in rows(found.get("items", ()), "working_memory", **kinds)]
        kept = {id(item) for item in sorted(items, key=lambda item: -item.salience)[: self.capacity]}
        self._items = {item.id: item for item in items if id(item) in kept}
        self._held = found.get("held", len(items))
