"""A small agent that surveys part of Python's standard library: an example of a loop that survives being killed.

It keeps a plan (which modules to read next), a memory (what it found), beliefs that it revises, and the messages of its
tool calls. There is no model and no network: a policy of a few lines decides what to do next. All of holdfast that it
needs is `session.load` once and `session.save` after each step.
"""

from __future__ import annotations

import ast
import sysconfig
import time
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast import Checkpoint, Session

GOAL = 12
"""Modules to read; with the report that makes 13 steps."""

_FIRST = ("shlex", "heapq", "cmd")


def survey(session: Session, *, think: float = 0.0) -> Iterator[tuple[Checkpoint, dict[str, Any]]]:
    """Go on where the session is, or begin; yield after each step that is safely saved.

    Args:
        session: Where the agent keeps its state.
        think: Seconds that each decision takes, in place of a model's answer.
    """
    state = session.load(default=None) or _beginning()
    while state["status"] != "done":
        time.sleep(think)
        act = _decide(state)
        message, tags, metadata = act(state)
        state["step"] += 1
        checkpoint = session.save(
            state,
            message,
            step=state["step"],
            tags=tags,
            metadata=metadata,
            status="completed" if state["status"] == "done" else "running",
        )
        yield checkpoint, state


def _beginning() -> dict[str, Any]:
    return {
        "goal": f"read {GOAL} modules of the standard library and say what stands out",
        "status": "working",
        "step": 0,
        "started_at": datetime.now(UTC),
        "queue": deque(_FIRST),
        "seen": set(_FIRST),
        "memory": {},
        "beliefs": {},
        "messages": [],
    }


_Act = Callable[[dict[str, Any]], tuple[str, list[str], dict[str, Any]]]


def _decide(state: dict[str, Any]) -> _Act:
    """The policy: read on until the goal is reached or nothing is left, then report."""
    return _read_next if state["queue"] and len(state["memory"]) < GOAL else _report


def _read_next(state: dict[str, Any]) -> tuple[str, list[str], dict[str, Any]]:
    name = state["queue"].popleft()
    source = _tool(state, "read_source", name, len)
    facts = _tool(state, "parse", source, dict)
    state["memory"][name] = facts
    for imported in facts["imports"]:
        if imported not in state["seen"] and _path(imported).is_file():
            state["seen"].add(imported)
            state["queue"].append(imported)
    revised = _revise(state["beliefs"], name, facts)
    count = facts["functions"]
    message = f"read {name}: {facts['lines']:,} lines, {count} function{'' if count == 1 else 's'}"
    if revised:
        message += f"; now has the most {' and '.join(revised)}"
    return message, ["revised"] if revised else [], {"module": name, "functions": count}


def _report(state: dict[str, Any]) -> tuple[str, list[str], dict[str, Any]]:
    beliefs = state["beliefs"]
    state["report"] = {what: (belief["module"], belief["value"]) for what, belief in beliefs.items()}
    state["status"] = "done"
    parts = [f"most {what}: {belief['module']} ({belief['value']:,})" for what, belief in beliefs.items()]
    return "report: " + "; ".join(parts), ["report"], {"modules": len(state["memory"])}


def _revise(beliefs: dict[str, Any], name: str, facts: dict[str, Any]) -> list[str]:
    """Change the beliefs that the new facts contradict, and say which."""
    changed = []
    for what in ("lines", "functions"):
        old = beliefs.get(what)
        if old is None or facts[what] > old["value"]:
            beliefs[what] = {
                "module": name,
                "value": facts[what],
                "revisions": old["revisions"] + 1 if old else 0,
            }
            changed.append(what)
    return changed


def _tool(state: dict[str, Any], tool: str, argument: str, summary: Callable[[Any], Any]) -> Any:
    """Call a tool and remember the call, with a summary of its result, as a chat with a model would."""
    result = _TOOLS[tool](argument)
    call = {"role": "tool", "tool": tool, "argument": argument[:40], "result": summary(result)}
    state["messages"].append(call)
    return result


def _path(module: str) -> Path:
    return Path(sysconfig.get_path("stdlib")) / f"{module}.py"


def _read_source(module: str) -> str:
    return _path(module).read_text(encoding="utf-8")


def _parse(source: str) -> dict[str, Any]:
    nodes = list(ast.walk(ast.parse(source)))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    imports = {
        alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names
    }
    imports |= {
        node.module.split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom) and node.module
    }
    longest = max(functions, key=lambda node: (node.end_lineno or 0) - node.lineno, default=None)
    return {
        "lines": source.count("\n"),
        "functions": len(functions),
        "longest": longest.name if longest else None,
        "imports": tuple(sorted(imports)),
    }


_TOOLS: dict[str, Callable[[str], Any]] = {"read_source": _read_source, "parse": _parse}
