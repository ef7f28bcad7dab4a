"""`types=[State]`: a program that starts anew knows the classes that the state of its graph names."""

from __future__ import annotations

import warnings
from typing import Any, Optional

import pytest
from tests.integrations.langgraph import schema_samples as samples
from tests.integrations.langgraph.saver_data import config, put

import holdfast
from holdfast.integrations.langgraph import HoldfastSaver

CORNER = samples.Corner(1, samples.Colour.RED)
VALUES: dict[str, Any] = {
    "docs": [samples.Doc("a", samples.Source("u"), [samples.Doc("b")])],
    "inner": {"plan": samples.Plan(goal="g", steps=[samples.Step("s")])},
    "pairs": {"p": [samples.Pair(samples.Step("l"), CORNER)]},
    "boxes": {"b": (samples.Box[samples.Heavy](content=samples.Heavy(1.5, "n")),)},
    "shade": samples.Shade.DARK,
    "anything": samples.Weight(2.0),
}


@pytest.fixture
def place(tmp_path):
    return tmp_path / "s.db"


def latest(saver) -> Any:
    found = saver.get_tuple(config())
    return found.checkpoint["channel_values"]


def test_everything_that_a_state_names_comes_back_in_a_program_that_was_given_the_state(place):
    with HoldfastSaver(place) as saver:
        made = put(saver, values=VALUES)
        saver.put_writes(made, list(VALUES.items()), "task")
    with HoldfastSaver(place, types=[samples.State]) as saver, warnings.catch_warnings():
        warnings.simplefilter("error")
        found = saver.get_tuple(config())

    assert found is not None
    assert found.checkpoint["channel_values"] == VALUES
    assert [write[2] for write in found.pending_writes or ()] == list(VALUES.values())


def test_what_a_state_does_not_name_comes_back_as_data(place):
    with HoldfastSaver(place) as saver:
        put(saver, values={"anything": samples.Loose(1)})
    with (
        HoldfastSaver(place, types=[samples.State]) as saver,
        pytest.warns(holdfast.HoldfastWarning) as warned,
    ):
        found = latest(saver)["anything"]

    assert type(found) is holdfast.Opaque
    assert "types=[State]" in str(warned[0].message)
    assert "types=[Loose]" in str(warned[0].message)


@pytest.mark.parametrize(
    "given",
    [
        list[samples.Doc],
        dict[str, samples.Doc],
        Optional[samples.Doc],  # noqa: UP045 - one of the ways
        samples.Doc | None,
        samples.Doc,
        tuple["str", list[samples.Doc]],
    ],
    ids=str,
)
def test_a_type_of_any_form_may_be_given(place, given):
    doc = VALUES["docs"][0]
    with HoldfastSaver(place) as saver:
        put(saver, values={"doc": doc})
    with HoldfastSaver(place, types=[given]) as saver:
        assert latest(saver) == {"doc": doc}


@pytest.mark.parametrize(
    "given", ["Doc", 3, samples.Weight(1.0), object()], ids=["text", "number", "instance", "object"]
)
def test_what_is_no_type_at_all_is_refused(given):
    with pytest.raises(holdfast.InvalidInputError, match="only a class"):
        HoldfastSaver("memory://", types=[given])
