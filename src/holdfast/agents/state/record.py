"""AgentState: a ready-made record of 22 fields for agents that run in a loop of their own.

It is a plain dataclass that can be saved like any other value. Its own `save` and `load` also put step, status, cost
and metadata on the checkpoint, where they can be searched, and read id, time and parent back from it. These three are
not part of the stored state: a state that did not change has the same root, however often it is saved.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, Self

from holdfast import register
from holdfast.errors import ErrorCode, InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from holdfast import Checkpoint, Session
    from holdfast.aio import AsyncSession

Status = Literal["running", "paused", "completed", "failed", "interrupted"]
Json = dict[str, Any]

_FROM_THE_RECORD = {"checkpoint_id", "timestamp", "parent_checkpoint_id"}
_STATUSES = ("running", "paused", "completed", "failed", "interrupted")


@register(name="holdfast.AgentState")  # a plain "AgentState" is what half of all applications call theirs
@dataclass
class AgentState:
    """What an autonomous agent knows and is doing.

    Attributes:
        checkpoint_id: The checkpoint it was saved as or loaded from; None before that.
        agent_id: Whose state it is.
        timestamp: When that checkpoint was made: UTC, without a zone, so that it compares with `datetime.utcnow()`.
        step_number: The step of the execution.
        conversation_history: Every message so far.
        memory_contents: The agent's own memory.
        pending_actions: What is still to be done.
        completed_actions: What was done.
        budget_spent_usd: What it cost so far.
        approval_history: Decisions about permissions.
        tool_usage_counts: How often each tool was used.
        tool_results_cache: Results that can be used again.
        active_specialists: Specialists at work.
        specialist_invocations: Every call of one.
        workflow_run_id: The run of the workflow that it is part of.
        workflow_state: What that workflow knows.
        control_protocol_state: Where the talk with whoever controls it stands.
        registered_hooks: Hooks that are set.
        hook_event_history: What they were called for.
        parent_checkpoint_id: The checkpoint that its own was made from.
        status: running, paused, completed, failed or interrupted.
        metadata: Plain JSON, to find checkpoints by.
    """

    checkpoint_id: str | None = None
    agent_id: str = ""
    timestamp: datetime | None = None
    step_number: int = 0
    conversation_history: list[Json] = field(default_factory=list)
    memory_contents: Json = field(default_factory=dict)
    pending_actions: list[Json] = field(default_factory=list)
    completed_actions: list[Json] = field(default_factory=list)
    budget_spent_usd: float = 0.0
    approval_history: list[Json] = field(default_factory=list)
    tool_usage_counts: dict[str, int] = field(default_factory=dict)
    tool_results_cache: Json = field(default_factory=dict)
    active_specialists: list[str] = field(default_factory=list)
    specialist_invocations: list[Json] = field(default_factory=list)
    workflow_run_id: str | None = None
    workflow_state: Json = field(default_factory=dict)
    control_protocol_state: Json = field(default_factory=dict)
    registered_hooks: list[Json] = field(default_factory=list)
    hook_event_history: list[Json] = field(default_factory=list)
    parent_checkpoint_id: str | None = None
    status: Status = "running"
    metadata: Json = field(default_factory=dict)

    if not TYPE_CHECKING:  # a type checker that sees it would take every name for a field

        def __setattr__(self, name: str, value: Any) -> None:
            """Set a field. What is none would be lost, and is refused; names with an underscore are free."""
            if not name.startswith("_") and not hasattr(type(self), name):
                names = self.__dataclass_fields__.keys()
                if name not in names:
                    raise _unknown(type(self).__name__, name, list(names))
            object.__setattr__(self, name, value)

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain data, the time as ISO text; nothing in it is shared with this object."""
        data = {each.name: copy.deepcopy(getattr(self, each.name)) for each in dataclasses.fields(self)}
        if self.timestamp is not None:
            data["timestamp"] = self.timestamp.isoformat()
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The state that `to_dict` gave, as a copy. Fields that are missing get their defaults.

        Raises:
            InvalidInputError: A key is no field, or a value is not of its field's type; the message names it.
        """
        if not isinstance(data, Mapping):
            raise _refused("what AgentState.from_dict is given", data, "pass a dict, as to_dict() returns it")
        checked = {_known(name): _fitting(name, value) for name, value in data.items()}
        return cls(**copy.deepcopy(checked))

    def checkpoint_fields(self) -> dict[str, Any]:
        """What goes onto its checkpoint, to be searched: step, status, cost and metadata with the agent's id."""
        metadata = self.metadata | {"agent_id": self.agent_id} if self.agent_id else self.metadata
        return {
            "step": self.step_number,
            "status": self.status,
            "cost_usd": self.budget_spent_usd,
            "metadata": metadata,
        }

    def snapshot(self) -> dict[str, Any]:
        """What a Recorder keeps of it: every field but the three that its checkpoint knows."""
        return {name: value for name, value in self.to_dict().items() if name not in _FROM_THE_RECORD}

    def restore(self, value: Mapping[str, Any]) -> None:
        """Take over what `snapshot` gave, into this object; all of it or, where it does not fit, nothing."""
        other = type(self).from_dict(value)
        for each in dataclasses.fields(self):
            if each.name not in _FROM_THE_RECORD:
                setattr(self, each.name, getattr(other, each.name))

    def save(self, session: Session, message: str = "", **given: Any) -> Checkpoint:
        """Save it as a new checkpoint with its step, status, cost and metadata, and note the checkpoint's id here.

        Args:
            session: Where to.
            message: What happened, for people.
            given: Further arguments of `Session.save`; they win over the fields.

        Raises:
            InvalidInputError: The session belongs to another agent (`session-mismatch`).
        """
        if self._unchecked(session):
            newest: list[Checkpoint] = []
            with suppress(NotFoundError):  # a branch that this save makes
                newest = session.log(limit=1)
            self._check_owner(session, newest)
        return self._noted(session.save(self._stored(), message, **self.checkpoint_fields() | given))

    def asave(
        self, session: AsyncSession, message: str = "", **given: Any
    ) -> Coroutine[Any, Any, Checkpoint]:
        """`save`, awaitable. What is saved is the state at the moment of the call; the writing is awaited."""
        return self._save_later(
            session, session.save(self._stored(), message, **self.checkpoint_fields() | given)
        )

    @classmethod
    def load(cls, session: Session, ref: str | Checkpoint = "@") -> Self:
        """The state of a checkpoint, with id, time and parent from its record.

        Raises:
            NotFoundError: `ref` names nothing.
            StateError: What was saved there is no AgentState.
        """
        found = session.checkpoint(ref)
        state: Self = session.load(found, as_=cls)
        state._noted(found)
        return state

    @classmethod
    async def aload(cls, session: AsyncSession, ref: str | Checkpoint = "@") -> Self:
        """`load`, awaitable."""
        found = await session.checkpoint(ref)
        state: Self = await session.load(found, as_=cls)
        state._noted(found)
        return state

    def fork(self, session: Session, name: str) -> tuple[Session, Self]:
        """Begin a new branch at the checkpoint of this state; return its Session, and a state that shares nothing.

        The new state has the id of a checkpoint of its own, whose parent is this one's.
        """
        line = session.fork(self._saved_at(), name)
        return line, self.load(line)

    async def afork(self, session: AsyncSession, name: str) -> tuple[AsyncSession, Self]:
        """`fork`, awaitable."""
        line = await session.fork(self._saved_at(), name)
        return line, await self.aload(line)

    async def _save_later(self, session: AsyncSession, saving: Coroutine[Any, Any, Checkpoint]) -> Checkpoint:
        try:
            if self._unchecked(session):
                newest: list[Checkpoint] = []
                with suppress(NotFoundError):
                    newest = await session.log(limit=1)
                self._check_owner(session, newest)
            return self._noted(await saving)
        finally:
            saving.close()  # where the check failed, it was never awaited

    def _unchecked(self, session: Session | AsyncSession) -> bool:
        return bool(self.agent_id) and self.__dict__.get("_owner") != (session.id, self.agent_id)

    def _check_owner(self, session: Session | AsyncSession, newest: list[Checkpoint]) -> None:
        """Refuse a session of another agent. One look per session: who owns it does not change."""
        owners = [session.agent, *(each.agent or each.metadata.get("agent_id") for each in newest)]
        for owner in owners:
            if owner not in (None, self.agent_id):
                raise InvalidInputError(
                    f"session {session.id!r} belongs to agent {owner!r}: this is a state of {self.agent_id!r}",
                    code=ErrorCode.SESSION_MISMATCH,
                    hint=f"save it in a session of its own: store.session({self.agent_id!r}, agent={self.agent_id!r})",
                    session=session.id,
                    agent=self.agent_id,
                    owner=owner,
                )
        self._owner = (session.id, self.agent_id)

    def _saved_at(self) -> str:
        if self.checkpoint_id is None:
            raise InvalidInputError(
                "this state was never saved, so there is nothing to fork from",
                code=ErrorCode.BAD_ARGUMENT,
                hint="save() it first, or copy it with AgentState.from_dict(state.to_dict())",
            )
        return self.checkpoint_id

    def _stored(self) -> Self:
        return dataclasses.replace(self, checkpoint_id=None, timestamp=None, parent_checkpoint_id=None)

    def _noted(self, checkpoint: Checkpoint) -> Checkpoint:
        self.checkpoint_id = checkpoint.id
        self.timestamp = naive_utc(checkpoint.created_at)
        self.parent_checkpoint_id = checkpoint.parent
        return checkpoint


