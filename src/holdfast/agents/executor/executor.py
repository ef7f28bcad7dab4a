"""Executor: runs plans, with a checkpoint after each step, and goes on after kill -9 as if nothing had happened."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor as Pool
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from holdfast import Keep
from holdfast.agents.executor.action import FAILURE_POLICIES, Action, find_action
from holdfast.agents.executor.approvals import Approvals, Decision
from holdfast.agents.executor.execution import Execution, Work, plain
from holdfast.agents.executor.plan import Plan
from holdfast.agents.executor.pool import Threads
from holdfast.agents.executor.resume import plan_changed, reuse
from holdfast.agents.executor.signature import PlanDiff, compare, signatures, written_outputs
from holdfast.agents.executor.state import (
    UNFINISHED,
    ExecutionResult,
    ExecutionStatus,
    PlanState,
    StepStatus,
    is_plan_state,
    new_state,
    plan_of,
    utc,
)
from holdfast.agents.executor.step import PlanStep, step_missing
from holdfast.agents.executor.tables import EXECUTIONS
from holdfast.agents.journal import Effect, Journal, effects, microseconds, moment
from holdfast.agents.live import listening
from holdfast.errors import ErrorCode, InvalidInputError, NotFoundError, shown

if TYPE_CHECKING:
    from holdfast import EventBus, HeldLease, Session, Settings
    from holdfast.agents.executor.whatif import WhatIf

_USUAL_KEEP: Final = Keep(at_most=10, max_age_days=30)
_UNSET: Final[Any] = object()


class Executor:
    """Runs plans in a session.

        result = Executor(store.session("report-7"), workers=4).run(plan)      # the same line after kill -9 goes on

    Override `run_step` to run steps in a way of your own.

    Args:
        session: Where the checkpoints go. One execution at a time runs on a branch of a session.
        workers: How many steps run at once.
        pool: Where steps run: any `concurrent.futures.Executor`; threads of its own without one. For Dask:
            `client.get_executor(pure=False, retries=0)`.
        actions: Functions by the names that plans call them.
        on_failure: What a step that failed means, where it does not say so itself: `stop`, `skip` or `continue`.
        keep: What is kept of a finished execution; 10 checkpoints of the last 30 days unless it is given. None: all.
        settings: Take `agent.checkpoints` from these: enabled, autoCheckpoint, maxCheckpointsPerSession,
            pruneAfterDays.
        events: The bus that events go to; one of its own without it.
        lease_seconds: After so many seconds without a sign of life another process may take over.
        clock: Seconds since 1970; for tests.
        live: Let other processes of this user reach it while it runs: `holdfast live create` saves.
    """

    def __init__(  # noqa: PLR0913 - each is a keyword of the public contract
        self,
        session: Session,
        *,
        workers: int = 4,
        pool: Pool | None = None,
        actions: Mapping[str, Callable[..., Any]] | None = None,
        on_failure: str = "stop",
        keep: Keep | None = _UNSET,
        settings: Settings | None = None,
        events: EventBus | None = None,
        lease_seconds: float = 30.0,
        clock: Callable[[], float] = time.time,
        live: bool = False,
    ) -> None:
        from holdfast import EventBus, Session, Store

        if not isinstance(session, Session):
            raise _bad(f"session cannot be {shown(session)}", "pass what store.session(...) gave")
        if type(workers) is not int or workers < 1:
            raise _bad(
                f"workers must be a whole number from 1, not {shown(workers)}", "pass how many run at once"
            )
        if on_failure not in FAILURE_POLICIES:
            raise _bad(
                f"on_failure cannot be {shown(on_failure)}", f"use one of: {', '.join(FAILURE_POLICIES)}"
            )
        if pool is not None and not isinstance(pool, Pool):
            raise _bad(f"pool cannot be {shown(pool)}", "pass a concurrent.futures.Executor")
        self.session = session
        self.store = Store.of(session)
        self.actions = dict(actions or {})
        self.events = EventBus() if events is None else events
        self.reasons: dict[str, str] = {}
        """After `fork`: why steps will run again."""
        self.repeated: list[Effect] = []
        """After `fork`: effects that happened already, and will happen again."""
        self._workers = workers
        self._pool = pool
        self._on_failure = on_failure
        self._settings = settings
        self._enabled = settings is None or settings.checkpoint.enabled
        self._auto = settings is None or settings.checkpoint.auto
        self._keep = _keep(settings) if keep is _UNSET else keep
        self._seconds = lease_seconds
        self._clock = clock
        self._live = live
        # A handler of signals may ask while its own thread is in here.
        self._lock = threading.RLock()
        self._busy = False
        self._running: Execution | None = None
        self._asked: str | None = None
        self._hook: Callable[[str, str], None] = lambda _where, _step: None

    # Running ------------------------------------------------------------

    def run(
        self,
        plan: Any,
        resume: bool | None = None,  # noqa: FBT001 - the document's own form
        auto_checkpoint: bool = True,  # noqa: FBT001, FBT002 - likewise
        *,
        rerun_changed: bool = False,
        keep_results: bool = False,
    ) -> ExecutionResult:
        """Run a plan until it is done, fails, is paused, or waits for a person. A step that fails does not raise.

        An unfinished execution of the same plan goes on: completed steps are skipped, failed ones are tried again. A
        finished one does not count: it begins anew.

        Args:
            plan: A `Plan`, a file, or a dict or list of the same form.
            resume: False: begin anew in any case. True: there has to be an unfinished one.
            auto_checkpoint: False: checkpoints on errors and at the end only; results are stored all the same.
            rerun_changed: Where the plan has changed since: run what changed again, and what follows from it.
            keep_results: Where the plan has changed since: keep the results that there are.

        Raises:
            InvalidInputError: The plan cannot be run (`bad-plan`); nothing was.
            ConflictError: Another process works on it (`lease-held`) or took over (`lease-lost`); or the plan has
                changed (`plan-changed`).
            NotFoundError: `resume` is True, and there is nothing to go on with (`execution-missing`).
        """
        plan = Plan.load(plan)
        actions = self._actions(plan)
        self.actions |= {each.action: each.function for each in plan.steps if each.function is not None}
        with self._claimed() as lease, self._at_work():
            work = self._prepare(
                plan, actions, lease, resume=resume, rerun_changed=rerun_changed, keep_results=keep_results
            )
            work.auto_checkpoint = auto_checkpoint and self._auto and self._enabled
            try:
                return self._work_on(work)
            finally:
                work.threads.shutdown()

    async def arun(self, plan: Any, resume: bool | None = None, **options: Any) -> ExecutionResult:  # noqa: FBT001
        """`run`, awaited: it works in a thread of its own."""
        return await asyncio.to_thread(self.run, plan, resume, **options)

    def resume(self, **options: Any) -> ExecutionResult:
        """Go on with the unfinished execution, with the plan that is stored with it; see `run`.

        Actions are found by their names: pass those that are not decorated or importable as `actions`.
        """
        state = self._state()
        if state is None:
            raise self._nothing()
        return self.run(plan_of(state), resume=True, **options)

    def submit(self, plan: Any) -> str:
        """Save a plan to be run later, by any process: `resume` here, or `run_all`. Returns the execution's id."""
        plan = Plan.load(plan)
        actions = self._actions(plan)
        with self._claimed() as lease:
            work = self._prepare(plan, actions, lease, resume=False)
            rows = list(work.rows)
            rows[-1] = EXECUTIONS.insert(work.row | {"status": "pending"})
            metadata = {"execution": work.row["execution"], "plan": plan.name}
            work.document.save(
                "Execution submitted", trigger="auto:execution.submitted", rows=rows, metadata=metadata
            )
            return str(work.row["execution"])

    def pause(self) -> None:
        """Stop beginning steps; those that run are waited for, then a checkpoint is saved. Any process may ask."""
        self._ask("pause")

    def cancel(self) -> None:
        """End the execution; steps that run are not waited for. Any process may ask."""
        self._ask("cancel")

    def run_step(self, step: PlanStep, state: PlanState) -> Any:
        """Run one step and return its output: override it to run steps in a way of your own.

        It is called in a worker thread. What it puts into `state.context` is saved with the result.
        """
        from holdfast.agents.executor.context import StepContext
        from holdfast.agents.executor.task import Task, _call

        context = StepContext(step=step.id, execution=state.execution, attempt=1, key="")
        return _call(Task(find_action(step.action, self.actions).function, step.parameters, context))

    # Deciding and looking ------------------------------------------------------------

    def approve(
        self,
        step: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        by: str | None = None,
        note: str | None = None,
    ) -> Decision:
        """Agree that a step runs, with other parameters if they are given. The first decision wins."""
        edit = None if parameters is None else dict(parameters)
        return self._decide(step, "approved", edit=edit, by=by, note=note)

    def reject(self, step: str, *, by: str | None = None, note: str | None = None) -> Decision:
        """Do not agree: the step fails."""
        return self._decide(step, "rejected", by=by, note=note)

    def settle(
        self, step: str, *, output: Any = None, again: bool = False, by: str | None = None
    ) -> Decision:
        """Say what became of a step that may happen at most once and was cut off.

        Args:
            step: The step.
            output: It happened, and gave this.
            again: It did not happen: it may run.
            by: Who says so.
        """
        return self._decide(step, "again" if again else "happened", edit=None if again else output, by=by)

    def status(self) -> ExecutionStatus:
        """Where the newest execution of this branch is.

        Raises:
            NotFoundError: There is none (`execution-missing`).
        """
        state = self._state()
        if state is None:
            raise self._nothing()
        row = self._row(state) or {}
        execution = state["execution"]
        journal = Journal(self.session, execution or "none")
        known = journal.steps()
        results = {each["step_id"]: each for each in state["results"]}
        steps = []
        for each in state["plan"]:
            step = known.get(each["id"])
            done = results.get(each["id"], {})
            status = each["status"]
            if step is not None and status in ("pending", "running", "completed"):
                status = {"unknown": "failed", "failed": "pending"}.get(step.status, step.status)
            steps.append(
                StepStatus(
                    each["id"],
                    each["description"],
                    each["action"],
                    status,
                    0 if step is None else step.attempt,
                    list(each["dependencies"]),
                    None if step is None else moment(step.started_at),
                    done.get("duration_ms"),
                    done.get("token_usage"),
                    done.get("cost_usd"),
                    None if step is None or step.error is None else _message(step.error),
                    None if step is None or step.next_attempt_at is None else moment(step.next_attempt_at),
                    each.get("reason"),
                )
            )
        return ExecutionStatus(
            execution,
            state["name"],
            self.session.id,
            row.get("branch", self.session.branch),
            row.get("status", "pending"),
            self._is_running(),
            steps,
            Approvals(self.store, self.session.id, execution).open(),
            effects(self.store, self.session.id, execution=execution),
            row.get("forked_from"),
            row.get("error"),
        )

    def diff(self, plan: Any) -> PlanDiff:
        """How a plan differs from the one that the newest execution has."""
        state = self._state()
        if state is None:
            raise self._nothing()
        plan = Plan.load(plan)
        return self._compare(plan, self._actions(plan), state)

    def effects(self) -> list[Effect]:
        """What steps of this session did to the world outside, or may have done; oldest first."""
        return effects(self.store, self.session.id)

    # Other ways it could go ------------------------------------------------------------

    def fork(
        self,
        at: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        output: Any = _UNSET,
        plan: Any = None,
        name: str | None = None,
    ) -> Executor:
        """Begin another execution, on a branch of its own, that differs from a step on. No output is copied.

        Results are reused where nothing before them changed; `reasons` of what comes back says why each of the others
        runs again, and `repeated` which effects happened already. Nothing runs until `resume` or `run`.

        Args:
            at: The step. Without anything else it runs again, and what follows from it.
            parameters: Other parameters for it; those that are not given stay.
            output: What it is to have given: it does not run.
            plan: Another plan.
            name: What the branch is called.
        """
        base, state = self._found()
        if base is None:
            raise self._nothing()
        new = plan_of(state) if plan is None else Plan.load(plan)
        known = [each.id for each in new.steps]
        if at not in known:
            raise step_missing(at, known)
        actions = self._actions(new)
        edits = plain(state.get("edits", {}))
        if parameters is not None:
            edits[at] = edits.get(at, {}) | dict(parameters)
        outputs = written_outputs(state)
        outputs.pop(at, None)
        again = {}
        if output is _UNSET:
            again[at] = "its parameters were edited" if parameters else "it was forked here"
        else:
            outputs[at] = "output:" + hashlib.blake2b(self.store.pack(output), digest_size=16).hexdigest()
        now = signatures(new.steps, actions, self.store.pack, edits=edits, outputs=outputs)
        forked = self.session.fork(base, name)
        with self._claimed(forked.branch) as lease:
            document = self._document(forked.branch, lease)
            if output is not _UNSET:
                _write_output(document, at, output, now[at], self._clock())
            found = reuse(new, document, now, again=again, versions=_versions(actions))
            row = self._new_row(new, forked.branch)
            row |= {"status": "pending", "forked_from": state["execution"], "fork_step": at}
            _apply(document, new, row["execution"], found, edits)
            document.save(
                f"Forked at step {known.index(at)}: {new[at].description or at}",
                trigger="fork",
                status="paused",
                rows=[EXECUTIONS.insert(row)],
                metadata={"execution": row["execution"], "plan": new.name},
            )
        rerun = {step["id"] for step in found.steps if step["status"] != "completed"}
        made = self._like(forked)
        made.reasons = found.reasons
        made.repeated = [each for each in effects(self.store, self.session.id) if each.step in rerun]
        return made

    def _like(self, session: Session) -> Executor:
        """An executor as this one, for another session."""
        return type(self)(
            session,
            workers=self._workers,
            pool=self._pool,
            actions=self.actions,
            on_failure=self._on_failure,
            keep=self._keep,
            settings=self._settings,
            events=self.events,
            lease_seconds=self._seconds,
            clock=self._clock,
        )

    def whatif(self, step: str, parameters: Sequence[Mapping[str, Any]]) -> WhatIf:
        """Run what follows from a step with other parameters, one fork for each; results before it are reused."""
        from holdfast.agents.executor.whatif import whatif

        return whatif(self, step, parameters)

    # --------------------------------------------------------------------------------

    def _actions(self, plan: Plan) -> dict[str, Action]:
        """The action of each step; where `run_step` is replaced, it knows what a name means."""
        if self._runs_plainly():
            return plan.check(self.actions)
        names = (each.action for each in plan.steps if each.function is None)
        return plan.check(dict.fromkeys(names, _anything) | self.actions)

    def _runs_plainly(self) -> bool:
        return type(self).run_step is Executor.run_step

    def _prepare(
        self,
        plan: Plan,
        actions: Mapping[str, Any],
        lease: HeldLease,
        *,
        resume: bool | None,
        rerun_changed: bool = False,
        keep_results: bool = False,
    ) -> Work:
        branch = self.session.branch
        document = self._document(branch, lease)
        state: Any = None
        if resume is not False:
            if is_plan_state(document):
                state = document
            elif (base := self._found()[0]) is not None:
                state = document = self._document(branch, lease, base)
        row = None if state is None else self._row(state)
        if state is not None and _is_finished(state, row):
            state = row = None
        if state is None and resume:
            raise self._nothing()
        pack = self.store.pack
        now = asked = signatures(plan.steps, actions, pack)
        rows: list[Any] = []
        announce, recovered = None, 0
        if state is None:
            rows += self._abandoned()
            row = self._new_row(plan, branch)
            rows.append(EXECUTIONS.insert(row))
            document.clear()
            document.update(new_state(plan, row["execution"]))
            for entry, version in zip(document["plan"], _versions(actions).values(), strict=True):
                if version != 1:
                    entry["version"] = version
            announce = "Execution started"
        else:
            diff = self._compare(plan, actions, state)
            if diff and not (rerun_changed or keep_results):
                raise plan_changed(diff, self.session.id, state["execution"])
            row, now, recovered = self._go_on(
                plan, actions, state, document, row, rows, keep_results=keep_results
            )
        threads = Threads(self._workers)
        return Work(
            store=self.store,
            lease=lease,
            plan=plan,
            actions=actions,
            document=document,
            journal=Journal(self.session, row["execution"], lease=lease),
            row=row,
            signatures=now,
            asked=asked,
            events=self.events,
            pool=threads if self._pool is None else self._pool,
            threads=threads,
            capacity=self._workers,
            on_failure=self._on_failure,
            auto_checkpoint=self._auto,
            enabled=self._enabled,
            clock=self._clock,
            run_step=None if self._runs_plainly() else self.run_step,
            finish=self._finish,
            rows=rows,
            announce=announce,
            recovered=recovered,
            hook=self._hook,
        )

    def _go_on(
        self,
        plan: Plan,
        actions: Mapping[str, Any],
        state: Mapping[str, Any],
        document: Any,
        row: dict[str, Any] | None,
        rows: list[Any],
        *,
        keep_results: bool,
    ) -> tuple[dict[str, Any], dict[str, str], int]:
        """Bring the document to where an unfinished execution goes on: its row, signatures, and how much is done."""
        edits, pack = plain(state.get("edits", {})), self.store.pack
        journal = None if row is None else Journal(self.session, row["execution"])
        if row is None or journal is None or _is_rewound(state, journal):
            # Somebody went back, or brought the state from elsewhere: other steps, other keys.
            old = None if row is None else row["execution"]
            row = self._new_row(plan, self.session.branch) | {"forked_from": old}
            rows.append(EXECUTIONS.insert(row))
        else:
            _add_results(document, journal, self.store)
            values = {"status": "running", "request": None, "updated_at": microseconds()}
            rows.append(EXECUTIONS.update((row["execution"],), values))
            if row["status"] == "failed":
                rows += _forgiven(journal)
        now = signatures(plan.steps, actions, pack, edits=edits, outputs=written_outputs(document))
        found = reuse(plan, document, now, keep_results=keep_results, versions=_versions(actions))
        _apply(document, plan, row["execution"], found, edits)
        self.store.count_resume(found.kept)
        return row, now, found.kept

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        self._busy, self._asked = True, None
        try:
            yield
        finally:
            self._busy = False

    def _work_on(self, work: Work) -> ExecutionResult:
        execution = Execution(work)
        with self._lock:
            self._running = execution
            asked, self._asked = self._asked, None
        if asked is not None:
            execution.ask(asked)
        reached = listening(self.store, self.session.id, execution, kind="executor")
        try:
            with reached if self._live else nullcontext():
                return execution.run()
        finally:
            with self._lock:
                self._running = None

    def _finish(
        self, lease: HeldLease, branch: str, document: Any, message: str, described: dict[str, Any]
    ) -> None:
        """Write the last checkpoint; with it goes what is not kept, unless something in the session is unfinished."""
        others = [row for row in self._unfinished() if row["execution"] != document["execution"]]
        if self._keep is None or others:
            document.save(message, **described)
        else:
            keeping = self.store.session(self.session.id, branch=branch, keep=self._keep, lease=lease)
            keeping.save(document.plain(), message, **described)

    @contextmanager
    def _claimed(self, branch: str | None = None) -> Iterator[HeldLease]:
        name = self._lease_name(branch or self.session.branch)
        with self.store.lease(name, seconds=self._seconds) as lease:
            yield lease

    def _lease_name(self, branch: str) -> str:
        if branch == "main":
            return f"plan:{self.session.id}"
        return f"plan-{hashlib.blake2b(branch.encode(), digest_size=6).hexdigest()}:{self.session.id}"

    def _is_running(self) -> bool:
        return self.store.is_leased(self._lease_name(self.session.branch))

    def _document(self, branch: str, lease: HeldLease, base: str | None = None) -> Any:
        session = self.store.session(
            self.session.id,
            agent=self.session.agent,
            project=self.session.project,
            branch=branch,
            lease=lease,
        )
        document = session.document(default={}) if base is None else session.document(base)
        if not isinstance(document, dict):
            raise _bad(
                f"session {self.session.id!r} holds something that is no plan's state",
                "give plans a session of their own",
            )
        return document

    def _state(self) -> Any:
        """The state of the newest execution of this branch; None if there is none."""
        return self._found()[1]

    def _found(self) -> tuple[str | None, Any]:
        """The checkpoint of the newest execution of this branch, and its state.

        That is the head, or the newest of an unfinished execution where others saved over it.
        """
        session = self.store.session(self.session.id, branch=self.session.branch)
        state = session.load(default=None)
        if is_plan_state(state):
            return session.seen, state
        for row in self._unfinished(self.session.branch):
            found = self.store.find(session=session.id, metadata={"execution": row["execution"]}, limit=1)
            if found:
                return found[0].id, session.load(found[0])
        return None, None

    def _row(self, state: Mapping[str, Any]) -> dict[str, Any] | None:
        execution = state.get("execution")
        return self.store.rows(EXECUTIONS).get(execution) if execution else None

    def _unfinished(self, branch: str | None = None) -> list[dict[str, Any]]:
        rows = self.store.rows(EXECUTIONS).find(session=self.session.id, order_by="-created_at")
        return [row for row in rows if row["status"] in UNFINISHED and branch in (None, row["branch"])]

    def _abandoned(self) -> list[Any]:
        """What was unfinished on this branch is so no more: another execution begins in its place."""
        values = {"status": "cancelled", "request": None, "updated_at": microseconds()}
        rows = self._unfinished(self.session.branch)
        return [EXECUTIONS.update((row["execution"],), values) for row in rows]

    def _new_row(self, plan: Plan, branch: str) -> dict[str, Any]:
        now = microseconds()
        return {
            "session": self.session.id,
            "execution": uuid.uuid4().hex[:16],
            "branch": branch,
            "plan": plan.name,
            "status": "running",
            "request": None,
            "created_at": now,
            "updated_at": now,
            "duration_ms": 0.0,
            "forked_from": None,
            "fork_step": None,
            "error": None,
        }

    def _compare(self, plan: Plan, actions: Mapping[str, Any], state: Mapping[str, Any]) -> PlanDiff:
        old = {each["id"]: each.get("version", 1) for each in state["plan"]}
        return compare(plan_of(state).steps, plan.steps, versions=(old, _versions(actions)))

    def _ask(self, what: str) -> None:
        with self._lock:
            running = self._running
            if running is not None:
                running.ask(what)
                return
            if self._busy:
                self._asked = what
                return
        rows = self._unfinished(self.session.branch)
        if not rows:
            raise self._nothing()
        values: dict[str, Any] = {"request": what}
        if what == "cancel" and not self._is_running():
            values = {"status": "cancelled", "request": None, "updated_at": microseconds()}
        self.store.write([EXECUTIONS.update((rows[0]["execution"],), values)])

    def _decide(self, step: str, decision: str, **given: Any) -> Decision:
        state = self._state()
        if state is None:
            raise self._nothing()
        plan = plan_of(state)
        known = [each.id for each in plan.steps]
        if step not in known:
            raise step_missing(step, known)
        versions = {each["id"]: each.get("version", 1) for each in state["plan"]}
        current = {"approve": signatures(plan.steps, _Versioned(versions), self.store.pack)[step]}
        begun = Journal(self.session, state["execution"] or "none").steps().get(step)
        if begun is not None:
            current["outcome"] = f"{begun.input_hash}.{begun.attempt}"
        now = int(self._clock() * 1_000_000)
        approvals = Approvals(self.store, self.session.id, state["execution"])
        return approvals.decide(step, decision, current=current, now=now, **given)

    def _nothing(self) -> NotFoundError:
        return NotFoundError(
            f"session {self.session.id!r} has no execution to go on with on branch {self.session.branch!r}",
            code=ErrorCode.EXECUTION_MISSING,
            hint="run a plan first",
            session=self.session.id,
        )


