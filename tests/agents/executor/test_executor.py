"""Running plans: order, results, failures, retries, pauses, and going on."""

from __future__ import annotations

import threading

import pytest

import holdfast
import holdfast.agents
from holdfast import Executor, Keep, Plan, PlanStep, StepContext, action
from holdfast.agents.executor.tables import EXECUTIONS
from holdfast.agents.journal import STEPS


@pytest.fixture
def store():
    with holdfast.open("memory:") as opened:
        yield opened


class Calls(list):
    """What ran, in order; made into actions that fail as often as they are told to."""

    def __init__(self):
        super().__init__()
        self.failing: dict = {}

    def action(self, name, **options):
        @action(name=name, **options)
        def body(inputs=None, value=None):
            self.append(name)
            if self.failing.get(name, 0) > 0:
                self.failing[name] -= 1
                raise RuntimeError(f"{name} broke")
            return value or f"{name} done"

        return body


def chain(calls, *names, **options):
    plan, before = Plan("chain"), None
    for name in names:
        before = plan.step(calls.action(name, **options.get(name, {})), before, id=name)
    return plan


def test_outputs_go_where_handles_were_passed(store) -> None:
    @action
    def search(topic: str) -> list[str]:
        return [f"{topic}1", f"{topic}2"]

    @action
    def write(hits: list[list[str]], *, title: str) -> dict[str, str]:
        """Write the report."""
        return {title: " ".join(hit for each in hits for hit in each)}

    plan = Plan("weekly", query="what happened?")
    hits = [plan.step(search, topic, id=f"search-{topic}") for topic in ("a", "b")]
    plan.step(write, hits, title="T")
    result = Executor(store.session("s"), workers=2).run(plan)
    assert (result.success, result.error, result.status) == (True, None, "completed")
    assert result.state.output("write") == {"T": "a1 a2 b1 b2"}
    assert result.state.plan[2].description == "Write the report."
    assert result.state.plan[2].dependencies == ["search-a", "search-b"]
    assert result.state.query == "what happened?"
    assert search("still a function") == ["still a function1", "still a function2"]


def test_a_step_may_change_what_it_is_given_and_nobody_else_sees_it(store) -> None:
    @action
    def make():
        return {"list": [1]}

    @action
    def spoil(given):
        given["list"].append(2)
        return len(given["list"])

    plan = Plan("p")
    made = plan.step(make)
    plan.step(spoil, made, id="a")
    plan.step(spoil, made, id="b")
    state = Executor(store.session("s")).run(plan).state
    assert (state.output("make"), state.output("a"), state.output("b")) == ({"list": [1]}, 2, 2)


def test_steps_run_at_once_where_dependencies_allow(store) -> None:
    both = threading.Barrier(2, timeout=30)

    @action
    def meet():
        both.wait()
        return threading.current_thread().name

    plan = Plan("p")
    plan.step(meet, id="a")
    plan.step(meet, id="b")
    assert Executor(store.session("s"), workers=2).run(plan).success


def test_async_actions_and_context(store) -> None:
    @action
    async def fetch(page: str, context: StepContext, *, key: str) -> list[object]:
        context.progress(0.5, "half")
        context.remember(last=page)
        context.used(tokens=7, cost_usd=0.5)
        return [context.attempt, context.key == key, context.step]

    plan = Plan("p", context={"first": 1})
    plan.step(fetch, "x")
    executor = Executor(store.session("s"))
    seen: list = []
    executor.events.subscribe("step.progress", lambda event: seen.append(event.data["fraction"]))
    state = executor.run(plan).state
    executor.events.flush(30)
    assert state.output("fetch") == [1, True, "fetch"]
    assert state.context == {"first": 1, "last": "x"}
    assert seen == [0.5]
    head = store.session("s").checkpoint()
    assert (head.tokens, head.cost_usd) == (7, 0.5)
    assert head.duration_ms > 0


