"""One change: what happened, where, and what was there before and after.

A place is a chain of steps, on both sides: an item that moved has one position in the old state and another in the new
one. Values are kept as they are encoded, and decoded when somebody looks at them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.paths import is_plain, quoted
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.record import Record

if TYPE_CHECKING:
    from holdfast.objects.diffing.encoded import Encoded

Op = Literal["add", "remove", "replace", "move"]
StepKind = Literal["key", "index", "field", "member", "extra"]

T = TypeVar("T")

_NO_TYPES: Final = TypeRegistry()


class PathStep(Record):
    """One step of a path.

    `kind` is key (of a mapping), index (of a list, tuple or deque), field (of an object), member (of a set: the member
    itself), or extra (what the class of an object keeps beside its fields).
    """

    kind: StepKind
    key: Any


class Excerpt(Record):
    """What differs of a long text or of long bytes; the rest of it is the same and was not read.

    Load the whole of it with the path of the change.
    """

    parts: tuple[Any, ...]
    """The parts that differ, from the beginning to the end; the other side has one for each."""
    offsets: tuple[int, ...]
    """Where each begins, in encoded bytes from the beginning of the value."""
    size: int
    """Encoded bytes of the whole value."""


class Whole:
    """A container that a JSON patch may have to replace as a whole, because no JSON pointer leads into it."""

    __slots__ = ("certain", "place", "value")

    def __init__(self, place: Place, value: Encoded | None, *, certain: bool) -> None:
        self.place = place
        self.value = value
        """As it is in the new state; None where it has not been read."""
        self.certain = certain
        """False for a dict of which not all keys are known: one of them may be `$type`."""


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
        whole: Whole | None = None,
    ) -> None:
        self.parent = parent
        self.old = old
        self.new = new
        self.prefix = prefix
        """What leads in tagged JSON from the container to where its parts are: `$value` for a tuple."""
        self.whole = whole

    def chain(self, last: int | None = None) -> list[Place]:
        """This place and all that it lies in, outermost first, without the state itself; or only so many of them."""
        found: list[Place] = []
        place: Place | None = self
        while place is not None and place.parent is not None and len(found) != last:
            found.append(place)
            place = place.parent
        return found[::-1]

    @property
    def step(self) -> PathStep:
        """The last step to it: in the new state, or where it is there no more in the old one."""
        step = self.old if self.new is None else self.new
        assert step is not None
        return step


class Inherited(Generic[T]):
    """Something that a place has from what it lies in, found once for each place, however deep they lie.

    Args:
        first: What the whole state has.
        passed_on: What a place makes of what the one around it has.
    """

    def __init__(self, first: T, passed_on: Callable[[T, Place], T]) -> None:
        self._first = first
        self._passed_on = passed_on
        # Kept with its place, whose id is its own as long as it is there.
        self._known: dict[int, tuple[Place, T]] = {}

    def of(self, place: Place) -> T:
        """What this place has."""
        waiting: list[Place] = []
        here: Place | None = place
        while here is not None and here.parent is not None and id(here) not in self._known:
            waiting.append(here)
            here = here.parent
        value = self._first if here is None or here.parent is None else self._known[id(here)][1]
        for each in reversed(waiting):
            value = self._passed_on(value, each)
            self._known[id(each)] = (each, value)
        return value


class Change:
    """One difference between two states.

    `op` is `add`, `remove`, `replace` or `move`. `path` is where it is, in the notation of `load(path=)`: in the new
    state, or for a removal in the old one; `old_path` is where it was, None for what was added. `steps` and `old_steps`
    are the same as data. `old` and `new` are the values; of a move the positions, counted in its list or dict. Of two
    texts or bytes of more than 16 KB that have stored pieces in common, both are an `Excerpt` (`partial`), unless whole
    values were asked for.
    """

    __slots__ = ("_decoded", "_new", "_old", "_types", "op", "place")

    def __init__(self, op: Op, place: Place, old: Any, new: Any, types: TypeRegistry) -> None:
        self.op: Op = op
        self.place = place
        # Encoded bytes, or what is no value of the state: an Excerpt, a position, None.
        self._old = old
        self._new = new
        self._types = types
        self._decoded: dict[str, Any] = {}

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

    @property
    def partial(self) -> bool:
        """Whether old and new are excerpts."""
        return isinstance(self._new, Excerpt)

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
            made["old"] = _described(self.plain("old"))
        if self.op != "remove":
            made["new"] = _described(self.plain("new"))
        if self.partial:
            made["partial"] = True
        return made

    def _value(self, side: str, data: Any) -> Any:
        if not isinstance(data, bytes):
            return data
        if side not in self._decoded:
            self._decoded[side] = decode_value(data, self._types)
        return self._decoded[side]

    def __repr__(self) -> str:
        return f"<Change {self.op} {self.path or 'the whole state'}>"


def _described(value: Any) -> Any:
    if not isinstance(value, Excerpt):
        return value
    return {"parts": [*value.parts], "offsets": [*value.offsets], "size": value.size}


def path_text(steps: Sequence[PathStep]) -> str:
    """A path in the notation of `load(path=)`.

    That has no words for keys that are no text, nor for members of sets: these are in braces, `scores{1}`.
    """
    return "".join(_texts(steps))


def _texts(steps: Sequence[PathStep]) -> Iterator[str]:
    for number, step in enumerate(steps):
        if step.kind == "index":
            yield f"[{step.key}]"
        elif step.kind == "extra":
            yield "{extra}"
        elif type(step.key) is not str or step.kind == "member":
            yield f"{{{short_text(step.key)}}}"
        elif is_plain(step.key):
            yield f".{step.key}" if number else step.key
        else:
            yield quoted(step.key)


def short_text(value: Any, limit: int = 40) -> str:
    """A value of any type as a few characters, without ever going deep into it."""
    if isinstance(value, str | bytes):
        text = repr(value[: limit + 1])
    elif isinstance(value, list | tuple | set | frozenset | dict):
        text = f"{type(value).__name__} of {len(value)}" if value else repr(value)
        if len(value) <= 3 and isinstance(value, tuple | frozenset):
            inner = ", ".join(short_text(item, 12) for item in value)
            text = f"({inner}{',' * (len(value) == 1)})" if isinstance(value, tuple) else f"{{{inner}}}"
    elif isinstance(value, int) and value.bit_length() > 128:
        text = hex(value)
    else:
        try:
            text = repr(value)
        except Exception:  # noqa: BLE001 - the application's own class may raise anything
            text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else text[: limit - 3] + "..."