def _anything(**_parameters: Any) -> None:
    """The action of a step that only a replaced `run_step` knows."""


class _Versioned(dict[str, Any]):
    """Actions that are known by their versions alone."""

    def __init__(self, versions: Mapping[str, int]) -> None:
        from holdfast.agents.executor.action import Options

        super().__init__(
            {step: Action(step, print, Options(version=each)) for step, each in versions.items()}
        )


def _versions(actions: Mapping[str, Any]) -> dict[str, int]:
    return {step: each.options.version for step, each in actions.items()}


def _is_finished(state: Mapping[str, Any], row: Mapping[str, Any] | None) -> bool:
    statuses = [each["status"] for each in state["plan"]]
    if row is None:
        return all(each == "completed" for each in statuses)
    if row["status"] == "cancelled":
        return True
    return row["status"] == "completed" and not any(each in ("pending", "running") for each in statuses)


def _is_rewound(state: Mapping[str, Any], journal: Journal) -> bool:
    """Whether the journal has a result that a checkpoint had, and this state has not: somebody went back."""
    done = {each["id"] for each in state["plan"] if each["status"] == "completed"}
    known = {each["id"] for each in state["plan"]}
    return any(
        each.status == "completed" and each.result is None and name in known and name not in done
        for name, each in journal.steps().items()
    )