def naive_utc(moment: datetime) -> datetime:
    """A time in UTC without its zone; one that has no zone is UTC already."""
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


_KINDS: dict[str, tuple[type, ...]] = {
    "checkpoint_id": (str, type(None)),
    "agent_id": (str,),
    "timestamp": (datetime, type(None)),
    "step_number": (int,),
    "budget_spent_usd": (float, int),
    "workflow_run_id": (str, type(None)),
    "parent_checkpoint_id": (str, type(None)),
    "status": (str,),
}
_ITEMS: dict[str, type] = {"tool_usage_counts": int, "active_specialists": str}
"""What lists and dicts hold, where that is not a dict or anything at all."""


def _kinds_of(name: str) -> tuple[type, ...]:
    if name in _KINDS:
        return _KINDS[name]
    made = getattr(AgentState(), name)
    return (type(made),)


def _known(name: Any) -> str:
    names = [each.name for each in dataclasses.fields(AgentState)]
    if name in names:
        return str(name)
    raise _unknown("AgentState", name, names)


def _unknown(owner: str, name: Any, names: list[str]) -> InvalidInputError:
    from holdfast.settings.near import close_names, did_you_mean

    near = close_names(str(name), names)
    hint = did_you_mean(near) or "metadata and memory_contents take anything of your own"
    return InvalidInputError(
        f"{owner} has no field {name!r}",
        code=ErrorCode.BAD_ARGUMENT,
        hint=hint,
        field=str(name),
        candidates=near,
    )


