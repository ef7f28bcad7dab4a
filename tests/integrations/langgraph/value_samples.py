"""Values of graphs: everything that LangGraph's own serializer is said to keep, with classes of a program around it."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import ipaddress
import pathlib
import re
import uuid
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import attrs
import pydantic
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    FunctionMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)
from langchain_core.messages.base import BaseMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.store.base import Item, SearchItem
from langgraph.types import (
    Command,
    Interrupt,
    Overwrite,
    PregelTask,
    Send,
    StateSnapshot,
    TimeoutPolicy,
)


@dataclass
class Plan:
    goal: str
    steps: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Spot:
    x: int
    y: int = 0


@attrs.define
class Crate:
    label: str
    items: list[int] = attrs.Factory(list)


class Colour(enum.Enum):
    RED = "r"
    GREEN = "g"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mood(enum.StrEnum):
    GOOD = "good"


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Pair(NamedTuple):
    left: Any
    right: Any = None


class Answer(pydantic.BaseModel):
    text: str
    score: float = 0.0
    source: Spot | None = None
    when: dt.datetime | None = None
    tags: set[str] = set()


class Vault(pydantic.BaseModel):
    key: pydantic.SecretStr


class OpenModel(pydantic.BaseModel, extra="allow"):
    name: str


class Guarded(pydantic.BaseModel):
    name: str
    _count: int = pydantic.PrivateAttr(default=0)


class Note(HumanMessage):
    """A message class of the program's own."""

    urgent: bool = False


class Title(str):
    __slots__ = ()


class Bag(dict[str, Any]):
    pass


class Row(list[Any]):
    def __init__(self, *_: Any) -> None:
        raise AssertionError("nothing of the class runs")


_UTC = dt.UTC
_WHEN = dt.datetime(2026, 2, 28, 14, 32, 45, 7, tzinfo=_UTC)
_CALL = {
    "name": "search",
    "args": {"q": "π", "n": 3, "deep": {"x": [1, None]}},
    "id": "call_1",
    "type": "tool_call",
}
_USAGE = {
    "input_tokens": 5,
    "output_tokens": 7,
    "total_tokens": 12,
    "input_token_details": {"cache_read": 2},
    "output_token_details": {"reasoning": 1},
}


def row(*items: Any) -> Row:
    made = Row.__new__(Row)
    made.extend(items)
    return made


def mutated() -> AIMessage:
    """A message that was changed in place, in fields that nobody set."""
    message = AIMessage("x")
    message.additional_kwargs["a"] = 1
    message.response_metadata["b"] = {"c": [2]}
    message.tool_calls.append(_CALL)  # type: ignore[arg-type]
    return message


def private() -> Guarded:
    model = Guarded(name="x")
    model._count = 7
    return model


