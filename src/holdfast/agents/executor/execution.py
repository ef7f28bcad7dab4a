"""Execution: one plan being run by one process, from the first ready step to the last result.

One thread schedules and writes; workers run bodies. A step that ends is written in one transaction: its result and the
checkpoint that has it, and the intents of the steps that can begin because of it.
"""

from __future__ import annotations

import copy
import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from concurrent.futures import Executor as Pool
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, NoReturn

from holdfast.agents.executor.action import Action
from holdfast.agents.executor.approvals import Approvals
from holdfast.agents.executor.context import Channel, StepContext
from holdfast.agents.executor.plan import Plan
from holdfast.agents.executor.pool import Threads
from holdfast.agents.executor.signature import dependents_of, effective, signatures, written_outputs
from holdfast.agents.executor.state import ExecutionResult, PlanState, Waiting, utc
from holdfast.agents.executor.step import PlanStep, filled
from holdfast.agents.executor.tables import EXECUTIONS
from holdfast.agents.executor.task import Outcome, Task, failed, perform
from holdfast.agents.journal import CUT_OFF, Journal, StepHandle
from holdfast.errors import ErrorCode, HoldfastError, InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from holdfast import Checkpoint, Document, EventBus, HeldLease, Store
    from holdfast.storage.tables import RowChange

POLL: Final = 0.5
"""Seconds between two looks at what others ask for, and at the clock."""
_SAVE_SECONDS: Final = 30.0
"""How long another thread waits for a checkpoint: until what just ended is written."""


@dataclass(slots=True)
class Work:
    """What an execution works with."""

    store: Store
    lease: HeldLease
    plan: Plan
    actions: Mapping[str, Action]
    document: Document
    journal: Journal
    row: dict[str, Any]
    """Of the execution, as it is in the store."""
    signatures: dict[str, str]
    asked: dict[str, str]
    """The signatures without what a person changed: what is asked for."""
    events: EventBus
    pool: Pool
    threads: Threads
    """Of this process: the pool where none was given, and where steps run that may happen at most once."""
    capacity: int
    on_failure: str
    auto_checkpoint: bool
    enabled: bool
    clock: Callable[[], float]
    run_step: Callable[[PlanStep, PlanState], Any] | None
    """A way of running steps that somebody put in the place of ours."""
    finish: Callable[..., Any]
    """Writes the last checkpoint, with retention."""
    rows: list[RowChange] = field(default_factory=list)
    """What is to be written together with the first transaction."""
    announce: str | None = None
    """The message of a checkpoint to begin with."""
    recovered: int = 0
    hook: Callable[[str, str], None] = lambda _where, _step: None
    """Called at each boundary, for tests that end the process there."""


@dataclass(slots=True)
class _Flight:
    step: PlanStep
    handle: StepHandle
    channel: Channel
    future: Future[Any] | None = None
    deadline: float | None = None
    context: StepContext | None = None


