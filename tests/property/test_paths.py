"""Writing and reading a path are inverses of each other, whatever a key is: what diff names can be loaded."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.values import hashables, identical

import holdfast
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.codec.state_path import PathStep, parse_path, path_text
from holdfast.objects.merge.states import merge_values
from holdfast.reports.text import from_json, json_form, replace_part

TYPES = TypeRegistry()
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=12)
AWKWARD = st.text("'\"][#.\\:*{}a0\n\r\u2028\ud800 ", max_size=12)
KEYS = ANY_TEXT | AWKWARD

ODD = [
    "",
    "a\nb",
    "a'].b\"].c",
    "'#]\"]']\"#]",
    "'",
    '"',
    "']",
    "'#",
    "#'",
    "\ud800",
    "0",
    "-1",
    "1:2",
    "*",
    "a\\",
    "[*]",
    "a.b",
    "{1}",
]


@given(st.lists(KEYS | st.integers(0, 99), min_size=1, max_size=5))
@example(ODD)
def test_a_path_leads_back_to_its_steps(keys):
    steps = [PathStep("index" if isinstance(key, int) else "key", key) for key in keys]

    assert parse_path(path_text(steps)) == keys


@given(st.lists(KEYS, min_size=1, max_size=5))
@example(ODD)
def test_a_path_is_a_rule_of_a_merge_for_itself_and_for_nothing_else(keys):
    def nested(value, keys=keys):
        for key in reversed(keys):
            value = {key: value, f"{key}x": 0}
        return value

    steps = [PathStep("key", key) for key in keys]
    (conflict,) = merge_values([nested(1)], nested(2), nested(3), TYPES).conflicts

    assert conflict.path == path_text(steps)
    assert merge_values([nested(1)], nested(2), nested(3), TYPES, {conflict.path: "theirs"}).value == nested(
        3
    )
    other = path_text([*steps[:-1], PathStep("key", f"{keys[-1]}x")])
    assert merge_values([nested(1)], nested(2), nested(3), TYPES, {other: "theirs"}).conflicts


@given(hashables() | KEYS)
@example("a\nb")
@example("a'].b\"].c")
@example("\ud800\n']\"]")
@example(("}", b"}"))
@example(holdfast.Opaque("Mood", 1, "GOOD"))
def test_every_question_takes_the_path_that_a_diff_gives(key):
    store = holdfast.open("memory:")
    session = store.session("s")
    session.save({"in": {key: "old text"}})
    session.save({"in": {key: "new text"}})

    (change,) = session.diff()

    assert session.load(path=change.path) == "new text"
    assert [each.path for each in session.diff(path=change.path)] == [change.path]
    assert session.blame(change.path).value == "new text"
    assert [each.value for each in session.history_of(change.path)] == ["new text", "old text"]
    assert [each.path for each in session.grep("new text", path=change.path)] == [change.path]
    form = replace_part(json_form(session.load()), change.path, "newer text")
    session.save(from_json(form))
    assert session.load(path=change.path) == "newer text"


@dataclass
class Plan:
    goal: str
    steps: tuple[int, ...]


STATE = {
    "budget": {"tokens": 7},
    "messages": [{"role": "user"}, {"role": "tool"}],
    "plan": Plan("win", (1, 2)),
    "odd": {1: "x", (2, "a}"): "y", None: "z", "1": "w"},
    "tags": {"x", 2},
    "a/b~c": {"": 0},
}


@pytest.mark.parametrize(
    ("paths", "value"),
    [
        (["budget.tokens", "$.budget.tokens", "/budget/tokens", "budget['tokens']", "$['budget'].tokens"], 7),
        (
            [
                "messages[-1].role",
                "messages.1.role",
                "/messages/1/role",
                "$.messages[1].role",
                "/messages/-1/role",
            ],
            "tool",
        ),
        (["plan.goal", "/plan/goal", "/plan/$value/goal", "$.plan.goal"], "win"),
        (["plan.steps[0]", "plan.steps.0", "/plan/steps/0", "/plan/$value/steps/$value/0"], 1),
        (["odd{1}", "$.odd{1}", "odd[1]"], "x"),
        (["odd{(2, 'a}')}", 'odd{{"$type": "tuple", "$value": [2, "a}"]}}'], "y"),
        (["odd{None}", "odd{null}"], "z"),
        (["odd['1']", "/odd/1", "odd.1"], "w"),
        (["tags{'x'}", 'tags{"x"}'], "x"),
        (["tags{2}"], 2),
        (["['a/b~c']['']", "/a~1b~0c/"], 0),
        (["", "$"], STATE),
    ],
)
@pytest.mark.parametrize("types", [[], [Plan]], ids=["opaque", "known"])
def test_one_place_has_many_names_and_they_lead_there_everywhere(paths, value, types):
    session = holdfast.open("memory:", types=types).session("s")
    if not types:
        # As a program would see it that does not know the class.
        STATE_OPAQUE = STATE | {"plan": holdfast.Opaque("Plan", 1, {"goal": "win", "steps": (1, 2)})}
        session.save(STATE_OPAQUE)
        value = STATE_OPAQUE if value is STATE else value
    else:
        session.save(STATE)
    for path in paths:
        assert identical(session.load(path=path), value)
        assert not session.diff("@", path=path)
        if path.strip("$"):
            assert identical(session.blame(path).value, value)


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("bugdet.tokens", "budget"),
        ("budget.token", "tokens"),
        ("/plan/gaol", "goal"),
        ("$.messages[0].rol", "role"),
    ],
)
def test_a_typo_gets_did_you_mean(path, meant):
    session = holdfast.open("memory:", types=[Plan]).session("s")
    session.save(STATE)
    session.save(STATE | {"n": 1})

    for ask in (
        lambda: session.load(path=path),
        lambda: session.diff(path=path),
        lambda: session.blame(path),
    ):
        with pytest.raises(holdfast.NotFoundError) as caught:
            ask()
        assert f"did you mean {meant}?" in caught.value.hint


@pytest.mark.parametrize(
    "path", ["a{", "a{}", "a{x}", "a{1", "/a~2", "$x]", "a[*]", "$..a", "{1,}}" + "}" * 500]
)
def test_what_is_no_path_is_refused(path):
    with pytest.raises(holdfast.InvalidInputError) as caught:
        parse_path(path)
    assert caught.value.code is holdfast.ErrorCode.BAD_PATH


def test_a_record_of_an_unknown_class_reads_by_attribute():
    record = holdfast.Opaque("Plan", 2, {"goal": "win", "name": "n", "__len__": 1}, None)

    assert (record.goal, record.name, record.data["name"]) == ("win", "Plan", "n")
    assert copy.deepcopy(record) == copy.copy(record) == record
    for name in ("gaol", "__len__", "_private"):
        with pytest.raises(AttributeError):
            getattr(record, name)
