"""LiveAgent: an agent that is awake in some process of this machine, and can be asked to save and to restore itself.

    with listening(store, "scout", agent, kind="heartbeat"):     # in the process of the agent
        ...

    (found,) = live_agents(store)                                # in any other process of the same user
    found.create("before the risky part")
    found.restore("@~3", confirm=True)

The agent listens on a Unix socket that its own user alone can open. A row of the table `live_agents` names it. The row
stays when the agent ends, in whatever way, and is passed over because nobody answers there. A request is a line of
JSON-RPC, and so is the answer.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
import socketserver
import stat
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Any, ClassVar, Final, Protocol

from holdfast import Checkpoint, ResumeReport, Store, Table, errors
from holdfast.errors import BackendError, ErrorCode, HoldfastError, InvalidInputError, NotFoundError
from holdfast.reports.report import Report

LOG = logging.getLogger("holdfast.live")

LIVE: Final = Table(
    "live_agents",
    columns={"session": str, "kind": str, "pid": int, "host": str, "socket": str, "since": float},
    key=("session",),
)
_MAX_LINE: Final = 1 << 20
_KNOCK_SECONDS: Final = 1.0
"""A socket of this machine answers at once, or nobody is there."""
ANSWER_SECONDS: Final = 60.0
"""How long a save or a restore may take: it waits for the beat that is under way."""


class Reachable(Protocol):
    """What an agent has to offer to be reached; both are called on a thread that is not its own."""

    def save_now(self, message: str) -> Checkpoint:
        """Save now, with the trigger `manual`."""

    def restore_now(self, ref: str) -> ResumeReport:
        """Take up the state of a checkpoint, between two steps."""


@dataclass(frozen=True)
class LiveAgent(Report):
    """An agent that is awake.

    Attributes:
        session: The session that it saves in.
        kind: What it is: heartbeat, recorder, run.
        pid: Its process.
        since: When it woke up, in seconds since 1970.
        socket: Where it listens.
    """

    session: str
    kind: str
    pid: int
    since: float
    socket: str

    def create(self, message: str = "") -> dict[str, Any]:
        """Have it save itself now; return the checkpoint.

        Raises:
            BackendError: It does not answer any more (`server-gone`).
            HoldfastError: Whatever the agent ended in.
        """
        return self._ask("create", {"message": message})

    def restore(self, ref: str, *, confirm: bool = True) -> dict[str, Any]:
        """Have it take up the state of a checkpoint; return which parts failed. Without `confirm` nothing is done."""
        return self._ask("restore", {"ref": ref, "confirm": confirm})

    def is_awake(self) -> bool:
        """Whether somebody listens."""
        with suppress(OSError), _connected(self.socket, _KNOCK_SECONDS):
            return True
        return False

    def _ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        try:
            with _connected(self.socket, ANSWER_SECONDS) as connection, connection.makefile("rwb") as stream:
                stream.write(json.dumps(request).encode() + b"\n")
                stream.flush()
                answer = json.loads(stream.readline(_MAX_LINE) or b"{}")
        except (OSError, ValueError) as error:
            raise BackendError(
                f"the agent of session {self.session!r} does not answer: {error}",
                code=ErrorCode.SERVER_GONE,
                hint="holdfast live list names those that are awake",
                session=self.session,
            ) from error
        if "result" in answer:
            return dict(answer["result"])
        raise _error_of(answer.get("error", {}), self.session)

    def to_dict(self) -> dict[str, Any]:
        """The agent as plain JSON data, without its socket."""
        return {name: value for name, value in super().to_dict().items() if name != "socket"}


@dataclass(frozen=True)
class LiveList(Report):
    """The live agents of a store."""

    store: str
    agents: tuple[LiveAgent, ...]


def live_agents(store: Store) -> list[LiveAgent]:
    """The agents of this machine that are awake and save in this store, by session."""
    found = []
    for row in store.rows(LIVE).find(host=socket.gethostname()):
        agent = LiveAgent(row["session"], row["kind"], row["pid"], row["since"], row["socket"])
        if agent.is_awake():
            found.append(agent)
    return sorted(found, key=lambda each: each.session)


@contextmanager
def listening(store: Store, session: str, agent: Reachable, *, kind: str) -> Iterator[None]:
    """Let other processes of this user reach an agent for as long as the block lasts.

    An agent that cannot be reached still lives: what goes wrong here is a warning in the log.
    """
    server: _Server | None = None
    if hasattr(socket, "AF_UNIX"):
        try:
            server = _Server(agent)
            row = {"session": session, "kind": kind, "pid": os.getpid(), "host": socket.gethostname()}
            store.write([LIVE.upsert({**row, "socket": server.path, "since": time()})])
        except (OSError, HoldfastError) as error:
            LOG.warning("session %s cannot be reached from other processes: %s", session, error)
    try:
        yield
    finally:
        # The row stays, as it does after a kill: an agent that ends because its store hangs must not wait for it here.
        if server is not None:
            server.stop()


class _Handler(socketserver.StreamRequestHandler):
    """One request: a line, and a line for an answer."""

    timeout: ClassVar[float | None] = 10.0

    def handle(self) -> None:
        """Answer it."""
        assert isinstance(self.server, _Server)
        with suppress(OSError):
            line = self.rfile.readline(_MAX_LINE)
            if line:
                self.wfile.write(json.dumps(self.server.answer(line), default=str).encode() + b"\n")


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    # Not UnixStreamServer, which is the same: where there are no such sockets, the name is missing as well.
    address_family = getattr(socket, "AF_UNIX", socket.AF_INET)
    daemon_threads = True

    def __init__(self, agent: Reachable) -> None:
        self._agent = agent
        # A folder of its own, which only its owner may enter: the socket is not open to others even for a moment.
        self._folder = tempfile.mkdtemp(prefix="holdfast-")
        self.path = f"{self._folder}/agent.sock"
        try:
            super().__init__(self.path, _Handler)  # type: ignore[arg-type]  # its family has paths for addresses
        except OSError:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        Path(self.path).chmod(0o600)
        self._thread = threading.Thread(
            target=self.serve_forever, args=(0.05,), name="holdfast-live", daemon=True
        )
        self._thread.start()

    def answer(self, line: bytes) -> dict[str, Any]:
        """The answer to a request."""
        number: Any = None
        try:
            asked = json.loads(line)
            number = asked.get("id")
            result = self._carry_out(asked["method"], asked.get("params") or {})
        except HoldfastError as error:
            return {"jsonrpc": "2.0", "id": number, "error": _record_of(error)}
        except Exception as error:  # the application's own code, which may raise anything
            LOG.exception("a request to the live agent failed")
            told = {"code": "internal", "message": f"{type(error).__name__}: {error}", "hint": "see its log"}
            return {"jsonrpc": "2.0", "id": number, "error": told}
        return {"jsonrpc": "2.0", "id": number, "result": result}

    def _carry_out(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if method == "create":
            return self._agent.save_now(str(params.get("message", ""))).to_dict()
        if method != "restore":
            raise NotFoundError(
                f"a live agent has no method {method!r:.40}",
                code=ErrorCode.OPERATION_MISSING,
                hint="it has create and restore",
            )
        if params.get("confirm") is not True:
            raise InvalidInputError(
                f"restoring {params.get('ref')!r:.80} into a live agent is not confirmed: nothing was done",
                code=ErrorCode.NEEDS_CONFIRMATION,
                hint="send it again with confirm set to true",
            )
        report = self._agent.restore_now(str(params["ref"]))
        failed = {name: each.message for name, each in report.sources.items() if each.outcome == "failed"}
        return {"failed": failed}

    def stop(self) -> None:
        """Take no more requests, and remove the socket."""
        self.shutdown()
        self.server_close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _connected(path: str, seconds: float) -> socket.socket:
    # A row outlives its agent, and then another user may take up the name in the folder for temporary files, and
    # answer in its place. A folder that is ours alone is none that others made, nor a link of theirs.
    about = os.lstat(Path(path).parent)
    if not stat.S_ISDIR(about.st_mode) or about.st_mode & 0o077 or about.st_uid != os.getuid():
        raise PermissionError(f"{path} is where others may listen")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(seconds)
        connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection


def _record_of(error: HoldfastError) -> dict[str, Any]:
    return error.to_dict() | {"type": type(error).__name__}


def _error_of(record: Mapping[str, Any], session: str) -> HoldfastError:
    """The error that an agent told; one that is not of ours as what it said."""
    kind = getattr(errors, str(record.get("type")), None)
    if isinstance(kind, type) and issubclass(kind, HoldfastError):
        with suppress(ValueError, TypeError):
            return kind(
                str(record["message"]),
                code=ErrorCode(record["code"]),
                hint=str(record["hint"]),
                **record["details"],
            )
    return BackendError(
        f"the agent of session {session!r} failed: {record.get('message', 'it gave no answer')}",
        code=ErrorCode.SERVER_GONE,
        hint="its log has the details",
        session=session,
    )
