"""Who may ask: tokens with scopes, Host and Origin, and bounds on what a request may cost.

A server of this machine is reachable by every web page that its user has open, and by every program of every user. So a
token is always wanted, also on the loopback interface and on the Unix socket. Host is checked, because a page can give
its own name any address (DNS rebinding); Origin is, because a page can send requests. There is no CORS.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
import secrets
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, ClassVar

import anyio
import msgspec
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from holdfast.errors import BackendError, ErrorCode
from holdfast.operations import SCOPES, Call, Caller
from holdfast.operations import Scope as AccessScope

AUDIT = logging.getLogger("holdfast.audit")

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True)
class Limits:
    """What a request, a connection and a peer may cost."""

    body_bytes: int = 4 << 20
    header_seconds: float = 10.0
    """Until the headers of a request are there, and so also until a new connection sends anything."""
    body_seconds: float = 30.0
    idle_seconds: float = 60.0
    """How long a connection stays open between two requests, and while the other side does not read its answer."""
    wait_seconds: float = 30.0
    """How long an operation may take until it becomes a job."""
    connections: int = 64
    """At once, of one peer."""


class Tokens:
    """One token for each scope, 256 bits each, in a file that its owner alone can read."""

    def __init__(self, tokens: Mapping[AccessScope, str]) -> None:
        self._tokens = dict(tokens)

    def __getitem__(self, scope: AccessScope) -> str:
        return self._tokens[scope]

    @classmethod
    def load(cls, path: Path) -> Tokens:
        """Read the file, and make it where there is none.

        Raises:
            BackendError: Others can read it, or it is none (`permission-denied`).
        """
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            made = {scope: secrets.token_urlsafe(32) for scope in SCOPES}
            # Beside it first: who starts at the same moment finds a whole file, or none.
            with NamedTemporaryFile("w", dir=path.parent) as file:
                json.dump(made, file, indent=2)
                file.flush()
                os.link(file.name, path)
            return cls(made)
        except FileExistsError:
            pass
        found: dict[str, str] = {}
        # The file that is open is the one that was looked at: its name may come to mean another.
        with path.open("rb") as opened, suppress(msgspec.MsgspecError, UnicodeDecodeError):
            about = os.fstat(opened.fileno())
            if not about.st_mode & 0o077 and about.st_uid == os.getuid():
                found = msgspec.json.decode(opened.read(), type=dict[str, str])
        if set(found) != set(SCOPES) or any(len(each) < 43 for each in found.values()):
            raise BackendError(
                f"the tokens in {path} cannot be used: others can read the file, or it is none",
                code=ErrorCode.PERMISSION_DENIED,
                hint="remove it: the next holdfast serve makes new tokens",
            )
        return cls({scope: found[scope] for scope in SCOPES})

    def scope_of(self, given: str) -> AccessScope | None:
        """What a token allows. Each is compared whole, so that the time says nothing."""
        matches = [
            scope for scope in SCOPES if hmac.compare_digest(given.encode(), self._tokens[scope].encode())
        ]
        return matches[0] if matches else None


def token_file(store_url: str) -> Path:
    """Where the tokens of a store are: not in its folder, which may be a repository."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "holdfast" / f"tokens-{sha256(store_url.encode()).hexdigest()[:16]}.json"


def write_audit(call: Call) -> None:
    """A line for every write and every refusal, with names and no content."""
    if call.operation.scope == "read" and call.outcome != ErrorCode.PERMISSION_DENIED:
        return
    record = {"operation": call.operation.name, "outcome": call.outcome, **call.about}
    _audit(call.caller.name, call.caller.scope, **record)


def _audit(peer: str, scope: str | None, **record: str) -> None:
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    AUDIT.info(json.dumps({"at": at, "peer": peer, "scope": scope, **record}))


