"""Steps on a real Dask cluster of this machine, and the traps of one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings

import pytest

import holdfast
from holdfast import Executor, Plan, StepContext, action
from holdfast.agents.journal import STEPS

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")
pytestmark = pytest.mark.filterwarnings("ignore")


@action(name="dask.echo")
def echo(x, context: StepContext, *, key: str, workers=0, retries=0):
    return [x, key, context.attempt, os.getpid(), workers, retries]


@action(name="dask.die")
def die(folder, times):
    """End the worker that runs it, so many times."""
    marks = [name for name in os.listdir(folder) if name.startswith("died")]
    if len(marks) < times:
        open(os.path.join(folder, f"died{len(marks)}"), "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


@action(name="dask.wait")
def wait(folder):
    open(os.path.join(folder, "waiting"), "w").close()
    time.sleep(120)


@pytest.fixture(scope="module")
def cluster():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # By default Dask itself tries a task three times that lost its worker.
        dask.config.set({"distributed.scheduler.allowed-failures": 0})
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as made:
            yield made


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as connected:
        yield connected


@pytest.fixture
def store():
    with holdfast.open("memory:") as opened:
        yield opened


def test_steps_run_in_other_processes_and_equal_ones_run_each(store, client) -> None:
    plan = Plan("p")
    for name in ("a", "b", "c"):
        # Three identical calls; parameters that Dask would take for its own.
        plan.step(echo, 1, id=name, workers=3, retries=4)
    pool = client.get_executor(pure=False, retries=0)
    result = Executor(store.session("s"), pool=pool, workers=8).run(plan)
    assert result.success, result.error
    outputs = [each.output for each in result.state.results]
    assert len({each[1] for each in outputs}) == 3
    assert all(each[0] == 1 and each[4:] == [3, 4] and each[3] != os.getpid() for each in outputs)


def test_a_step_that_kills_its_worker_fails_and_can_be_retried(store, client, tmp_path) -> None:
    plan = Plan("p")
    plan.step(die, str(tmp_path), 1, id="die")
    pool = client.get_executor(pure=False, retries=0)
    result = Executor(store.session("s"), pool=pool).run(plan)
    assert result.status == "failed"
    assert "dask" in str(result.error)
    assert store.rows(STEPS).get(result.execution, "die")["failures"] == 1
    again = Executor(store.session("s"), pool=pool).run(plan)
    assert again.state.output("die") == "alive"
    assert store.rows(STEPS).get(result.execution, "die")["attempt"] == 2


@action(name="dask.once", effect="at_most_once")
def once():
    return os.getpid()


def test_what_may_happen_at_most_once_is_not_left_to_a_cluster_that_tries_again(store, client) -> None:
    plan = Plan("p")
    plan.step(once)
    plan.step(echo, 1)
    result = Executor(store.session("s"), pool=client.get_executor(pure=False, retries=0)).run(plan)
    assert result.state.output("once") == os.getpid()
    assert result.state.output("echo")[3] != os.getpid()


def test_a_lost_scheduler_leaves_the_outcome_unknown(store, tmp_path) -> None:
    program = (
        "from distributed import LocalCluster; import sys, time\n"
        "if __name__ == '__main__':\n"
        "    how = dict(n_workers=1, threads_per_worker=1, processes=False, protocol='tcp', dashboard_address=None)\n"
        "    with LocalCluster(**how) as c:\n"
        "        print(c.scheduler_address, flush=True); sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    plan = Plan("p")
    plan.step(wait, str(tmp_path), id="wait")
    try:
        with distributed.Client(address, timeout=30) as client:
            pool = client.get_executor(pure=False, retries=0)
            executor = Executor(store.session("s"), pool=pool)
            executor.events.subscribe("step.started", lambda _event: process.kill())
            result = executor.run(plan)
    finally:
        process.kill()
        process.communicate()
    assert result.status == "paused"
    assert "outcome is unknown" in str(result.error)
    assert [each.status for each in executor.status().steps] == ["running"]
    # It goes on elsewhere, as after a crash: the next attempt.
    plan.steps[0].function = action(name="dask.wait")(lambda folder: "done")
    assert Executor(store.session("s")).run(plan).state.output("wait") == "done"