def test_a_failure_stops_and_the_same_line_goes_on(store) -> None:
    calls = Calls()
    calls.failing = {"b": 1}
    plan = chain(calls, "a", "b", "c")
    result = Executor(store.session("s")).run(plan)
    assert (result.success, result.status) == (False, "failed")
    assert "b broke" in str(result.error)
    assert [each.status for each in result.state.plan] == ["completed", "failed", "skipped"]
    assert result.state.current_step_index == 1
    assert result.state.last_error is not None
    assert (result.state.last_error.step_index, result.state.last_error.message) == (1, "b broke")
    head = store.session("s").checkpoint()
    assert (head.trigger, head.status, head.message) == ("error", "failed", "Failed at step 1: b")
    result = Executor(store.session("s")).run(plan)
    assert (result.success, result.recovered, calls) == (True, 1, ["a", "b", "b", "c"])
    assert result.state.last_error is None
    assert store.metrics().to_dict()["steps_recovered"] == 1


def test_after_a_finished_execution_the_next_one_begins_anew(store) -> None:
    calls = Calls()
    plan = chain(calls, "a")
    first, second = (Executor(store.session("s")).run(plan) for _ in range(2))
    assert calls == ["a", "a"]
    assert first.execution != second.execution


def test_resume_false_begins_anew_and_resume_true_needs_something(store) -> None:
    calls = Calls()
    plan = chain(calls, "a", "b")
    with pytest.raises(holdfast.NotFoundError) as caught:
        Executor(store.session("s")).run(plan, resume=True)
    assert caught.value.code == "execution-missing"
    calls.failing = {"b": 1}
    Executor(store.session("s")).run(plan)
    Executor(store.session("s")).run(plan, resume=False)
    assert calls == ["a", "b", "a", "b"]


@pytest.mark.parametrize(
    ("policy", "success", "statuses", "ran"),
    [
        ("stop", False, ["failed", "skipped", "pending"], ["a"]),
        ("skip", False, ["failed", "skipped", "completed"], ["a", "other"]),
        ("continue", True, ["failed", "skipped", "completed"], ["a", "other"]),
    ],
)
def test_what_a_failure_means(store, policy, success, statuses, ran) -> None:
    calls = Calls()
    calls.failing = {"a": 1}
    plan = chain(calls, "a", "b")
    plan.step(calls.action("other"), id="other")
    result = Executor(store.session("s"), workers=1, on_failure=policy).run(plan)
    assert (result.success, [each.status for each in result.state.plan], calls) == (success, statuses, ran)


def test_retries_are_counted_and_each_is_a_checkpoint(store) -> None:
    calls = Calls()
    calls.failing = {"a": 2}
    plan = chain(calls, "a", a={"retries": 2, "backoff": 0})
    assert Executor(store.session("s"), keep=None).run(plan).success
    assert calls == ["a", "a", "a"]
    errors = [each.message for each in store.session("s").log() if each.trigger == "error"]
    assert errors == ["Failed at step 0: a (attempt 2 of 3)", "Failed at step 0: a (attempt 1 of 3)"]


def test_retries_keep_their_count_and_time_over_restarts(store) -> None:
    calls, now = Calls(), [1_000_000.0]
    calls.failing = {"a": 3}
    plan = chain(calls, "a", a={"retries": 1, "backoff": 3600, "max_backoff": 3600})
    executor = Executor(store.session("s"), clock=lambda: now[0])
    executor.events.subscribe("step.retrying", lambda _event: executor.pause())
    assert executor.run(plan).status == "paused"
    next_attempt = executor.status().steps[0].next_attempt_at
    assert next_attempt is not None
    due = next_attempt.timestamp()
    assert now[0] + 1800 <= due <= now[0] + 3600
    # Restarted too early, it waits; the waiting is paused.
    early = Executor(store.session("s"), clock=lambda: now[0])
    early.events.subscribe("execution.started", lambda _event: early.pause())
    assert early.run(plan).status == "paused"
    assert calls == ["a"]
    now[0] = due
    result = Executor(store.session("s"), clock=lambda: now[0]).run(plan)
    assert (result.status, calls) == ("failed", ["a", "a"])
    # Resumed by hand it may fail as often again.
    calls.failing = {}
    assert Executor(store.session("s"), clock=lambda: now[0]).run(plan).success


def test_errors_that_are_not_tried_again(store) -> None:
    calls: list = []

    @action(retries=5, backoff=0, give_up_on=(KeyError,))
    def lookup():
        calls.append(1)
        raise KeyError("gone")

    plan = Plan("p")
    plan.step(lookup)
    assert not Executor(store.session("s")).run(plan).success
    assert calls == [1]


