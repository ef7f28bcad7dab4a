"""MergeConflict: a place where two sides want different things, and what each of them wants.

Values are kept as they are encoded, and decoded when somebody looks at them.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.codec.state_path import PathStep, path_text
from holdfast.objects.diff.change import short_text
from holdfast.record import Record

ConflictKind = Literal["edit/edit", "edit/remove", "remove/edit", "add/add", "type", "order"]
Side = Literal["base", "ours", "theirs"]

_NO_TYPES: Final = TypeRegistry()


class Absent:
    """The type of `ABSENT`, which stands for a value that is not there, where None would be a value."""

    def __repr__(self) -> str:
        return "<absent>"


ABSENT: Final = Absent()


class MergeConflict:
    """One place that a merge could not decide.

    `kind` is `edit/edit` (both changed it), `edit/remove` (we changed what they removed), `remove/edit` (the other way
    round), `add/add` (both added something else there), `type` (both changed it, and not to the same type) or `order`
    (both put the same things into another order). `path` is where it is in our state, or in theirs where ours has
    nothing there; `messages[3:5]` is a stretch of a list, and its values are lists, empty where a side has none of it.
    `base`, `ours` and `theirs` are the values, or `ABSENT`.
    """

    __slots__ = ("_decoded", "_types", "_values", "kind", "steps")

    def __init__(
        self,
        kind: ConflictKind,
        steps: tuple[PathStep, ...],
        values: tuple[bytes | None, bytes | None, bytes | None],
        types: TypeRegistry,
    ) -> None:
        self.kind: ConflictKind = kind
        self.steps = steps
        self._values = dict(zip(("base", "ours", "theirs"), values, strict=True))
        self._types = types
        self._decoded: dict[str, Any] = {}

    @property
    def path(self) -> str:
        """`steps` as text, in the notation of `load(path=)`; empty for the whole state."""
        return path_text(self.steps)

    @property
    def base(self) -> Any:
        """What both sides began with."""
        return self._value("base")

    @property
    def ours(self) -> Any:
        """What it is on the branch in use."""
        return self._value("ours")

    @property
    def theirs(self) -> Any:
        """What it is in the checkpoint that is merged."""
        return self._value("theirs")

    @property
    def is_stretch(self) -> bool:
        """Whether it is about a stretch of a list, so that its values are lists of items."""
        return bool(self.steps) and self.steps[-1].kind == "index" and isinstance(self.steps[-1].key, str)

    @property
    def key(self) -> tuple[Any, ...]:
        """What is the same where this is the same conflict."""
        return self.kind, self.path, *self._values.values()

    def encoded(self, side: Side) -> bytes | None:
        """The value of one side as it is encoded; None where it is absent."""
        return self._values[side]

    def plain(self, side: Side) -> Any:
        """The value of one side without any class, every object as `Opaque`: what tagged JSON is written from."""
        data = self._values[side]
        return ABSENT if data is None else decode_value(data, _NO_TYPES)

    def described(self) -> dict[str, Any]:
        """The conflict as data; a side that is absent is left out."""
        made: dict[str, Any] = {
            "path": self.path,
            "kind": self.kind,
            "steps": [[*step] for step in self.steps],
        }
        sides: tuple[Side, ...] = ("base", "ours", "theirs")
        made |= {side: self.plain(side) for side in sides if self._values[side] is not None}
        return made

    def _value(self, side: Side) -> Any:
        data = self._values[side]
        if data is None:
            return ABSENT
        if side not in self._decoded:
            self._decoded[side] = decode_value(data, self._types)
        return self._decoded[side]

    def __repr__(self) -> str:
        ours, theirs = (short_text(self.plain(side)) for side in ("ours", "theirs"))
        return f"<MergeConflict {self.kind} at {self.path or 'the whole state'}: {ours} or {theirs}>"


class MergeResolution(Record):
    """A conflict that was decided, and how: for `ours`, for `theirs`, or with a `value` of its own."""

    conflict: MergeConflict
    how: Literal["ours", "theirs", "value"]
