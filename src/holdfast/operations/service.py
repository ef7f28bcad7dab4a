"""Service: a store that is served. It checks, confirms and carries out operations, and keeps the long ones as jobs.

An operation that destroys something is carried out in two calls. The first one, without `confirm`, changes nothing: it
is refused with the plan of what would happen and a token. The second one brings the token. It holds for this plan
alone, and once: where anything moved in between, the plan is another one, and has to be confirmed anew.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast import Checkpoint, Session, Store
from holdfast.errors import (
    BackendError,
    ConflictError,
    ErrorCode,
    HoldfastError,
    InvalidInputError,
    NotFoundError,
)
from holdfast.operations.operation import OPERATIONS, Operation, Scope, allows, load_operations
from holdfast.reports import Report

if TYPE_CHECKING:
    from holdfast.agents import LiveAgent

LOG = logging.getLogger("holdfast.service")

WORKERS = 8
"""Operations that are carried out at once; a store is read and written by threads, and SQLite has one writer."""
WAITING = 256
"""Operations that are under way or wait for a thread. One more is refused: who asks so much gets no answer in time."""
_WRITERS = 8
"""Sessions that are kept with what they know of their last state: as much memory as that takes."""
_PLANS = 1000
"""Plans that wait for their confirmation; of more, the oldest has to be asked for again."""
_JOBS = 100
_KEPT_SECONDS = 600.0


@dataclass(frozen=True)
class Caller:
    """Who asks.

    Attributes:
        scope: What it may do.
        name: Who it is, in the audit log: an address, a socket, `mcp`.
    """

    scope: Scope
    name: str


@dataclass(frozen=True)
class Call:
    """A call that is over: for the audit log and for metrics. Of what was sent it has names alone, and no state."""

    operation: Operation
    caller: Caller
    outcome: str
    """`ok`, or the code of the error."""
    seconds: float
    about: dict[str, str]
    """The session and the checkpoint that were named."""


@dataclass(frozen=True)
class Job(Report):
    """An operation that takes longer than its caller waits."""

    id: str
    operation: str
    done: bool
    seconds: float
    """How long it has run, or ran."""
    result: Any = None
    """What it gave back; None as long as it runs."""
    error: Any = None
    """How it failed."""

    def to_dict(self) -> dict[str, Any]:
        """The job as plain JSON data."""
        return {
            name: getattr(self, name) for name in ("id", "operation", "done", "seconds", "result", "error")
        }


class _Running:
    """A job as the service keeps it."""

    def __init__(self, name: str, future: Future[Any]) -> None:
        self.id = secrets.token_hex(8)
        self.name = name
        self.future = future
        self.begun = time.monotonic()
        self.ended: float | None = None
        future.add_done_callback(self._end)

    def _end(self, _future: Future[Any]) -> None:
        self.ended = time.monotonic()


class Service:
    """A store that is served, by any number of servers at once.

    Args:
        store: The store.
        session: The session that is meant where none is named.
    """

    def __init__(self, store: Store, *, session: str = "default") -> None:
        load_operations()
        self.observers: list[Callable[[Call], None]] = []
        """Told of each call after its end, on the thread that carried it out."""
        self.store = store
        self._default = session
        self.name = store.url.rpartition("/")[2]
        """What reports call the store: not where it is."""
        # A confirmation holds for one life of the server: nothing of it is stored.
        self._plans: OrderedDict[bytes, str] = OrderedDict()
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="holdfast-operation")
        self._waiting = threading.Semaphore(WAITING)
        self._jobs: dict[str, _Running] = {}
        self._writers: OrderedDict[tuple[str, str], Session] = OrderedDict()
        self._lock = threading.Lock()

    def close(self) -> None:
        """Take no more operations, and wait for those that are under way."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    # What operations work on

    def session(self, name: str | None = None, branch: str | None = None) -> Session:
        """A session to work on: the one that is named, else that of the only live agent, else the default."""
        name = name or self.default_session()
        return self.store.session(name, branch=branch or self.store.current_branch(name))

    def known(self, name: str | None = None, branch: str | None = None) -> Session:
        """A session that is there: reading from one that is not is an error, and not an empty answer."""
        session = self.session(name, branch)
        if not session.exists("@") and all(each.id != session.id for each in self.store.sessions()):
            raise NotFoundError(
                f"there is no session {session.id!r:.100}",
                code=ErrorCode.SESSION_MISSING,
                hint="session.list names those that there are",
                session=session.id,
            )
        return session

    def live(self, session: str | None) -> LiveAgent | None:
        """The live agent of a session; of the session that is meant where none is named."""
        from holdfast.agents import live_agents

        wanted = session or self.default_session()
        return next((each for each in live_agents(self.store) if each.session == wanted), None)

    def default_session(self) -> str:
        """The session of the only live agent, or the one that the server was started for."""
        from holdfast.agents import live_agents

        live = live_agents(self.store)
        return live[0].session if len(live) == 1 else self._default

    def save(
        self, name: str | None, branch: str | None, state: Any, message: str, **given: Any
    ) -> Checkpoint:
        """Save a state onto whatever is newest there.

        A Session knows what it saved last, and sends what changed since: a quarter of the time. So the last few are
        kept. One is a writer of its own, and is not here while it is at work; where somebody else saved, it is done
        again by a new one.
        """
        name = name or self.default_session()
        key = (name, branch or self.store.current_branch(name))
        with self._lock:
            writer = self._writers.pop(key, None)
        made = None
        if writer is not None:
            with suppress(ConflictError):
                made = writer.save(state, message, **given)
        if writer is None or made is None:
            writer = self.session(*key)
            made = writer.save(state, message, **given)
        with self._lock:
            self._writers[key] = writer
            if len(self._writers) > _WRITERS:
                self._writers.popitem(last=False)
        return made

    # Carrying out

    def find(self, name: str) -> Operation:
        """The operation of that name."""
        if (found := OPERATIONS.get(name)) is None:
            raise NotFoundError(
                f"there is no operation {name!r:.100}",
                code=ErrorCode.OPERATION_MISSING,
                hint="rpc.discover describes all of them",
            )
        return found

    def call(self, name: str, given: Any, caller: Caller, *, loose: bool = False) -> Any:
        """Carry an operation out, and return its result as plain JSON data.

        Raises:
            HoldfastError: There is no such operation, the caller may not do it, a parameter is wrong, the plan is not
                confirmed (`needs-confirmation`), or it failed.
        """
        asked = self.find(name)
        begun, outcome = time.monotonic(), "internal"
        try:
            result = self._call(asked, given, caller, loose=loose)
        except HoldfastError as error:
            outcome = str(error.code)
            raise
        else:
            outcome = "ok"
            return result
        finally:
            call = Call(asked, caller, outcome, time.monotonic() - begun, _about(given))
            for observer in self.observers:
                observer(call)

    def _call(self, asked: Operation, given: Any, caller: Caller, *, loose: bool) -> Any:
        if not allows(caller.scope, asked.scope):
            raise BackendError(
                f"{asked.name} takes the scope {asked.scope}, and this token has {caller.scope}",
                code=ErrorCode.PERMISSION_DENIED,
                hint=f"use the token of the scope {asked.scope}",
                scope=asked.scope,
            )
        parameters = asked.check({} if given is None else given, loose=loose)
        if asked.destroys:
            self._confirmed(asked, parameters)
        return _plain(asked.function(self, **parameters))

    def _confirmed(self, asked: Operation, parameters: dict[str, Any]) -> None:
        token = parameters.pop("confirm")
        self._fix(parameters)
        plan = _plain(asked.function(self, **parameters, dry_run=True))
        text = json.dumps([asked.name, parameters, plan], sort_keys=True, default=str)
        about = hashlib.sha256(text.encode()).digest()
        with self._lock:
            wanted = self._plans.setdefault(about, secrets.token_hex(16))
            if token is not None and hmac.compare_digest(token.encode(), wanted.encode()):
                # Once: after an undo the same plan can come up again, and nobody agreed to do it twice.
                del self._plans[about]
                return
            if len(self._plans) > _PLANS:
                self._plans.popitem(last=False)
        stale = "is not confirmed" if token is None else "is not the plan that was confirmed"
        raise InvalidInputError(
            f"{asked.name} changes what is there, and {stale}: nothing was done",
            code=ErrorCode.NEEDS_CONFIRMATION,
            hint="look at the plan, then call it again with the same parameters and confirm set to the token",
            plan=plan,
            confirm=wanted,
        )

    def _fix(self, parameters: dict[str, Any]) -> None:
        """Put what is meant now in the place of names that move: it is planned, confirmed and carried out with that.

        `@` is another checkpoint as soon as somebody saves, also between the plan and the work.
        """
        if "session" not in parameters:
            return
        session = parameters["session"] = parameters["session"] or self.default_session()
        branch = None
        if "branch" in parameters:
            branch = parameters["branch"] or self.store.current_branch(session)
            if self.live(session) is None:
                # A live agent goes back by itself, on the branch that it is on.
                parameters["branch"] = branch
        if parameters.get("checkpoint"):
            parameters["checkpoint"] = self.known(session, branch).checkpoint(parameters["checkpoint"]).id
        if parameters.get("checkpoints"):
            known = self.known(session)
            parameters["checkpoints"] = [known.checkpoint(each).id for each in parameters["checkpoints"]]

    def submit(self, name: str, given: Any, caller: Caller, *, loose: bool = False) -> Future[Any]:
        """Carry an operation out on a thread of the pool."""
        if name == "job.get":
            # It is asked for when every thread may be at work, and takes no time.
            return self._at_once(name, given, caller, loose=loose)
        if not self._waiting.acquire(blocking=False):
            raise BackendError(
                f"{WAITING} operations are under way already",
                code=ErrorCode.TOO_MANY_CONNECTIONS,
                hint="ask again in a moment",
            )
        future = self._pool.submit(self.call, name, given, caller, loose=loose)
        future.add_done_callback(lambda _: self._waiting.release())
        return future

    def _at_once(self, name: str, given: Any, caller: Caller, *, loose: bool) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(self.call(name, given, caller, loose=loose))
        except HoldfastError as error:
            future.set_exception(error)
        return future

    # Jobs

    def keep(self, name: str, future: Future[Any]) -> Job:
        """Keep an operation that takes long, for its caller to ask for later."""
        running = _Running(name, future)
        with self._lock:
            old = [
                each.id
                for each in self._jobs.values()
                if each.ended is not None and time.monotonic() - each.ended > _KEPT_SECONDS
            ]
            for each in old:
                del self._jobs[each]
            if len(self._jobs) >= _JOBS:
                raise BackendError(
                    f"{_JOBS} jobs are kept already, and nobody asked for their results",
                    code=ErrorCode.TOO_MANY_CONNECTIONS,
                    hint="job.get takes the result of one, and makes room",
                )
            self._jobs[running.id] = running
        return self._job(running)

    def job(self, id: str) -> Job:  # noqa: A002 - what a caller calls it
        """How a job stands. One that is done is given once more to whoever asks, for ten minutes."""
        with self._lock:
            running = self._jobs.get(id)
        if running is None:
            raise NotFoundError(
                f"there is no job {id!r:.40}",
                code=ErrorCode.ITEM_MISSING,
                hint="a job is kept for ten minutes after its end; ask for the operation again",
            )
        return self._job(running)

    def _job(self, running: _Running) -> Job:
        seconds = round((running.ended or time.monotonic()) - running.begun, 3)
        if not running.future.done():
            return Job(running.id, running.name, done=False, seconds=seconds)
        error = running.future.exception()
        if error is not None:
            told = error_record(error)
            return Job(running.id, running.name, done=True, seconds=seconds, error=told)
        return Job(running.id, running.name, done=True, seconds=seconds, result=running.future.result())


