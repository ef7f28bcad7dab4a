"""Imports with and without the classes of the program, in either order: what is there stays readable, and the same."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic
import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from tests.integrations.langgraph.import_sources import config, made

import holdfast
from holdfast.integrations.langgraph.import_saver import import_langgraph

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.HoldfastWarning")


class Color(enum.Enum):
    RED = "r"
    BLUE = "b"
    PAIR = (1, 2)


@dataclass
class Counted:
    """Its constructor makes something else of what was stored."""

    n: int

    def __post_init__(self) -> None:
        self.n += 1


class Inner(pydantic.BaseModel):
    n: int = 1


class Outer(pydantic.BaseModel):
    inner: Inner
    several: list[Inner] = []
    pair: tuple[int, int] = (1, 2)


class Open(pydantic.BaseModel, extra="allow"):
    n: int = 1


CLASSES = [Color, Counted, Inner, Outer, Open]
VALUES: dict[str, Any] = {
    "enum": Color.RED,
    "enum of a tuple": Color.PAIR,
    "constructor": Counted(1),
    "model": Inner(n=4),
    "models in a model": Outer(inner=Inner(), several=[Inner(n=3)]),
    "extra fields": Open.model_validate({"n": 2, "more": 5}),
    "extra fields with more in them": Open.model_validate({"n": 2, "more": [5]}),
    "in a dict": {"list": [Color.RED, Outer(inner=Inner())]},
}


def write(source: Path, value: Any, *, number: str = "1") -> None:
    with SqliteSaver.from_conn_string(str(source)) as saver:
        where = config("t", checkpoint_ns="")
        where = saver.put(where, made(id=number, ts="x", channel_values={"v": value}), {}, {})
        saver.put_writes(where, [("v", value)], "task")


def run(source: Path, target: Path, types: list[Any], **options: Any) -> Any:
    with holdfast.open(target, durability="process") as store:
        return import_langgraph(source, store, types=types, **options)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints.sqlite"


@pytest.mark.parametrize("name", [name for name in VALUES if name != "constructor"])
@pytest.mark.parametrize("first", [[], CLASSES], ids=["unknown first", "known first"])
def test_an_import_is_the_same_whether_classes_are_known_or_not(
    name: str, first: list[Any], source: Path, tmp_path: Path
) -> None:
    write(source, VALUES[name])
    run(source, tmp_path / "store.db", first)

    again = run(source, tmp_path / "store.db", [] if first else CLASSES)

    assert [each.status for each in again.threads] == ["unchanged"]