def _add_results(document: Any, journal: Journal, store: Any) -> None:
    """Take in the results that only rows have."""
    have = {each["step_id"] for each in document["results"]}
    index = {each["id"]: number for number, each in enumerate(document["plan"])}
    late = [each for each in journal.steps().values() if each.result is not None and each.step not in have]
    for each in sorted(late, key=lambda step: step.finished_at or 0):
        if each.step in index:
            document["results"].append(store.unpack(each.result))
            entry = document["plan"][index[each.step]]
            entry["status"], entry["signature"] = "completed", each.input_hash


def _forgiven(journal: Journal) -> list[Any]:
    """A failed execution that is resumed by hand: its failed steps may fail as often as before."""
    from holdfast.agents.journal import STEPS

    return [
        STEPS.update((each.execution, each.step), {"failures": 0, "next_attempt_at": None})
        for each in journal.steps().values()
        if each.status == "failed"
    ]


def _write_output(document: Any, step: str, output: Any, signature: str, now: float) -> None:
    """Put what a person says in the place of what a step gave."""
    result = {
        "step_id": step,
        "output": output,
        "completed_at": utc(now),
        "duration_ms": 0.0,
        "token_usage": None,
        "cost_usd": None,
    }
    place = next((n for n, each in enumerate(document["results"]) if each["step_id"] == step), None)
    if place is None:
        document["results"].append(result)
    else:
        document["results"][place] = result
    for each in document["plan"]:
        if each["id"] == step:
            each["status"], each["signature"] = "completed", signature


