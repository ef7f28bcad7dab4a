"""What a run does, whoever awaits the writing: changes of its parts, and what each checkpoint says.

`Run` and `AsyncRun` differ only in how they save. A change is made here, gives a `Due` that describes the checkpoint it
wants, and the class on top saves it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from holdfast.agents.run.parts import (
    Context,
    Progress,
    ThoughtChain,
    ToolState,
    is_run,
    make_thought,
    milliseconds,
    new_state,
    short_id,
    usage_of,
)
from holdfast.agents.run.tables import (
    EXECUTIONS,
    THOUGHTS,
    TOOL_CALLS,
    call_row,
    execution_row,
    thought_row,
)
from holdfast.errors import ErrorCode, InvalidInputError, NotFoundError, StateError

if TYPE_CHECKING:
    from holdfast import Checkpoint, EventBus
    from holdfast.storage.tables import RowChange

SAVE_ON: Final = ("thought", "tool_start", "tool", "pause", "end")
"""The moments that a run saves at by itself."""

_ENDED: Final = ("completed",)


@dataclass
class Due:
    """A checkpoint that a change wants, and the events that tell of it."""

    moment: str
    reason: str
    trigger: str
    message: str
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


class RunCore:
    """The state of a run, and its changes."""

    def __init__(
        self,
        task: str,
        agent: str | None,
        session: str,
        save_on: Iterable[str],
        events: EventBus | None,
        json_form: Callable[[Any], Any] | None,
    ) -> None:
        from holdfast import EventBus

        self.save_on = frozenset(save_on)
        unknown = self.save_on - set(SAVE_ON)
        if unknown:
            raise InvalidInputError(
                f"a run does not save on {', '.join(sorted(map(repr, unknown)))}",
                code=ErrorCode.BAD_ARGUMENT,
                hint=f"save_on takes: {', '.join(SAVE_ON)}",
            )
        self.events: EventBus = EventBus() if events is None else events
        self.resumed = False
        """Whether it goes on from a checkpoint."""
        self._session_id = session
        self._task = task
        self._agent = agent or "agent"
        self._ids: set[str] = set()
        self._unsaved = False
        self._json_form = json_form
        """Set where rows are written: what makes JSON of arguments and results."""
        self._new_thoughts: list[dict[str, Any]] = []
        self._changed_calls: dict[str, dict[str, Any]] = {}

    # What it is ----------------------------------------------------------------------------------------------------

    def open(self, document: Any, state: Mapping[str, Any] | None) -> None:
        """Take over the document of the session, or `state` instead of what it holds.

        Raises:
            StateError: What the session holds was not saved by a run.
        """
        self._document = document
        self.thought_chain = ThoughtChain(document)
        self.context = Context(document)
        self.tool_state = ToolState(document)
        self.progress = Progress(document)
        if state is not None:
            document.clear()
            document.update(state)
            self._new_thoughts = list(self.thought_chain)
            self._changed_calls = {call["id"]: call for call in self.tool_state.calls}
        elif not document or (is_run(document) and document["execution"]["status"] in _ENDED):
            document.clear()
            document.update(new_state(self._task, self._agent))
            self._ids = set()
            self.events.emit("run.started", session=self._session_id, **self._about())
            return
        elif not is_run(document):
            raise StateError(
                f"the newest checkpoint of session {self._session_id!r} was not saved by a run",
                code=ErrorCode.TYPE_MISMATCH,
                hint="give the run a session of its own",
                session=self._session_id,
            )
        self._resume()

    def _resume(self) -> None:
        self.resumed = True
        execution = self._document["execution"]
        execution["status"], execution["completed_at"] = "running", None
        if self._task and not execution["task"]:
            execution["task"] = self._task
        self._ids = {thought["id"] for thought in self.thought_chain}
        interrupted = [call for call in self.tool_state.calls if call.get("status") == "running"]
        for call in interrupted:
            call.update(status="interrupted", success=False, error="the process ended before the call did")
            self._changed_calls[call["id"]] = call
            self._unsaved = True
        self.events.emit("run.resumed", session=self._session_id, **self._about())
        for call in interrupted:
            self.events.emit(
                "tool.interrupted", session=self._session_id, id=call["id"], tool_id=call["tool_id"]
            )

    def _interrupted_calls(self) -> list[str]:
        return [name for name, call in self._changed_calls.items() if call["status"] == "interrupted"]

    def _forget_ended(self, name: str, row: Mapping[str, Any] | None) -> None:
        """Leave the row of a call alone that is interrupted here, and ended on another branch."""
        if row is not None and row["status"] in ("completed", "failed"):
            del self._changed_calls[name]

    @property
    def execution_id(self) -> str:
        """The id of this execution; it stays the same over a resume."""
        return str(self._document["execution"]["id"])

    @property
    def status(self) -> str:
        """running, paused, completed, failed or interrupted."""
        return str(self._document["execution"]["status"])

    @property
    def task(self) -> str:
        """What it is to do."""
        return str(self._document["execution"]["task"])

    @property
    def agent_id(self) -> str:
        """Who does it."""
        return str(self._document["execution"]["agent_id"])

    @property
    def note(self) -> str | None:
        """Why it was paused, or what it failed with; of the last time."""
        found = self._document["execution"]["note"]
        return None if found is None else str(found)

    @property
    def tokens_used(self) -> int:
        """Tokens so far; it never falls."""
        return int(self._document["execution"]["tokens_used"])

    @property
    def cost_usd(self) -> float:
        """Cost so far."""
        return float(self._document["execution"]["cost_usd"])

    def add_usage(self, usage: Any = None, *, tokens: int = 0, cost_usd: float = 0.0) -> None:
        """Count tokens and cost: as numbers, or from the usage of a model's answer."""
        more, cost = (0, 0.0) if usage is None else usage_of(usage)
        if not (_grows(tokens) and _grows(cost_usd)):
            raise InvalidInputError(
                f"tokens and cost only grow: {tokens!r:.40} and {cost_usd!r:.40} cannot be added",
                code=ErrorCode.BAD_ARGUMENT,
                hint="give what this call used, not a correction",
            )
        execution = self._document["execution"]
        if tokens + more:
            execution["tokens_used"] += tokens + more
        if cost_usd + cost:
            execution["cost_usd"] += cost_usd + cost

    # Changes -------------------------------------------------------------------------------------------------------

    def _add_thought(
        self,
        content: str,
        type: str,  # noqa: A002
        confidence: float | None,
        parent_id: str | None,
    ) -> tuple[dict[str, Any], Due]:
        if parent_id is not None and parent_id not in self._ids:
            raise NotFoundError(
                f"there is no thought {parent_id!r:.80} in this run",
                code=ErrorCode.CHECKPOINT_MISSING,
                hint="parent_id is the id of an earlier thought: run.thought_chain[-1]['id']",
                parent_id=parent_id,
            )
        thought = make_thought(self.progress.total_thoughts + 1, content, type, confidence, parent_id)
        self._document["thought_chain"].append(thought)
        self.progress.count("total_thoughts")
        self._ids.add(thought["id"])
        self._new_thoughts.append(thought)
        told = {"id": thought["id"], "type": type, "step_number": self.progress.step_number}
        return thought, Due(
            "thought", "thought_completed", "auto:thought.created", content[:80], [("thought.created", told)]
        )

    def _drop_thought(self, thought: dict[str, Any]) -> None:
        """Undo the last thought: it could not be saved."""
        self._document["thought_chain"].pop()
        self.progress.count("total_thoughts", -1)
        self._ids.discard(thought["id"])
        self._new_thoughts.remove(thought)

    def _begin_call(self, tool_id: Any, args: Any) -> tuple[str, Due]:
        if not isinstance(tool_id, str) or not tool_id:
            raise InvalidInputError(
                f"a tool cannot be called {tool_id!r:.60}",
                code=ErrorCode.BAD_NAME,
                hint='run.tool("search", {"query": "..."})',
            )
        name = short_id("call", self.progress.total_tool_calls + 1)
        calls = self.tool_state.calls
        calls.append(
            {
                "id": name,
                "tool_id": tool_id,
                "args": args,
                "status": "running",
                "success": None,
                "error": None,
                "started_at": milliseconds(),
                "completed_at": None,
                "thought_id": self.thought_chain[-1]["id"] if len(self.thought_chain) else None,
            }
        )
        self.progress.count("total_tool_calls")
        self._changed_calls[name] = calls[-1]
        told = {"id": name, "tool_id": tool_id, "step_number": self.progress.step_number}
        return name, Due("tool_start", "tool_started", "auto:tool.started", tool_id, [("tool.started", told)])

    def _drop_call(self, name: str) -> None:
        """Undo the start of a call: its arguments cannot be saved."""
        self._changed_calls.pop(name)
        calls = self.tool_state.calls
        del calls[next(number for number in reversed(range(len(calls))) if calls[number]["id"] == name)]
        self.progress.count("total_tool_calls", -1)

    def _end_call(self, name: str, result: Any, error: str | None) -> Due:
        entry = self._find_call(name)
        now = milliseconds()
        status = "completed" if error is None else "failed"
        entry.update(status=status, success=error is None, error=error, completed_at=now)
        if error is None:
            self.tool_state.results[name] = result
        else:
            self.tool_state.results.pop(name, None)
        self._changed_calls[name] = entry
        told = {"id": name, "tool_id": entry["tool_id"], "duration_ms": now - entry["started_at"]}
        if error is not None:
            told["error"] = error[:500]
        kind = f"tool.{status}"
        return Due("tool", f"tool_{status}", f"auto:{kind}", f"{entry['tool_id']}: {status}", [(kind, told)])

    def _find_call(self, name: str) -> dict[str, Any]:
        known = self._changed_calls.get(name)
        if known is not None:
            return known
        # The newest are the ones that end.
        return next(call for call in reversed(self.tool_state.calls) if call["id"] == name)

    def _set_status(self, status: str, note: str | None) -> Due:
        execution = self._document["execution"]
        execution["status"], execution["note"] = status, note
        execution["completed_at"] = milliseconds() if status in ("completed", "failed") else None
        told: dict[str, Any] = self._about() | ({} if note is None else {"note": note[:500]})
        moment = "pause" if status == "paused" else "end"
        trigger = "error" if status == "failed" else f"auto:run.{status}"
        return Due(moment, status, trigger, note or status, [(f"run.{status}", told)])

    def _about(self) -> dict[str, Any]:
        return {"execution_id": self.execution_id, "agent_id": self.agent_id, "task": self.task}

    # Checkpoints ---------------------------------------------------------------------------------------------------

    def _described(self, due: Due, more: Sequence[RowChange] = ()) -> dict[str, Any]:
        """What goes onto the checkpoint: C7's metadata, and the engine's own fields."""
        execution, step = self._document["execution"], self.progress.step_number
        # A clock that was set back does not take time away.
        duration = max(milliseconds() - execution["started_at"], execution["duration_ms"])
        name = short_id("ckpt")
        return {
            "message": due.message,
            "key": name,
            "rows": [*self._rows(name, duration), *more],
            "step": step,
            "status": execution["status"],
            "trigger": due.trigger,
            "tokens": execution["tokens_used"],
            "cost_usd": execution["cost_usd"],
            "duration_ms": float(duration),
            "metadata": {
                "execution_id": execution["id"],
                "agent_id": execution["agent_id"],
                "step_number": step,
                "tokens_used": execution["tokens_used"],
                "duration_ms": duration,
                "checkpoint_reason": due.reason,
            },
        }

    def _rows(self, checkpoint: str, duration: int) -> list[RowChange]:
        """The rows of what changed since the last checkpoint."""
        if self._json_form is None:
            return []
        execution, results = self.execution_id, self.tool_state.results
        return [
            EXECUTIONS.upsert(execution_row(self._session_id, self._document, duration)),
            *(THOUGHTS.upsert(thought_row(execution, checkpoint, each)) for each in self._new_thoughts),
            *(
                TOOL_CALLS.upsert(call_row(execution, checkpoint, each, results, self._json_form))
                for each in self._changed_calls.values()
            ),
        ]

    @contextmanager
    def _pending(self) -> Iterator[None]:
        """What is being written belongs to this checkpoint; where that fails, to the next one."""
        thoughts, calls = self._new_thoughts, self._changed_calls
        self._new_thoughts, self._changed_calls = [], {}
        try:
            yield
        except BaseException:
            self._new_thoughts = thoughts + self._new_thoughts
            self._changed_calls = calls | self._changed_calls
            raise

    def _context_event(self) -> list[tuple[str, dict[str, Any]]]:
        """What to say of the context, if it changed: places, not values."""
        if not self.events.wants("context.changed"):
            return []
        changes = self._document.changes()
        if any(not change.path for change in changes):  # never saved: all of it is new
            context = self._document["context"]
            places = [[name, str(key)] for name in ("variables", "state") for key in context[name]]
        else:
            places = [list(map(str, each.path[1:])) for each in changes if each.path[0] == "context"]
        return [("context.changed", {"paths": places})] if places else []

    def _saved(self, checkpoint: Checkpoint, due: Due, told: list[tuple[str, dict[str, Any]]]) -> None:
        self._unsaved = False
        for kind, data in (*told, *due.events):
            self.events.emit(kind, session=self._session_id, **data)
        self.events.emit(
            "agent.checkpoint",
            session=self._session_id,
            id=checkpoint.key,
            checkpoint_id=checkpoint.id,
            reason=due.reason,
            step_number=checkpoint.step,
        )


def _grows(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf
