"""Journal: named steps whose results are stored once, and come back after a crash instead of being made again.

A step is two transactions. The first writes the intent: that this attempt runs, with which input, under which key. The
second writes the result, together with a checkpoint where there is one. Between the two a process can die at any
moment: a step whose intent was written and whose result was not is an orphan, and runs again under the same key;
unless it may happen at most once, then a person has to say what became of it. A step that is declared idempotent skips
the first transaction.

Two things keep a process that was taken for dead from writing: the lease, where there is one, and the number of the
attempt, which the second transaction expects to find.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from holdfast import Table
from holdfast.errors import ConflictError, ErrorCode, HoldfastError, InvalidInputError, StateError, shown

if TYPE_CHECKING:
    from holdfast import HeldLease, Session, Store
    from holdfast.storage.tables import RowChange

T = TypeVar("T")

STEPS: Final = Table(
    "journal_steps",
    columns={
        "session": str,
        "execution": str,
        "step": str,
        "attempt": int,
        "failures": int,
        "status": str,
        "input_hash": str,
        "idempotency_key": str,
        "effect": str | None,
        "epoch": int,
        "started_at": int,
        "finished_at": int | None,
        "next_attempt_at": int | None,
        "duration_ms": float | None,
        "tokens": int | None,
        "cost_usd": float | None,
        "error": str | None,
        "result": bytes | None,
        "partial": bytes | None,
    },
    key=("execution", "step"),
    indexes=(("session", "status"),),
)
"""One row a step: its last attempt. Times are microseconds since 1970 UTC."""

MAX_NAME: Final = 500
_CONFLICT: Final = "row-conflict"


class Step(NamedTuple):
    """A step as the journal has it."""

    session: str
    execution: str
    step: str
    attempt: int
    """Which attempt was the last, from 1."""
    failures: int
    """How many attempts failed since it was last resumed by hand; those that were cut off by a crash do not count."""
    status: str
    """running, completed, failed, or unknown: begun, at most once, and cut off."""
    input_hash: str
    idempotency_key: str
    effect: str | None
    epoch: int
    """The number of the lease under which it began; 0 without one."""
    started_at: int
    finished_at: int | None = None
    next_attempt_at: int | None = None
    duration_ms: float | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    error: str | None = None
    """What went wrong, as JSON: type, message and more."""
    result: bytes | None = None
    """The result, where no checkpoint has it."""
    partial: bytes | None = None
    """What the step saved of itself while it ran."""


class Entry(NamedTuple):
    """A change of the journal that is to be written: the step afterwards, and the change of its row."""

    step: Step
    change: RowChange


@dataclass(slots=True)
class StepHandle:
    """A step that was begun; `done` says whether its result is there already.

    Attributes:
        name: The step.
        done: Whether it was completed before; then nothing is to be done.
        value: The result, if it was.
        key: The idempotency key: the same over all attempts.
        attempt: Which attempt this is, from 1.
        partial: What an earlier attempt saved of its work.
    """

    name: str
    done: bool
    value: Any
    key: str
    attempt: int
    partial: Any = None
    step: Step | None = field(default=None, repr=False)
    began: float = field(default=0.0, repr=False)
    written: bool = field(default=True, repr=False)
    """Whether the intent is in the store."""


class Effect(NamedTuple):
    """Something that a step did to the world outside, or may have done."""

    session: str
    execution: str
    step: str
    kind: str
    """at_least_once or at_most_once."""
    happened: bool
    """False: it was begun, and nobody knows."""
    at: datetime
    key: str

    def to_dict(self) -> dict[str, Any]:
        """The effect as plain data."""
        return self._asdict() | {"at": self.at.isoformat()}


class Journal:
    """The named steps of one execution.

    Args:
        session: The session that the steps belong to.
        execution: The lineage: steps of another one have other keys and other results.
        lease: What `store.lease` gave: nothing is written once somebody else has it.
        commit: Writes the rows of a result, together with a checkpoint: `lambda rows: document.save(rows=rows)`.
            Without it they are written alone.
    """

    def __init__(
        self,
        session: Session,
        execution: str,
        *,
        lease: HeldLease | None = None,
        commit: Callable[[list[RowChange]], object] | None = None,
    ) -> None:
        from holdfast import Store

        self.session = session.id
        self.execution = _checked(execution, "an execution")
        self._store: Store = Store.of(session)
        self._lease = lease
        self._commit = commit
        self._lock = threading.RLock()
        self._steps: dict[str, Step] | None = None
        self._begun: set[str] = set()

    # Steps by name ------------------------------------------------------------------------------------------------

    def step(
        self,
        name: str,
        function: Callable[..., T],
        /,
        *args: Any,
        effect: str | None = None,
        idempotent: bool = False,
        **kwargs: Any,
    ) -> T:
        """Run a function once, however often the program is started: its stored result comes back afterwards.

        A keyword-only parameter `key` of the function is given the idempotency key.

        Args:
            name: What the step is called in this execution.
            function: What does it.
            args: Its arguments. Called again with others, the name is refused.
            effect: `at_most_once`: after a crash in the middle it does not run again, and raises `outcome-unknown`.
            idempotent: Running it twice does no harm: only its result is written.
            kwargs: Its arguments by name.

        Raises:
            ConflictError: The name was used with other arguments (`step-differs`), or is running (`step-running`).
            StateError: It may happen at most once, and was cut off (`outcome-unknown`): see `settle`.
            InvalidInputError: The result cannot be saved; the message has the path.
        """
        handle = self.begin(name, inputs=(args, kwargs), effect=effect, idempotent=idempotent)
        if handle.done:
            stored: T = handle.value
            return stored
        if takes_key(function):
            kwargs.setdefault("key", handle.key)
        try:
            value = function(*args, **kwargs)
        except Exception as error:
            self.fail(handle, error)
            raise
        self.complete(handle, value)
        return value

    async def astep(
        self,
        name: str,
        function: Callable[..., Awaitable[T]],
        /,
        *args: Any,
        effect: str | None = None,
        idempotent: bool = False,
        **kwargs: Any,
    ) -> T:
        """`step` for a function that is awaited; the store is written in another thread."""
        handle = await asyncio.to_thread(
            self.begin, name, inputs=(args, kwargs), effect=effect, idempotent=idempotent
        )
        if handle.done:
            stored: T = handle.value
            return stored
        if takes_key(function):
            kwargs.setdefault("key", handle.key)
        try:
            value = await function(*args, **kwargs)
        except Exception as error:
            await asyncio.to_thread(self.fail, handle, error)
            raise
        await asyncio.to_thread(self.complete, handle, value)
        return value

    def begin(
        self, name: str, *, inputs: Any = None, effect: str | None = None, idempotent: bool = False
    ) -> StepHandle:
        """Begin a step by hand: if the handle is `done` its `value` is there, else do it and call `complete`.

        Args:
            name: What the step is called in this execution.
            inputs: What it depends on: begun again with something else, the name is refused. What cannot be saved is
                not compared.
            effect: See `step`.
            idempotent: See `step`.
        """
        digest = self.input_hash(inputs)
        with self._lock:
            known = self.steps().get(_checked(name, "a step"))
            if known is not None and known.status == "completed":
                self._same_input(known, digest)
                value = None if known.result is None else self._store.unpack(known.result)
                return StepHandle(
                    name, done=True, value=value, key=known.idempotency_key, attempt=known.attempt, step=known
                )
            if name in self._begun:
                raise ConflictError(
                    f"step {name!r} of execution {self.execution!r} is running already",
                    code=ErrorCode.STEP_RUNNING,
                    hint="give each step a name of its own: in a loop, put what differs into it",
                    step=name,
                )
            if (
                known is not None
                and known.effect == "at_most_once"
                and known.status in ("running", "unknown")
            ):
                raise self._unknown(known)
            if known is not None:
                self._same_input(known, digest)
            handle, entry = self.intent(name, digest, effect=effect, idempotent=idempotent)
            if entry is not None:
                self._store.write([entry.change], lease=self._lease)
                self.accept(entry)
            self._begun.add(name)
            return handle

    def complete(self, handle: StepHandle, value: Any, *, rows: Sequence[RowChange] = ()) -> None:
        """Store the result of a step that was begun. A second time, and after a lost reply, nothing happens.

        Args:
            handle: What `begin` gave.
            value: The result.
            rows: Rows of others that are to be written together with it.

        Raises:
            InvalidInputError: The value cannot be saved; the message has the path. The step counts as failed.
            ConflictError: Somebody else has taken over (`lease-lost`, `row-conflict`).
        """
        if handle.done:
            return
        try:
            result = self._store.pack(value)
        except InvalidInputError as error:
            self.fail(handle, error)
            raise
        self._settle(handle, self.completion(handle, result=result), rows)
        handle.done, handle.value = True, value

    def fail(self, handle: StepHandle, error: BaseException | dict[str, Any]) -> None:
        """Note that an attempt failed; `begin` gives the next one."""
        if not handle.done:
            self._settle(handle, self.failure(handle, described(error)), ())

    def settle(self, name: str, *, value: Any = None, again: bool = False) -> None:
        """Say what became of a step that may happen at most once and was cut off.

        Args:
            name: The step.
            value: It happened, and this is its result.
            again: It did not happen: it may run again.

        Raises:
            StateError: Its outcome is not unknown (`bad-argument`).
        """
        with self._lock:
            known = self.steps().get(name)
            if known is None or known.status not in ("running", "unknown") or name in self._begun:
                raise InvalidInputError(
                    f"the outcome of step {name!r} is not unknown",
                    code=ErrorCode.BAD_ARGUMENT,
                    hint="only a step that was cut off can be settled",
                )
            handle = StepHandle(
                name, done=False, value=None, key=known.idempotency_key, attempt=known.attempt, step=known
            )
            entry = (
                self.failure(
                    handle,
                    {"type": "Interrupted", "message": "it was cut off, and did not happen"},
                    failures=0,
                )
                if again
                else self.completion(handle, result=self._store.pack(value))
            )
            self._store.write([entry.change], lease=self._lease)
            self.accept(entry)

    # What is there ------------------------------------------------------------------------------------------------

    def steps(self) -> dict[str, Step]:
        """Every step by its name; read once, and kept up to date with what is written here."""
        with self._lock:
            if self._steps is None:
                found = self._store.rows(STEPS).find(execution=self.execution)
                self._steps = {row["step"]: Step(**row) for row in found}
            return self._steps

    def orphans(self) -> list[Step]:
        """Steps that were begun by somebody who is gone, and have no result."""
        return [
            each
            for name, each in self.steps().items()
            if each.status == "running" and name not in self._begun
        ]

    # Changes for those who write them together with more ------------------------------------------------------------

    def intent(
        self,
        name: str,
        input_hash: str,
        *,
        effect: str | None = None,
        idempotent: bool = False,
        failures: int | None = None,
        now: int | None = None,
    ) -> tuple[StepHandle, Entry | None]:
        """The next attempt of a step, and the change that notes it; none for one that is idempotent."""
        known = self.steps().get(name)
        step = Step(
            session=self.session,
            execution=self.execution,
            step=name,
            attempt=1 if known is None else known.attempt + 1,
            failures=(0 if known is None else known.failures) if failures is None else failures,
            status="running",
            input_hash=input_hash,
            idempotency_key=idempotency_key(self.execution, name, input_hash),
            effect=effect,
            epoch=0 if self._lease is None else self._lease.epoch,
            started_at=microseconds() if now is None else now,
            partial=None if known is None or known.input_hash != input_hash else known.partial,
        )
        partial = None if step.partial is None else self._store.unpack(step.partial)
        handle = StepHandle(
            name,
            done=False,
            value=None,
            key=step.idempotency_key,
            attempt=step.attempt,
            partial=partial,
            step=step,
            began=time.monotonic(),
            written=not idempotent,
        )
        return handle, None if idempotent else self._entry(step, known)

    def completion(
        self,
        handle: StepHandle,
        *,
        result: bytes | None,
        tokens: int | None = None,
        cost_usd: float | None = None,
        now: int | None = None,
        duration_ms: float | None = None,
    ) -> Entry:
        """The change that notes a result. None as the result: a checkpoint of the same transaction has it."""
        took = (
            (time.monotonic() - handle.began) * 1000 if duration_ms is None and handle.began else duration_ms
        )
        assert handle.step is not None
        step = handle.step._replace(
            status="completed",
            finished_at=microseconds() if now is None else now,
            next_attempt_at=None,
            duration_ms=took,
            tokens=tokens,
            cost_usd=cost_usd,
            error=None,
            result=result,
            partial=None,
        )
        return self._ending(handle, step)

    def failure(
        self,
        handle: StepHandle,
        error: dict[str, Any],
        *,
        status: str = "failed",
        failures: int | None = None,
        next_attempt_at: int | None = None,
        now: int | None = None,
    ) -> Entry:
        """The change that notes a failed attempt, and when the next one is due."""
        assert handle.step is not None
        known = self.steps().get(handle.name)
        step = handle.step._replace(
            status=status,
            failures=handle.step.failures + 1 if failures is None else failures,
            finished_at=microseconds() if now is None else now,
            next_attempt_at=next_attempt_at,
            error=json.dumps(error),
            # What the attempt saved of its work stays.
            partial=handle.step.partial if known is None else known.partial,
        )
        return self._ending(handle, step)

    def keep_partial(self, handle: StepHandle, value: Any) -> None:
        """Store a part of a step's work: the next attempt finds it in its handle."""
        packed = self._store.pack(value)
        with self._lock:
            assert handle.step is not None
            step = handle.step._replace(partial=packed)
            known = self.steps().get(handle.name)
            if handle.written:
                is_over = known is None or (known.attempt, known.status) != (step.attempt, "running")
            else:
                is_over = known is not None and known.attempt >= step.attempt
            if is_over:
                raise ConflictError(
                    f"attempt {step.attempt} of step {step.step!r} does not count any more",
                    code=ErrorCode.ROW_CONFLICT,
                    hint="its time is over, or it was ended from outside: end the body",
                    step=step.step,
                )
            if not handle.written:
                entry, handle.written = self._entry(step, known), True
            else:
                entry = Entry(step, self._update(step, {"partial": packed}))
            self._store.write([entry.change], lease=self._lease)
            handle.step = step
            self.accept(entry)

    def accept(self, entry: Entry) -> None:
        """Note that a change was written."""
        with self._lock:
            self.steps()[entry.step.step] = entry.step

    def input_hash(self, inputs: Any) -> str:
        """The hash of what a step depends on; empty where that cannot be saved, and so not compared."""
        if inputs is None:
            return ""
        try:
            return hashlib.blake2b(self._store.pack(inputs), digest_size=16).hexdigest()
        except InvalidInputError:
            return ""

    # ----------------------------------------------------------------------------------------------------------------

    def _entry(self, step: Step, known: Step | None) -> Entry:
        if known is None:
            return Entry(step, STEPS.insert(step._asdict()))
        values = {name: value for name, value in step._asdict().items() if name not in STEPS.key}
        expect = {"attempt": known.attempt, "status": known.status}
        return Entry(step, STEPS.update((step.execution, step.step), values, expect=expect))

    def _ending(self, handle: StepHandle, step: Step) -> Entry:
        if not handle.written:
            return self._entry(step, self.steps().get(handle.name))
        changed = {name: value for name, value in step._asdict().items() if name in _OF_AN_END}
        return Entry(step, self._update(step, changed))

    def _update(self, step: Step, values: dict[str, Any]) -> RowChange:
        known = self.steps().get(step.step)
        status = "running" if known is None else known.status
        return STEPS.update(
            (step.execution, step.step), values, expect={"attempt": step.attempt, "status": status}
        )

    def _settle(self, handle: StepHandle, entry: Entry, rows: Sequence[RowChange]) -> None:
        changes = [entry.change, *rows]
        try:
            if self._commit is not None and entry.step.status == "completed":
                self._commit(changes)
            else:
                self._store.write(changes, lease=self._lease)
        except HoldfastError as error:
            if error.code != _CONFLICT or not self._is_there(entry.step):
                raise
        self.accept(entry)
        with self._lock:
            self._begun.discard(handle.name)

    def _is_there(self, step: Step) -> bool:
        """Whether a write whose reply was lost took place."""
        row = self._store.rows(STEPS).get(step.execution, step.step)
        return row is not None and Step(**row) == step

    def _same_input(self, known: Step, digest: str) -> None:
        if known.input_hash and digest and known.input_hash != digest:
            raise ConflictError(
                f"step {known.step!r} of execution {self.execution!r} was begun with other arguments",
                code=ErrorCode.STEP_DIFFERS,
                hint="give each step a name of its own: in a loop, put what differs into it",
                step=known.step,
            )

    def _unknown(self, known: Step) -> StateError:
        if known.status == "running":
            handle = StepHandle(
                known.step,
                done=False,
                value=None,
                key=known.idempotency_key,
                attempt=known.attempt,
                step=known,
            )
            entry = self.failure(handle, CUT_OFF, status="unknown", failures=known.failures)
            self._store.write([entry.change], lease=self._lease)
            self.accept(entry)
        return StateError(
            f"step {known.step!r} may happen at most once, and was cut off: nobody knows whether it happened",
            code=ErrorCode.OUTCOME_UNKNOWN,
            hint="find out, then settle(name, value=...) if it happened, or settle(name, again=True)",
            step=known.step,
            key=known.idempotency_key,
        )


CUT_OFF: Final = {"type": "Interrupted", "message": "it was cut off, and may have happened"}

_OF_AN_END: Final = (
    "status",
    "failures",
    "finished_at",
    "next_attempt_at",
    "duration_ms",
    "tokens",
    "cost_usd",
    "error",
    "result",
    "partial",
)


def effects(store: Store, session: str, *, execution: str | None = None) -> list[Effect]:
    """What steps of a session did to the world outside, or may have done; oldest first."""
    where: dict[str, Any] = {"session": session} if execution is None else {"execution": execution}
    found = [Step(**row) for row in store.rows(STEPS).find(**where, order_by="started_at")]
    return [
        Effect(
            each.session,
            each.execution,
            each.step,
            each.effect,
            each.status == "completed",
            moment(each.finished_at or each.started_at),
            each.idempotency_key,
        )
        for each in found
        if each.effect is not None and (each.status != "failed" or each.effect == "at_least_once")
    ]


def idempotency_key(lineage: str, step: str, input_hash: str) -> str:
    """The key of a step: the same for each attempt, and for nothing else."""
    parts = json.dumps([lineage, step, input_hash]).encode()
    return hashlib.blake2b(parts, digest_size=16).hexdigest()


def takes_key(function: Callable[..., Any]) -> bool:
    """Whether a function has a keyword-only parameter `key`, for the idempotency key."""
    try:
        found = inspect.signature(function).parameters.get("key")
    except (TypeError, ValueError):
        return False
    return found is not None and found.kind is inspect.Parameter.KEYWORD_ONLY


def described(error: BaseException | dict[str, Any]) -> dict[str, Any]:
    """An error as data: its type and message, and the code of one of ours."""
    if isinstance(error, dict):
        return error
    name = type(error).__qualname__
    made: dict[str, Any] = {"type": name, "message": (str(error) or name)[:10_000]}
    return made | ({"code": str(error.code), "hint": error.hint} if isinstance(error, HoldfastError) else {})


def microseconds() -> int:
    """This moment, as microseconds since 1970 UTC."""
    return time.time_ns() // 1000


def moment(at: int) -> datetime:
    """A time of the journal as a datetime."""
    return datetime.fromtimestamp(at / 1_000_000, UTC)


def _checked(name: object, what: str) -> str:
    if isinstance(name, str) and 0 < len(name) <= MAX_NAME and name.isprintable():
        return name
    raise InvalidInputError(
        f"{what} cannot be called {shown(name)}",
        code=ErrorCode.BAD_NAME,
        hint=f"use a text of at most {MAX_NAME} printable characters",
    )