def test_an_attempt_that_takes_too_long_is_left_behind(store) -> None:
    release = threading.Event()

    @action(timeout=0.05)
    def hang():
        release.wait(60)

    plan = Plan("p")
    plan.step(hang)
    try:
        result = Executor(store.session("s"), workers=1).run(plan)
    finally:
        release.set()
    assert "longer than 0.05" in str(result.error)


def test_an_async_attempt_that_takes_too_long_is_stopped(store) -> None:
    import asyncio

    stopped = threading.Event()

    @action(timeout=0.05)
    async def hang():
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    plan = Plan("p")
    plan.step(hang)
    assert not Executor(store.session("s")).run(plan).success
    assert stopped.wait(30)


@pytest.mark.parametrize("awaited", [False, True])
def test_what_may_happen_at_most_once_is_not_tried_again_when_its_time_is_over(store, awaited) -> None:
    import asyncio

    ran, release = [], threading.Event()

    def pay(*, key):
        ran.append(key)
        release.wait(60)

    async def apay(*, key):
        ran.append(key)
        await asyncio.sleep(60)

    plan = Plan("p")
    once = action(name="pay", effect="at_most_once", timeout=0.05, retries=3, backoff=0.001)
    plan.step(once(apay if awaited else pay))
    try:
        result = Executor(store.session("s")).run(plan)
        again = Executor(store.session("s")).run(plan)
    finally:
        release.set()
    assert len(ran) == 1
    for each in (result, again):
        assert (each.status, [(what.step, what.kind) for what in each.waiting]) == (
            "waiting",
            [("pay", "outcome")],
        )
    assert [effect.happened for effect in Executor(store.session("s")).effects()] == [False]
    Executor(store.session("s")).settle("pay", output="paid")
    assert Executor(store.session("s")).run(plan).state.output("pay") == "paid"


def test_an_attempt_that_was_left_behind_keeps_nothing_any_more(store) -> None:
    now, late, refused = [1_000_000.0], threading.Event(), []

    @action(timeout=1, retries=5, backoff=60)
    def crawl(context: StepContext):
        if context.attempt > 1:
            return context.partial
        context.save_partial("one")
        assert late.wait(30)
        try:
            context.save_partial("two")
        except holdfast.ConflictError as error:
            refused.append(error.code)
        # Only now the next attempt is due.
        now[0] += 1000
        return None

    plan = Plan("p")
    plan.step(crawl)
    executor = Executor(store.session("s"), clock=lambda: now[0])
    executor.events.subscribe("step.retrying", lambda _event: late.set())
    assert executor.run(plan).state.output("crawl") == "one"
    assert refused == ["row-conflict"]


def test_an_output_that_cannot_be_saved_fails_its_step_alone(store) -> None:
    @action
    def good():
        return 1

    @action(retries=3)
    def bad(before):
        return {"rows": [{"client": object()}]}

    plan = Plan("p")
    plan.step(bad, plan.step(good))
    result = Executor(store.session("s")).run(plan)
    assert result.state.output("good") == 1
    assert "['rows'][0]['client']" in str(result.error)
    assert store.rows(STEPS).get(result.execution, "bad")["attempt"] == 1


def test_without_automatic_checkpoints_results_are_stored_all_the_same(store) -> None:
    calls = Calls()
    plan = chain(calls, "a", "b", "c")
    executor = Executor(store.session("s"))

    class Killed(Exception):
        pass

    def die(where, step):
        if (where, step) == ("after commit", "b"):
            raise Killed

    executor._hook = die
    with pytest.raises(Killed):
        executor.run(plan, auto_checkpoint=False)
    assert [each.message for each in store.session("s").log()] == ["Execution started"]
    calls.clear()
    result = Executor(store.session("s")).run(plan, auto_checkpoint=False)
    assert (result.success, result.recovered, calls) == (True, 2, ["c"])
    assert [each.step_id for each in result.state.results] == ["a", "b", "c"]
    assert [each.message for each in store.session("s").log()] == ["Execution complete", "Execution started"]