MESSAGES: dict[str, BaseMessage] = {
    "human": HumanMessage("hello", id="1"),
    "human with everything": HumanMessage(
        content=[
            {"type": "text", "text": "look"},
            "and",
            {"type": "image_url", "image_url": {"url": "data:;base64,AA"}},
        ],
        name="ann",
        id="h",
        additional_kwargs={"k": [1, 2.5, None]},
        response_metadata={"r": True},
        example=True,
        flavour="extra",
        nested={"a": [1]},
    ),
    "ai": AIMessage("", id="2"),
    "ai with calls": AIMessage(
        content="calling",
        id="run-1",
        tool_calls=[_CALL],
        invalid_tool_calls=[
            {"name": "x", "args": "{", "id": "call_2", "error": "bad", "type": "invalid_tool_call"}
        ],
        usage_metadata=_USAGE,
        response_metadata={"model_name": "m", "finish_reason": "tool_calls", "logprobs": None},
        additional_kwargs={"refusal": None},
    ),
    "ai with blocks": AIMessage(
        content=[
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "so", "index": 0},
        ]
    ),
    "ai, all fields set to what they are anyway": AIMessage(
        content="",
        additional_kwargs={},
        response_metadata={},
        tool_calls=[],
        invalid_tool_calls=[],
        usage_metadata=None,
    ),
    "ai, changed in place": mutated(),
    "ai chunk": AIMessageChunk(
        content="par",
        id="run-2",
        tool_call_chunks=[{"name": "s", "args": '{"a', "id": "c", "index": 0, "type": "tool_call_chunk"}],
        usage_metadata=_USAGE,  # type: ignore[arg-type]
        chunk_position="last",
    ),
    "system": SystemMessage("be good"),
    "system chunk": SystemMessageChunk(content="be"),
    "human chunk": HumanMessageChunk(content="he"),
    "chat": ChatMessage(content="x", role="judge"),
    "chat chunk": ChatMessageChunk(content="x", role="judge"),
    "function": FunctionMessage(content="1", name="f"),
    "function chunk": FunctionMessageChunk(content="1", name="f"),
    "tool": ToolMessage("42", tool_call_id="call_1", name="search", status="error"),
    "tool with an artifact": ToolMessage(
        content=["a", {"type": "text", "text": "b"}],
        tool_call_id="call_1",
        artifact={"rows": [(1, 2)], "at": _WHEN, "raw": b"\x00\xff", "ids": {1, 2}},
    ),
    "tool chunk": ToolMessageChunk(content="4", tool_call_id="call_1", artifact=Spot(1, 2)),
    "remove": RemoveMessage(id="1"),
    "remove all": RemoveMessage(id="__remove_all__"),
    "a base message": BaseMessage(content="x", type="odd"),
    "a class of the program": Note(content="x", urgent=True),
    "other languages": HumanMessage("Zażółć gęślą jaźń, žluťoučký, iğdir, 日本語 🙂"),
}

GRAPH_TYPES: dict[str, Any] = {
    "document": Document(page_content="text", metadata={"source": "a", "page": 3}, id="d1"),
    "send": Send("node", {"messages": [HumanMessage("x")], "n": 1}),
    "send with a timeout": Send("node", "arg", timeout=1.5),
    "interrupt": Interrupt(value={"question": "sure?"}, id="abc"),
    "command": Command(update={"a": [1]}, goto=[Send("n", 1), "m"], resume={"x": 1}, graph=Command.PARENT),
    "overwrite": Overwrite(value=["b"]),
    "timeout policy": TimeoutPolicy(run_timeout=2.0, refresh_on="heartbeat"),
    "item": Item(value={"a": 1}, key="k", namespace=("a", "b"), created_at=_WHEN, updated_at=_WHEN),
    "search item": SearchItem(("a",), "k", {"v": 1}, _WHEN, _WHEN, 0.5),
    "delta snapshot": _DeltaSnapshot([HumanMessage("x"), {"a": 1}]),
    "task": PregelTask("id", "name", ("__pregel_pull", "x"), None, (Interrupt(1, "i"),), None),
    "snapshot": StateSnapshot({"a": 1}, ("n",), {"configurable": {}}, None, "ts", None, (), ()),
}

PROGRAM_TYPES: dict[str, Any] = {
    "dataclass": Plan("win", ["a", "b"]),
    "frozen dataclass with slots": Spot(1, 2),
    "dataclass in a dataclass": Plan(Spot(1), [Colour.RED]),  # type: ignore[arg-type, list-item]
    "enum": Colour.GREEN,
    "int enum": Level.HIGH,
    "str enum": Mood.GOOD,
    "flags": Access.READ | Access.WRITE,
    "named tuple": Pair(1, [Pair("x")]),
    "pydantic": Answer(text="x", score=0.5, source=Spot(1, 2), when=_WHEN, tags={"a", "b"}),
    "pydantic, fields unset": Answer(text="x"),
    "pydantic, extra fields": OpenModel(name="x", more=[1]),  # type: ignore[call-arg]
    "secret in a model": Vault(key=pydantic.SecretStr("hush")),
}

