"""The SQL layer of a run: rows for executions, thoughts and tool calls, written with the checkpoint that has them.

They are an index, made from the states alone: `reindex` makes them again. A row of a thought or a call refers to its
execution, and names the checkpoint that added it or changed it last; that one may be pruned, the row stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from holdfast import Table
from holdfast.agents.run.parts import is_run
from holdfast.storage.tables import RowChange

if TYPE_CHECKING:
    from holdfast import Checkpoint, Store

EXECUTIONS: Final = Table(
    "executions",
    columns={
        "id": str,
        "session": str,
        "agent_id": str,
        "task": str,
        "started_at": int,
        "completed_at": int | None,
        "status": str,
        "step_number": int,
        "tokens_used": int,
        "cost_usd": float,
        "duration_ms": int,
    },
    key=("id",),
    indexes=(("session",), ("status",), ("started_at",)),
)
THOUGHTS: Final = Table(
    "thoughts",
    columns={
        "execution_id": str,
        "id": str,
        "checkpoint_id": str,
        "type": str,
        "content": str,
        "confidence": float | None,
        "parent_id": str | None,
        "created_at": int,
    },
    key=("execution_id", "id"),
    indexes=(("created_at",),),
    foreign_keys={("execution_id",): EXECUTIONS},
)
TOOL_CALLS: Final = Table(
    "tool_calls",
    columns={
        "execution_id": str,
        "id": str,
        "checkpoint_id": str,
        "tool_id": str,
        "args_json": str,
        "result_json": str | None,
        "success": int,
        "error": str | None,
        "status": str,
        "started_at": int,
        "completed_at": int | None,
        "thought_id": str | None,
    },
    key=("execution_id", "id"),
    indexes=(("tool_id", "started_at"), ("started_at",)),
    foreign_keys={("execution_id",): EXECUTIONS},
)
_AT_ONCE: Final = 500


def execution_row(session: str, state: Mapping[str, Any], duration_ms: int) -> dict[str, Any]:
    """The row of an execution."""
    execution = state["execution"]
    return {
        "id": execution["id"],
        "session": session,
        "agent_id": execution["agent_id"],
        "task": execution["task"],
        "started_at": int(execution["started_at"]),
        "completed_at": execution["completed_at"],
        "status": execution["status"],
        "step_number": state["progress"]["step_number"],
        "tokens_used": execution["tokens_used"],
        "cost_usd": float(execution["cost_usd"]),
        "duration_ms": int(duration_ms),
    }


def thought_row(execution: str, checkpoint: str, thought: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a thought."""
    confidence = thought.get("confidence")
    return {
        "execution_id": execution,
        "id": thought["id"],
        "checkpoint_id": checkpoint,
        "type": thought["type"],
        "content": thought["content"],
        "confidence": None if confidence is None else float(confidence),
        "parent_id": thought.get("parent_id"),
        "created_at": int(thought["created_at"]),
    }


def call_row(
    execution: str, checkpoint: str, call: Mapping[str, Any], results: Mapping[str, Any], json_form: Any
) -> dict[str, Any]:
    """The row of a tool call."""
    done = call["id"] in results
    return {
        "execution_id": execution,
        "id": call["id"],
        "checkpoint_id": checkpoint,
        "tool_id": call["tool_id"],
        "args_json": _json(call.get("args"), json_form),
        "result_json": _json(results[call["id"]], json_form) if done else None,
        "success": int(bool(call.get("success"))),
        "error": call.get("error"),
        "status": call.get("status") or ("completed" if done else "running"),
        "started_at": int(call.get("started_at") or 0),
        "completed_at": call.get("completed_at"),
        "thought_id": call.get("thought_id"),
    }


def _json(value: Any, json_form: Any) -> str:
    return json.dumps(json_form(value), ensure_ascii=False)


def reindex(store: Store, session: str | None = None) -> int:
    """Make the rows of a session, or of all, again from the states that there are; return how many executions."""
    sessions = [each.id for each in store.sessions()] if session is None else [session]
    return sum(_reindex(store, each) for each in sessions)


def rows_of(store: Store, session: str) -> dict[str, dict[tuple[str, ...], dict[str, Any]]]:
    """The rows that the states of a session call for: by table and key."""
    found = [each for each in reversed(store.find(session=session)) if "execution_id" in each.metadata]
    wanted: dict[str, dict[tuple[str, ...], dict[str, Any]]] = {
        "executions": {},
        "thoughts": {},
        "tool_calls": {},
    }
    for checkpoint, state in zip(found, store.load_each(found), strict=True):
        if is_run(state):
            _add_rows(store, wanted, checkpoint, state)
    return wanted


def _add_rows(
    store: Store,
    wanted: dict[str, dict[tuple[str, ...], dict[str, Any]]],
    checkpoint: Checkpoint,
    state: Mapping[str, Any],
) -> None:
    name, execution = checkpoint.key or checkpoint.id, state["execution"]["id"]
    duration = int(checkpoint.duration_ms or 0)
    wanted["executions"][execution,] = execution_row(checkpoint.session, state, duration)
    for thought in state["thought_chain"]:
        if (execution, thought["id"]) not in wanted["thoughts"]:
            wanted["thoughts"][execution, thought["id"]] = thought_row(execution, name, thought)
    results = state["tool_state"]["results"]
    for call in state["tool_state"]["calls"]:
        known = wanted["tool_calls"].get((execution, call["id"]))
        if known is None or _rank(call.get("status")) > _rank(known["status"]):
            row = call_row(execution, name, call, results, store.json_form)
            wanted["tool_calls"][execution, call["id"]] = row


def _rank(status: str | None) -> int:
    """A call that ended on one branch has ended, though another branch was made while it ran."""
    return {"running": 0, "interrupted": 1}.get(status or "", 2)


def _reindex(store: Store, session: str) -> int:
    wanted = rows_of(store, session)
    changes: list[RowChange] = [
        EXECUTIONS.delete((row["id"],)) for row in store.rows(EXECUTIONS).find(session=session)
    ]
    changes += [EXECUTIONS.upsert(row) for row in wanted["executions"].values()]
    changes += [THOUGHTS.upsert(row) for row in wanted["thoughts"].values()]
    changes += [TOOL_CALLS.upsert(row) for row in wanted["tool_calls"].values()]
    _write(store, changes)
    return len(wanted["executions"])


def _write(store: Store, changes: Iterable[RowChange]) -> None:
    some: list[RowChange] = []
    for each in changes:
        some.append(each)
        if len(some) == _AT_ONCE:
            store.write(some)
            some = []
    if some:
        store.write(some)
