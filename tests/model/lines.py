"""What the model store remembers: checkpoints with their states, a line of them per session, and filters over them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.history import jsontext
from holdfast.history.checkpoint import moment


@dataclass(eq=False)
class ModelCheckpoint:
    """One checkpoint with its state, as plain as it gets."""

    id: str
    session: str
    branch: str
    seq: int
    position: int
    parents: tuple[str, ...]
    created_at: int
    stored_at: int
    state: Any
    fields: dict[str, Any]
    """What the caller said: message, metadata, step, status, trigger, tokens, cost_usd, duration_ms, key."""
    tags: set[str]
    later: dict[str, Any] = field(default_factory=dict)
    """What annotations said since: a message instead of the first one, metadata over what there was."""
    removed: bool = False
    removed_at: int = 0
    """When it was removed; 0 once nobody can tell any more."""
    gone: bool = False
    """Removed for good. It stays in the list, as what lay between others, and nothing finds it."""
    onto_removed: bool = False
    """Saved on something that was removed already."""
    cut_off: bool = False
    """Saved on something that was gone already: where that led is not known to the writer."""
    pinned: bool = False
    prev: str | None = None
    skipped: int = 0
    agent: str | None = None
    project: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The same record as `Checkpoint.to_dict`, without what only a real store knows (root and sizes)."""
        plain = {
            "id",
            "session",
            "branch",
            "seq",
            "position",
            "prev",
            "skipped",
            "agent",
            "project",
            "pinned",
        }
        return {
            **{name: getattr(self, name) for name in plain},
            **self.fields,
            "parents": list(self.parents),
            "tags": sorted(self.tags),
            "created_at": moment(self.created_at).isoformat(),
            "stored_at": moment(self.stored_at).isoformat(),
        }


@dataclass(eq=False)
class Line:
    """All there is of one session."""

    agent: str | None
    project: str | None
    created_at: int
    history: list[ModelCheckpoint] = field(default_factory=list)
    heads: dict[str, str] = field(default_factory=dict)
    current: str = "main"
    """The branch that people are on."""

    def kept(self) -> list[ModelCheckpoint]:
        """What has not been removed, oldest first."""
        return [each for each in self.history if not each.removed]

    def present(self) -> list[ModelCheckpoint]:
        """What is in the store, removed or not."""
        return [each for each in self.history if not each.gone]

    def get(self, name: str | None) -> ModelCheckpoint | None:
        """The checkpoint of that id, removed or not."""
        return next((each for each in self.history if each.id == name), None)

    def link(self, checkpoint: ModelCheckpoint) -> tuple[str | None, int]:
        """The nearest ancestor that is still there, and how many removed ones lie before it."""
        if checkpoint.cut_off:
            return None, 1
        skipped, parent = 0, self.get(checkpoint.parents[0] if checkpoint.parents else None)
        while parent is not None and parent.removed:
            if parent.cut_off:
                return None, skipped + 2
            skipped, parent = skipped + 1, self.get(parent.parents[0] if parent.parents else None)
        return (parent.id if parent else None), skipped

    def shown(self, checkpoint: ModelCheckpoint) -> ModelCheckpoint:
        """A copy for the caller, with everything that depends on the rest filled in."""
        prev, skipped = self.link(checkpoint)
        fresh = replace(checkpoint, prev=prev, skipped=skipped, agent=self.agent, project=self.project)
        fresh.tags = set(checkpoint.tags)
        fresh.fields = copy.deepcopy(checkpoint.fields | checkpoint.later)
        fresh.fields["metadata"] = copy.deepcopy(
            checkpoint.fields["metadata"] | checkpoint.later.get("metadata", {})
        )
        return fresh


def said(**given: Any) -> dict[str, Any]:
    """What the caller said, with what `save` takes where nothing is said."""
    plain: dict[str, Any] = {
        "step": None,
        "status": "running",
        "trigger": "manual",
        "metadata": None,
        "tokens": None,
        "cost_usd": None,
        "duration_ms": None,
    }
    fields = copy.deepcopy(plain | given)
    fields["metadata"] = dict(fields["metadata"] or {})
    return fields


def has(checkpoint: ModelCheckpoint, name: str, wanted: Any) -> bool:
    """Whether one filter of `find` holds; None does not filter."""
    if wanted is None:
        return True
    if name == "tag":
        return wanted in checkpoint.tags
    record = checkpoint.to_dict()[name]
    if name == "trigger" and wanted == "auto":
        return bool(record == "auto" or record.startswith("auto:"))
    return bool(record == wanted)


def within(wanted: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    """Whether every value asked for is there; nested dicts go deeper, everything else must be equal as JSON."""
    for key, value in wanted.items():
        if key not in metadata:
            return False
        if isinstance(value, Mapping) and value:
            if not isinstance(metadata[key], Mapping) or not within(value, metadata[key]):
                return False
        elif jsontext.dump(value) != jsontext.dump(metadata[key]):
            return False
    return True
