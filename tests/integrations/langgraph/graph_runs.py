"""One script, two checkpointers: what a graph shows with holdfast has to be what it shows with LangGraph's own memory.

A script gets a `Run`, which calls the sync or the async methods of a graph, and notes what it sees. Ids are random, so
they are noted as numbers in the order in which they were first seen.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import StateSnapshot

Script = Callable[["Run"], Awaitable[None]]

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Run:
    """A graph on a checkpointer, and what was seen of it."""

    def __init__(self, open_saver: Callable[[], BaseCheckpointSaver[Any]], *, by_await: bool) -> None:
        self._open = open_saver
        self._by_await = by_await
        self._build: Callable[[Any], Any] | None = None
        self._ids: dict[str, int] = {}
        self.saver = open_saver()
        self.seen: list[Any] = []

    def compile(self, build: Callable[[Any], Any]) -> None:
        """Use the graph that `build` makes with a checkpointer."""
        self._build = build
        self.graph = build(self.saver)

    def reopen(self) -> None:
        """Go on as another process would: a new saver, which knows nothing, on the same store."""
        if isinstance(self.saver, InMemorySaver):
            return
        self.saver.close()  # type: ignore[attr-defined]
        self.saver = self._open()
        if self._build is not None:
            self.graph = self._build(self.saver)

    async def invoke(self, value: Any, config: Any, **options: Any) -> Any:
        if self._by_await:
            result = await self.graph.ainvoke(value, config, **options)
        else:
            result = self.graph.invoke(value, config, **options)
        self.note(result)
        return result

    async def fail(self, value: Any, config: Any, **options: Any) -> None:
        """Invoke it, and note the error that has to come."""
        try:
            result = await self.invoke(value, config, **options)
        except Exception as error:
            self.note((type(error).__name__, str(error)))
        else:
            raise AssertionError(result)

    async def state(self, config: Any, *, subgraphs: bool = False) -> Any:
        if self._by_await:
            found = await self.graph.aget_state(config, subgraphs=subgraphs)
        else:
            found = self.graph.get_state(config, subgraphs=subgraphs)
        self.note(found)
        return found

    async def history(self, config: Any, **options: Any) -> list[StateSnapshot]:
        if self._by_await:
            found = [each async for each in self.graph.aget_state_history(config, **options)]
        else:
            found = list(self.graph.get_state_history(config, **options))
        # Oldest first, so that a number is given to an id when it came into being.
        self.note(found[::-1])
        return found

    async def update(self, config: Any, value: Any, **options: Any) -> Any:
        if self._by_await:
            made = await self.graph.aupdate_state(config, value, **options)
        else:
            made = self.graph.update_state(config, value, **options)
        self.note(made)
        return made

    def note(self, thing: Any) -> None:
        self.seen.append(self._plain(thing))

    def _plain(self, thing: Any) -> Any:
        if isinstance(thing, StateSnapshot):
            fields = thing._asdict()
            # The clock.
            del fields["created_at"]
            return {name: self._plain(value) for name, value in fields.items()}
        if hasattr(thing, "_asdict"):
            return type(thing).__name__, {name: self._plain(value) for name, value in thing._asdict().items()}
        if type(thing).__name__ == "Interrupt":
            # Its id is made of the ids of tasks.
            return "Interrupt", self._plain(thing.value)
        if isinstance(thing, Exception):
            return type(thing).__name__, str(thing)
        if isinstance(thing, dict):
            return {self._plain(name): self._plain(value) for name, value in thing.items()}
        if isinstance(thing, list | tuple):
            return type(thing)(self._plain(each) for each in thing)
        if isinstance(thing, str):
            return _UUID.sub(self._number, thing)
        return thing

    def _number(self, match: re.Match[str]) -> str:
        return f"id{self._ids.setdefault(match[0], len(self._ids))}"


async def seen(script: Script, open_saver: Callable[[], BaseCheckpointSaver[Any]], *, by_await: bool) -> Any:
    """What a script sees with a checkpointer."""
    run = Run(open_saver, by_await=by_await)
    try:
        await script(run)
    finally:
        close = getattr(run.saver, "close", None)
        if close is not None:
            close()
    return run.seen
