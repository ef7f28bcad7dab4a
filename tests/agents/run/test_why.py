"""why: who set a value, with the thought and the tool call behind it."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.agents import Run, why


def test_a_value_leads_to_its_checkpoint_thought_and_tool_call():
    with holdfast.open("memory:") as store:
        run = Run(store.session("x"))
        run.think("look at the weather first")
        with run.tool("weather", {"city": "Oslo"}) as call:
            call.result = {"sky": "rain"}
        run.context.variables["take"] = "umbrella"
        run.think("now I can go")
        run.think("and so I went")

        found = why(store.session("x"), "variables.take")
        assert (found.value, found.old, found.path) == ("umbrella", None, "context.variables.take")
        assert found.checkpoint.message == "now I can go"
        assert found.thought is not None
        assert found.thought["content"] == "look at the weather first"
        assert found.tool_call is not None
        assert (found.tool_call["tool_id"], found.tool_call["status"]) == ("weather", "completed")
        assert found.changes is not None
        assert [each["variable"] for each in found.changes.context_changes] == ["take"]

        result = why(store.session("x"), f"tool_state.results.{call.id}.sky")
        assert result.tool_call is not None
        assert (result.value, result.tool_call["id"]) == ("rain", call.id)
        assert result.to_dict()["checkpoint"]["metadata"]["checkpoint_reason"] == "tool_completed"
        with pytest.raises(holdfast.HoldfastError):
            why(store.session("x"), "variables.nothing")


def test_a_value_that_no_run_saved_has_its_checkpoint_alone():
    with holdfast.open("memory:") as store:
        saved = store.session("x").save({"a": 1}, "first")
        found = why(store.session("x"), "a")
        assert (found.checkpoint, found.value, found.thought, found.changes) == (saved, 1, None, None)
