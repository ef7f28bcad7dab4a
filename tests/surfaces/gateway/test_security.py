"""Who may ask, and what a request may cost: each refusal of the scorecard, in this process and against a real one."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import stat

import anyio
import httpx
import pytest
import uvicorn
from tests.surfaces.gateway.conftest import HOST, TOKENS, Served

from holdfast.errors import HoldfastError
from holdfast.gateway import Limits, Tokens, create_app
from holdfast.gateway.app import listen
from holdfast.gateway.security import bounded_protocol
from holdfast.operations import Service

JSON = {"Content-Type": "application/json"}
BODY = b'{"jsonrpc":"2.0","id":1,"method":"session.list"}'


@pytest.mark.parametrize(
    "path", ["/rpc", "/v1/sessions", "/v1/events", "/metrics", "/openapi.json", "/nothing"]
)
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "localhost"}, 421),
        ({"Host": "localhost:1.evil.example"}, 421),
        ({"Host": ""}, 421),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://localhost:2"}, 403),
        ({"Origin": f"http://{HOST}.evil.example"}, 403),
        ({"Authorization": ""}, 401),
        ({"Authorization": f"Basic {TOKENS['admin']}"}, 401),
        ({"Authorization": f"Bearer {TOKENS['admin']}x"}, 401),
        ({"Authorization": f"Bearer {TOKENS['admin'][:-1]}"}, 401),
        ({"Authorization": "Bearer é"}, 401),
        ({"Host": "evil.example", "Origin": "null", "Authorization": ""}, 421),
    ],
)
def test_who_has_no_business_here_is_refused(gateway, path, headers, status):
    sent = {**JSON, **headers}
    sent = {name: value.encode("utf-8") for name, value in sent.items()}
    answer = gateway.send("POST" if path == "/rpc" else "GET", path, headers=sent)
    assert answer.status_code == status
    assert answer.json()["error"]["hint"]
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    ("headers", "content", "status"),
    [
        ({"Content-Type": "text/plain"}, BODY, 415),
        ({}, BODY, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, BODY, 415),
        ({**JSON, "Content-Encoding": "gzip"}, BODY, 415),
        ({**JSON, "Content-Length": str(300 << 20)}, BODY, 413),
        ({**JSON, "Content-Length": "1e3"}, BODY, 413),
        (JSON, b" " * (4 << 20) + BODY, 413),
        ({"Content-Type": "application/json; charset=utf-8"}, BODY, 200),
        ({**JSON, "Origin": f"http://{HOST}"}, BODY, 200),
    ],
)
def test_a_body_is_json_and_bounded(gateway, headers, content, status):
    assert gateway.send("POST", "/rpc", headers=headers, content=content).status_code == status


def test_health_is_open_and_says_nothing(gateway):
    answer = gateway.get("/healthz", scope=None)
    assert answer.json() == {"ok": True}
    assert gateway.get("/healthz", scope=None, headers={"Host": "evil.example"}).status_code == 421


def test_answers_cannot_be_taken_for_pages(gateway):
    headers = gateway.get("/v1/sessions").headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in headers["content-security-policy"]


def test_tokens_are_long_private_and_lasting(tmp_path):
    path = tmp_path / "new" / "tokens.json"
    made = Tokens.load(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert len({made[scope] for scope in ("read", "write", "admin")}) == 3
    assert all(len(made[scope]) >= 43 for scope in ("read", "write", "admin"))  # 256 bits
    assert Tokens.load(path)["read"] == made["read"]
    assert made.scope_of(made["write"]) == "write"
    assert made.scope_of("") is None
    path.chmod(0o644)
    with pytest.raises(HoldfastError, match="others can read"):
        Tokens.load(path)
    path.chmod(0o600)
    long = "x" * 43
    for junk in (
        b'{"read": "short", "write": "", "admin": ""}',
        json.dumps({"read": long, "write": long, "admin": [long] * 43}).encode(),
        b'["read", "write", "admin"]',
        b'{"read": ',
        b"\xff",
        b"",
    ):
        path.write_bytes(junk)
        with pytest.raises(HoldfastError, match="cannot be used"):
            Tokens.load(path)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_other_addresses_are_refused(host):
    with pytest.raises(HoldfastError, match="other machines"):
        listen(host, 0, None)


def test_a_reverse_proxy_gives_the_server_a_name():
    bound, names = listen("127.0.0.1", 0, "Agents.Example.org")
    bound.close()
    assert "agents.example.org" in names


# Against a server in a process of its own


def _send(port: int, data: bytes) -> bytes:
    """What comes back until the other side closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        try:
            connection.sendall(data)
            return b"".join(iter(lambda: connection.recv(65536), b""))
        except (ConnectionResetError, BrokenPipeError):
            return b""


