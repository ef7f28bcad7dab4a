"""Tools: what a model can ask for. Each is an operation, or a few under one name, from the table of operations.

A model reads the whole list before it does anything, so it is short: twelve tools, each with one line and the
parameters that a model needs. The first three have names and schemas that other programs rely on, and they stay exactly
as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mcp_types import Tool as ListedTool
from mcp_types import ToolAnnotations

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.operations import Operation, load_operations

OPERATIONS = load_operations()
_CURSOR = {"cursor": {"type": "string", "description": "What a longer answer gave, for its next part"}}


@dataclass(frozen=True)
class Tool:
    """A tool.

    Attributes:
        name: Its name.
        summary: What it is for, in words for a model.
        actions: The operations, by what `action` calls them; one of them under the empty name.
        parameters: Which parameters of the operations it has, by its own names; `name: parameter`.
        required: Those that have to be given.
        exact: The schema as it is promised, where it is.
        fixed: Parameters of the operation that are always the same.
    """

    name: str
    summary: str
    actions: Mapping[str, str]
    parameters: Mapping[str, str]
    required: tuple[str, ...] = ()
    exact: Mapping[str, Any] | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def operations(self) -> list[Operation]:
        """The operations that it can lead to."""
        return [OPERATIONS[name] for name in self.actions.values()]

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its parameters."""
        if self.exact is not None:
            return {"type": "object", "properties": dict(self.exact), "required": list(self.required)}
        known: dict[str, Any] = {}
        for each in self.operations:
            known = {**each.schema()["properties"], **known}
        found = {own: known[name] for own, name in self.parameters.items()}
        if "" not in self.actions:
            found = {"action": {"enum": list(self.actions)}, **found}
        if any(each.destroys for each in self.operations):
            found["confirm"] = known["confirm"]
        if self.name == "show":
            found["uri"] = {"type": "string", "description": "Read this instead"}
        schema = {"type": "object", "properties": {**found, **_CURSOR}, "required": list(self.required)}
        return {**schema, "additionalProperties": False}

    def listed(self) -> ListedTool:
        """As clients see it."""
        reads = all(each.scope == "read" for each in self.operations)
        return ListedTool(
            name=self.name,
            description=self.summary,
            input_schema=self.schema,
            output_schema=self._output(),
            annotations=ToolAnnotations(
                read_only_hint=reads,
                destructive_hint=any(each.destroys for each in self.operations),
                idempotent_hint=reads or all(each.idempotent for each in self.operations),
                open_world_hint=False,
            ),
        )

    def _output(self) -> dict[str, Any]:
        """The names of what comes back; all of it is data that somebody stored."""
        names: dict[str, Any] = {"trust": {"const": "untrusted"}}
        for each in self.operations:
            names |= each.result_schema()["properties"]
        return {"type": "object", "properties": names, "required": ["trust"]}

    def chosen(self, given: Mapping[str, Any]) -> tuple[Operation, dict[str, Any]]:
        """The operation that a call means, and its parameters.

        Raises:
            InvalidInputError: The action is none, or a parameter is missing or does not belong to it.
        """
        action = "" if "" in self.actions else str(given.get("action"))
        if action not in self.actions:
            raise _refused(f"{self.name}: action is one of {', '.join(self.actions)}")
        for name in self.required:
            if name not in given:
                raise _refused(f"{self.name}: {name} is missing")
        for name, wanted in (self.exact or {}).items():
            # What the operation takes is wider than what this schema promises: any state, and no session.
            if name in given and not isinstance(given[name], _JSON_TYPES[wanted["type"]]):
                raise _refused(f"{self.name}: {name} has to be of the type {wanted['type']}")
        found = OPERATIONS[self.actions[action]]
        names = {**self.parameters, "confirm": "confirm"} if found.destroys else self.parameters
        known = found.parameters.__struct_fields__
        sent = {name: value for name, value in given.items() if name not in ("action", "cursor")}
        for name in sent:
            if names.get(name) not in known:
                raise _refused(f"{self.name}: {name} is no parameter of {action or 'it'}")
        return found, {**self.fixed, **{names[name]: value for name, value in sent.items()}}