def test_pause_and_cancel_from_elsewhere(store) -> None:
    calls = Calls()
    plan = chain(calls, "a", "b", "c")
    executor = Executor(store.session("s"))
    calls_a = calls.action("a")

    @action(name="a")
    def pausing(inputs=None):
        executor.pause()
        return calls_a()

    plan.steps[0].function = pausing
    result = executor.run(plan)
    assert result.status == "paused"
    assert store.session("s").checkpoint().status == "paused"
    assert Executor(store.session("s")).status().status == "paused"
    Executor(store.session("s")).cancel()
    assert Executor(store.session("s")).status().status == "cancelled"
    assert Executor(store.session("s")).run(plan).recovered == 0


def test_how_a_step_is_run_can_be_replaced(store) -> None:
    class Mine(Executor):
        def run_step(self, step, state):
            state.context[step.id] = len(state.results)
            return f"{step.action} {step.parameters}"

    steps = [
        {"id": "1", "description": "Step 1", "action": "anything", "parameters": {"x": 1}},
        {"id": "2", "action": "else", "parameters": {"from": {"$output": "1"}}, "dependencies": ["1"]},
    ]
    result = Mine(store.session("s")).run(steps)
    assert result.success, result.error
    assert result.state.output("2") == "else {'from': \"anything {'x': 1}\"}"
    assert result.state.context == {"1": 0, "2": 1}


def test_no_more_than_ten_checkpoints_stay_of_a_finished_execution(store) -> None:
    calls = Calls()
    plan = chain(calls, *(f"s{number}" for number in range(15)))
    calls.failing = {"s13": 1}
    Executor(store.session("s")).run(plan)
    assert len(store.session("s").log()) == 15
    assert Executor(store.session("s")).run(plan).success
    assert len(store.session("s").log()) == 10
    Executor(store.session("t"), keep=Keep(last=3)).run(plan)
    assert len(store.session("t").log()) == 3


def test_a_second_executor_is_refused_while_one_runs(store) -> None:
    refused: list = []

    @action
    def nested():
        try:
            Executor(store.session("s")).run(inner)
        except holdfast.ConflictError as error:
            refused.append(error.code)

    inner = Plan("inner")
    inner.step(nested)
    Executor(store.session("s")).run(inner)
    assert refused == ["lease-held"]


def test_looking_at_the_status_keeps_nobody_from_running(tmp_path, monkeypatch) -> None:
    with holdfast.open(tmp_path / "s.db") as store, holdfast.open(tmp_path / "s.db") as other:
        seen: list = []

        @action(name="look")
        def look():
            seen.append(Executor(other.session("s")).status().running)

        plan = Plan("p")
        plan.step(look)
        executor = Executor(store.session("s"))
        # Whoever looks claims no lease, not even for a moment.
        monkeypatch.setattr(other, "lease", None)
        assert executor.run(plan).success
        assert not Executor(other.session("s")).status().running
        assert seen == [True]


def test_a_persons_checkpoint_in_between_loses_nothing(store) -> None:
    calls = Calls()
    plan = chain(calls, "a", "b")
    a = plan.steps[0].function

    @action(name="a")
    def interfere(inputs=None):
        store.session("s").save({"note": "mine"}, "a note")
        return a()

    plan.steps[0].function = interfere
    result = Executor(store.session("s")).run(plan)
    assert result.success
    assert store.session("s").load() == {"note": "mine"}
    branch = store.rows(EXECUTIONS).get(result.execution)["branch"]
    assert branch != "main"
    assert store.session("s", branch=branch).load()["results"][1]["output"] == "b done"


def test_a_state_from_elsewhere_goes_on(store) -> None:
    calls = Calls()
    plan = chain(calls, "a", "b")
    state = holdfast.agents.PlanState(
        plan=[PlanStep("a", "", "a", {"inputs": None}, [], "completed"), plan.steps[1]]
    )
    data = state.to_dict()
    data["results"] = [
        {
            "step_id": "a",
            "output": "kept",
            "completed_at": holdfast.parse_time("2026-01-01"),
            "duration_ms": 1.0,
        }
    ]
    store.session("s").save(data)
    result = Executor(store.session("s")).run(plan)
    assert (calls, result.state.output("a"), result.success) == (["b"], "kept", True)