PLAIN_TYPES: dict[str, Any] = {
    "none": None,
    "numbers": [0, -1, 2**63, -(2**63), 1.5, True],
    "text": "Zażółć",
    "bytes": b"\x00\xff",
    "bytearray": bytearray(b"ab"),
    "nested": {"a": [{"b": {"c": [1, "x", None]}}], "1": {}},
    "keys that are no text": {1: "a", 2.5: "b", False: "c", None: "d"},
    "tuples as keys": {(1, 2): "x"},
    "infinity": [float("inf"), float("-inf")],
    "set": {1, 2, "x"},
    "frozenset": frozenset((1, 2)),
    "deque": deque([1, 2]),
    "path": pathlib.Path("/a/b"),
    "relative path": pathlib.Path("b/c.txt"),
    "pattern": re.compile(r"a+(b|c)", re.IGNORECASE | re.MULTILINE),
    "pattern of bytes": re.compile(rb"\x00+"),
    "uuid": uuid.UUID(int=42),
    "decimal": decimal.Decimal("-1.50"),
    "ip addresses": [
        ipaddress.ip_address("10.0.0.1"),
        ipaddress.ip_address("::1"),
        ipaddress.ip_network("10.0.0.0/8"),
        ipaddress.ip_network("fe80::/64"),
        ipaddress.ip_interface("10.0.0.1/8"),
        ipaddress.ip_interface("::1/64"),
    ],
    "datetime": _WHEN,
    "datetime without a zone": dt.datetime(2026, 1, 1, 2, 3),
    "datetime with an offset": dt.datetime(2026, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30))),
    "date": dt.date(2026, 2, 28),
    "time": dt.time(23, 59, 0, 1, tzinfo=_UTC, fold=1),
    "timedelta": dt.timedelta(days=-1, seconds=5, microseconds=9),
    "timezone": dt.timezone(dt.timedelta(hours=5), "X"),
    "zone": zoneinfo.ZoneInfo("Europe/Berlin"),
    "secret": pydantic.SecretStr("hush"),
    "secret bytes": pydantic.SecretBytes(b"hush"),
}

ALL: dict[str, Any] = {**MESSAGES, **GRAPH_TYPES, **PROGRAM_TYPES, **PLAIN_TYPES}

LOST = frozenset(("tool with an artifact", "tool chunk", "task", "snapshot"))
"""Those of them that LangGraph's own serializer changes, because of a tuple or an object inside."""

BEYOND: dict[str, Any] = {
    "tuple": (1, (2, [3])),
    "ordered dict": OrderedDict(b=1, a=2),
    "default dict": defaultdict(list, {"a": [1]}),
    "counter": Counter("aab"),
    "big int": 2**100,
    "negative big int": -(2**70),
    "half a surrogate pair": "a\ud800b",
    "such a key": {"\udfff": 1},
    "deque with a limit": deque([1, 2], maxlen=4),
    "attrs": Crate("x", [1, 2]),
    "range and slice": [range(3), slice(1, None)],
    "fraction": Fraction(1, 3),
    "complex": 1 - 2j,
    "ellipsis": ...,
    "a kind of text": Title("x"),
    "a kind of dict": Bag(a=1, b=[Bag()]),
    "a kind of list": row(1, row(2)),
    "text of a message": HumanMessage("hello").text,
    "private attributes": private(),
    "a date with a zone and its fold": dt.datetime(
        2026, 10, 25, 2, 30, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"), fold=1
    ),
    "extra fields of a message that are objects": HumanMessage("x", plan=Plan("win"), pair=(1, 2)),
}
"""What it loses or refuses, and what is kept all the same."""


def told(value: Any) -> str:
    """A text of a value; what is in a set has no order, and two that are equal may give it differently."""
    if isinstance(value, set | frozenset):
        return f"{type(value)} {sorted(map(repr, value))}"
    return repr(value)
