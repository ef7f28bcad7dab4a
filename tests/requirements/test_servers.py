"""What the source documents ask of servers: the gateway's methods for live agents, and the MCP tools."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import holdfast

AGENT = """
from holdfast.agents import HeartbeatAgent

class Scout(HeartbeatAgent):
    def __init__(self):
        super().__init__()
        self.restored = []

    def think(self, beat):
        self.working_memory.hold({"beat": beat.number}, 0.5)
"""


class Alive:
    """`holdfast heartbeat` in a process of its own, and a gateway in another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "scout.py").write_text(AGENT)
        self.store = holdfast.open(folder / "s.db")
        self.events: list[dict[str, Any]] = []
        self.agent = self._start(
            "heartbeat", "run", "scout:Scout", "--interval", "0.02", "--every", "100000", "--json"
        )
        self.gateway = self._start("serve", "--port", "0", "--json", "--token-file", "tokens.json")
        self.url = json.loads(self._line(self.gateway))["url"]
        self.heard = ""

    def _start(self, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "holdfast", *words, "--store", "s.db", "--session", "scout"]
        return subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    @staticmethod
    def _line(process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.stderr.read() if process.stderr else ""
        return line

    def event(self, kind: str) -> dict[str, Any]:
        """The next event of a kind that the agent tells."""
        while True:
            told: dict[str, Any] = json.loads(self._line(self.agent))
            if told["type"] == kind:
                return told

    def call(self, method: str, **params: Any) -> Any:
        """The result of a method of the gateway, or its error."""
        import httpx

        token = json.loads((self.folder / "tokens.json").read_text())["admin"]
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        told = httpx.post(
            f"{self.url}/rpc", json=body, headers={"Authorization": f"Bearer {token}"}, timeout=60
        ).json()
        return told["result"] if "result" in told else told["error"]["data"]

    def cli(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command, in a pipe."""
        command = [sys.executable, "-m", "holdfast", *words, "--store", "s.db"]
        return subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, check=False, env=dict(os.environ)
        )

    def beat(self) -> int:
        """The beat of the newest checkpoint."""
        return int(self.store.session("scout").checkpoint().step or 0)

    def stop(self) -> None:
        """End both, in order."""
        for process in (self.agent, self.gateway):
            process.terminate()
            process.communicate(timeout=30)
        self.store.close()


@pytest.fixture
def alive(tmp_path):
    made = Alive(tmp_path)
    try:
        made.event("heartbeat.woke")
        yield made
    finally:
        made.stop()


def _wait_for_agent(alive: Alive) -> list[dict[str, Any]]:
    for _ in range(200):
        agents: list[dict[str, Any]] = alive.call("live.list")["agents"]
        if agents:
            return agents
        time.sleep(0.05)
    raise AssertionError("the agent does not listen")


@pytest.mark.requirement("H9")
def test_a_gateway_lists_makes_and_restores_checkpoints_of_an_agent_in_another_process(alive):
    (agent,) = _wait_for_agent(alive)
    assert (agent["session"], agent["kind"], agent["pid"]) == ("scout", "heartbeat", alive.agent.pid)

    made = alive.call("checkpoint.create", message="before the risky part")
    assert made["live"]
    assert made["checkpoint"]["trigger"] == "manual"
    told = alive.event("checkpoint.created")
    assert told["checkpoint_id"] == made["checkpoint"]["id"]
    first = alive.beat()
    second = alive.call("checkpoint.create")
    beats = [each["beat_count"] for each in alive.call("checkpoint.list")["checkpoints"]]
    assert beats[0] > beats[1] > 0
    listed = alive.call("checkpoint.list")["checkpoints"]
    assert [each["id"] for each in listed] == [second["checkpoint"]["id"], made["checkpoint"]["id"]]
    assert all(each["timestamp"] for each in listed)

    # Without a confirmation nothing changes; an unknown id is an error.
    refused = alive.call("checkpoint.restore", checkpoint=made["checkpoint"]["id"])
    assert refused["code"] == "needs-confirmation"
    assert len(alive.call("checkpoint.list")["checkpoints"]) == 2
    assert alive.call("checkpoint.restore", checkpoint="ffffffff")["code"] == "checkpoint-missing"

    token = refused["details"]["confirm"]
    done = alive.call("checkpoint.restore", checkpoint=made["checkpoint"]["id"], confirm=token)
    assert done["live"]
    assert done["failed"] == []
    assert alive.event("checkpoint.restored")["checkpoint_id"] == made["checkpoint"]["id"]
    # It goes on from there: the beat that it counts is the old one, and a few more.
    third = alive.call("checkpoint.create")
    assert third["checkpoint"]["step"] >= first
    assert alive.agent.poll() is None


@pytest.mark.requirement("H9")
def test_the_command_line_does_the_same(alive):
    _wait_for_agent(alive)
    listed = alive.cli("live", "list", "--json")
    assert json.loads(listed.stdout)["agents"][0]["session"] == "scout"
    created = alive.cli("live", "create", "by hand", "--json")
    (made,) = json.loads(created.stdout)["checkpoints"]
    assert (made["message"], made["trigger"]) == ("by hand", "manual")

    refused = alive.cli("live", "restore", made["id"], "--json")
    assert refused.returncode == 20
    assert json.loads(refused.stderr)["error"]["code"] == "needs-confirmation"
    restored = alive.cli("live", "restore", made["id"], "--yes")
    assert restored.returncode == 0, restored.stderr
    assert alive.event("checkpoint.restored")["checkpoint_id"] == made["id"]
    assert alive.cli("live", "restore", "ffffffff", "--yes").returncode == 4
    assert alive.cli("live", "create", "--session", "nobody").returncode == 4


@pytest.mark.requirement("P4")
def test_mcp_tools_save_load_and_list_the_checkpoints_of_a_session(tmp_path):
    from mcp import Client, StdioServerParameters

    async def run() -> None:
        command = ["-m", "holdfast", "mcp", "--store", str(tmp_path / "s.db")]
        async with Client(StdioServerParameters(command=sys.executable, args=command)) as client:
            tools = {each.name: each.input_schema for each in (await client.list_tools()).tools}
            assert tools["checkpoint_save"] == {
                "type": "object",
                "properties": {
                    "sessionId": {"type": "string"},
                    "state": {"type": "object", "description": "Current agent state to save"},
                    "description": {"type": "string", "description": "Human-readable checkpoint name"},
                },
                "required": ["sessionId", "state"],
            }
            assert (
                tools["checkpoint_load"]["required"] == tools["checkpoint_list"]["required"] == ["sessionId"]
            )
            assert set(tools["checkpoint_load"]["properties"]) == {"sessionId", "checkpointId"}
            assert set(tools["checkpoint_list"]["properties"]) == {"sessionId"}

            async def call(name: str, **given: Any) -> Any:
                return (await client.call_tool(name, given)).structured_content

            assert (await call("checkpoint_load", sessionId="s"))["state"] is None
            states = [{"step": 1, "found": ["a"]}, {"step": 2, "found": ["a", "b"]}]
            saved = [
                await call("checkpoint_save", sessionId="s", state=each, description=f"step {each['step']}")
                for each in states
            ]
            ids = [each["checkpoint"]["id"] for each in saved]
            listed = (await call("checkpoint_list", sessionId="s"))["checkpoints"]
            assert [(each["id"], each["message"]) for each in listed] == [
                (ids[1], "step 2"),
                (ids[0], "step 1"),
            ]
            assert (await call("checkpoint_load", sessionId="s"))["state"] == states[1]
            assert (await call("checkpoint_load", sessionId="s", checkpointId=ids[0]))["state"] == states[0]
            await call("checkpoint_save", sessionId="other", state={})
            other = await client.call_tool("checkpoint_load", {"sessionId": "other", "checkpointId": ids[0]})
            assert other.is_error

    asyncio.run(run())
    with holdfast.open(tmp_path / "s.db") as store:
        assert store.session("s").load() == {"step": 2, "found": ["a", "b"]}
