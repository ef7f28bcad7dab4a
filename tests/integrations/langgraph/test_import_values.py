"""What LangGraph's serializer wrote is read without LangGraph's reviver: the same values, and no code from bytes."""

from __future__ import annotations

import contextlib
import enum
import json
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ormsgpack
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Interrupt
from tests.integrations.langgraph import value_samples as samples
from tests.integrations.langgraph.import_sources import put_row

import holdfast
from holdfast.errors import ErrorCode, HoldfastError, HoldfastWarning
from holdfast.integrations.langgraph.safe_serde import SafeSerializer
from holdfast.integrations.langgraph.types import knows, prepare

SERDE = JsonPlusSerializer(allowed_msgpack_modules=True)


@dataclass
class Step:
    title: str
    parts: Any = None


class Shade(enum.Enum):
    DARK = "d"
    LIGHT = 2


class Inner(pydantic.BaseModel):
    x: int


class Outer(pydantic.BaseModel):
    name: str
    inner: Inner
    pair: tuple[int, int] = (1, 2)


class Flat(pydantic.BaseModel):
    name: str
    shade: Shade = Shade.DARK


@pytest.fixture
def store(tmp_path: Any) -> Any:
    with holdfast.open(tmp_path / "store.db") as opened:
        prepare(opened)
        yield opened


def decoder_of(store: holdfast.Store) -> SafeSerializer:
    return SafeSerializer(knows(store))


def written(value: Any) -> tuple[str, bytes]:
    with warnings.catch_warnings():
        # LangChain's messages warn about what they are made of.
        warnings.simplefilter("ignore")
        return SERDE.dumps_typed(value)


def wanted(kind: str, data: bytes) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SERDE.loads_typed((kind, data))


KNOWN = [
    Step,
    Shade,
    Inner,
    Outer,
    Flat,
    *(
        vars(samples)[name]
        for name in (
            "Plan",
            "Spot",
            "Colour",
            "Level",
            "Mood",
            "Access",
            "Pair",
            "Answer",
            "Vault",
            "OpenModel",
            "Guarded",
            "Note",
        )
    ),
]


def able() -> list[str]:
    """The samples that LangGraph's serializer can write."""
    found = []
    for name, value in samples.ALL.items():
        try:
            written(value)
        except Exception:
            continue
        found.append(name)
    return found


@pytest.mark.parametrize("name", able())
def test_a_value_is_what_langgraph_makes_of_its_bytes(store: holdfast.Store, name: str) -> None:
    prepare(store, KNOWN)
    kind, data = written(samples.ALL[name])

    found = decoder_of(store).loads_typed((kind, data))

    like = wanted(kind, data)
    assert type(found) is type(like)
    assert samples.told(found) == samples.told(like)
    if like == like:
        assert found == like
    # And the store keeps it.
    session = store.session("values")
    session.save({"value": found})
    assert samples.told(session.load()["value"]) == samples.told(like)


JSON_LIKE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text() | st.integers(-9, 9), inner)
        | st.builds(Step, st.text(), inner)
        | st.frozensets(st.integers() | st.text())
        | st.datetimes()
        | st.builds(Interrupt, inner, st.text())
    ),
    max_leaves=12,
)


@given(JSON_LIKE)
def test_any_value_is_what_langgraph_makes_of_its_bytes(value: Any) -> None:
    try:
        kind, data = written(value)
    except (TypeError, ValueError):
        # Beyond what msgpack has numbers for.
        return
    with holdfast.open("memory:") as store:
        prepare(store, KNOWN)
        assert decoder_of(store).loads_typed((kind, data)) == wanted(kind, data)


@given(st.binary(max_size=200), st.integers(0, 8))
def test_any_bytes_are_a_value_or_an_error_of_ours(data: bytes, code: int) -> None:
    with holdfast.open("memory:") as store:
        decoder = decoder_of(store)
        for content in (data, ormsgpack.packb(ormsgpack.Ext(code, data))):
            for kind in ("msgpack", "json"):
                with contextlib.suppress(HoldfastError):
                    decoder.loads_typed((kind, content))


@pytest.mark.parametrize(
    "value",
    [
        Step("a", [1, {"k": Step("b")}]),
        Shade.DARK,
        Shade.LIGHT,
        Outer(name="o", inner=Inner(x=1), pair=(3, 4)),
        Flat(name="f", shade=Shade.LIGHT),
        samples.Pair(1, Shade.DARK),
        samples.Access.READ | samples.Access.WRITE,
        samples.Note(content="hi", urgent=True, odd="extra"),  # type: ignore[call-arg]
    ],
    ids=repr,
)
def test_an_object_of_an_unknown_class_is_data_and_comes_back_once_it_is_allowed(
    store: holdfast.Store, value: Any
) -> None:
    decoder = decoder_of(store)
    kept = decoder.loads_typed(written(value))
    name = f"{type(value).__module__}.{type(value).__name__}"
    assert type(kept) is holdfast.Opaque
    assert kept.name == name
    assert name in decoder.opaque

    session = store.session("values")
    session.save({"value": kept})
    with pytest.warns(HoldfastWarning, match="came back as holdfast.Opaque"):
        assert session.load()["value"] == kept
    prepare(store, KNOWN)
    back = session.load()["value"]
    assert (type(back), back) == (type(value), value)


