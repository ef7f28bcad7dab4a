"""The application: its routes behind the guard, and the server that runs it.

/rpc        JSON-RPC 2.0            /v1/...     REST twins of what reads          /v1/events    live events (SSE)
/metrics    Prometheus              /openapi.json, /openrpc.json                  /healthz      open to everybody
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.gateway import rest, rpc
from holdfast.gateway.descriptions import openapi, openrpc
from holdfast.gateway.events import EventLog, Stream
from holdfast.gateway.metrics import CONTENT_TYPE, GatewayMetrics
from holdfast.gateway.security import (
    LOOPBACK,
    Guard,
    Limits,
    RefusedError,
    Tokens,
    bounded_protocol,
    refusal,
    write_audit,
)
from holdfast.operations import Service


def create_app(
    service: Service,
    tokens: Tokens,
    *,
    hosts: Iterable[str],
    limits: Limits | None = None,
    routes: Iterable[BaseRoute] = (),
) -> ASGIApp:
    """Make the application.

    Args:
        service: What is served.
        tokens: Who may do what.
        hosts: The names, with ports, that requests may have in Host: `localhost:8137`.
        limits: What a request may cost.
        routes: Others, behind the same guard.
    """
    limits = limits or Limits()
    log = EventLog(service.store)
    metrics = GatewayMetrics(service.store, lambda: log.listeners)
    service.observers += [write_audit, metrics.count]

    async def call(request: Request) -> Response:
        body = await request.body()
        told = await rpc.answer(service, body, request.state.caller, limits.wait_seconds)
        return Response(status_code=204) if told is None else Response(told, media_type="application/json")

    async def events(request: Request) -> Response:
        after = request.headers.get("last-event-id") or request.query_params.get("after")
        if after is not None and not (after.isascii() and after.isdigit() and len(after) < 19):
            return rest.failure(
                InvalidInputError(
                    "Last-Event-ID is the id of an event: a number",
                    code=ErrorCode.BAD_ARGUMENT,
                    hint="leave it out to begin now",
                )
            )
        place = None if after is None else int(after)
        return Stream(log, place, request.query_params.get("session"))

    async def numbers(_: Request) -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, RefusedError)
        return refusal(request.scope, error)

    async def health(_: Request) -> Response:
        return JSONResponse({"ok": True})

    def described(make: Callable[[], object]) -> Callable[[Request], Response]:
        return lambda _: JSONResponse(make())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        log.start()
        try:
            yield
        finally:
            await asyncio.to_thread(log.stop)

    app = Starlette(
        routes=[
            Route("/rpc", call, methods=["POST"]),
            Route("/v1/events", events, methods=["GET"]),
            Route("/metrics", numbers, methods=["GET"]),
            Route("/healthz", health, methods=["GET"]),
            Route("/openrpc.json", described(openrpc), methods=["GET"]),
            Route("/openapi.json", described(openapi), methods=["GET"]),
            *rest.routes(service, limits.wait_seconds),
            *routes,
        ],
        lifespan=lifespan,
        # A body that turns out too large, or too slow, while it is read.
        exception_handlers={RefusedError: refused},
    )
    return Guard(app, tokens, frozenset(each.lower() for each in hosts), limits)


def listen(host: str, port: int, proxy: str | None) -> tuple[socket.socket, frozenset[str]]:
    """Bind an address; return the socket, and the names by which the server is reached there.

    Raises:
        InvalidInputError: The address is not of this machine alone, and no reverse proxy was named.
    """
    if host not in ("127.0.0.1", "localhost", "::1") and proxy is None:
        raise InvalidInputError(
            f"{host!r:.60} can be reached from other machines, and the gateway has no encryption of its own",
            code=ErrorCode.BAD_ARGUMENT,
            hint="put a reverse proxy with TLS before it, and name it: --behind-proxy agents.example.org",
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise InvalidInputError(
            f"{host}:{port} cannot be listened on: {error.strerror or error}",
            code=ErrorCode.BAD_ARGUMENT,
            hint="choose another with --port; 0 takes a free one",
        ) from error
    # asyncio does so for sockets that say which protocol they have, and this one does not. Without it an answer of two
    # packets waits 40 ms for the other side. Connections have it from the socket that listens.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    names = {f"{name}:{bound.getsockname()[1]}" for name in LOOPBACK}
    return bound, frozenset(names | ({proxy.lower()} if proxy else set()))


def listen_unix(path: Path) -> socket.socket:
    """Bind a Unix socket that its owner alone can open; one that a dead server left behind is replaced."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode) or _answers(path):
            raise InvalidInputError(
                f"{path} is there already, and is no socket that nobody listens on",
                code=ErrorCode.PATH_EXISTS,
                hint="choose another with --socket",
            )
        path.unlink()
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        bound.bind(str(path))
    finally:
        os.umask(before)
    bound.listen(128)
    return bound


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as knock, suppress(OSError):
        knock.connect(str(path))
        return True
    return False


def serve(app: ASGIApp, sockets: list[socket.socket], limits: Limits | None = None) -> None:
    """Run the application on these sockets until SIGINT or SIGTERM."""
    limits = limits or Limits()
    config = uvicorn.Config(
        app,
        http=bounded_protocol(limits),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=int(limits.idle_seconds),
        timeout_graceful_shutdown=5,
        h11_max_incomplete_event_size=32 << 10,
    )
    # uvicorn ends in order, then raises the signal again: SIGTERM would end the process there, and leave the socket.
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        uvicorn.Server(config).run(sockets=sockets)
    finally:
        signal.signal(signal.SIGTERM, before)
