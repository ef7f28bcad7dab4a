"""P1, P2, P3, P5, P6, P7: the plan execution of the document, point by point."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Executor, Settings, action
from holdfast.agents import PlanState

QUERY = "Find all competitors and their quarterly revenue"
PLAN = {
    "query": QUERY,
    "plan": [
        {"id": "1", "description": "Identify competitors", "action": "competitors", "parameters": {}},
        {
            "id": "2",
            "description": "Fetch Q4 revenue",
            "action": "revenue",
            "parameters": {"names": {"$output": "1"}},
            "dependencies": ["1"],
        },
        {
            "id": "3",
            "description": "Compile comparison report",
            "action": "report",
            "parameters": {"figures": {"$output": "2"}},
            "dependencies": ["2"],
        },
    ],
}


@pytest.fixture
def store():
    with holdfast.open("memory:") as opened:
        yield opened


@pytest.fixture
def research():
    """The actions of the research plan; the network fails once."""
    ran = []
    down = [True]

    def competitors():
        ran.append("competitors")
        return ["CompanyA", "CompanyB", "CompanyC"]

    def revenue(names):
        ran.append("revenue")
        if down and down.pop():
            raise TimeoutError("API timeout")
        return {name: len(name) for name in names}

    @action
    def report(figures):
        ran.append("report")
        return sum(figures.values())

    return ran, {"competitors": competitors, "revenue": revenue, "report": report}


@pytest.mark.requirement("P1")
@pytest.mark.requirement("P3")
def test_the_research_agent_of_the_document(store, research) -> None:
    ran, actions = research
    session = store.session("session-1", project="project-1")
    result = Executor(session, actions=actions).run(PLAN)
    assert (result.success, "API timeout" in str(result.error), result.total_duration_ms > 0) == (
        False,
        True,
        True,
    )
    head = store.session("session-1").checkpoint()
    assert (head.trigger, head.message, head.project) == (
        "error",
        "Failed at step 1: Fetch Q4 revenue",
        "project-1",
    )
    loaded = PlanState.from_dict(store.session("session-1").load())
    assert (loaded.query, loaded.current_step_index) == (QUERY, 1)
    assert [each.status for each in loaded.plan] == ["completed", "failed", "skipped"]
    assert (loaded.results[0].step_id, loaded.results[0].output) == (
        "1",
        ["CompanyA", "CompanyB", "CompanyC"],
    )
    assert loaded.results[0].completed_at.tzinfo is not None
    assert loaded.results[0].duration_ms >= 0
    assert loaded.last_error is not None
    assert (loaded.last_error.step_index, loaded.last_error.message) == (1, "API timeout")
    before = len(loaded.results)
    result = Executor(store.session("session-1"), actions=actions).run(PLAN)
    assert (result.success, result.recovered) == (True, 1)
    assert len(result.state.results) > before
    assert ran == ["competitors", "revenue", "revenue", "report"]
    messages = [each.message for each in store.session("session-1").log()]
    assert messages[0] == "Execution complete"
    assert "Step 1: Identify competitors" in messages


@pytest.mark.requirement("P2")
def test_fifteen_steps_leave_ten_checkpoints(store) -> None:
    steps = [{"id": str(n), "action": "nothing", "parameters": {}} for n in range(15)]
    Executor(store.session("session-1"), actions={"nothing": lambda: None}).run(steps)
    listed = store.session("session-1").log()
    assert len(listed) == 10
    newest = listed[0]
    assert (newest.step, newest.message, newest.trigger) == (
        15,
        "Execution complete",
        "auto:execution.completed",
    )
    assert newest.duration_ms is not None


@pytest.mark.requirement("P3")
def test_told_not_to_checkpoint_each_step_it_still_saves_on_error_and_at_the_end(store, research) -> None:
    _ran, actions = research
    Executor(store.session("s"), actions=actions).run(PLAN, auto_checkpoint=False)
    Executor(store.session("s"), actions=actions).run(PLAN, auto_checkpoint=False)
    triggers = [each.trigger for each in store.session("s").log()]
    assert triggers == ["auto:execution.completed", "error", "auto:execution.started"]


@pytest.mark.requirement("P5")
def test_the_settings_of_the_document_hold_for_an_executor(store, tmp_path, research) -> None:
    _ran, actions = research
    file = tmp_path / "ctx-sys.yaml"
    file.write_text(
        "agent:\n  checkpoints:\n    enabled: true\n    autoCheckpoint: true\n    maxCheckpointsPerSession: 3\n"
        "    pruneAfterDays: 30\n    compressState: true\n"
    )
    settings = Settings.load(file, environ={})
    Executor(store.session("s"), actions=actions, settings=settings).run(PLAN)
    assert Executor(store.session("s"), actions=actions, settings=settings).run(PLAN).success
    assert len(store.session("s").log()) == 3
    off = Settings.load(checkpoint_enabled=False, environ={})
    assert Executor(store.session("off"), actions=actions, settings=off).run(PLAN).success
    assert store.session("off").load(default=None) is None


@pytest.mark.requirement("P6")
@pytest.mark.requirement("P7")
def test_metrics_and_what_each_checkpoint_says(store, research) -> None:
    _ran, actions = research
    for _attempt in range(2):
        Executor(store.session("s"), actions=actions, keep=None).run(PLAN)
    metrics = store.metrics().to_dict()
    assert metrics["checkpoint_resume_count"] == 1
    assert metrics["steps_recovered"] == 1
    assert metrics["checkpoint_save_count"] == len(store.session("s").log()) == 6
    kinds = {each.trigger.partition(":")[0] for each in store.session("s").log()}
    assert kinds == {"auto", "error"}
    durations = [each.duration_ms or 0.0 for each in store.session("s").log()]
    assert durations == sorted(durations, reverse=True)
