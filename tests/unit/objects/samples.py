"""Classes of every kind that can be registered, and a registry that knows them."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import functools
from typing import Any, NamedTuple

import attrs
import pydantic
from hypothesis import strategies as st

from holdfast.objects.codec.registry import TypeRegistry


class Colour(enum.Enum):
    RED = "red"
    GREEN = ("green", 2)
    CRIMSON = "red"  # noqa: PIE796 - an alias


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mode(enum.StrEnum):
    FAST = enum.auto()


class Access(enum.Flag):
    READ = 1
    WRITE = 2
    RUN = 4


class Bits(enum.IntFlag, boundary=enum.KEEP):
    ONE = 1
    TWO = 2


@dataclasses.dataclass
class Step:
    name: str
    inputs: Any
    done: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    x: Any
    y: Any


@dataclasses.dataclass
class Counted:
    items: list[Any]
    total: int = dataclasses.field(init=False)
    _hidden: int = 3

    def __post_init__(self) -> None:
        self.total = len(self.items)

    @functools.cached_property
    def doubled(self) -> int:
        return self.total * 2


@attrs.define
class Tool:
    name: str
    options: Any = attrs.field(factory=dict)

    @functools.cached_property
    def shout(self) -> str:
        return self.name.upper()


@attrs.frozen(slots=False, cache_hash=True)
class Ref:
    _id: Any


class Pair(NamedTuple):
    left: Any
    right: Any = None


class Message(pydantic.BaseModel):
    role: str
    content: Any = None
    at: dt.datetime | None = None


class Loose(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    kind: str = "loose"
    _cache: dict[str, Any] = pydantic.PrivateAttr(default_factory=dict)
    _unset: int = pydantic.PrivateAttr()


class Matrix:
    """No kind of class that holdfast knows: it has functions of its own."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Matrix) and bool(self.rows == other.rows)

    def __hash__(self) -> int:
        return 0


SAMPLES = (Colour, Level, Mode, Access, Bits, Step, Point, Counted, Tool, Ref, Pair, Message, Loose)

TYPES = TypeRegistry()
for sample in SAMPLES:
    TYPES.register(sample)
TYPES.register(Matrix, encode=lambda matrix: matrix.rows, decode=Matrix)


def keys() -> st.SearchStrategy[Any]:
    """Objects of sample classes that can be keys and members."""
    inner = st.one_of(st.none(), st.integers(), st.text(max_size=3), st.tuples(st.integers()))
    return st.one_of(
        st.sampled_from([*Colour, *Level, *Mode, *Access, *Bits]),
        st.builds(Point, inner, inner),
        st.builds(Ref, st.integers()),
        st.builds(Pair, inner, inner),
    )


def records() -> st.SearchStrategy[Any]:
    """Objects of every sample class whose `==` `identical` can do without."""
    inner = st.one_of(
        st.none(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers(), max_size=3)
    )
    return st.one_of(
        st.sampled_from([*Colour, *Level, *Mode, *Access, *Bits]),
        st.sampled_from([Access(0), Access.READ | Access.RUN, Bits(0), Bits(3), Bits(64)]),
        st.builds(Step, st.text(max_size=5), inner, st.booleans()),
        st.builds(Point, inner, inner),
        st.builds(Counted, st.lists(inner, max_size=3)),
        st.builds(Tool, st.text(max_size=5), inner),
        st.builds(Ref, st.integers()),
        st.builds(Pair, inner, inner),
        st.builds(Message, role=st.text(max_size=5)),
        st.builds(Message, role=st.text(max_size=5), content=inner, at=st.none() | st.datetimes()),
        st.builds(
            lambda content: Loose(**content), st.dictionaries(st.sampled_from(["a", "b", "kind"]), st.text())
        ),
    )
