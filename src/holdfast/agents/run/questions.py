"""Ready questions about runs, answered from their rows: tools, tokens, errors, executions, slow calls."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from holdfast.agents.run.tables import EXECUTIONS, THOUGHTS, TOOL_CALLS

if TYPE_CHECKING:
    from holdfast import Store

Answer = list[dict[str, Any]]


class Questions:
    """What can be asked of the runs of a store. Each answer is a list of dicts, ready for a table.

    The rows come from runs with `sql=True`; `reindex(store)` makes them for all others.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def tool_calls(self, tool_id: str, *, limit: int | None = None) -> Answer:
        """Every checkpoint in which a tool was called, newest first, with what came of it."""
        found = self._store.rows(TOOL_CALLS).find(tool_id=tool_id, order_by="-started_at", limit=limit)
        return [
            {
                "checkpoint_id": row["checkpoint_id"],
                "execution_id": row["execution_id"],
                "id": row["id"],
                "status": row["status"],
                "duration_ms": _took(row),
                "args": row["args_json"],
                "error": row["error"],
            }
            for row in found
        ]

    def tokens(self) -> Answer:
        """Tokens and cost of each execution, most first, and their average as the last line."""
        found = sorted(self._store.rows(EXECUTIONS).find(), key=lambda row: -row["tokens_used"])
        lines = [
            {
                "execution_id": row["id"],
                "task": row["task"],
                "tokens": row["tokens_used"],
                "cost_usd": row["cost_usd"],
            }
            for row in found
        ]
        if lines:
            count = len(lines)
            lines.append(
                {
                    "execution_id": "average",
                    "task": f"of {count}",
                    "tokens": sum(row["tokens_used"] for row in found) / count,
                    "cost_usd": sum(row["cost_usd"] for row in found) / count,
                }
            )
        return lines

    def errors(self) -> Answer:
        """Of each tool: how often it was called, how often it failed, and how long it took."""
        tools: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in self._store.rows(TOOL_CALLS).find():
            tools[row["tool_id"]].append(row)
        answer = []
        for name, calls in tools.items():
            ended = [row for row in calls if row["status"] != "running"]
            failed = sum(not row["success"] for row in ended)
            times = [took for row in calls if (took := _took(row)) is not None]
            answer.append(
                {
                    "tool_id": name,
                    "calls": len(calls),
                    "failed": failed,
                    "error_rate": failed / len(ended) if ended else 0.0,
                    "average_ms": sum(times) / len(times) if times else None,
                }
            )
        return sorted(answer, key=lambda each: (-each["error_rate"], -each["calls"], each["tool_id"]))

    def slowest(self, *, limit: int = 20) -> Answer:
        """The calls that took longest."""
        found = [
            {
                "tool_id": row["tool_id"],
                "duration_ms": took,
                "execution_id": row["execution_id"],
                "checkpoint_id": row["checkpoint_id"],
                "args": row["args_json"],
            }
            for row in self._store.rows(TOOL_CALLS).find()
            if (took := _took(row)) is not None
        ]
        return sorted(found, key=lambda each: -each["duration_ms"])[:limit]

    def executions(self, status: str | None = None) -> Answer:
        """Every execution, newest first; those with a status, if one is given."""
        where: dict[str, Any] = {} if status is None else {"status": status}
        found = self._store.rows(EXECUTIONS).find(**where, order_by="-started_at")
        return [
            {
                "execution_id": row["id"],
                "session": row["session"],
                "status": row["status"],
                "task": row["task"],
                "steps": row["step_number"],
                "tokens": row["tokens_used"],
                "duration_ms": row["duration_ms"],
            }
            for row in found
        ]

    def by_status(self) -> Answer:
        """How many executions there are of each status."""
        counts: dict[str, int] = defaultdict(int)
        for row in self._store.rows(EXECUTIONS).find():
            counts[row["status"]] += 1
        return [{"status": name, "executions": count} for name, count in sorted(counts.items())]

    def thoughts(self, execution_id: str) -> Answer:
        """The thoughts of an execution, oldest first."""
        return self._store.rows(THOUGHTS).find(execution_id=execution_id, order_by="created_at")


def _took(row: dict[str, Any]) -> int | None:
    done = row["completed_at"]
    return None if done is None else int(done - row["started_at"])
