"""Which classes come back from a store: those that the program names, and none because stored bytes name them."""

from __future__ import annotations

import importlib.abc
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integrations.langgraph import value_samples as samples

import holdfast
from holdfast.integrations.langgraph.types import allow, prepare

HERE = samples.__name__


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "s.db")


def save(place: str, value: Any) -> None:
    with holdfast.open(place) as store:
        prepare(store)
        store.session("s").save({"value": value, "more": [value]})


def load(store: holdfast.Store) -> Any:
    loaded = store.session("s").load()
    assert loaded["more"] == [loaded["value"]]
    return loaded["value"]


def test_a_class_that_a_graph_puts_needs_no_registration(place):
    with holdfast.open(place) as store:
        prepare(store)
        store.session("s").save({"value": samples.Plan("win"), "more": [samples.Plan("win")]})
        assert load(store) == samples.Plan("win")


def test_a_class_that_nobody_allowed_comes_back_as_its_data_with_one_warning(place):
    save(place, samples.Plan("win", ["a"]))
    with holdfast.open(place) as store:
        prepare(store)
        with pytest.warns(holdfast.HoldfastWarning) as warned:
            loaded = load(store)
        # Not again for the same class.
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert load(store) == loaded

    assert loaded == holdfast.Opaque(f"{HERE}.Plan", 1, {"goal": "win", "steps": ["a"]})
    assert len(warned) == 1
    assert f"{HERE}.Plan" in str(warned[0].message)
    assert "types=[Plan]" in str(warned[0].message)


def test_what_came_back_as_data_is_saved_again_as_it_was(place):
    save(place, samples.Plan("win"))
    with holdfast.open(place) as store:
        prepare(store)
        with pytest.warns(holdfast.HoldfastWarning):
            state = store.session("s").load()
        store.session("s").save({**state, "next": 1})
    with holdfast.open(place) as store:
        prepare(store, types=[samples.Plan])
        assert load(store) == samples.Plan("win")


@pytest.mark.parametrize(
    "value",
    [
        samples.Plan("win"),
        samples.Crate("x"),
        samples.Answer(text="x"),
        samples.Colour.RED,
        samples.Pair(1),
        samples.Note(content="x", urgent=True),
        samples.Title("x"),
        samples.row(1),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("way", ["types", "allowed class", "allowed name", "registered"])
def test_a_class_that_the_program_names_comes_back(place, value, way):
    save(place, value)
    cls = type(value)
    with holdfast.open(place) as store:
        if way == "types":
            prepare(store, types=[cls])
        elif way == "allowed class":
            allow(store, [cls])
        elif way == "allowed name":
            allow(store, {(cls.__module__, cls.__name__)})
        elif cls in (samples.Title, samples.Row):
            pytest.skip("not without functions of its own")
        else:
            # Under its own name alone; what is stored has the module in front.
            store.register(cls)
            prepare(store)
        loaded = load(store)

    assert type(loaded) is cls
    assert loaded == value


def test_a_module_that_the_program_names_is_imported_when_it_is_needed(place, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "graph_types_of_a_test.py").write_text(
        "from dataclasses import dataclass\n@dataclass\nclass Far:\n    x: int\n"
    )
    opaque = holdfast.Opaque("graph_types_of_a_test.Far", 1, {"x": 3})
    with holdfast.open(place) as store:
        store.session("s").save({"value": opaque, "more": [opaque]})
        allow(store, [("graph_types_of_a_test", "Far")])
        assert "graph_types_of_a_test" not in sys.modules
        loaded = load(store)
        module = sys.modules.pop("graph_types_of_a_test")

    assert loaded == module.Far(3)


class Watcher(importlib.abc.MetaPathFinder):
    """Notes what is looked for by an import, and finds nothing."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        self.asked.append(fullname)


@pytest.fixture
def imports() -> Iterator[Watcher]:
    watcher = Watcher()
    sys.meta_path.insert(0, watcher)
    yield watcher
    sys.meta_path.remove(watcher)


HOSTILE = [
    "os.system",
    "subprocess.Popen",
    "builtins.eval",
    "builtins.exec",
    "antigravity.fly",
    "importlib.import_module",
    "numpy.load",
    "numpy.ndarray",
    "langchain.Serializable",
    "langgraph.types.interrupt",
    "..",
    "",
    "re.compile",
    "__main__.__builtins__",
    f"{__name__}.Watcher",
    "x" * 10_000,
]


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: name[:30])
def test_bytes_that_name_code_come_back_as_data_and_import_nothing(place, name, imports):
    if name.startswith("numpy") and "numpy" in sys.modules:
        pytest.skip("the program uses numpy")
    hostile = holdfast.Opaque(name, 1, {"args": ["touch /tmp/x"], "shell": True}, None)
    with holdfast.open(place) as store:
        store.session("s").save({"value": hostile, "more": [hostile]})
    with holdfast.open(place) as store:
        prepare(store)
        before, asked = dict(sys.modules), len(imports.asked)
        with pytest.warns(holdfast.HoldfastWarning):
            loaded = load(store)
        assert not set(sys.modules) - set(before)
        assert len(imports.asked) == asked

    assert loaded == hostile


MALFORMED: dict[str, list[Any]] = {
    "langchain.HumanMessage": [None, 3, [], {}, {"id": "x"}, {1: 2, "content": "x"}],
    "langchain.Document": [{"page_content": "x", "shell": 1}, {"metadata": {}}],
    "langgraph.Send": [None, {"node": "n", "arg": 1, "shell": 1}, [1]],
    "langgraph.Interrupt": [{"valu": 1}, 5],
    "re.Pattern": [
        {},
        {"pattern": "(", "flags": 0},
        {"pattern": 3, "flags": 0},
        {"pattern": "x", "flags": "x"},
        1,
    ],
    "langchain.TextAccessor": [1, None],
    "langchain.AddableDict": [[], "x"],
}


@pytest.mark.parametrize(
    ("name", "data"), [(name, data) for name, several in MALFORMED.items() for data in several]
)
def test_bytes_that_are_no_object_of_a_known_class_are_an_error(place, name, data):
    with holdfast.open(place) as store:
        store.session("s").save({"value": [holdfast.Opaque(name, 1, data)]})
        prepare(store)
        with pytest.raises(holdfast.StateError) as refused:
            store.session("s").load()

    assert refused.value.hint
