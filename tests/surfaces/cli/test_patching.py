"""`create --state` and `create --patch`: a person's JSON becomes the state that it stands for, types and all."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter, OrderedDict, deque
from copy import deepcopy
from dataclasses import dataclass
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from tests.surfaces.cli.places import place
from tests.values import identical, values

import holdfast
from holdfast.errors import ConflictError, ErrorCode, InvalidInputError
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.codec.tagged_json import from_json, json_form
from holdfast.objects.diff.diff import diff_values
from holdfast.objects.diff.json_patch import apply_patch, check_patch


def patched(state, *operations):
    return from_json(apply_patch(json_form(state), list(operations), "patch.json"))


def op(name, path, **members):
    return {"op": name, "path": path, **members}


@pytest.mark.parametrize(
    ("state", "operations", "wanted"),
    [
        ({"foo": "bar"}, [op("add", "/baz", value="qux")], {"foo": "bar", "baz": "qux"}),
        ({"foo": ["a", "b"]}, [op("add", "/foo/1", value="c"), op("remove", "/foo/0")], {"foo": ["c", "b"]}),
        ({"a": {"x": 1}}, [op("move", "/b", **{"from": "/a/x"})], {"a": {}, "b": 1}),
        (
            {"a": [1]},
            [op("copy", "/b", **{"from": "/a"}), op("add", "/b/-", value=2)],
            {"a": [1], "b": [1, 2]},
        ),
        ({"/": 9, "~1": 10}, [op("test", "/~01", value=10), op("test", "/~1", value=9)], {"/": 9, "~1": 10}),
        ({"foo": 1}, [op("replace", "", value=[1]), op("add", "/0", value=0)], [0, 1]),
        # Into what JSON has no word for, with `$value` and without.
        ({"t": (1, (2, [3]))}, [op("replace", "/t/$value/1/$value/0", value=9)], {"t": (1, (9, [3]))}),
        ({"t": (1, (2, [3]))}, [op("add", "/t/1/1/-", value=4)], {"t": (1, (2, [3, 4]))}),
        ({"d": deque([1], maxlen=3)}, [op("add", "/d/0", value=0)], {"d": deque([0, 1], maxlen=3)}),
        ({"s": {1, 2}}, [op("add", "/s/-", value=3)], {"s": {1, 2, 3}}),
        ({"o": OrderedDict(a=1, b=2)}, [op("replace", "/o/a", value=5)], {"o": OrderedDict(a=5, b=2)}),
        ({"c": Counter(a=1, b=2)}, [op("remove", "/c/a")], {"c": Counter(b=2)}),
        (
            {"p": holdfast.Opaque("Plan", 1, {"goal": "x", "steps": (1,)})},
            [op("replace", "/p/goal", value="y"), op("add", "/p/steps/0", value=0)],
            {"p": holdfast.Opaque("Plan", 1, {"goal": "y", "steps": (0, 1)})},
        ),
        (
            {},
            [op("add", "/at", value={"$type": "date", "$value": "2026-11-18"})],
            {"at": dt.date(2026, 11, 18)},
        ),
        ({}, [op("add", "/x", value={"$type": "date"})], {"x": {"$type": "date"}}),
    ],
)
def test_an_operation_does_what_it_says_and_keeps_types(state, operations, wanted):
    assert identical(patched(deepcopy(state), *operations), wanted)


@pytest.mark.parametrize(
    ("state", "operation"),
    [
        ({"a": 1}, op("test", "/a", value=2)),
        ({"a": 1}, op("test", "/a", value=True)),
        ({"goal": 1}, op("remove", "/gaol")),
        ({"goal": 1}, op("replace", "/x", value=1)),
        ({"a": [1]}, op("add", "/a/2", value=1)),
        ({"a": [1]}, op("replace", "/a/-", value=1)),
        ({"a": [1]}, op("add", "/a/01", value=1)),
        ({"a": 1}, op("add", "/a/b", value=1)),
        ({"a": "text"}, op("replace", "/a/0", value="t")),
        ({"a": {}}, op("add", "/a/b/c", value=1)),
        ({"a": 1}, op("remove", "")),
        ({"a": 1}, op("copy", "/b", **{"from": "/c"})),
        ({"a": {"b": 1}}, op("move", "/a/b", **{"from": "/a"})),
    ],
)
def test_an_operation_that_does_not_fit_is_named(state, operation):
    with pytest.raises(ConflictError, match=rf"operation 2 \({operation['op']} ") as caught:
        patched(None, op("add", "", value=state), operation)

    assert caught.value.code is ErrorCode.PATCH_FAILED
    assert caught.value.details["operation"] == 2


@pytest.mark.parametrize(
    "document",
    [
        {"op": "add"},
        "text",
        [1],
        [{}],
        [op("ad", "/a", value=1)],
        [op(["add"], "/a", value=1)],
        [{"op": "remove"}],
        [op("add", "/a")],
        [op("move", "/a")],
        [op("remove", "a")],
        [op("remove", 1)],
        [op("copy", "/a", **{"from": "b"})],
    ],
)
def test_what_is_not_a_patch_is_refused(document):
    with pytest.raises(InvalidInputError, match=r"^patch\.json") as caught:
        check_patch(document, "patch.json")

    assert caught.value.hint


@dataclass
class Plan:
    goal: str
    steps: tuple[int, ...]


class Note(BaseModel):
    text: str
    at: dt.datetime


TYPED = {
    "plan": Plan("win", (1, 2)),
    "note": Note(text="a", at=dt.datetime(2026, 11, 18, tzinfo=dt.UTC)),
    "cost": Decimal("1.10"),
    "seen": {("a", 1)},
    "table": {1: "x", (2, 3): "y"},
    "looks like a tag": {"$type": "tuple", "$value": [1]},
}


def edited(state):
    new = deepcopy(state)
    new["plan"].goal, new["plan"].steps = "draw", (1, 2, 3)
    new["note"].text = "b"
    new["cost"] = Decimal("2.20")
    new["seen"].add(("b", 2))
    new["table"][(2, 3)] = "z"
    new["looks like a tag"]["$value"] = [2]
    return new


def test_the_patch_that_diff_prints_is_taken_by_create(run, home):
    with holdfast.open(place(home), types=[Plan, Note]) as store:
        session = store.session()
        session.save(TYPED)
        wanted = session.save(edited(TYPED)).root
        session.restore("#1")
    (home / "patch.json").write_text(run("diff", "#1", "#2", "--patch").stdout, encoding="utf-8")

    result = run("create", "patched", "--patch", "patch.json")

    assert result.exit_code == 0, result.stderr
    with holdfast.open(place(home), types=[Plan, Note]) as store:
        assert store.session().checkpoint().root == wanted
        assert store.session().load() == edited(TYPED)


def test_the_state_that_show_prints_is_taken_by_create(run, home):
    with holdfast.open(place(home), types=[Plan, Note]) as store:
        root = store.session().save(TYPED).root
    (home / "state.json").write_text(run("show", "--state", "--json").stdout, encoding="utf-8")

    result = run("create", "again", "--state", "state.json", "--session", "other")

    assert result.exit_code == 0, result.stderr
    with holdfast.open(place(home)) as store:
        assert store.session("other").checkpoint().root == root


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"a": [{"$type": "nothing", "$value": 1}]}, "/a/0"),
        ({"a": {"$type": "datetime", "$value": "noon"}}, "/a"),
        ({"$type": "int", "$value": 1}, "the value"),
    ],
)
def test_a_tag_that_says_nothing_is_refused_with_its_place(run, home, given, where):
    (home / "state.json").write_text(json.dumps(given), encoding="utf-8")
    (home / "patch.json").write_text(json.dumps([op("add", "", value=given)]), encoding="utf-8")

    for result in (run("create", "x", "--state", "state.json"), run("create", "x", "--patch", "patch.json")):
        assert result.exit_code == 2
        assert f": {where}: " in result.stderr
    assert not (home / ".holdfast").exists()


NOBODY = TypeRegistry()


@given(values(), values())
def test_the_patch_of_any_two_values_makes_one_of_the_other(old, new):
    made = json.loads(json.dumps(diff_values(old, new, NOBODY).json_patch()))
    back = from_json(apply_patch(json_form(deepcopy(old)), made, "it"))
    # All but the order of keys, which is no part of JSON.
    assert not [change for change in diff_values(back, new, NOBODY) if change.op != "move"]


KEYS = st.sampled_from(["a", "b", "a/b", "m~n", "", "0"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


@given(JSON)
def test_no_document_does_anything_but_parse_or_be_refused(document):
    with pytest.raises(InvalidInputError) if document != [] else pytest.MonkeyPatch().context():
        check_patch(document, "x")


@pytest.fixture
def session(home):
    with holdfast.open(place(home)) as store:
        session = store.session()
        session.save({"goal": "x", "pair": (1, 2), "seen": {3}, "tried": [1]}, "by the agent")
        yield session


def write(home, *operations):
    (home / "patch.json").write_text(json.dumps(operations), encoding="utf-8")


def test_a_patch_can_come_from_stdin_and_the_plan_of_a_dry_run_is_the_same(run, session):
    text = json.dumps([op("replace", "/goal", value="y")])

    dry = json.loads(run("create", "x", "--patch", "-", "--dry-run", "--json", input=text).stdout)
    assert session.load()["goal"] == "x"
    real = json.loads(run("create", "x", "--patch", "-", "--json", input=text).stdout)

    assert dry["plan"] == real["plan"]
    assert real["plan"]["state"]["source"] == "patch"
    assert session.load()["goal"] == "y"


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_a_patch_that_fails_half_way_saves_nothing(run, home, session, dry):
    write(home, op("replace", "/goal", value="changed"), op("test", "/tried/0", value=7))

    result = run("create", "x", "--patch", "patch.json", *dry)

    assert result.exit_code == 5
    assert "operation 2 (test /tried/0) does not fit the state" in result.stderr
    assert "code: patch-failed" in result.stderr
    assert len(session.log()) == 1
    assert session.load()["goal"] == "x"


@pytest.mark.parametrize(
    ("text", "code"),
    [("{}", 2), ("[{]", 2), ('[{"op": "add"}]', 2), ('[{"op": "remove", "path": "/no"}]', 5)],
)
def test_a_bad_patch_leaves_no_store_behind(run, home, text, code):
    (home / "patch.json").write_text(text, encoding="utf-8")

    assert run("create", "x", "--patch", "patch.json").exit_code == code
    assert run("create", "x", "--patch", "missing.json").exit_code == 2
    assert not (home / ".holdfast").exists()


def test_in_a_new_session_the_patch_starts_from_nothing(run, home):
    write(home, op("add", "/n", value=1))

    result = run("create", "x", "--patch", "patch.json")

    assert result.exit_code == 0, result.stderr
    assert json.loads(run("show", "--state", "--json").stdout) == {"n": 1}


def test_a_state_and_a_patch_exclude_each_other(run, home):
    write(home)

    assert run("create", "x", "--patch", "patch.json", "--state", "patch.json").exit_code == 2


def test_patches_beside_each_other_all_arrive(process, home):
    from concurrent.futures import ThreadPoolExecutor

    process("create", "start", "--state", "-", stdin='{"items": []}')
    write(home, op("add", "/items/-", value="x"))
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda n: process("create", f"{n}", "--patch", "patch.json"), range(8)))

    assert [each.stderr for each in done if each.returncode] == []
    with holdfast.open(place(home)) as store:
        assert store.session().load() == {"items": ["x"] * 8}
