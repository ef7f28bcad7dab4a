"""Live agents: who can be reached, what they are asked for, and that nothing of it can keep one from living."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import holdfast
from holdfast.agents import Executor, Plan, Run, listening, live_agents


class Agent:
    """Saves and restores what it was told to."""

    def __init__(self, store):
        self.store, self.restored = store, []

    def save_now(self, message):
        return self.store.session("x").save({"live": True}, message)

    def restore_now(self, ref):
        from holdfast.recording.resume import ResumeReport, SourceOutcome

        if ref == "bad":
            raise RuntimeError("the application's own")
        self.restored.append(self.store.session("x").checkpoint(ref).id)
        outcomes = {"affect": SourceOutcome("restored"), "goals": SourceOutcome("failed", "too old")}
        return ResumeReport(None, sources=outcomes)


@pytest.fixture
def agent(store):
    made = Agent(store)
    with listening(store, "x", made, kind="recorder"):
        yield made
    assert live_agents(store) == []


def test_it_saves_and_restores_when_it_is_asked(store, agent):
    (found,) = live_agents(store)
    assert (found.session, found.kind, found.pid) == ("x", "recorder", os.getpid())
    made = found.create("now")
    assert store.session("x").checkpoint().id == made["id"]
    assert made["message"] == "now"
    assert found.restore("@") == {"failed": {"goals": "too old"}}
    assert agent.restored == [made["id"]]


@pytest.mark.parametrize("how", ["open", "link"])
def test_nobody_else_answers_in_the_place_of_an_agent(store, tmp_path, how):
    """The row stays after its agent, and its name under /tmp is free for every user of the machine."""
    with listening(store, "x", Agent(store), kind="recorder"):
        (found,) = live_agents(store)
    folder = Path(found.socket).parent
    theirs = tmp_path / "t" if how == "link" else folder
    theirs.mkdir(mode=0o700)
    if how == "link":
        folder.symlink_to(theirs)
    else:
        theirs.chmod(0o755)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as squatter:
            squatter.bind(found.socket)
            squatter.listen()
            assert live_agents(store) == []
            with pytest.raises(holdfast.errors.BackendError) as refused:
                found.create("for the agent alone")
            assert refused.value.code == "server-gone"
    finally:
        Path(found.socket).unlink(missing_ok=True)
        folder.unlink() if how == "link" else folder.rmdir()


def test_errors_come_back_as_what_they_are(store, agent):
    (found,) = live_agents(store)
    found.create()
    with pytest.raises(holdfast.NotFoundError) as unknown:
        found.restore("ffff")
    assert unknown.value.code == "checkpoint-missing"
    with pytest.raises(holdfast.InvalidInputError) as unconfirmed:
        found.restore("@", confirm=False)
    assert unconfirmed.value.code == "needs-confirmation"
    with pytest.raises(holdfast.BackendError, match="the application's own"):
        found.restore("bad")
    assert agent.restored == []


def test_its_socket_is_its_users_alone(store, agent):
    path = Path(live_agents(store)[0].socket)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert "socket" not in live_agents(store)[0].to_dict()


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"x" * 100 + b"\n",
        b"[]\n",
        b'{"method": 1}\n',
        b'{"method": "shutdown"}\n',
        b"[" * 100_000 + b"\n",
        b"{}\n",
    ],
)
def test_what_is_no_request_harms_nobody(store, agent, line):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(live_agents(store)[0].socket)
        connection.sendall(line)
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert not answer or "error" in json.loads(answer)
    assert live_agents(store)[0].create()["id"]


def test_one_that_was_killed_is_passed_over_and_its_place_is_free(tmp_path):
    program = f"""
import holdfast, os, signal
from holdfast.agents import listening
store = holdfast.open({str(tmp_path / "s.db")!r})
class Agent:
    save_now = restore_now = None
with listening(store, "x", Agent(), kind="recorder"):
    print("here", flush=True)
    signal.pause()
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout, holdfast.open(tmp_path / "s.db") as store:
        process.stdout.readline()
        (found,) = live_agents(store)
        assert found.pid == process.pid
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert live_agents(store) == []
        assert not found.is_awake()
        with pytest.raises(holdfast.BackendError):
            found.create()
        with listening(store, "x", Agent(store), kind="recorder"):
            assert live_agents(store)[0].pid == os.getpid()


def test_an_agent_lives_although_it_cannot_be_reached(store, monkeypatch, caplog):
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    with listening(store, "x", Agent(store), kind="recorder"):
        assert live_agents(store) == []
    assert "cannot be reached" in caplog.text


def test_a_run_and_a_plan_can_be_reached_where_they_say_so(store, gateway):
    with Run(store.session("run"), task="t", live=True) as run:
        run.think("hm")
        told = gateway.call("checkpoint.create", session="run", message="now")
        assert told["live"]
        assert told["checkpoint"]["trigger"] == "manual"
        refused = gateway.call("checkpoint.restore", session="run", checkpoint="@~1")
        token = refused["details"]["confirm"]
        again = gateway.call("checkpoint.restore", session="run", checkpoint="@~1", confirm=token)
        assert again["code"] == "not-supported"
    assert live_agents(store) == []

    reached = threading.Event()

    def step():
        assert reached.wait(30)
        return "done"

    executor = Executor(store.session("plan"), actions={"step": step}, live=True)
    plan = Plan("p", steps=[{"id": "one", "action": "step"}])
    running = threading.Thread(target=executor.run, args=(plan,))
    running.start()
    try:
        while not live_agents(store):
            pass
        told = gateway.call("checkpoint.create", session="plan", message="while it runs")
    finally:
        reached.set()
        running.join()
    assert told["live"]
    assert told["checkpoint"]["message"] == "while it runs"
    assert executor.status().status == "completed"
