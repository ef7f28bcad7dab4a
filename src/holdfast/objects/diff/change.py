"""One change: what happened, where, and what was there before and after.

A place is a chain of steps, on both sides: an item that moved has one position in the old state and another in the new
one. Values are kept as they are encoded, and decoded when somebody looks at them.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.codec.state_path import PathStep, path_text

Op = Literal["add", "remove", "replace", "move"]

_NO_TYPES: Final = TypeRegistry()


class Place:
    """Where something is, in both states, as a chain up to the whole state."""

    __slots__ = ("new", "old", "parent", "prefix", "whole")

    def __init__(
        self,
        parent: Place | None = None,
        old: PathStep | None = None,
        new: PathStep | None = None,
        *,
        prefix: tuple[str, ...] = (),
    ) -> None:
        self.parent = parent
        self.old = old
        self.new = new
        self.prefix = prefix
        """What leads in tagged JSON from the container to where its parts are: `$value` for a tuple."""
        self.whole: bytes | None = None
        """Its new value, encoded, if no JSON pointer leads into it: a set, a dict with other keys than texts."""

    def chain(self) -> list[Place]:
        """This place and all that it lies in, outermost first, without the state itself."""
        found: list[Place] = []
        place = self
        while place.parent is not None:
            found.append(place)
            place = place.parent
        return found[::-1]

    @property
    def step(self) -> PathStep:
        """The last step to it: in the new state, or where it is there no more in the old one."""
        step = self.old if self.new is None else self.new
        assert step is not None
        return step


class Change:
    """One difference between two states.

    `op` is `add`, `remove`, `replace` or `move`. `path` is where it is, in the notation of `load(path=)`: in the new
    state, or for a removal in the old one; `old_path` is where it was, None for what was added. `steps` and `old_steps`
    are the same as data. `old` and `new` are the values; of a move the positions, counted in its list or dict.
    """

    __slots__ = ("_decoded", "_new", "_old", "_types", "item", "op", "place")

    def __init__(
        self, op: Op, place: Place, old: Any, new: Any, types: TypeRegistry, item: bytes | None = None
    ) -> None:
        self.op: Op = op
        self.place = place
        # Encoded bytes, or what is no value of the state: a position, None.
        self._old = old
        self._new = new
        self._types = types
        self._decoded: dict[str, Any] = {}
        self.item = item
        """What moved, as it is in the new state, encoded."""

    @property
    def steps(self) -> tuple[PathStep, ...]:
        """Where it is in the new state; of a removal, where it was."""
        if self.op == "remove":
            return self.old_steps or ()
        return tuple(step for each in self.place.chain() if (step := each.new) is not None)

    @property
    def old_steps(self) -> tuple[PathStep, ...] | None:
        """Where it was in the old state; None for what was added."""
        if self.op == "add":
            return None
        return tuple(step for each in self.place.chain() if (step := each.old) is not None)

    @property
    def path(self) -> str:
        """`steps` as text."""
        return path_text(self.steps)

    @property
    def old_path(self) -> str | None:
        """`old_steps` as text."""
        steps = self.old_steps
        return None if steps is None else path_text(steps)

    @property
    def old(self) -> Any:
        """What was there."""
        return self._value("old", self._old)

    @property
    def new(self) -> Any:
        """What is there now."""
        return self._value("new", self._new)

    def plain(self, side: Literal["old", "new"]) -> Any:
        """The value of one side without any class, every object as `Opaque`: what tagged JSON is written from."""
        data = self._old if side == "old" else self._new
        return decode_value(data, _NO_TYPES) if isinstance(data, bytes) else data

    def described(self) -> dict[str, Any]:
        """The change as data, with its values as they are without any class; tagged JSON is written from it."""
        old_steps = self.old_steps
        made: dict[str, Any] = {
            "op": self.op,
            "path": self.path,
            "old_path": self.old_path,
            "steps": [[*step] for step in self.steps],
            "old_steps": None if old_steps is None else [[*step] for step in old_steps],
        }
        if self.op != "add":
            made["old"] = self.plain("old")
        if self.op != "remove":
            made["new"] = self.plain("new")
        return made

    def _value(self, side: str, data: Any) -> Any:
        if not isinstance(data, bytes):
            return data
        if side not in self._decoded:
            self._decoded[side] = decode_value(data, self._types)
        return self._decoded[side]

    def __repr__(self) -> str:
        return f"<Change {self.op} {self.path or 'the whole state'}>"


def short_text(value: Any, limit: int = 40) -> str:
    """A value of any type as a few characters, without ever going deep into it."""
    if isinstance(value, str | bytes):
        text = repr(value[: limit + 1])
    elif isinstance(value, list | tuple | set | frozenset | dict):
        text = f"{type(value).__name__} of {len(value)}" if value else repr(value)
    elif isinstance(value, int) and value.bit_length() > 128:
        text = hex(value)
    else:
        try:
            text = repr(value)
        except Exception:  # noqa: BLE001 - the application's own class may raise anything
            text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else text[: limit - 3] + "..."