def _apply(document: Any, plan: Plan, execution: str, found: Any, edits: Any) -> None:
    """Bring a document to what an execution begins with; what stays the same is not touched."""
    values = {"name": plan.name, "execution": execution}
    for name, value in values.items():
        if document.get(name) != value:
            document[name] = value
    if len(document["plan"]) != len(found.steps):
        document["plan"] = found.steps
    else:
        for number, step in enumerate(found.steps):
            if document["plan"][number] != step:
                document["plan"][number] = step
    kept = {each["step_id"] for each in found.results}
    for number in reversed(range(len(document["results"]))):
        if document["results"][number]["step_id"] not in kept:
            del document["results"][number]
    first = next((n for n, step in enumerate(found.steps) if step["status"] != "completed"), len(found.steps))
    for field, now in (("current_step_index", first), ("edits", edits)):
        if document.get(field) != now:
            document[field] = now
    document.setdefault("context", {})
    document.setdefault("last_error", None)


def _message(error: str) -> str:
    import json

    return str(json.loads(error).get("message", error))


def _keep(settings: Any) -> Keep | None:
    if settings is None:
        return _USUAL_KEEP
    from holdfast.recording.triggers import keep_from

    return keep_from(settings)


def _bad(why: str, hint: str) -> InvalidInputError:
    return InvalidInputError(why, code=ErrorCode.BAD_ARGUMENT, hint=hint)