def test_abuse_ends_in_its_codes_and_in_little_memory(tmp_path):
    served = Served(tmp_path)
    try:
        served.call("checkpoint.create", session="a", state={})
        before = served.memory()
        head = f"POST /rpc HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nContent-Type: application/json\r\n"
        head += f"Authorization: {served.auth('admin')['Authorization']}\r\n"

        # 300 MB: said beforehand, and not said.
        told = _send(served.port, f"{head}Content-Length: {300 << 20}\r\n\r\n".encode())
        assert b" 413 " in told
        chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
        with socket.create_connection(("127.0.0.1", served.port), timeout=30) as connection:
            connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
            sent = 0
            try:
                for _ in range(4800):
                    connection.sendall(chunk)
                    sent += len(chunk)
            except (ConnectionResetError, BrokenPipeError):
                pass
            assert sent < 200 << 20

        # Headers that are too long; headers that never end, beside 400 connections that say nothing: most of those are
        # refused at once, the rest when the time for headers is over.
        assert _send(served.port, head.encode() + b"X: " + b"x" * 200_000)[:12] in (b"", b"HTTP/1.1 400")
        served.client.close()
        waiting = [socket.create_connection(("127.0.0.1", served.port), timeout=30) for _ in range(401)]
        waiting[0].sendall(head.encode())
        answers = [connection.recv(100)[9:12] for connection in waiting]
        for connection in waiting:
            connection.close()
        assert answers[0] == b"408"
        assert answers.count(b"408") == 64
        assert answers.count(b"503") == 401 - 64
        served.client = httpx.Client(base_url=served.url, timeout=60, headers=served.auth("admin"))
        assert served.client.get("/healthz").status_code == 200

        # A batch of 100,000.
        batch = served.client.post("/rpc", json=[{"jsonrpc": "2.0", "method": "x"}] * 80_000)
        assert batch.json()["error"]["code"] == -32600
        assert served.memory() - before < 32 << 20
        assert served.call("store.stats")["totals"]["checkpoints"] == 1
    finally:
        served.stop()


@pytest.mark.parametrize("path", ["/v1/sessions/a/checkpoints/@/state", "/v1/events?after=0"])
def test_who_never_reads_an_answer_is_cut_off(store, path):
    store.session("a").save({"text": "x" * (16 << 20)})
    for _ in range(0 if "state" in path else 16):
        store.session("a").save({}, metadata={"text": "x" * 1_000_000})
    limits = Limits(idle_seconds=0.2)
    service = Service(store)
    bound, names = listen("127.0.0.1", 0, None)
    app = create_app(service, TOKENS, hosts=names, limits=limits)
    port = bound.getsockname()[1]
    gone = asyncio.Event()

    class Watched(bounded_protocol(limits)):  # type: ignore[misc]
        def connection_lost(self, exc):
            super().connection_lost(exc)
            gone.set()

    config = uvicorn.Config(app, http=Watched, lifespan="on", ws="none", log_config=None)
    server = uvicorn.Server(config)

    async def run():
        running = asyncio.create_task(server.serve(sockets=[bound]))
        reader = socket.create_connection(("127.0.0.1", port), timeout=30)
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKENS['admin']}\r\n\r\n"
        await asyncio.to_thread(reader.sendall, head.encode())
        with anyio.fail_after(30):
            await gone.wait()
        reader.close()
        server.should_exit = True
        await running

    try:
        asyncio.run(run())
    finally:
        service.close()
        bound.close()


def test_a_slow_body_is_cut_off(store):
    service = Service(store)
    app = create_app(service, TOKENS, hosts=[HOST], limits=Limits(body_seconds=0.05))
    sent: list[dict] = []

    async def receive():
        await asyncio.sleep(3600)

    async def send(message):
        sent.append(message)

    headers = {
        "host": HOST,
        "authorization": f"Bearer {TOKENS['admin']}",
        **{k.lower(): v for k, v in JSON.items()},
    }
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/rpc",
        "raw_path": b"/rpc",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }

    async def ask():
        await app(scope, receive, send)

    asyncio.run(ask())
    service.close()
    assert sent[0]["status"] == 408


def test_the_audit_log_has_a_line_for_each_write_and_each_refusal_and_no_secret(served):
    served.call("checkpoint.create", session="a", state={"password": "hunter2"}, message="hunter2")
    served.call("checkpoint.list", session="a")
    served.call("checkpoint.delete", session="a", checkpoint="@")
    served.client.get("/v1/sessions", headers={"Authorization": "Bearer wrong-secret"})
    served.client.post(
        "/rpc", json={"jsonrpc": "2.0", "method": "store.gc", "id": 1}, headers=served.auth("read")
    )
    assert served.stop() == 0
    text = served.audit.read_text()
    lines = [json.loads(each) for each in text.splitlines()]
    told = [(each.get("operation"), each.get("outcome"), each.get("refused")) for each in lines]
    assert told == [
        ("checkpoint.create", "ok", None),
        ("checkpoint.delete", "needs-confirmation", None),
        (None, None, "no-token"),
        ("store.gc", "permission-denied", None),
    ]
    assert lines[0]["session"] == "a"
    assert stat.S_IMODE(served.audit.stat().st_mode) == 0o600
    secrets = [*json.loads(served.tokens.read_text()).values(), "hunter2", "wrong-secret"]
    assert not any(secret in text for secret in secrets)


def test_the_socket_is_its_owners_alone_and_goes_with_the_server(served):
    assert stat.S_IMODE(served.socket.stat().st_mode) == 0o600
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(served.socket))) as client:
        body = {"jsonrpc": "2.0", "id": 1, "method": "session.list"}
        assert client.post("http://localhost/rpc", json=body).status_code == 401
        assert client.post("http://localhost/rpc", json=body, headers=served.auth("read")).json()["result"]
        assert client.post("http://evil/rpc", json=body, headers=served.auth("read")).status_code == 421
    assert served.stop() == 0
    assert not served.socket.exists()


def test_metrics_are_what_prometheus_reads(served):
    from prometheus_client.parser import text_string_to_metric_families

    served.call("checkpoint.create", session="a", state={})
    served.call("nothing")
    text = served.client.get("/metrics", headers=served.auth("read")).text
    found = {each.name: each for each in text_string_to_metric_families(text)}
    calls = {
        (s.labels["operation"], s.labels["outcome"]): s.value
        for s in found["holdfast_gateway_calls"].samples
        if s.name.endswith("_total")
    }
    assert calls == {("checkpoint.create", "ok"): 1.0}
    assert found["holdfast_checkpoint_save_count"].samples
    assert re.search(r"^holdfast_gateway_listeners 0.0$", text, re.MULTILINE)
