"""Events: what they say, what they refuse, and which patterns choose them."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast import InvalidInputError
from holdfast.recording import events
from holdfast.recording.events import (
    CheckpointCreated,
    CheckpointFailed,
    CheckpointPruned,
    CheckpointRestored,
    Event,
    RecorderForked,
    SourceFailed,
    matches,
    occurred,
)

WORDS = st.from_regex(r"[a-z][a-z0-9_-]{0,5}", fullmatch=True)
TYPES = st.lists(WORDS, min_size=1, max_size=4).map(".".join)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    # No text of JSON in a database can hold these.
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=8,
)

SAMPLES = [
    CheckpointCreated(checkpoint_id="ab", branch="main", seq=3),
    CheckpointRestored(checkpoint_id="ab", sources={"affect": "restored"}),
    CheckpointPruned(count=2, ids=("ab", "cd")),
    CheckpointFailed(code="disk-full", message="no room"),
    RecorderForked(branch="main-1", expected="ab", found=None),
    SourceFailed(name="affect", phase="snapshot", message="no"),
]
NAMES = [
    "checkpoint.created",
    "checkpoint.restored",
    "checkpoint.pruned",
    "checkpoint.failed",
    "recorder.forked",
    "source.failed",
]


@pytest.mark.parametrize("event", SAMPLES, ids=NAMES)
def test_an_event_cannot_be_changed_has_a_time_and_is_plain_json_as_a_dict(event):
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.session = "other"
    assert event.at.tzinfo is UTC
    record = json.loads(json.dumps(event.to_dict()))
    assert record["type"] == event.type
    assert datetime.fromisoformat(record["at"]) == event.at
    assert set(record) == {each.name for each in dataclasses.fields(event)} - {"data"}
    assert hash(event) == hash(dataclasses.replace(event))


def test_the_event_of_a_checkpoint_says_what_the_checkpoint_does():
    with holdfast.open("memory:") as store:
        saved = store.session("s").save({"a": 1}, step=7, trigger="auto:step", metadata={"beats": 50})
    event = CheckpointCreated.of(saved, forked=True)
    assert (event.checkpoint_id, event.session, event.branch, event.seq) == (saved.id, "s", "main", 1)
    assert (event.step, event.beat_count, event.size_bytes) == (7, 50, saved.size_bytes)
    assert (event.trigger, event.forked, event.at) == ("auto:step", True, saved.created_at)
    assert CheckpointCreated.of(saved, beat_count=51).beat_count == 51


@given(TYPES, st.dictionaries(WORDS.filter(lambda w: w not in ("session", "at")), JSON, max_size=4))
def test_an_event_of_the_application_keeps_its_data(name, data):
    event = occurred(name, session="s", **data)
    assert type(event) is Event
    assert (event.type, event.session) == (name, "s")
    assert event.data == data
    assert event.to_dict().get("data", {}) == data


def test_data_is_a_copy_and_cannot_be_changed():
    hits = ["a"]
    event = occurred("tool.completed", hits=hits)
    hits.append("b")
    assert event.data == {"hits": ["a"]}
    with pytest.raises(TypeError):
        event.data["more"] = 1  # type: ignore[index]
    event.to_dict()["data"]["hits"].append("c")
    assert event.data == {"hits": ["a"]}


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Tool.completed",
        "tool..completed",
        ".tool",
        "tool.",
        "tool completed",
        "1tool",
        "a" * 129,
        3,
        None,
        "*",
        "t\n",
    ],
)
def test_what_is_no_type_is_refused_with_a_hint(name):
    with pytest.raises(InvalidInputError, match="cannot be the type") as refused:
        occurred(name)
    assert refused.value.code == "bad-name"
    assert "tool.completed" in refused.value.hint


@pytest.mark.parametrize("value", [object(), {1: 2}, float("nan"), {"a": {1, 2}}, b"x", 2**70])
def test_data_that_is_no_json_is_refused_and_the_path_is_named(value):
    with pytest.raises(InvalidInputError, match=r"event 'tool\.completed'.*\['what'\]") as refused:
        occurred("tool.completed", what=value)
    assert refused.value.code == "bad-argument"


@given(TYPES, TYPES)
def test_a_pattern_chooses_itself_or_what_lies_below(name, other):
    assert matches("*", name)
    assert matches(name, name)
    assert matches(f"{name}.*", f"{name}.{other}")
    assert not matches(f"{name}.*", name)
    assert matches(f"{name}.*", other) == other.startswith(name + ".")
    assert matches(name, other) == (name == other)


def test_a_class_of_ones_own_is_an_event_too():
    @dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
    class Slept(Event):
        type: str = dataclasses.field(default="agent.slept", init=False)
        seconds: float

    assert Slept(seconds=1.5).to_dict()["seconds"] == 1.5
    assert events.check_type(Slept(seconds=1).type) == "agent.slept"
