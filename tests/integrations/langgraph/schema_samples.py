"""States of graphs and the classes that they name, in every way that Python has of naming one."""

from __future__ import annotations

import enum
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    Optional,
    Required,
    TypedDict,
    TypeVar,
    Union,
)

import attrs
import pydantic
import typing_extensions
from langchain_core.documents import Document
from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages

if TYPE_CHECKING:
    from nowhere import Missing  # type: ignore[import-not-found]


class Colour(enum.Enum):
    RED = "r"


class Shade(enum.Enum):
    DARK = "d"


@dataclass
class Source:
    url: str


@dataclass
class Doc:
    """Names another class, and itself."""

    text: str
    source: Source | None = None
    parts: list[Doc] = field(default_factory=list)


@dataclass
class InTheClass:
    x: int = 0


@dataclass
class Step:
    name: str
    shared: ClassVar[InTheClass | None] = None


class Plan(pydantic.BaseModel):
    goal: str
    steps: list[Step] = []


class Pair(NamedTuple):
    left: Step
    right: Optional["Corner"] = None  # noqa: UP037, UP045 - one of the ways


@attrs.define
class Corner:
    x: int
    colour: Colour = Colour.RED


@dataclass
class Weight:
    kilos: float


T = TypeVar("T", bound=Weight)


class Box(pydantic.BaseModel, Generic[T]):
    content: T


@dataclass
class Heavy(Weight):
    note: str = ""


Named = NewType("Named", Pair)


class Inner(typing_extensions.TypedDict, total=False):
    plan: Required[Plan]
    left_out: Missing


class State(TypedDict):
    """Names all of the above but what is only in a class, and many plain types."""

    messages: Annotated[list[AnyMessage], add_messages]
    docs: Annotated[list[Doc], operator.add]
    inner: Inner
    pairs: Mapping[str, Sequence[Named]]
    boxes: Union[dict[str, tuple[Box[Heavy], ...]], None]  # noqa: UP007 - one of the ways
    found: Document
    shade: Literal["x", Shade.DARK]
    anything: Any
    plain: dict[str, list[int | float | bytes]]
    unknown: Missing
    call: Annotated[Missing, "no Doc"]


class Run(TypedDict):
    """A state that LangGraph, too, can make sense of."""

    docs: Annotated[list[Doc], operator.add]
    shade: Shade


TAKEN = {Colour, Shade, Source, Doc, Step, Plan, Pair, Corner, Weight, Heavy, Box[Heavy]}


@dataclass
class Loose:
    """Named nowhere."""

    x: int