_OF_PLACES = {
    ErrorCode.STORE_MISSING,
    ErrorCode.STORE_CLOSED,
    ErrorCode.STORE_DAMAGED,
    ErrorCode.DATABASE_MISSING,
    ErrorCode.NOT_A_STORE,
    ErrorCode.PATH_EXISTS,
    ErrorCode.BAD_URL,
}
_OF_SERVICE = {ErrorCode.STILL_RUNNING, ErrorCode.TOO_MANY_CONNECTIONS}


def _names_places(error: HoldfastError) -> bool:
    """Whether a message may name files and servers: who is on the other side of a network gets the code alone."""
    if isinstance(error, BackendError):
        return error.code not in _OF_SERVICE and "scope" not in error.details
    return error.code in _OF_PLACES


def error_record(error: BaseException) -> dict[str, Any]:
    """What a server says about an error: the record that every surface shows, without places of this machine."""
    if not isinstance(error, HoldfastError):
        return {
            "code": "internal",
            "message": "this is a bug in holdfast",
            "hint": "the server's log has the details",
            "exit": 70,
            "details": {},
        }
    told = error.to_dict()
    if _names_places(error):
        told |= {
            "message": f"the store failed: {error.code}",
            "hint": "the server's log says more",
            "details": {},
        }
        LOG.warning("the store failed: %s", error)
    return told


def _about(given: Any) -> dict[str, str]:
    names = ("session", "checkpoint", "branch", "name", "step")
    return {name: str(given[name])[:200] for name in names if isinstance(given, Mapping) and name in given}


def _plain(result: Any) -> Any:
    if isinstance(result, Mapping):
        return dict(result)
    return result.to_dict()