def _refused(why: str) -> InvalidInputError:
    return InvalidInputError(
        why, code=ErrorCode.BAD_ARGUMENT, hint="the schema of the tool has its parameters"
    )


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


_JSON_TYPES = {"string": str, "object": dict}
_SESSION_ID = {"sessionId": {"type": "string"}}

TOOLS = (
    Tool(
        "checkpoint_save",
        "Save current execution state as a checkpoint",
        {"": "checkpoint.create"},
        {"sessionId": "session", "state": "state", "description": "message"},
        ("sessionId", "state"),
        {
            **_SESSION_ID,
            "state": {"type": "object", "description": "Current agent state to save"},
            "description": {"type": "string", "description": "Human-readable checkpoint name"},
        },
    ),
    Tool(
        "checkpoint_load",
        "Load the latest checkpoint for a session",
        {"": "checkpoint.load"},
        {"sessionId": "session", "checkpointId": "checkpoint"},
        ("sessionId",),
        {
            **_SESSION_ID,
            "checkpointId": {"type": "string", "description": "Specific checkpoint ID (optional)"},
        },
    ),
    Tool(
        "checkpoint_list",
        "List all checkpoints for a session",
        {"": "checkpoint.list"},
        {"sessionId": "session"},
        ("sessionId",),
        _SESSION_ID,
        {"limit": 1000},
    ),
    Tool(
        "show",
        "Show a checkpoint with its state, or the part of it at path; what is long is cut, and path reads more. "
        "With uri instead: any holdfast:// resource, such as holdfast://sessions or holdfast://jobs/ID.",
        {"": "checkpoint.load"},
        _same("session", "checkpoint", "path"),
    ),
    Tool(
        "diff",
        "Show what changed in the state from checkpoint a to b, by path.",
        {"": "checkpoint.diff"},
        _same("a", "b", "session", "path"),
    ),
    Tool(
        "restore",
        "Go back: make the state of a checkpoint the newest one. Nothing is lost, and undo takes it back. "
        "A person is asked, or call again with confirm once the plan is what you want.",
        {"": "checkpoint.restore"},
        _same("checkpoint", "session"),
        ("checkpoint",),
    ),
    Tool(
        "fork",
        "Begin a branch at a checkpoint, to try something without touching the rest.",
        {"": "branch.fork"},
        _same("checkpoint", "name", "session"),
    ),
    Tool(
        "undo",
        "Take back the last restore, fork, merge, label or removal (action undo), or do it again (redo).",
        {"undo": "session.undo", "redo": "session.redo"},
        _same("session"),
        ("action",),
    ),
    Tool(
        "search",
        "Find in the history of a session: a text (grep: pattern), who set a value (blame: path), its changes "
        "(history: path), the first checkpoint where a condition is true (bisect: condition, as score < 0.5).",
        {
            "grep": "search.grep",
            "blame": "search.blame",
            "history": "search.history",
            "bisect": "search.bisect",
        },
        _same("session", "pattern", "path", "condition", "good", "bad"),
        ("action",),
    ),
    Tool(
        "note",
        "Write into the debugging notebook: a note, the goal, what is next, a lesson, a hypothesis, evidence "
        "(about: the id of its hypothesis), a belief, or a gap (an open question). It survives compaction.",
        {"": "notebook.note"},
        _same("text", "kind", "session", "about", "against", "confidence"),
        ("text",),
    ),
    Tool(
        "brief",
        "Give the thread of the debugging session back, in so many tokens. Call it first after a compaction.",
        {"": "notebook.brief"},
        _same("session", "budget"),
    ),
    Tool(
        "plan",
        "Say where the plan of a session is (status), or decide about a step that waits for a person (approve). "
        "The decision is the person's: they are asked, or call again with confirm once they agreed to the plan.",
        {"status": "plan.status", "approve": "plan.approve"},
        _same("session", "step", "reject", "by", "note"),
        ("action",),
    ),
)

BY_NAME = {each.name: each for each in TOOLS}