def _fitting(name: str, value: Any) -> Any:
    """The value if it is of the field's type; a time may be ISO text."""
    if name == "timestamp" and isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise _refused(f"field {name!r} of AgentState", value, "write a time as ISO text") from None
    if name == "timestamp" and isinstance(value, datetime):
        return naive_utc(value)
    kinds = _kinds_of(name)
    # True is an int to Python, and never a step number.
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        wanted = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
        raise _refused(f"field {name!r} of AgentState", value, f"it takes {wanted}")
    if name == "status" and value not in _STATUSES:
        raise _refused(f"field {name!r} of AgentState", value, f"it is one of: {', '.join(_STATUSES)}")
    _check_items(name, value)
    return value


def _check_items(name: str, value: Any) -> None:
    wanted = _ITEMS.get(name, dict)
    items = value if isinstance(value, list) else value.values() if name in _ITEMS else ()
    for item in items:
        if not isinstance(item, wanted) or (isinstance(item, bool) and wanted is int):
            raise _refused(f"field {name!r} of AgentState", item, f"each item in it is a {wanted.__name__}")


def _refused(what: str, value: Any, hint: str) -> InvalidInputError:
    shown = repr(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
    return InvalidInputError(
        f"{what} cannot be {shown}", code=ErrorCode.BAD_ARGUMENT, hint=hint, got=type(value).__name__
    )
