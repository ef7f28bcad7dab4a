"""Several processes share many executions on PostgreSQL, and take over what the dead left."""

from __future__ import annotations

import os
import signal
from collections import Counter

import holdfast
from holdfast import Executor, Plan, action
from holdfast.agents.executor.fleet import run_all
from holdfast.agents.executor.tables import EXECUTIONS
from holdfast.agents.journal import STEPS

EXECUTIONS_COUNT = 200
STEPS_EACH = 3
PROCESSES = 4
DEADLY = {"e-020", "e-120"}
"""Executions whose second step kills the process that runs it, once."""


def actions(folder):
    def work(me: str, number: int) -> str:
        mark = folder / f"{me}.killed"
        if me in DEADLY and number == 1 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return f"{me} {number}"

    return {"work": work}


def plan_of(me):
    plan = Plan(me)
    before: tuple = ()
    for number in range(STEPS_EACH):
        before = (plan.step("work", id=f"s{number}", after=before, me=me, number=number),)
    return plan


def work_in_child(url, folder):
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        with holdfast.open(url) as store:
            run_all(store, actions=actions(folder), workers=2, lease_seconds=2.0, poll_seconds=0.05)
        status = 0
    finally:
        os._exit(status)


def test_every_execution_ends_and_each_result_is_there_once(postgres_store, tmp_path) -> None:
    names = [f"e-{number:03}" for number in range(EXECUTIONS_COUNT)]
    with holdfast.open(postgres_store) as store:
        for name in names:
            Executor(store.session(name), actions=actions(tmp_path)).submit(plan_of(name))
    children = [work_in_child(postgres_store, tmp_path) for _each in range(PROCESSES)]
    ended = Counter(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)
    assert ended == {0: PROCESSES - len(DEADLY), -signal.SIGKILL: len(DEADLY)}
    with holdfast.open(postgres_store) as store:
        rows = store.rows(EXECUTIONS).find()
        assert Counter(row["status"] for row in rows) == {"completed": EXECUTIONS_COUNT}
        steps = store.rows(STEPS).find()
        assert len(steps) == EXECUTIONS_COUNT * STEPS_EACH
        assert {row["status"] for row in steps} == {"completed"}
        again = [(row["session"], row["step"]) for row in steps if row["attempt"] > 1]
        assert sorted(again) == [(name, "s1") for name in sorted(DEADLY)]
        for name in names:
            results = store.session(name).load()["results"]
            assert [each["output"] for each in results] == [f"{name} {n}" for n in range(STEPS_EACH)]


def test_one_process_on_sqlite_does_them_all(tmp_path) -> None:
    @action(name="double")
    def double(x):
        return 2 * x

    with holdfast.open(tmp_path / "s.db") as store:
        for number in range(5):
            plan = Plan("p")
            plan.step(double, number)
            Executor(store.session(f"s{number}")).submit(plan)
        results = run_all(store)
        assert sorted(each.state.output("double") for each in results) == [0, 2, 4, 6, 8]
        assert run_all(store) == []


def test_an_execution_that_cannot_be_run_here_keeps_no_other_from_running(tmp_path) -> None:
    with holdfast.open(tmp_path / "s.db") as store:
        for name in ("known", "unknown", "cleared"):
            known = {name: lambda: 1}
            Executor(store.session(name), actions=known).submit([{"id": "a", "action": name}])
        store.session("cleared").clear()
        results = run_all(store, actions={"known": lambda: 1})
        told = sorted((each.success, each.status, str(each.error)) for each in results)
        assert [each[:2] for each in told] == [(False, "pending"), (False, "pending"), (True, "completed")]
        assert "cleared" in told[1][2] or "unknown" in told[1][2]
        (later,) = [each for each in run_all(store, actions={"unknown": lambda: 2}) if each.success]
        assert later.state.output("a") == 2
