"""Threads that LangGraph's own saver wrote, for commands that take them over."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def write_threads(path: str | Path, names: tuple[str, ...] = ("41", "42")) -> None:
    """Write a SQLite file with a few checkpoints, and a pending write, of each thread."""
    from langchain_core.messages import HumanMessage
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.sqlite import SqliteSaver

    with SqliteSaver.from_conn_string(str(path)) as saver:
        for name in names:
            where: Any = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
            for number in range(3):
                values = {"messages": [HumanMessage(f"turn {each}") for each in range(number)]}
                put: Any = {**empty_checkpoint(), "id": f"{number}", "channel_values": values}
                where = saver.put(where, put, {"source": "loop", "step": number}, {})
            saver.put_writes(where, [("messages", HumanMessage("pending"))], "task")
