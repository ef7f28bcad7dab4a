"""ToolCall: a block in which a tool is called. Its result, or what went wrong, is recorded at its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from holdfast.errors import InvalidInputError

if TYPE_CHECKING:
    from holdfast.agents.run.core import Due, RunCore

Save = Callable[["Due"], Any]
AsyncSave = Callable[["Due"], Awaitable[Any]]


class ToolCall:
    """One call of a tool; made by `run.tool(name, args)`, used as a block.

    Attributes:
        result: What the tool gave; set it in the block.
        usage: The usage of a model's answer, if the tool is one: its tokens and cost are counted. A result that has
            a `usage` of its own needs nothing here.
    """

    def __init__(self, core: RunCore, tool_id: str, args: Any, save: Save, asave: AsyncSave) -> None:
        self._core = core
        self._save = save
        self._asave = asave
        self.tool_id = tool_id
        self.args = args
        self.id = ""
        self.result: Any = None
        self.usage: Any = None

    def __enter__(self) -> Self:
        self.id, due = self._core._begin_call(self.tool_id, self.args)
        try:
            self._save(due)
        except InvalidInputError:
            self._core._drop_call(self.id)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        due = self._ended(error)
        try:
            self._save(due)
        except InvalidInputError as refused:
            if error is not None:
                raise
            self._save(self._unsavable(refused))
            raise

    async def __aenter__(self) -> Self:
        self.id, due = self._core._begin_call(self.tool_id, self.args)
        try:
            await self._asave(due)
        except InvalidInputError:
            self._core._drop_call(self.id)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        due = self._ended(error)
        try:
            await self._asave(due)
        except InvalidInputError as refused:
            if error is not None:
                raise
            await self._asave(self._unsavable(refused))
            raise

    def _ended(self, error: BaseException | None) -> Due:
        if error is not None:
            return self._core._end_call(self.id, None, f"{type(error).__name__}: {error}"[:10_000])
        self._core.add_usage(self.usage if self.usage is not None else self.result)
        return self._core._end_call(self.id, self.result, None)

    def _unsavable(self, refused: InvalidInputError) -> Due:
        """The call took place, and its result cannot be kept: that is what is recorded."""
        return self._core._end_call(self.id, None, f"its result cannot be saved: {refused}")
