"""Gateways to test: in this process without a network, and in a process of its own on the loopback interface."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import holdfast
from holdfast.gateway import Limits, Tokens, create_app
from holdfast.operations import SCOPES, Service

TOKENS = Tokens({scope: f"{scope}-{'x' * 40}" for scope in SCOPES})
HOST = "localhost:1"


class Local:
    """A gateway in this process, asked without a network."""

    def __init__(self, store: holdfast.Store, **limits: Any) -> None:
        self.service = Service(store)
        self.app = create_app(self.service, TOKENS, hosts=[HOST], limits=Limits(**limits))

    def send(
        self, method: str, path: str, *, scope: Any = "admin", headers: Any = None, **given: Any
    ) -> httpx.Response:
        """One request."""
        sent = {"Host": HOST} | ({"Authorization": f"Bearer {TOKENS[scope]}"} if scope else {})

        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost:1") as client:
                return await client.request(method, path, headers=sent | (headers or {}), **given)

        return asyncio.run(ask())

    def get(self, path: str, **given: Any) -> httpx.Response:
        """GET."""
        return self.send("GET", path, **given)

    def rpc(self, body: Any, **given: Any) -> Any:
        """The decoded answer to a body."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        kind = {"Content-Type": "application/json"}
        answer = self.send("POST", "/rpc", content=content, headers=kind, **given)
        return None if answer.status_code == 204 else answer.json()

    def call(self, name: str, /, *, scope: Any = "admin", **params: Any) -> Any:
        """The result of an operation, or its error record."""
        told = self.rpc({"jsonrpc": "2.0", "id": 1, "method": name, "params": params}, scope=scope)
        return told["result"] if "result" in told else told["error"]["data"]

    def confirmed(self, name: str, /, **params: Any) -> Any:
        """The result of an operation that is confirmed as it asks for it."""
        return self.call(name, **params, confirm=self.call(name, **params)["details"]["confirm"])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[holdfast.Store]:
    with holdfast.open(tmp_path / "s.db") as made:
        yield made


@pytest.fixture
def gateway(store: holdfast.Store) -> Iterator[Local]:
    made = Local(store)
    yield made
    made.service.close()


@pytest.fixture
def saved(store: holdfast.Store) -> list[str]:
    """The ids of three checkpoints of session `a`."""
    session = store.session("a")
    states = [
        {"score": 1, "notes": ["fine"]},
        {"score": 2, "notes": ["fine", "a bug"]},
        {"score": 3, "notes": []},
    ]
    return [session.save(state, f"save {at}").id for at, state in enumerate(states)]


class Served:
    """`holdfast serve` in a process of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.socket = folder / "g.sock"
        self.audit = folder / "audit.jsonl"
        self.tokens = folder / "tokens.json"
        command = [sys.executable, "-m", "holdfast", "serve", "--json", "--port", "0"]
        command += ["--store", str(folder / "s.db"), "--token-file", str(self.tokens)]
        command += ["--socket", str(self.socket), "--audit", str(self.audit), *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read() if self.process.stderr else ""
        self.url = json.loads(line)["url"]
        self.port = int(re.findall(r":(\d+)$", self.url)[0])
        self.client = httpx.Client(base_url=self.url, timeout=60, headers=self.auth("admin"))

    def auth(self, scope: str) -> dict[str, str]:
        """The header with the token of a scope."""
        return {"Authorization": f"Bearer {json.loads(self.tokens.read_text())[scope]}"}

    def call(self, name: str, /, **params: Any) -> Any:
        """The result of an operation, or its error record."""
        told = self.client.post(
            "/rpc", json={"jsonrpc": "2.0", "id": 1, "method": name, "params": params}
        ).json()
        return told["result"] if "result" in told else told["error"]["data"]

    def memory(self) -> int:
        """Bytes that the process holds now."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def stop(self, with_signal: int = signal.SIGTERM) -> int:
        """End it; what it ended with."""
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(with_signal)
        code = self.process.wait(30)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        return code


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    yield made
    made.stop(signal.SIGKILL)