class TestOldJson:
    """Databases from before msgpack."""

    def test_messages_are_objects(self, store: holdfast.Store) -> None:
        value = {"messages": [HumanMessage("hi", id="1"), AIMessage("ho", id="2")]}
        data = json.dumps(dumpd(value)).encode()

        assert decoder_of(store).loads_typed(("json", data)) == value

    @pytest.mark.parametrize(
        ("path", "content", "shown"),
        [
            (
                ["datetime", "datetime"],
                {"method": "fromisoformat", "args": ["2026-01-02T03:04:05+00:00"]},
                "2026-01-02",
            ),
            (["uuid", "UUID"], {"args": ["12345678123456781234567812345678"]}, "UUID"),
            (["builtins", "set"], {"args": [[1, 2]]}, "{1, 2}"),
            (["datetime", "timedelta"], {"args": [1, 2, 3]}, "1, seconds=2"),
            (["pathlib", "PosixPath"], {"args": ["a", "b"]}, "a/b"),
            (["re", "compile"], {"args": ["a+", 32]}, "a+"),
            (["langgraph", "types", "Send"], {"args": ["node", {"n": 1}]}, "Send(node='node'"),
            (["os", "system"], {"args": ["echo"]}, "Opaque(name='os.system', version=0, data='echo'"),
            (["langchain", "no", "Such"], {"kwargs": {"a": 1}}, "Opaque(name='langchain.no.Such'"),
        ],
    )
    def test_others_are_what_their_place_says(
        self, store: holdfast.Store, path: Any, content: Any, shown: str
    ) -> None:
        data = json.dumps({"x": {"lc": 2, "type": "constructor", "id": path, **content}}).encode()

        assert shown in str(decoder_of(store).loads_typed(("json", data))["x"]) + repr(
            decoder_of(store).loads_typed(("json", data))["x"]
        )


HOSTILE: dict[str, Any] = {
    "a function": (0, ["os", "system", "touch MARK"]),
    "a function with arguments": (1, ["os", "system", ["touch MARK"]]),
    "a function with names": (2, ["subprocess", "Popen", {"args": ["touch", "MARK"]}]),
    "a method": (3, ["pathlib", "Path", "MARK", "touch"]),
    "a model": (4, ["hostile_module_for_tests", "Model", {"x": 1}]),
    "another model": (5, ["hostile_module_for_tests", "Model", {"x": 1}, "model_validate_json"]),
    "a module that does what it is asked for": (0, ["lazy_module_for_tests", "anything", 1]),
    "a class that is there and not allowed": (0, ["lazy_module_for_tests", "Eager", 1]),
    "builtins": (0, ["builtins", "eval", "open('MARK', 'w')"]),
    "a date of pickled bytes": (1, ["datetime", "date", [b"\x07\xea\x01\x02"]]),
    "a time zone of a module": (0, ["zoneinfo", "ZoneInfo", "some.where/Zone"]),
    "a pattern that talks": (1, ["re", "compile", ["a", 128]]),
    "a number of many digits": (0, ["decimal", "Decimal", "9" * 200_000]),
    "an array of objects": (6, ["|O", [1], "C", b"12345678"]),
}


def test_hostile_values_run_no_code_and_import_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    (tmp_path / "hostile_module_for_tests.py").write_text(f"open({str(mark)!r}, 'w')\n", encoding="utf-8")
    (tmp_path / "lazy_module_for_tests.py").write_text(
        f"def __getattr__(name):\n    open({str(mark)!r}, 'w')\n\n\n"
        f"class Eager:\n    def __init__(self, *_):\n        open({str(mark)!r}, 'w')\n",
        encoding="utf-8",
    )
    for name, (code, content) in HOSTILE.items():
        # Texts of the same length, so that the bytes stay what they are.
        packed = ormsgpack.packb(content).replace(b"MARK", b"mark")
        data = ormsgpack.packb({"v": 4, "channel_values": {"x": ormsgpack.Ext(code, packed)}})
        put_row(tmp_path / "source.sqlite", "msgpack", data, thread=name)
    put_row(
        tmp_path / "plain.sqlite", "msgpack", ormsgpack.packb({"v": 4, "channel_values": {}}), thread="plain"
    )
    program = """
import sys, warnings
import holdfast
import lazy_module_for_tests
from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.integrations.langgraph.import_saver import import_langgraph

warnings.simplefilter("ignore")
with holdfast.open("store.db") as store:
    saver = HoldfastSaver(store)
    # What holdfast itself loads for large texts.
    store.session("large").save("9" * 300_000)
    # LangGraph's own saver, and what it loads when it is first used.
    import_langgraph("plain.sqlite", store)
    loaded = set(sys.modules)
    report = import_langgraph("source.sqlite", store)
    for each in report.threads:
        found = saver.get_tuple({"configurable": {"thread_id": each.id}})
        assert "x" in found.checkpoint["channel_values"], each.id
    new = {each for each in set(sys.modules) - loaded if not each.startswith("holdfast.")}
    assert not new, new
    print(len(report.threads))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"{len(HOSTILE)}\n"), done.stderr
    assert not mark.exists()
    assert not [each for each in tmp_path.iterdir() if "mark" in each.name]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("pickle", "is a pickle"),
        ("msgpack+aes", "is encrypted"),
        ("yaml", "of the kind 'yaml'"),
        (None, "of the kind None"),
    ],
)
def test_other_kinds_are_refused(store: holdfast.Store, kind: Any, said: str) -> None:
    with pytest.raises(HoldfastError, match=said) as refused:
        decoder_of(store).loads_typed((kind, b"cos\nsystem\n(S'true'\ntR."))
    assert refused.value.code is ErrorCode.VALUE_UNSUPPORTED
