"""AsyncRun: a Run to await. What is saved is the state at the moment of the call; only the writing is awaited."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import Token
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from holdfast.agents.run.call import ToolCall
from holdfast.agents.run.core import SAVE_ON, Due, RunCore
from holdfast.agents.run.portable import read_portable, state_of
from holdfast.agents.run.tables import TOOL_CALLS
from holdfast.agents.run.tool import CURRENT
from holdfast.errors import ErrorCode, InvalidInputError

if TYPE_CHECKING:
    from holdfast import Checkpoint, EventBus
    from holdfast.aio import AsyncSession, AsyncStore


class AsyncRun(RunCore):
    """`Run` for asyncio: `async with AsyncRun(session, task=...) as run: await run.think(...)`.

    The arguments are those of `Run`, but for `export_dir`; `sql` is the store, to write rows as well. It is ready
    inside its block.
    """

    def __init__(
        self,
        session: AsyncSession,
        *,
        task: str = "",
        agent: str | None = None,
        save_on: Iterable[str] = SAVE_ON,
        resume_from: str | Path | Mapping[str, Any] | Checkpoint | None = None,
        sql: AsyncStore | None = None,
        events: EventBus | None = None,
    ) -> None:
        from holdfast.aio import AsyncSession

        if not isinstance(session, AsyncSession):
            raise InvalidInputError(
                f"an AsyncRun saves in an AsyncSession, not in a {type(session).__name__}",
                code=ErrorCode.BAD_ARGUMENT,
                hint="open the store with holdfast.aopen(), or use Run",
            )
        json_form = None if sql is None else sql.json_form
        super().__init__(task, agent or session.agent, session.id, save_on, events, json_form)
        self.session = session
        self._from = resume_from
        self._sql = sql
        self._token: Token[Any] | None = None

    async def think(
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
        """See `Run.think`."""
        thought, due = self._add_thought(content, type, confidence, parent_id)
        try:
            self.add_usage(usage, tokens=tokens, cost_usd=cost_usd)
            await self._save_if_due(due)
        except InvalidInputError:
            self._drop_thought(thought)
            raise
        return thought

    def tool(self, tool_id: str, args: Any = None) -> ToolCall:
        """See `Run.tool`; use it with `async with`. In a plain `with`, the next checkpoint has it."""
        return ToolCall(self, tool_id, {} if args is None else args, self._later, self._save_if_due)

    async def checkpoint(self, message: str = "") -> Checkpoint:
        """See `Run.checkpoint`."""
        return await self._save(Due("request", "manual", "manual", message or "on request"))

    async def pause(self, reason: str = "") -> Checkpoint | None:
        """See `Run.pause`."""
        return await self._save_if_due(self._set_status("paused", reason or None))

    async def complete(self) -> Checkpoint | None:
        """See `Run.complete`."""
        return await self._save_if_due(self._set_status("completed", None))

    async def fail(self, error: BaseException | str) -> Checkpoint | None:
        """See `Run.fail`."""
        said = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        return await self._save_if_due(self._set_status("failed", said[:10_000]))

    def _later(self, due: Due) -> None:
        for kind, data in due.events:
            self.events.emit(kind, session=self._session_id, **data)
        self._unsaved = True

    async def _save_if_due(self, due: Due) -> Checkpoint | None:
        if due.moment in self.save_on:
            return await self._save(due)
        self._later(due)
        return None

    async def _save(self, due: Due) -> Checkpoint:
        told = self._context_event()
        described = self._described(due)
        with self._pending():
            # The call takes what changed; it is awaited for the writing alone.
            saved: Checkpoint = await self._document.save(**described)
        self._saved(saved, due, told)
        return saved

    async def __aenter__(self) -> Self:
        state = None
        if self._from is not None:
            found = read_portable(self._from)
            ref: Any = self._from
            if isinstance(ref, str) and ref.startswith("ckpt_"):
                ref = f"key:{ref}"
            state = (
                await self.session.load(ref) if found is None else state_of(found, self._task, self._agent)
            )
        self.open(await self.session.document(default={}), state)
        if self._sql is not None:
            for name in self._interrupted_calls():
                self._forget_ended(name, await self._sql.rows(TOOL_CALLS).get(self.execution_id, name))
        self._token = CURRENT.set(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            CURRENT.reset(self._token)
            self._token = None
        if error is None:
            if self.status == "running":
                await self.complete()
        elif isinstance(error, Exception):
            await self.fail(error)
        else:
            # Cancelled: the writing is not awaited to its end, so it is not begun either.
            self._later(self._set_status("interrupted", type(error).__name__))
