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
from holdfast.errors import ErrorCode
from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.integrations.langgraph.importing import import_langgraph
from holdfast.integrations.langgraph.importing.likeness import alike

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


def test_a_class_whose_constructor_changes_what_it_gets_may_become_known(
    source: Path, tmp_path: Path
) -> None:
    with SqliteSaver.from_conn_string(str(source)) as saver:
        saver.put(config("t", checkpoint_ns=""), made(id="1", channel_values={"v": Counted(1)}), {}, {})
    run(source, tmp_path / "store.db", [])

    assert run(source, tmp_path / "store.db", CLASSES).threads[0].status == "unchanged"


@pytest.mark.parametrize("first", [[], CLASSES], ids=["unknown first", "known first"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Inner(n=1), Inner(n=2)),
        (Outer(inner=Inner(n=1)), Outer(inner=Inner(n=2))),
        (Open.model_validate({"n": 1, "more": 1}), Open.model_validate({"n": 1, "more": 2})),
        (Open.model_validate({"n": 1, "more": 1}), Open(n=1)),
        (Color.RED, "r"),
        (Inner(n=1), {"n": 1}),
    ],
)
def test_another_content_is_seen_all_the_same(
    before: Any, after: Any, first: list[Any], source: Path, tmp_path: Path
) -> None:
    write(source, before)
    run(source, tmp_path / "store.db", first)
    source.unlink()
    write(source, after)

    with pytest.raises(holdfast.ConflictError) as raised:
        run(source, tmp_path / "store.db", [] if first else CLASSES)

    assert raised.value.code is ErrorCode.HISTORY_DIFFERS


@pytest.mark.parametrize("name", VALUES)
def test_what_was_imported_unknown_comes_back_once_the_class_is_allowed(
    name: str, source: Path, tmp_path: Path
) -> None:
    write(source, VALUES[name])
    run(source, tmp_path / "store.db", [])

    with holdfast.open(tmp_path / "store.db") as store:
        found = HoldfastSaver(store, types=CLASSES).get_tuple(config("t"))

    assert found is not None
    assert found.checkpoint["channel_values"]["v"] == VALUES[name]
    assert found.pending_writes == [("task", "v", VALUES[name])]


def test_what_a_class_no_longer_takes_stays_data_and_the_thread_readable(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(source, Color.BLUE)
    run(source, tmp_path / "store.db", [])
    Lesser = enum.Enum("Lesser", {"RED": "r"}, module=__name__, qualname="Color")
    monkeypatch.setattr("tests.integrations.langgraph.test_import_classes.Color", Lesser, raising=False)

    with holdfast.open(tmp_path / "store.db") as store:
        saver = HoldfastSaver(store, types=[Lesser])
        with pytest.warns(holdfast.HoldfastWarning, match="does not take what LangGraph wrote"):
            found = saver.get_tuple(config("t"))

    assert found is not None
    value = found.checkpoint["channel_values"]["v"]
    assert isinstance(value, holdfast.Opaque)
    assert (value.version, value.data) == (0, "b")


def test_classes_are_counted_where_they_are_saved_and_not_where_they_are_compared(
    source: Path, tmp_path: Path
) -> None:
    name = f"{Inner.__module__}.Inner"
    write(source, Inner(n=1))

    tried = run(source, tmp_path / "store.db", [], dry_run=True)
    first = run(source, tmp_path / "store.db", [])
    second = run(source, tmp_path / "store.db", [])
    write(source, [Inner(n=1), Inner(n=2)], number="2")
    third = run(source, tmp_path / "store.db", [])

    # One in the checkpoint, and one in a write; then two in each.
    assert [each.opaque for each in (tried, first, second, third)] == [{name: 2}, {name: 2}, {}, {name: 4}]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (holdfast.Opaque("m.C", 1, "RED"), holdfast.Opaque("m.C", 0, "r"), True),
        (holdfast.Opaque("m.C", 0, "b"), holdfast.Opaque("m.C", 0, "r"), False),
        (holdfast.Opaque("m.C", 1, "RED"), holdfast.Opaque("m.D", 0, "r"), False),
        (holdfast.Opaque("m.C", 1, {"a": (1,)}), holdfast.Opaque("m.C", 0, {"a": [1]}), True),
        (holdfast.Opaque("m.C", 1, {"a": (1,)}), holdfast.Opaque("m.C", 0, {"a": [1, 2]}), False),
        (
            {"a": holdfast.Opaque("m.C", 1, {"b": holdfast.Opaque("m.D", 1, {})})},
            {"a": holdfast.Opaque("m.C", 0, {"b": {}})},
            True,
        ),
        ({"a": holdfast.Opaque("m.D", 1, {})}, {"a": {}}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, False),
        ([1, 2], (1, 2), False),
        ([1], [True], False),
    ],
)
def test_what_is_alike(one: Any, other: Any, expected: bool) -> None:
    def same(one: Any, other: Any) -> bool:
        return type(one) is type(other) and bool(one == other)

    assert alike(one, other, same) is expected
    assert alike(other, one, same) is expected
