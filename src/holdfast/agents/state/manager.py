"""StateManager: saves the states of autonomous agents when it is time, and finds, forks and cleans them up."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from holdfast.agents.state.record import AgentState, naive_utc
from holdfast.agents.state.storage import CheckpointMetadata, StorageBackend, StoreStorage, new_id
from holdfast.errors import ErrorCode, InvalidInputError

if TYPE_CHECKING:
    from holdfast import Store


class StateManager:
    """Checkpoints of agents over any storage.

    Args:
        storage: A StorageBackend, or a holdfast store: an open Store or what `holdfast.open` takes. None is the usual
            store of the working folder.
        checkpoint_frequency: Due every so many steps: when a multiple is reached or crossed, 0 included. 0: never.
        checkpoint_interval: Due so many seconds after the last save. 0: never.
        max_checkpoints_per_agent: With each save, older ones beyond this number are removed. 0: all are kept.
    """

    def __init__(
        self,
        storage: StorageBackend | Store | str | Path | None = None,
        checkpoint_frequency: int = 0,
        checkpoint_interval: float = 0,
        max_checkpoints_per_agent: int = 100,
    ) -> None:
        numbers = (checkpoint_frequency, checkpoint_interval, max_checkpoints_per_agent)
        if any(each < 0 for each in numbers):
            raise InvalidInputError(
                f"StateManager takes numbers of 0 or more, not {numbers}",
                code=ErrorCode.BAD_ARGUMENT,
                hint="checkpoint_frequency in steps, checkpoint_interval in seconds; 0 switches one off",
            )
        self.checkpoint_frequency = checkpoint_frequency
        self.checkpoint_interval = checkpoint_interval
        self.max_checkpoints_per_agent = max_checkpoints_per_agent
        if not isinstance(storage, StorageBackend):
            storage = StoreStorage(storage, keep=max_checkpoints_per_agent)
        self.storage = storage
        self._step: dict[str, int] = {}
        self._now: dict[str, float] = {}
        """The caller's clock when it last asked; saves count from there."""
        self._saved: dict[str, float] = {}
        self._latest = datetime.min  # noqa: DTZ901 - UTC without a zone, as the states have it

    def should_checkpoint(self, agent_id: str, current_step: int, current_time: float) -> bool:
        """Whether a save of this agent is due, by steps or by time."""
        last, self._step[agent_id] = self._step.get(agent_id, current_step), current_step
        self._now[agent_id] = current_time
        since = self._saved.setdefault(agent_id, current_time)
        every = self.checkpoint_frequency
        if every and (current_step % every == 0 or current_step // every > last // every):
            return True
        return bool(self.checkpoint_interval) and current_time - since >= self.checkpoint_interval

    async def save_checkpoint(self, state: AgentState, force: bool = False) -> str:  # noqa: ARG002, FBT001, FBT002
        """Save a state as a new checkpoint, and return its id; the state gets id, time and parent.

        A call always saves; `force` says to the reader that this one does not wait for its turn.
        """
        taken = state.checkpoint_id, state.timestamp, state.parent_checkpoint_id
        if state.checkpoint_id is None:
            state.checkpoint_id = new_id()
        elif await self.storage.exists(state.checkpoint_id):
            state.parent_checkpoint_id, state.checkpoint_id = state.checkpoint_id, new_id()
        state.timestamp = self._tick()
        try:
            state.checkpoint_id = await self.storage.save(state)
        except BaseException:
            state.checkpoint_id, state.timestamp, state.parent_checkpoint_id = taken
            raise
        state.__dict__.pop("_forked", None)
        self._saved[state.agent_id] = self._now.get(state.agent_id, time.time())
        if self.max_checkpoints_per_agent:
            await self.cleanup_old_checkpoints(state.agent_id, self.max_checkpoints_per_agent)
        return state.checkpoint_id

    async def load_checkpoint(self, checkpoint_id: str) -> AgentState:
        """The state of a checkpoint.

        Raises:
            NotFoundError: There is no such checkpoint.
        """
        return await self.storage.load(checkpoint_id)

    async def list_checkpoints(self, agent_id: str) -> list[CheckpointMetadata]:
        """The checkpoints of an agent, newest first."""
        return await self.storage.list(agent_id)

    async def delete_checkpoint(self, checkpoint_id: str) -> None:
        """Remove a checkpoint.

        Raises:
            NotFoundError: There is no such checkpoint.
        """
        await self.storage.delete(checkpoint_id)

    async def fork_from_checkpoint(self, checkpoint_id: str) -> AgentState:
        """A state that shares nothing with the checkpoint's, with an id of its own and that checkpoint as parent.

        Nothing is stored until it is saved.
        """
        fork = AgentState.from_dict((await self.storage.load(checkpoint_id)).to_dict())
        fork.checkpoint_id, fork.parent_checkpoint_id = new_id(), checkpoint_id
        fork.timestamp = self._tick()
        fork._forked = True  # type: ignore[attr-defined]  # noqa: SLF001 - a store gives it a branch of its own
        return fork

    async def cleanup_old_checkpoints(self, agent_id: str, keep_count: int) -> int:
        """Remove all but the newest so many checkpoints of an agent; return how many went."""
        if keep_count < 0:
            raise InvalidInputError(
                f"keep_count cannot be {keep_count}",
                code=ErrorCode.BAD_ARGUMENT,
                hint="0 removes every checkpoint of the agent",
            )
        old = (await self.storage.list(agent_id))[keep_count:]
        for each in reversed(old):
            await self.storage.delete(each.checkpoint_id)
        return len(old)

    async def get_checkpoint_tree(self, agent_id: str) -> dict[str, Any]:
        """The checkpoints of an agent as a tree: `{id: {step_number, status, timestamp, fork, children: {...}}}`.

        Oldest first; `fork` is true for each child of a checkpoint but its first.
        """
        found = (await self.storage.list(agent_id))[::-1]
        nodes: dict[str, dict[str, Any]] = {
            each.checkpoint_id: {
                "step_number": each.step_number,
                "status": each.status,
                "timestamp": each.timestamp,
                "fork": False,
                "children": {},
            }
            for each in found
        }
        roots: dict[str, Any] = {}
        for each in found:
            parent = nodes.get(each.parent_checkpoint_id or "")
            siblings = roots if parent is None else parent["children"]
            nodes[each.checkpoint_id]["fork"] = parent is not None and bool(siblings)
            siblings[each.checkpoint_id] = nodes[each.checkpoint_id]
        return roots

    async def draw_checkpoint_tree(self, agent_id: str) -> str:
        """The tree as a picture, a line for each checkpoint."""
        lines: list[str] = []
        # By hand and not by recursion: a line of a thousand checkpoints is a tree a thousand levels deep.
        stack = [
            (name, node, "", "")
            for name, node in reversed((await self.get_checkpoint_tree(agent_id)).items())
        ]
        while stack:
            name, node, first, rest = stack.pop()
            lines.append(f"{first}{name} (step {node['step_number']}){' [fork]' if node['fork'] else ''}")
            children = list(node["children"].items())
            for number, (child, below) in reversed(list(enumerate(children, 1))):
                last = number == len(children)
                stack.append(
                    (child, below, f"{rest}{'└─ ' if last else '├─ '}", f"{rest}{'   ' if last else '│  '}")
                )
        return "\n".join(lines)

    def close(self) -> None:
        """Close the store, if this manager opened one."""
        if isinstance(self.storage, StoreStorage):
            self.storage.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def _tick(self) -> datetime:
        """The time, and never the same twice, so that lists have an order."""
        self._latest = max(naive_utc(datetime.now(UTC)), self._latest + timedelta(microseconds=1))
        return self._latest
