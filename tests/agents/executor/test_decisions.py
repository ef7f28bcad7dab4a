"""Approvals, plans that changed, forks and what-ifs: what a person decides, and what follows from it."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Executor, Plan, action
from holdfast.agents.executor.tables import APPROVALS


@pytest.fixture
def store():
    with holdfast.open("memory:") as opened:
        yield opened


def report_plan(ran, **options):
    @action(name="write")
    def write(text="hello", model="a"):
        ran.append(f"write {model}")
        return f"{text} by {model}"

    @action(name="publish", approve=True, effect="at_most_once", **options)
    def publish(text, place="blog", *, key):
        ran.append(f"publish {text} to {place}")
        return key

    plan = Plan("report")
    plan.step(publish, plan.step(write))
    return plan


def test_nothing_runs_before_a_person_agrees_and_nobody_waits(store) -> None:
    ran: list = []
    plan = report_plan(ran)
    executor = Executor(store.session("s"))
    result = executor.run(plan)
    assert (result.success, result.status, [each.step for each in result.waiting]) == (
        False,
        "waiting",
        ["publish"],
    )
    assert result.error is None
    assert ran == ["write a"]
    assert store.session("s").checkpoint().status == "paused"
    status = executor.status()
    assert (status.status, status.running, [each.kind for each in status.waiting]) == (
        "waiting",
        False,
        ["approve"],
    )
    assert Executor(store.session("s")).run(plan).status == "waiting"
    assert len(store.rows(APPROVALS).find(session="s")) == 1
    decision = executor.approve("publish", by="ada", note="fine")
    assert (decision.decision, decision.by, decision.first) == ("approved", "ada", True)
    assert Executor(store.session("s")).run(plan).success
    assert ran == ["write a", "publish hello by a to blog"]


def test_the_first_decision_wins_and_a_second_one_is_told(store) -> None:
    plan = report_plan([])
    executor = Executor(store.session("s"))
    executor.run(plan)
    executor.reject("publish", by="ada", note="too early")
    again = executor.approve("publish", by="bob")
    assert (again.decision, again.by, again.first) == ("rejected", "ada", False)
    result = executor.run(plan)
    assert result.status == "failed"
    assert "rejected by ada: too early" in str(result.error)


def test_changed_parameters_void_an_approval(store) -> None:
    ran: list = []
    plan = report_plan(ran)
    executor = Executor(store.session("s"))
    executor.run(plan)
    executor.approve("publish")
    changed = report_plan(ran)
    changed["publish"].parameters["place"] = "front page"
    assert executor.run(changed, rerun_changed=True).status == "waiting"
    assert ran == ["write a"]
    executor.approve("publish")
    assert executor.run(changed).success
    assert ran[-1] == "publish hello by a to front page"


def test_an_approval_can_change_the_parameters(store) -> None:
    ran: list = []
    plan = report_plan(ran)
    executor = Executor(store.session("s"))
    executor.run(plan)
    executor.approve("publish", parameters={"place": "archive"})
    result = Executor(store.session("s")).run(plan)
    assert (result.success, ran[-1]) == (True, "publish hello by a to archive")
    assert result.state.edits == {"publish": {"place": "archive"}}


def test_a_request_that_nobody_answers_in_time_is_asked_again(store) -> None:
    now = [1_000_000.0]
    plan = report_plan([], expires=60)
    executor = Executor(store.session("s"), clock=lambda: now[0])
    executor.run(plan)
    now[0] += 61
    with pytest.raises(holdfast.ConflictError) as caught:
        executor.approve("publish")
    assert caught.value.code == "approval-expired"
    assert executor.run(plan).status == "waiting"
    executor.approve("publish")
    assert executor.run(plan).success


def test_what_nobody_asked_for_cannot_be_approved(store) -> None:
    executor = Executor(store.session("s"))
    executor.run(report_plan([]))
    with pytest.raises(holdfast.NotFoundError) as caught:
        executor.approve("write")
    assert caught.value.code == "approval-missing"
    with pytest.raises(holdfast.InvalidInputError) as unknown:
        executor.approve("wriet")
    assert unknown.value.code == "step-missing"
    assert "write" in unknown.value.hint


def counting(ran, names, versions=None, **parameters):
    plan, before = Plan("numbers"), None
    for name in names:

        def body(before=None, value=1, name=name):
            ran.append(name)
            return (before or 0) + value

        done_by = action(name=name, version=(versions or {}).get(name, 1))(body)
        before = plan.step(done_by, before, parameters.get(name, 1), id=name)
    return plan


def test_a_changed_plan_is_refused_with_what_changed(store) -> None:
    ran: list = []

    def broken(before=None, value=1):
        raise RuntimeError("no")

    plan = counting(ran, "abc")
    plan["c"].function = action(name="c")(broken)
    executor = Executor(store.session("s"))
    executor.run(plan)
    with pytest.raises(holdfast.ConflictError) as caught:
        executor.run(counting(ran, "abcd", b=5))
    assert caught.value.code == "plan-changed"
    assert caught.value.details["diff"] == {
        "added": ["d"],
        "removed": [],
        "changed": {"b": ["parameters"]},
        "affected": ["c"],
    }
    kept = executor.run(counting(ran, "abcd", b=5), keep_results=True)
    assert (kept.success, ran, kept.state.output("d")) == (True, ["a", "b", "c", "d"], 4)


def test_what_changed_runs_again_with_what_follows_from_it(store) -> None:
    ran: list = []
    executor = Executor(store.session("s"))
    broken = counting(ran, "abc")
    broken["c"].parameters["value"] = "text"
    executor.run(broken)
    del ran[:]
    result = executor.run(counting(ran, "abc", {"b": 2}), rerun_changed=True)
    assert (result.success, ran, result.state.output("c")) == (True, ["b", "c"], 3)
    assert result.reasons == {"b": "its version changed"}


def test_a_restored_checkpoint_goes_on_with_other_keys(store) -> None:
    ran: list = []
    plan = counting(ran, "abc")
    executor = Executor(store.session("s"), keep=None)
    first = executor.run(plan)
    session = store.session("s")
    after_a = next(each for each in session.log() if each.message == "Step 1: a")
    session.restore(after_a)
    second = Executor(store.session("s"), keep=None).run(plan)
    assert ran == ["a", "b", "c", "b", "c"]
    assert first.execution != second.execution
    assert executor.status().forked_from == first.execution


def test_a_fork_reuses_what_did_not_change_and_says_why_the_rest_runs(store) -> None:
    ran: list = []
    plan = counting(ran, "abcd")
    other = action(name="aside", effect="at_least_once")(lambda value=0: value)
    plan.step(other, 9, id="aside")
    executor = Executor(store.session("s"))
    executor.run(plan)
    stored = store.stats().chunks
    del ran[:]
    forked = executor.fork("b", output=40, name="bold")
    assert forked.session.branch == "bold"
    assert forked.reasons == {"c": "what it is made from changed", "d": "c runs again"}
    assert forked.repeated == []
    result = forked.resume()
    assert (ran, result.recovered) == (["c", "d"], 3)
    assert [result.state.output(each) for each in "abcd"] == [1, 40, 41, 42]
    assert executor.status().status == "completed"
    assert store.stats().chunks - stored < 20
    del ran[:]
    again = executor.fork("aside", parameters={"value": 3})
    assert [(each.step, each.happened) for each in again.repeated] == [("aside", True)]
    assert again.resume().state.output("aside") == 3
    assert ran == []


def test_an_approval_with_other_parameters_leaves_a_written_output_alone(store) -> None:
    ran: list = []
    plan = report_plan(ran)

    @action(name="last")
    def last(text):
        if not ran.count("last"):
            ran.append("last")
            raise RuntimeError("once")
        return text

    plan.step(last, {"$output": "publish"})
    executor = Executor(store.session("s"))
    executor.run(plan)
    fork = executor.fork("write", output="by hand")
    assert fork.resume().status == "waiting"
    fork.approve("publish", parameters={"place": "archive"})
    assert fork.resume().status == "failed"
    assert fork.resume().success
    assert ran == ["write a", "publish by hand to archive", "last"]


def test_what_if_tries_several_ways(store) -> None:
    ran: list = []

    @action
    def load():
        ran.append("load")
        return "text"

    @action
    def ask(text, model="a"):
        ran.append(model)
        if model == "broken":
            raise RuntimeError("no such model")
        return f"{model}: {text}"

    plan = Plan("p")
    plan.step(ask, plan.step(load))
    executor = Executor(store.session("s"))
    executor.run(plan)
    table = executor.whatif("ask", [{"model": "b"}, {"model": "broken"}])
    assert ran == ["load", "a", "b", "broken"]
    assert [(each.status, each.outcome, each.reused) for each in table.variants] == [
        ("completed", "b: text", 1),
        ("failed", "step 'ask' failed: no such model", 1),
    ]
    assert len({each.branch for each in table.variants}) == 2
    assert store.session("s").load()["results"][-1]["output"] == "a: text"


def test_the_checkpoints_of_an_unfinished_execution_stay(store) -> None:
    ran: list = []
    executor = Executor(store.session("s"))
    plan = counting(ran, [f"s{number}" for number in range(12)])
    executor.run(plan)
    assert len(store.find(session="s")) == 10
    forked = executor.fork("s0")
    before = len(store.find(session="s"))
    # The fork is unfinished: nothing goes until it is done.
    executor.run(plan)
    assert len(store.find(session="s")) == before + 14
    forked.resume()
    assert len(store.find(session="s")) <= 12


def test_cancelled_while_it_runs(store) -> None:
    ran: list = []
    plan = counting(ran, "ab")
    executor = Executor(store.session("s"))
    inner = plan["a"].function
    assert inner is not None

    def cancelling(before=None, value=1):
        Executor(store.session("s")).cancel()
        executor.cancel()
        return inner(before, value)

    plan["a"].function = action(name="a")(cancelling)
    result = executor.run(plan)
    assert result.status == "cancelled"
    assert "b" not in ran
    assert store.session("s").checkpoint().status == "interrupted"