class RefusedError(Exception):
    """A request that is answered with an error before its end."""

    def __init__(self, status: int, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.status, self.code, self.hint = status, code, hint


@dataclass
class Guard:
    """The application behind its checks.

    Attributes:
        app: What answers.
        tokens: Who may do what.
        hosts: The names, with ports, by which this server is reached.
        limits: What a request may cost.
        origins: The origins that pages may come from: those of this server's own names.
    """

    app: ASGIApp
    tokens: Tokens
    hosts: frozenset[str]
    limits: Limits
    origins: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.origins = frozenset(f"{scheme}://{host}" for host in self.hosts for scheme in ("http", "https"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, then pass it on."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        peer = _peer_of(scope)

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *_HEADERS]}
            await send(message)

        try:
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            self._check_place(scope["type"], headers)
            if scope["path"] != "/healthz":
                scope.setdefault("state", {})["caller"] = Caller(self._scope_of(headers), peer)
            self._check_body(scope["method"], headers)
            await self.app(scope, self._bounded(receive, scope["method"]), watched)
        except RefusedError as refused:
            if scope["type"] == "http":
                await refusal(scope, refused)(scope, receive, watched)
            else:
                await send({"type": "websocket.close", "code": 1008})

    def _check_place(self, kind: str, headers: Mapping[str, str]) -> None:
        if kind != "http":
            raise RefusedError(403, "not-supported", "there is no WebSocket here", "use HTTP")
        if headers.get("host", "").lower() not in self.hosts:
            hint = "use the address that holdfast serve prints, or name the proxy with --behind-proxy"
            raise RefusedError(421, "wrong-host", "this server does not have that name", hint)
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self.origins:
            hint = "ask from the server's own origin, or without Origin"
            raise RefusedError(403, "wrong-origin", "pages of other origins may not ask", hint)

    def _scope_of(self, headers: Mapping[str, str]) -> AccessScope:
        kind, _, given = headers.get("authorization", "").partition(" ")
        found = self.tokens.scope_of(given.strip()) if kind.lower() == "bearer" else None
        if found is None:
            raise RefusedError(
                401,
                "no-token",
                "the request has no token that this server knows",
                "send one from the token file of holdfast serve: Authorization: Bearer TOKEN",
            )
        return found

    def _check_body(self, method: str, headers: Mapping[str, str]) -> None:
        if "content-encoding" in headers:
            raise RefusedError(
                415, "wrong-type", "bodies are not compressed here", "send it without Content-Encoding"
            )
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if method == "POST" and kind != "application/json":
            raise RefusedError(
                415, "wrong-type", "the body is not said to be JSON", "send Content-Type: application/json"
            )
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length[:20]) > self.limits.body_bytes:
            raise self._too_large()

    def _too_large(self) -> RefusedError:
        return RefusedError(
            413, "too-large", f"a body has at most {self.limits.body_bytes} bytes", "send less at once"
        )

    def _bounded(self, receive: Receive, method: str) -> Receive:
        """Receive a body within its bounds; GET has none, and waits for the other side to leave."""
        size, ends = 0, anyio.current_time() + self.limits.body_seconds
        complete = method in ("GET", "HEAD")

        async def bounded() -> Message:
            nonlocal size, complete
            if complete:
                return await receive()
            with anyio.CancelScope(deadline=ends) as waiting:
                message = await receive()
            if waiting.cancelled_caught:
                raise RefusedError(408, "too-slow", "the body did not come in time", "send it again")
            size += len(message.get("body", b""))
            if size > self.limits.body_bytes:
                raise self._too_large()
            complete = not message.get("more_body", False)
            return message

        return bounded


_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
]


def _peer_of(scope: Scope) -> str:
    return str((scope.get("client") or ("socket",))[0])


def refusal(scope: Scope, refused: RefusedError) -> JSONResponse:
    """The answer to a request that is refused, which is also in the audit log."""
    _audit(_peer_of(scope), None, refused=refused.code, path=str(scope["path"])[:200])
    told = {"code": refused.code, "message": str(refused), "hint": refused.hint, "exit": 2, "details": {}}
    headers = {"Connection": "close"}
    if refused.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="holdfast"'
    return JSONResponse({"error": told}, refused.status, headers)


_SLOWEST = 64 << 10
"""Bytes of an answer that have to be read within the idle time."""


class BoundedProtocol(H11Protocol):
    """The HTTP of uvicorn, with bounds that it lacks: on connections of a peer, on slow headers and slow readers."""

    limits = Limits()
    peers: ClassVar[Counter[str]] = Counter()

    _late: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _peer = ""

    def connection_made(self, transport: Any) -> None:
        """Refuse it where the peer has enough."""
        name = transport.get_extra_info("peername")
        self._peer = name[0] if isinstance(name, tuple) else "socket"
        self.peers[self._peer] += 1
        super().connection_made(transport)
        if self.peers[self._peer] > self.limits.connections:
            self._close(503, b"too many connections")
        else:
            self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count it off."""
        self._in_time()
        self._read()
        self.peers[self._peer] -= 1
        if not self.peers[self._peer]:
            del self.peers[self._peer]
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """As soon as a request has its headers it is in time; between two there is time to be idle."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._in_time()

    def data_received(self, data: bytes) -> None:
        """The first bytes of the next request: its headers have to come in time, too."""
        # uvicorn says that there always is a request; before the first one there is none.
        busy = bool(self.cycle) and not self.cycle.response_complete
        if self._late is None and not busy:
            self._wait_for_headers()
        super().data_received(data)

    def pause_writing(self) -> None:
        """More waits to be read than the transport likes: the other side has to go on reading it."""
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        """It was read."""
        self._read()
        super().resume_writing()

    def _wait_for_reader(self, before: int | None = None) -> None:
        left = self.transport.get_write_buffer_size()
        if before is not None and left > before - _SLOWEST:
            # close() would wait until all of it is read.
            self.transport.abort()
            return
        self._unread = self.loop.call_later(self.limits.idle_seconds, self._wait_for_reader, left)

    def _read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _wait_for_headers(self) -> None:
        self._late = self.loop.call_later(self.limits.header_seconds, self._close, 408, b"too slow")

    def _in_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _close(self, status: int, why: bytes) -> None:
        self._in_time()
        if not self.transport.is_closing():
            head = b"HTTP/1.1 %d %s\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            self.transport.write(head % (status, why))
            self.transport.close()


def bounded_protocol(limits: Limits) -> type[BoundedProtocol]:
    """That protocol for one server, with its limits and its count of peers."""
    return type("Protocol", (BoundedProtocol,), {"limits": limits, "peers": Counter()})
