"""The servers: what a save over the gateway costs beside a local one, 1,000 listeners, and how fast MCP starts.

python -m bench.gateway [saves | listeners | mcp]
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

import holdfast

ROUNDS = 60
LISTENERS = 1000

BARE = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("bare")
@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b
server.run("stdio")
"""


def state_of(size: int) -> dict[str, Any]:
    """A state of about so many bytes: messages, as agents have them."""
    chance = random.Random(26)
    words = ["".join(chance.choices("abcdefghij ", k=60)) for _ in range(64)]
    messages = []
    while len(messages) * 1000 < size:
        text = " ".join(chance.choice(words) for _ in range(15))
        messages.append({"id": len(messages), "role": "user", "text": text})
    return {"step": 0, "messages": messages}


class Gateway:
    """`holdfast serve` in a process of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [
            sys.executable,
            "-m",
            "holdfast",
            "serve",
            "--json",
            "--port",
            "0",
            "--store",
            str(folder / "g.db"),
        ]
        command += ["--token-file", str(folder / "tokens.json"), *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        self.url = json.loads(self.process.stdout.readline())["url"]
        self.headers = {
            "Authorization": f"Bearer {json.loads((folder / 'tokens.json').read_text())['admin']}"
        }

    def memory(self) -> float:
        """Megabytes that it holds."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait()


def timed(work: Any) -> float:
    """Milliseconds that it takes."""
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


def saves(folder: Path) -> None:
    """A 1 MB state with a small change: over the gateway, locally, and what the way alone takes."""
    state = state_of(1_000_000)
    store = holdfast.open(folder / "local.db")
    session = store.session("a")
    gateway = Gateway(folder)
    client = httpx.Client(base_url=gateway.url, headers=gateway.headers, timeout=60)

    def remote(method: str = "checkpoint.create") -> None:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"session": "a", "state": state}}
        told = client.post(
            "/rpc", content=json.dumps(body).encode(), headers={"Content-Type": "application/json"}
        )
        assert told.status_code == 200

    figures: dict[str, list[float]] = {
        "local": [],
        "gateway": [],
        "round trip": [],
        "round trip with the body": [],
    }
    for step in range(ROUNDS):
        state["step"] = step
        state["messages"][step % len(state["messages"])]["text"] = f"changed in step {step}"
        figures["local"].append(timed(lambda: session.save(state)))
        figures["gateway"].append(timed(remote))
        figures["round trip"].append(timed(lambda: client.get("/healthz")))
        # Refused before anything is done with it, but sent and parsed.
        figures["round trip with the body"].append(timed(lambda: remote("none")))
    gateway.stop()
    store.close()
    middle = {name: statistics.median(each[5:]) for name, each in figures.items()}
    for name, each in middle.items():
        print(f"{name:26} p50 {each:7.2f} ms")
    allowed = 3 * middle["local"] + middle["round trip with the body"]
    print(f"allowed: 3 x local + the way {allowed:.2f} ms; taken {middle['gateway'] / allowed:.2f} of it")


async def _listen(gateway: Gateway, folder: Path) -> None:
    limits = httpx.Limits(max_connections=None)
    heard = [0] * LISTENERS
    async with httpx.AsyncClient(
        base_url=gateway.url, headers=gateway.headers, limits=limits, timeout=60
    ) as client:
        before = gateway.memory()

        async def listen(at: int) -> None:
            async with client.stream("GET", "/v1/events") as response:
                async for line in response.aiter_lines():
                    heard[at] += line.startswith("id: ")

        tasks = []
        for at in range(LISTENERS):
            tasks.append(asyncio.create_task(listen(at)))
            if at % 50 == 49:
                await asyncio.sleep(0.2)
        await asyncio.sleep(2)
        joined = gateway.memory()
        with holdfast.open(folder / "g.db") as store:
            session = store.session("a")
            readings = []
            for batch in range(4):
                for at in range(50):
                    await asyncio.to_thread(session.save, {"at": batch * 50 + at})
                while min(heard) < (batch + 1) * 50:  # noqa: ASYNC110 - a thousand events would cost more
                    await asyncio.sleep(0.05)
                readings.append(gateway.memory())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    print(f"memory: {before:.1f} MB alone, {joined:.1f} MB with {LISTENERS} listeners")
    print("after 50, 100, 150, 200 events to each:", " ".join(f"{each:.1f}" for each in readings), "MB")


def listeners(folder: Path) -> None:
    """1,000 listeners hear 200 events each."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
    gateway = Gateway(folder, "--connections", "2000")
    try:
        asyncio.run(_listen(gateway, folder))
    finally:
        gateway.stop()


async def _first_answer(command: list[str]) -> float:
    from mcp import Client, StdioServerParameters

    begun = time.perf_counter()
    parameters = StdioServerParameters(command=command[0], args=command[1:])
    async with Client(parameters) as client:
        await client.list_tools()
        return (time.perf_counter() - begun) * 1000


def mcp(folder: Path) -> None:
    """From starting the process to the list of tools."""
    (folder / "bare.py").write_text(BARE)
    servers = {
        "bare SDK": [sys.executable, str(folder / "bare.py")],
        "holdfast": [sys.executable, "-m", "holdfast", "mcp", "--store", str(folder / "m.db")],
    }
    found: dict[str, list[float]] = {name: [] for name in servers}
    for _ in range(8):
        for name, command in servers.items():
            found[name].append(asyncio.run(_first_answer(command)))
    middle = {name: statistics.median(each[1:]) for name, each in found.items()}
    for name, each in middle.items():
        print(f"{name:10} p50 {each:7.0f} ms")
    print(f"ratio {middle['holdfast'] / middle['bare SDK']:.2f}")


def main() -> None:
    """Run what was named, or all."""
    for name in sys.argv[1:] or ["saves", "listeners", "mcp"]:
        with tempfile.TemporaryDirectory() as folder:
            print(f"-- {name}")
            {"saves": saves, "listeners": listeners, "mcp": mcp}[name](Path(folder))


if __name__ == "__main__":
    main()
