"""Run: an agent run that checkpoints itself after each thought and tool call, and goes on where it was."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from contextvars import Token
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, overload

from holdfast import Session, Store
from holdfast.agents.journal import Journal, StepHandle
from holdfast.agents.live import listening
from holdfast.agents.run.call import ToolCall
from holdfast.agents.run.core import SAVE_ON, Due, RunCore
from holdfast.agents.run.portable import ExportFolder, portable, read_portable, state_of
from holdfast.agents.run.tables import TOOL_CALLS
from holdfast.agents.run.tool import CURRENT
from holdfast.errors import ErrorCode, InvalidInputError, NotFoundError, UnsupportedError

if TYPE_CHECKING:
    from holdfast import Checkpoint, EventBus
    from holdfast.storage.tables import RowChange

T = TypeVar("T")


class Run(RunCore):
    """An agent run: thoughts, context, tool calls and progress, saved as it goes.

        with Run(store.session("analysis-1"), task="analyse the repo") as run:
            run.think("I need the structure first", confidence=0.85)
            with run.tool("ls", {"path": "."}) as call:
                call.result = os.listdir(".")

    The end of the block completes the run; an exception fails it. A run that was killed, paused or failed goes on in
    the next `Run` on its session, with everything that was saved; after a completed one a new execution begins.

    Args:
        session: Where it saves; the run is its writer.
        task: What it is to do.
        agent: Who does it; the session's agent by default.
        save_on: When it saves by itself: any of "thought", "tool_start", "tool", "pause", "end".
        export_dir: A folder that gets `{id}.json` for each checkpoint; True is `./checkpoints/`, False is none; without
            it the folder of the session, which the setting `checkpoints.export_dir` names.
        resume_from: Go on from this checkpoint: a ref or id, the path of an exported file, or such a dict.
        sql: Also write rows into the tables `executions`, `thoughts` and `tool_calls`, to be asked with SQL.
        events: The bus to tell what happens.
        live: Let other processes of this user reach it within the block: `holdfast live create` saves.
    """

    def __init__(  # noqa: PLR0913 - each is a keyword of the public contract
        self,
        session: Session,
        *,
        task: str = "",
        agent: str | None = None,
        save_on: Iterable[str] = SAVE_ON,
        export_dir: str | Path | bool | None = None,
        resume_from: str | Path | Mapping[str, Any] | Checkpoint | None = None,
        sql: bool = False,
        events: EventBus | None = None,
        live: bool = False,
    ) -> None:
        if not isinstance(session, Session):
            raise InvalidInputError(
                f"a Run saves in a Session, not in a {type(session).__name__}",
                code=ErrorCode.BAD_ARGUMENT,
                hint="store.session(...) gives one; AsyncRun takes an AsyncSession",
            )
        self._store = Store.of(session)
        json_form = self._store.json_form if sql else None
        super().__init__(task, agent or session.agent, session.id, save_on, events, json_form)
        self.session = session
        of_session = session.take_export_dir()
        self._files = ExportFolder.of(of_session if export_dir is None else export_dir)
        self._lock = threading.RLock()
        self._token: Token[Any] | None = None
        self._reached = ExitStack()
        self._live = live
        self._journal: Journal | None = None
        state = None if resume_from is None else self._source(resume_from)
        self.open(session.document(default={}), state)
        if sql:
            for name in self._interrupted_calls():
                self._forget_ended(name, self._store.rows(TOOL_CALLS).get(self.execution_id, name))

    def _source(self, source: str | Path | Mapping[str, Any] | Checkpoint) -> Mapping[str, Any]:
        found = read_portable(source)
        if found is not None:
            return state_of(found, self._task, self._agent)
        ref: Any = source
        if isinstance(ref, str) and ref.startswith("ckpt_"):
            ref = f"key:{ref}"
        state: Mapping[str, Any] = self.session.load(ref)
        return state

    # What happens --------------------------------------------------------------------------------------------------

    def think(
        self,
        content: str,
        *,
        type: str = "reasoning",  # noqa: A002 - the document's word
        confidence: float | None = None,
        parent_id: str | None = None,
        usage: Any = None,
        tokens: int = 0,
        cost_usd: float = 0.0,
    ) -> dict[str, Any]:
        """Add a thought to the chain, and save.

        Args:
            content: What it says.
            type: reasoning, observation or action.
            confidence: From 0 to 1.
            parent_id: The earlier thought that it follows from.
            usage: The usage of the model's answer that it comes from, to count tokens and cost.
            tokens: Tokens that it took.
            cost_usd: What it cost.

        Raises:
            InvalidInputError: The thought, or something in the context, cannot be saved. The thought is not kept.
            NotFoundError: There is no thought `parent_id`.
        """
        with self._lock:
            thought, due = self._add_thought(content, type, confidence, parent_id)
            try:
                self.add_usage(usage, tokens=tokens, cost_usd=cost_usd)
                self._save_if_due(due)
            except InvalidInputError:
                self._drop_thought(thought)
                raise
            return thought

    def tool(self, tool_id: str, args: Any = None) -> ToolCall:
        """A block in which a tool is called: set `call.result` in it. What it raises is recorded as a failed call."""
        return ToolCall(self, tool_id, {} if args is None else args, self._save_if_due, self._asave)

    # Steps by name ---------------------------------------------------------------------------------------------------

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
        """Run a function once in this execution: after a crash its stored result comes back, and it is not called.

        The result is written with a checkpoint, in one transaction. A step that was cut off in the middle runs again,
        under the same idempotency key, which a keyword-only parameter `key` of the function is given.

        Args:
            name: What the step is called; in a loop, put what differs into it.
            function: What does it.
            args: Its arguments. Called again with others, the name is refused.
            effect: `at_most_once`: cut off in the middle, it does not run again and raises `outcome-unknown`.
            idempotent: Running it twice does no harm: only its result is written.
            kwargs: Its arguments by name.

        Raises:
            ConflictError: The name was used with other arguments (`step-differs`), or is running (`step-running`).
            StateError: It may happen at most once, and was cut off (`outcome-unknown`).
            InvalidInputError: The result cannot be saved; the message has the path.
        """
        return self.journal.step(name, function, *args, effect=effect, idempotent=idempotent, **kwargs)

    async def astep(
        self,
        name: str,
        function: Callable[..., Awaitable[T]],
        /,
        *args: Any,
        effect: str | None = None,
        **kwargs: Any,
    ) -> T:
        """`step` for a function that is awaited; the store is written in another thread."""
        return await self.journal.astep(name, function, *args, effect=effect, **kwargs)

    def begin(self, name: str, *, inputs: Any = None, effect: str | None = None) -> StepHandle:
        """Begin a step by hand: if the handle is `done`, its `value` is there; else do it, and call `complete`."""
        return self.journal.begin(name, inputs=inputs, effect=effect)

    @property
    def journal(self) -> Journal:
        """The named steps of this execution."""
        if self._journal is None or self._journal.execution != self.execution_id:
            self._journal = Journal(self.session, self.execution_id, commit=self._commit_step)
        return self._journal

    def _commit_step(self, rows: list[RowChange]) -> None:
        """Write the result of a step and its checkpoint together."""
        self.progress.count("steps")
        told = {"execution_id": self.execution_id, "step_number": self.progress.step_number}
        due = Due("step", "step_completed", "auto:step.completed", "a step", [("step.completed", told)])
        try:
            self._save(due, rows)
        except BaseException:
            self.progress.count("steps", -1)
            raise

    def checkpoint(self, message: str = "") -> Checkpoint:
        """Save now."""
        return self._save(Due("request", "manual", "manual", message or "on request"))

    def save_now(self, message: str = "") -> Checkpoint:
        """`checkpoint`, for whoever reaches a run with `live=True` from another process."""
        return self.checkpoint(message)

    def restore_now(self, ref: str) -> NoReturn:
        """A run does not go back while it is under way."""
        raise UnsupportedError(
            f"a run does not go back to {ref!r:.80} while it is under way",
            code=ErrorCode.NOT_SUPPORTED,
            hint="begin one from there: Run(session, resume_from=...)",
        )

    def pause(self, reason: str = "") -> Checkpoint | None:
        """Save as paused: somebody is to decide. The next `Run` on the session goes on, and finds `note` there."""
        return self._save_if_due(self._set_status("paused", reason or None))

    @overload
    def complete(self) -> Checkpoint | None: ...
    @overload
    def complete(self, handle: StepHandle, value: Any) -> None: ...
    def complete(self, handle: StepHandle | None = None, value: Any = None) -> Checkpoint | None:
        """Save the run as completed; or, with what `begin` gave, the result of a step."""
        if handle is not None:
            self.journal.complete(handle, value)
            return None
        return self._save_if_due(self._set_status("completed", None))

    def fail(self, error: BaseException | str) -> Checkpoint | None:
        """Save as failed, with what went wrong."""
        said = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        return self._save_if_due(self._set_status("failed", said[:10_000]))

    # Checkpoints ---------------------------------------------------------------------------------------------------

    def export(self, ref: str | Checkpoint = "@") -> dict[str, Any]:
        """A checkpoint as one plain dict, in the portable form: a ref, or the id of an exported file."""
        if isinstance(ref, str) and ref.startswith("ckpt_"):
            ref = f"key:{ref}"
        store = self._store
        found = self.session.checkpoint(ref)
        return portable(found, store.session(self.session.id).load(found), store.json_form)

    def prune(self, last: int = 100) -> int:
        """Keep the newest so many checkpoints of this execution; return how many went.

        Tips, fork points and pinned ones always stay.
        """
        found = self._store.find(session=self.session.id, metadata={"execution_id": self.execution_id})
        gone = 0
        for each in found[max(last, 1) :]:
            with suppress(InvalidInputError, NotFoundError):  # protected
                self._store.session(self.session.id).delete(each)
                gone += 1
                if self._files is not None and each.key:
                    self._files.remove(each.key)
        return gone

    def _save_if_due(self, due: Due) -> Checkpoint | None:
        if due.moment in self.save_on:
            return self._save(due)
        for kind, data in due.events:
            self.events.emit(kind, session=self._session_id, **data)
        self._unsaved = True
        return None

    def _save(self, due: Due, rows: Sequence[RowChange] = ()) -> Checkpoint:
        with self._lock:
            told = self._context_event()
            described = self._described(due, rows)
            with self._pending():
                saved: Checkpoint = self._document.save(**described)
            self._saved(saved, due, told)
        if self._files is not None:
            self._files.write(portable(saved, self._document.plain(), self._store.json_form))
        return saved

    async def _asave(self, due: Due) -> Checkpoint | None:
        return self._save_if_due(due)

    # As a block ----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._token = CURRENT.set(self)
        if self._live:
            self._reached.enter_context(listening(self._store, self.session.id, self, kind="run"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reached.close()
        if self._token is not None:
            CURRENT.reset(self._token)
            self._token = None
        if error is None:
            if self.status == "running":
                self.complete()
        elif isinstance(error, Exception):
            self.fail(error)
        else:
            self._save_if_due(self._set_status("interrupted", type(error).__name__))

    def __repr__(self) -> str:
        return f"<Run {self.execution_id} {self.status}: {self.progress.step_number} steps in {self._session_id!r}>"