class Execution:
    """One run; made by an `Executor`."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._doc: Any = work.document
        self._id: str = work.row["execution"]
        self._index = {step["id"]: number for number, step in enumerate(self._doc["plan"])}
        self._results = {result["step_id"]: number for number, result in enumerate(self._doc["results"])}
        self._steps = {each.id: each for each in work.plan.steps}
        self._dependents = dependents_of(work.plan.steps)
        self._status = {step["id"]: step["status"] for step in self._doc["plan"]}
        self._left = {
            each.id: sum(self._status[other] != "completed" for other in set(each.dependencies))
            for each in work.plan.steps
        }
        self._ready = deque(
            each.id
            for each in work.plan.steps
            if self._status[each.id] == "pending" and not self._left[each.id]
        )
        self._later: dict[str, float] = {}
        self._waiting: list[Waiting] = []
        self._decided: list[Callable[[], None]] = []
        """What persons decided about steps, to be written once what is being written is."""
        self._flights: dict[Future[Any], _Flight] = {}
        self._ended: SimpleQueue[Future[Any] | None] = SimpleQueue()
        self._approvals = Approvals(work.store, work.journal.session, self._id)
        self._first = 0
        self._began = time.monotonic()
        self._looked = self._began
        self._request: str | None = None
        self._wanted: deque[tuple[str, Future[Checkpoint]]] = deque()
        """Checkpoints that other threads asked for."""
        self._stopped: str | None = None
        self._lost: str | None = None
        self._error: str | None = None
        self._unsaved = False
        """Whether the document has something that no checkpoint has."""
        results = self._doc["results"]
        self._tokens = sum(each.get("token_usage") or 0 for each in results)
        self._cost = sum(each.get("cost_usd") or 0.0 for each in results)
        self._in_rows: list[str] = []
        """Steps whose results are in rows, until the next checkpoint has them."""

    def ask(self, request: str) -> None:
        """Pause or cancel; any thread, and a signal handler, may call it."""
        if self._request != "cancel":
            self._request = request
        self._ended.put(None)

    def save_now(self, message: str = "") -> Checkpoint:
        """Save between two steps; for another thread than that of `run`."""
        waiting: Future[Checkpoint] = Future()
        self._wanted.append((message, waiting))
        self._ended.put(None)
        return waiting.result(_SAVE_SECONDS)

    def restore_now(self, ref: str) -> NoReturn:
        """A plan that runs does not go back: what its steps did would be done again."""
        raise UnsupportedError(
            f"a plan does not go back to {ref!r:.80} while it runs",
            code=ErrorCode.NOT_SUPPORTED,
            hint="cancel it, then fork it at a step: Executor.fork",
        )

    def run(self) -> ExecutionResult:
        """Work until nothing more can be done."""
        try:
            self._skip_what_cannot_run()
            self._move_first()
            self._begin()
            while self._flights or self._ready_soon():
                self._wait()
                self._save_what_is_wanted()
                self._look_at_requests()
                self._time_out()
                self._start_more()
            return self._end()
        finally:
            for flight in self._flights.values():
                flight.channel.stopped.set()
            for _, waiting in self._wanted:
                waiting.cancel()

    def _save_what_is_wanted(self) -> None:
        while self._wanted:
            message, waiting = self._wanted.popleft()
            try:
                self._save(message or "on request", "manual", [])
                found = self._work.store.session(self._work.journal.session, branch=self._work.row["branch"])
                waiting.set_result(found.checkpoint())
            except HoldfastError as error:
                waiting.set_exception(error)

    # Beginning steps ------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        work = self._work
        flights, rows = self._startable()
        rows = [*work.rows, *rows]
        if work.announce is not None and work.enabled:
            self._save(work.announce, "auto:execution.started", rows)
        elif rows:
            work.store.write(rows, lease=work.lease)
        self._emit("execution.started", execution=self._id, plan=work.plan.name, recovered=work.recovered)
        self._launch(flights)

    def _start_more(self) -> None:
        flights, rows = self._startable()
        if rows:
            self._work.store.write(rows, lease=self._work.lease)
        self._launch(flights)

    def _startable(self) -> tuple[list[_Flight], list[RowChange]]:
        """Steps that begin now, and the rows that have to be written first."""
        flights: list[_Flight] = []
        rows: list[RowChange] = []
        if self._stopped or self._request or self._lost:
            return flights, rows
        now = self._work.clock()
        for due in [each for each, moment in self._later.items() if moment <= now]:
            del self._later[due]
            self._ready.append(due)
        while self._ready and len(self._flights) + len(flights) < self._work.capacity:
            step = self._steps[self._ready.popleft()]
            if not self._may_run(step, rows):
                continue
            options = self._work.actions[step.id].options
            self._work.hook("before intent", step.id)
            handle, entry = self._work.journal.intent(
                step.id,
                self._work.signatures[step.id],
                effect=options.effect,
                idempotent=options.idempotent,
                now=int(now * 1_000_000),
            )
            flights.append(_Flight(step, handle, self._channel(step, handle)))
            if entry is not None:
                rows.append(entry.change)
                self._work.journal.accept(entry)
            self._set_status(step.id, "running")
        return flights, rows

    def _may_run(self, step: PlanStep, rows: list[RowChange]) -> bool:
        """Whether a step can begin now; if not, it waits for its time or for a person, or is over."""
        known = self._work.journal.steps().get(step.id)
        now = self._work.clock()
        if known is not None and known.next_attempt_at and known.next_attempt_at > now * 1_000_000:
            self._later[step.id] = known.next_attempt_at / 1_000_000
            return False
        if known is not None and known.effect == "at_most_once" and known.status in ("running", "unknown"):
            return self._settled(step, rows)
        if not self._work.actions[step.id].options.approve:
            return True
        row = self._asked(step, "approve", self._work.asked[step.id], rows)
        if row is None:
            return False
        if row["decision"] == "rejected":
            by = f" by {row['decided_by']}" if row["decided_by"] else ""
            note = f": {row['note']}" if row["note"] else ""
            error = {"type": "Rejected", "message": f"it was rejected{by}{note}"}
            self._decided.append(partial(self._fail_for_good, step, error, None, []))
            return False
        changed = self._approvals.edit(row)
        if changed and self._doc["edits"].get(step.id) != changed:
            self._doc["edits"][step.id] = changed
            self._work.signatures = signatures(
                self._work.plan.steps,
                self._work.actions,
                self._work.store.pack,
                edits=self._doc["edits"],
                outputs=written_outputs(self._doc),
            )
            self._unsaved = True
        return True

    def _settled(self, step: PlanStep, rows: list[RowChange]) -> bool:
        """Whether a step that was cut off, and may happen at most once, may run again: a person has to say."""
        journal = self._work.journal
        known = journal.steps()[step.id]
        handle = StepHandle(
            step.id, done=False, value=None, key=known.idempotency_key, attempt=known.attempt, step=known
        )
        if known.status == "running":
            entry = journal.failure(handle, CUT_OFF, status="unknown", failures=known.failures)
            rows.append(entry.change)
            journal.accept(entry)
        row = self._asked(step, "outcome", f"{known.input_hash}.{known.attempt}", rows)
        if row is None:
            return False
        handle.step = journal.steps()[step.id]
        if row["decision"] == "again":
            return True
        if row["decision"] == "happened":
            self._decided.append(partial(self._complete, step, handle, Outcome(self._approvals.edit(row))))
        else:
            error = {"type": "Rejected", "message": "a person gave it up"}
            self._decided.append(partial(self._fail_for_good, step, error, handle, []))
        return False

    def _asked(self, step: PlanStep, kind: str, digest: str, rows: list[RowChange]) -> dict[str, Any] | None:
        """The decision about a step; None where nobody has decided yet, and now somebody is asked."""
        row = self._approvals.row(step.id, kind, digest)
        if row is not None and row["decision"] is not None:
            return row
        now = int(self._work.clock() * 1_000_000)
        expires = self._work.actions[step.id].options.expires
        if row is None:
            rows.append(self._approvals.request(step.id, kind, digest, expires, now))
        elif row["expires_at"] is not None and row["expires_at"] <= now:
            rows.append(self._approvals.renewed(row, expires, now))
        until = None if expires is None else utc(now / 1_000_000 + expires)
        self._waiting.append(Waiting(step.id, kind, until))
        self._emit("step.waiting", step=step.id, request=kind)
        return None

    def _launch(self, flights: list[_Flight]) -> None:
        """Hand steps whose intents are written to the pool, and write what persons decided about others."""
        for flight in flights:
            step, work = flight.step, self._work
            done_by = work.actions[step.id]
            work.hook("after intent", step.id)
            try:
                task = self._task(flight, done_by)
                future = self._pool_of(step).submit(perform, task)
            except InvalidInputError as error:
                self._fail_for_good(step, failed(error), flight.handle, [])
                continue
            except Exception as error:  # noqa: BLE001 - a pool that takes nothing any more
                self._lost = f"step {step.id!r} could not be handed to the pool: {error}"
                self._set_status(step.id, "pending")
                continue
            flight.future = future
            if done_by.options.timeout is not None:
                flight.deadline = time.monotonic() + done_by.options.timeout
            self._flights[future] = flight
            future.add_done_callback(self._ended.put)
            self._emit("step.started", step=step.id, attempt=flight.handle.attempt)
        while self._decided:
            self._decided.pop()()

    def _task(self, flight: _Flight, done_by: Action) -> Task:
        step, work = flight.step, self._work
        is_local = self._pool_of(step) is work.threads
        context = flight.context = StepContext(
            step=step.id,
            execution=self._id,
            attempt=flight.handle.attempt,
            key=flight.handle.key,
            timeout=done_by.options.timeout,
            partial=flight.handle.partial,
            memory=plain(self._doc["context"]),
            channel=flight.channel if is_local else None,
        )
        parameters = filled(plain(effective(step, self._doc["edits"])), self._output)
        if work.run_step is None:
            return Task(done_by.function, parameters, context, done_by.give_up_on)
        shown = PlanStep(
            step.id,
            step.description,
            step.action,
            parameters,
            list(step.dependencies),
            "running",
            step.options,
        )
        state = PlanState.from_dict(self._doc.plain())
        return Task(_replaced, {"run_step": work.run_step, "given": shown, "state": state}, context)

    def _pool_of(self, step: PlanStep) -> Pool:
        # A cluster runs a task again by itself when it loses a worker.
        is_once = self._work.actions[step.id].options.effect == "at_most_once"
        return self._work.threads if is_once else self._work.pool

    def _channel(self, step: PlanStep, handle: StepHandle) -> Channel:
        def progress(fraction: float | None, message: str) -> None:
            self._emit("step.progress", step=step.id, fraction=fraction, message=str(message))

        return Channel(progress, lambda value: self._work.journal.keep_partial(handle, value))

    # Ending steps ---------------------------------------------------------------------------------------------------

    def _ready_soon(self) -> bool:
        return bool(self._later or self._ready) and not (self._stopped or self._request or self._lost)

    def _wait(self) -> None:
        """Wait for a step that ends, and write what ended."""
        try:
            future = self._ended.get(timeout=self._pause())
        except Empty:
            return
        while True:
            flight = None if future is None else self._flights.pop(future, None)
            if flight is not None and future is not None:
                self._landed(flight, future)
            if self._ended.empty():
                return
            future = self._ended.get()

    def _pause(self) -> float:
        due = [POLL]
        now = time.monotonic()
        due += [each.deadline - now for each in self._flights.values() if each.deadline is not None]
        if not (self._stopped or self._request):
            due += [each - self._work.clock() for each in self._later.values()]
        return max(0.0, min(due))

    def _landed(self, flight: _Flight, future: Future[Any]) -> None:
        try:
            outcome = future.result()
        except (CancelledError, BrokenProcessPool) as error:
            # The pool is gone, or lost it: nobody knows what became of it, as after a crash.
            self._lost = (
                f"the pool lost step {flight.step.id!r} ({type(error).__name__}): its outcome is unknown"
            )
            self._set_status(flight.step.id, "pending")
            return
        except Exception as error:  # noqa: BLE001 - such as a worker that died of this step
            outcome = Outcome(error=failed(error))
        self._work.hook("after body", flight.step.id)
        if outcome.error is None:
            try:
                self._work.store.pack([outcome.value, outcome.remembered])
            except InvalidInputError as error:
                # It would be the same the next time.
                outcome = outcome._replace(value=None, error=failed(error), final=True, remembered={})
        limit = self._work.actions[flight.step.id].options.timeout
        if outcome.error is None:
            self._complete(flight.step, flight.handle, outcome)
        elif (
            limit is None
            or outcome.duration_ms < limit * 1000 - 1
            or not self._asks_after(flight, _late(limit))
        ):
            # A body that is awaited ends itself when its time is over.
            self._failed(flight, outcome)

    def _asks_after(self, flight: _Flight, why: str) -> bool:
        """Whether a person has to say what became of an attempt: it may happen once, and perhaps it did."""
        step = flight.step
        if self._work.actions[step.id].options.effect != "at_most_once":
            return False
        rows: list[RowChange] = []
        self._settled(step, rows)
        self._set_status(step.id, "pending")
        self._note_error(step, f"{why}; nobody knows whether it happened")
        self._save(self._failed_at(step), "error", rows)
        return True

    def _complete(self, step: PlanStep, handle: StepHandle, outcome: Outcome) -> None:
        work, doc = self._work, self._doc
        self._tokens += outcome.tokens or 0
        self._cost += outcome.cost_usd or 0.0
        now = work.clock()
        self._results[step.id] = len(doc["results"])
        doc["results"].append(
            {
                "step_id": step.id,
                "output": outcome.value,
                "completed_at": utc(now),
                "duration_ms": outcome.duration_ms,
                "token_usage": outcome.tokens,
                "cost_usd": outcome.cost_usd,
            }
        )
        if outcome.remembered:
            doc["context"].update(outcome.remembered)
        last = doc["last_error"]
        if last is not None and last["step_index"] == self._index[step.id]:
            doc["last_error"] = None
        entry = work.journal.completion(
            handle,
            result=None if work.auto_checkpoint else work.store.pack(doc["results"][-1]),
            tokens=outcome.tokens,
            cost_usd=outcome.cost_usd,
            now=int(now * 1_000_000),
            duration_ms=outcome.duration_ms,
        )
        doc["plan"][self._index[step.id]]["signature"] = work.signatures[step.id]
        self._set_status(step.id, "completed")
        self._move_first()
        for other in self._dependents.get(step.id, ()):
            self._left[other] -= 1
            if not self._left[other] and self._status[other] == "pending":
                self._ready.append(other)
        self._unsaved = True
        work.journal.accept(entry)
        # With the end of this step go the intents of those that begin because of it.
        flights, rows = self._startable()
        rows = [entry.change, *rows]
        work.hook("before commit", step.id)
        if work.auto_checkpoint:
            message = f"Step {self._index[step.id] + 1}: {step.description or step.id}"
            self._save(message, "auto:step.completed", rows)
        else:
            self._in_rows.append(step.id)
            work.store.write(rows, lease=work.lease)
        work.hook("after commit", step.id)
        self._emit(
            "step.completed",
            step=step.id,
            duration_ms=outcome.duration_ms,
            tokens=outcome.tokens,
            cost_usd=outcome.cost_usd,
        )
        self._launch(flights)

    def _failed(self, flight: _Flight, outcome: Outcome) -> None:
        step, handle, work = flight.step, flight.handle, self._work
        assert outcome.error is not None
        assert handle.step is not None
        options = work.actions[step.id].options
        failures = handle.step.failures + 1
        if outcome.final or failures > options.retries:
            self._fail_for_good(step, outcome.error, handle, [])
            return
        # Less a random part, so that many that failed together do not come back together.
        longest = min(options.max_backoff, options.backoff * 2 ** min(failures - 1, 60))
        wait = longest * (0.5 + random.random() / 2)  # noqa: S311 - no secret
        now = work.clock()
        entry = work.journal.failure(
            handle, outcome.error, next_attempt_at=int((now + wait) * 1_000_000), now=int(now * 1_000_000)
        )
        work.journal.accept(entry)
        self._later[step.id] = now + wait
        self._note_error(step, outcome.error["message"])
        self._set_status(step.id, "pending")
        times = f"attempt {failures} of {options.retries + 1}"
        self._save(f"{self._failed_at(step)} ({times})", "error", [entry.change])
        self._emit(
            "step.retrying",
            step=step.id,
            attempt=handle.attempt,
            error=outcome.error["message"],
            seconds=wait,
        )

    def _fail_for_good(
        self, step: PlanStep, error: dict[str, Any], handle: StepHandle | None, rows: list[RowChange]
    ) -> None:
        work = self._work
        if handle is not None:
            entry = work.journal.failure(handle, error, now=int(work.clock() * 1_000_000))
            rows.append(entry.change)
            work.journal.accept(entry)
        policy = work.actions[step.id].options.on_failure or work.on_failure
        self._set_status(step.id, "failed")
        self._skip_dependents(step.id)
        self._note_error(step, error["message"])
        if policy != "continue":
            self._error = self._error or f"step {step.id!r} failed: {error['message']}"
        if policy == "stop":
            self._stopped = step.id
        status = "failed" if policy == "stop" else "running"
        self._save(self._failed_at(step), "error", rows, status=status)
        self._emit("step.failed", step=step.id, error=error["message"])

    def _failed_at(self, step: PlanStep) -> str:
        return f"Failed at step {self._index[step.id]}: {step.description or step.id}"

    def _note_error(self, step: PlanStep, message: str) -> None:
        self._doc["last_error"] = {
            "step_index": self._index[step.id],
            "message": message,
            "timestamp": utc(self._work.clock()),
        }
        self._unsaved = True

    def _skip_dependents(self, step: str) -> None:
        left = list(self._dependents.get(step, ()))
        while left:
            other = left.pop()
            if self._status[other] == "pending":
                self._set_status(other, "skipped")
                left.extend(self._dependents.get(other, ()))

    def _skip_what_cannot_run(self) -> None:
        for step, status in list(self._status.items()):
            if status == "failed":
                self._skip_dependents(step)

    # Requests, times --------------------------------------------------------------------------------------------------

    def _look_at_requests(self) -> None:
        now = time.monotonic()
        if self._request is None and now - self._looked >= POLL:
            self._looked = now
            row = self._work.store.rows(EXECUTIONS).get(self._id)
            if row is not None and row["request"] is not None:
                self._request = row["request"]
        if self._request == "cancel":
            for flight in list(self._flights.values()):
                self._leave(flight)
                self._set_status(flight.step.id, "pending")

    def _time_out(self) -> None:
        now = time.monotonic()
        for flight in list(self._flights.values()):
            if flight.deadline is not None and flight.deadline <= now:
                self._leave(flight)
                limit = self._work.actions[flight.step.id].options.timeout
                assert limit is not None
                if not self._asks_after(flight, _late(limit)):
                    error = {"type": "TimeoutError", "message": _late(limit)}
                    self._failed(flight, Outcome(error=error))

    def _leave(self, flight: _Flight) -> None:
        """Do not wait for this one any more: what it gives is not looked at."""
        assert flight.future is not None
        self._flights.pop(flight.future, None)
        flight.channel.stopped.set()
        flight.future.cancel()
        if self._pool_of(flight.step) is self._work.threads:
            self._work.threads.abandon(flight.future)

    # The state --------------------------------------------------------------------------------------------------------

    def _set_status(self, step: str, status: str) -> None:
        self._status[step] = status
        self._doc["plan"][self._index[step]]["status"] = status

    def _move_first(self) -> None:
        plan = self._work.plan.steps
        while self._first < len(plan) and self._status[plan[self._first].id] == "completed":
            self._first += 1
        if self._doc["current_step_index"] != self._first:
            self._doc["current_step_index"] = self._first

    def _output(self, step: str) -> Any:
        return plain(self._doc["results"][self._results[step]]["output"])

    def _save(self, message: str, trigger: str, rows: list[RowChange], status: str = "running") -> None:
        work = self._work
        if not work.enabled:
            if rows:
                work.store.write(rows, lease=work.lease)
            return
        checkpoint = work.document.save(
            message[:1000],
            trigger=trigger,
            status=status,
            rows=[*rows, *self._moved_results()],
            on_conflict="fork",
            **self._amounts(),
        )
        self._unsaved = False
        if checkpoint.branch != work.row["branch"]:
            # Somebody else saved on our branch: this goes on beside it.
            work.row["branch"] = checkpoint.branch
            work.store.write(
                [EXECUTIONS.update((self._id,), {"branch": checkpoint.branch})], lease=work.lease
            )
        work.events.emit(
            "checkpoint.created",
            session=checkpoint.session,
            checkpoint_id=checkpoint.id,
            trigger=checkpoint.trigger,
            message=checkpoint.message,
        )

    def _moved_results(self) -> list[RowChange]:
        """Results that only rows had are in this checkpoint now."""
        from holdfast.agents.journal import STEPS

        moved, self._in_rows = self._in_rows, []
        return [STEPS.update((self._id, step), {"result": None}) for step in moved]

    def _amounts(self) -> dict[str, Any]:
        return {
            "step": self._first,
            "tokens": self._tokens or None,
            "cost_usd": self._cost or None,
            "duration_ms": self._work.row["duration_ms"] + self._elapsed(),
            "metadata": {"execution": self._id, "plan": self._work.plan.name},
        }

    def _elapsed(self) -> float:
        return (time.monotonic() - self._began) * 1000

    def _end(self) -> ExecutionResult:
        work = self._work
        status, message, trigger = self._verdict()
        values = {
            "status": status,
            "request": None,
            "updated_at": int(work.clock() * 1_000_000),
            "duration_ms": work.row["duration_ms"] + self._elapsed(),
            "error": self._error or self._lost,
        }
        row = EXECUTIONS.update((self._id,), values)
        if status == "completed" and work.enabled:
            described = {"trigger": trigger, "status": status, "on_conflict": "fork", **self._amounts()}
            described["rows"] = [row, *self._moved_results()]
            work.finish(work.lease, work.row["branch"], self._doc, message, described)
        elif message:
            shown = {"waiting": "paused", "cancelled": "interrupted"}.get(status, status)
            self._save(message, trigger, [row], status=shown)
        else:
            work.store.write([row], lease=work.lease)
        self._emit(f"execution.{status}", execution=self._id, error=self._error or self._lost)
        return ExecutionResult(
            success=status == "completed",
            state=PlanState.from_dict(self._doc.plain()),
            error=self._error or self._lost,
            total_duration_ms=self._elapsed(),
            status=status,
            execution=self._id,
            recovered=work.recovered,
            reasons={step["id"]: step["reason"] for step in self._doc["plan"] if step.get("reason")},
            waiting=self._waiting,
        )

    def _verdict(self) -> tuple[str, str, str]:
        """The status at the end, and the message and trigger of its checkpoint; no message: there is one already."""
        if self._request == "cancel":
            return "cancelled", "Execution cancelled", "manual"
        if self._error is not None:
            message = f"Execution failed: {self._error}" if self._unsaved else ""
            return "failed", message, "error"
        if self._lost is not None:
            return "paused", f"Paused: {self._lost}", "error"
        if self._request == "pause" and any(each in ("pending", "running") for each in self._status.values()):
            return "paused", "Paused", "manual"
        if self._waiting:
            names = ", ".join(each.step for each in self._waiting)
            return "waiting", f"Waiting for a decision about {names}", "auto:step.waiting"
        return "completed", "Execution complete", "auto:execution.completed"

    def _emit(self, kind: str, **data: Any) -> None:
        self._work.events.emit(kind, session=self._work.journal.session, **data)


def _replaced(
    *, run_step: Callable[[PlanStep, PlanState], Any], given: PlanStep, state: PlanState, context: StepContext
) -> Any:
    """Run a step as somebody else wants it to be run; what it puts into the state's context is remembered."""
    before = copy.deepcopy(state.context)
    value = run_step(given, state)
    context.remember(
        **{key: each for key, each in state.context.items() if key not in before or before[key] != each}
    )
    return value


def _late(seconds: float) -> str:
    return f"it took longer than {seconds:g} seconds"


def plain(value: Any) -> Any:
    """A copy that nobody shares: a step may change what it is given."""
    kind = type(value)
    is_tracked = kind.__module__.startswith("holdfast.")
    if kind is dict or (is_tracked and isinstance(value, dict)):
        return {key: plain(each) for key, each in value.items()}
    if kind is list or (is_tracked and isinstance(value, list)):
        return [plain(each) for each in value]
    return value if value is None or isinstance(value, str | int | float | bytes) else copy.deepcopy(value)
