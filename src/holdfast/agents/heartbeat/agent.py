"""HeartbeatAgent: what an application writes. One hook for each phase; all of them may be left as they are.

    class Scout(HeartbeatAgent):
        async def think(self, beat):
            goal = self.goals.current
            ...

A hook may be a coroutine function or a plain one. Where it returns something true, or calls `beat.work()`, the beat
counts as one with work, and the next one comes sooner. An exception ends the beat and not the agent.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Mapping
from datetime import datetime
from typing import Any

from holdfast.agents.heartbeat.state import BEAT, HandedOver, Phase, Runtime, WakeReport
from holdfast.agents.heartbeat.subsystems import (
    ORDER,
    Affect,
    Ethics,
    Goals,
    Identity,
    InnerLife,
    InterAgent,
    Metacognition,
    Sensory,
    TheoryOfMind,
    WorkingMemory,
    ten,
)
from holdfast.errors import ErrorCode, InvalidInputError, bad_argument

RUNTIME = "runtime"
"""The name of the heartbeat's own part."""

Hook = Awaitable[Any] | Any
DatabaseTime = datetime | Mapping[str, datetime] | None


class Beat:
    """One beat, as its hooks see it.

    Attributes:
        number: Which one it is, over all lives of the agent.
        phase: The phase that is under way.
        runtime: The heartbeat's own state: interval, swarms, sub-agents, channels.
        notes: A dict for the hooks of this beat to leave things for each other; it is gone with the beat.
    """

    def __init__(self, number: int, runtime: Runtime) -> None:
        self.number = number
        self.phase = Phase.SENSE
        self.runtime = runtime
        self.notes: dict[str, Any] = {}
        self.worked = False
        self.failed = False
        self.saves = False
        self.sleeps: str | None = None

    def work(self) -> None:
        """There is work: the next beat comes soon."""
        self.worked = True

    def save(self) -> None:
        """Save at the end of this beat, whatever the interval between checkpoints says."""
        self.saves = True

    def sleep(self, reason: str = "the agent asked for it") -> None:
        """Let this beat be the last one: after it the agent is saved, and the heartbeat ends."""
        self.sleeps = reason


class HeartbeatAgent:
    """An agent with the ten subsystems as attributes: `self.affect`, `self.goals` ... `self.working_memory`.

    To replace one, add one, leave one out or have none of them, say so in `parts()`:

        def parts(self):
            return super().parts() | {"affect": self.mood, "ledger": self.ledger}

    Args:
        name: What the agent is called.
    """

    version: str | None = None
    """The version of the application, written into each snapshot."""

    affect: Affect
    goals: Goals
    metacognition: Metacognition
    theory_of_mind: TheoryOfMind
    interagent: InterAgent
    sensory: Sensory
    ethics: Ethics
    inner_life: InnerLife
    identity: Identity
    working_memory: WorkingMemory

    def __init__(self, name: str = "agent") -> None:
        for part, made in ten(name).items():
            setattr(self, part, made)

    def parts(self) -> dict[str, Any]:
        """What is saved and restored, by name, in the order in which it comes back.

        Anything that a Recorder takes as a source can be a part: an object with snapshot and restore, a dataclass, a
        pydantic model, `holdfast.attributes(self, "files")`.
        """
        return {name: getattr(self, name) for name in ORDER}

    def wake(self, report: WakeReport) -> Hook:
        """Called once, after everything was restored. A first life has nothing to restore, and `report` says so."""

    def sense(self, beat: Beat) -> Hook:
        """Look around: take in what happened."""

    def appraise(self, beat: Beat) -> Hook:
        """Judge what was sensed: what matters, and how it feels."""

    def think(self, beat: Beat) -> Hook:
        """Decide what to do."""

    def act(self, beat: Beat) -> Hook:
        """Do it."""

    def integrate(self, beat: Beat) -> Hook:
        """Take in what came of it. A checkpoint that is due is made right after this."""

    def sleep(self, reason: str) -> Hook:
        """Called once before the last checkpoint, when the heartbeat ends in order."""

    def database_time(self) -> Awaitable[DatabaseTime] | DatabaseTime:
        """When the agent's own database was last written; a checkpoint that is not newer is not restored.

        A dict gives that for parts, by name. None, as here: there is no database, and the checkpoint wins.
        """
        return None

    def reevaluate(self, left: HandedOver) -> Hook:
        """Decide what becomes of swarms, sub-agents and channels of the last life: none of them is running any more."""


_HOOKS = {
    "parts": (),
    "wake": ("report",),
    **{phase.value: ("beat",) for phase in BEAT},
    "sleep": ("reason",),
    "database_time": (),
    "reevaluate": ("left",),
}
"""The hooks, and what each is called with."""


def checked_agent(agent: Any) -> HeartbeatAgent:
    """Return `agent` if a heartbeat can run it: a hook that cannot be called would fail in every beat.

    Raises:
        InvalidInputError: It is no agent, or has a hook that cannot be called.
    """
    if not isinstance(agent, HeartbeatAgent):
        given = f"the class {agent.__name__}" if isinstance(agent, type) else f"a {type(agent).__name__}"
        raise bad_argument(
            f"a heartbeat cannot run {given}", "pass an instance of a class that is built on HeartbeatAgent"
        )
    for name, arguments in _HOOKS.items():
        hook = getattr(agent, name)
        why = f"it is a {type(hook).__name__}"
        try:
            if callable(hook):
                inspect.signature(hook).bind(*arguments)
                continue
        except TypeError as error:
            why = str(error)
        except ValueError:
            # One that is not written in Python and does not say: the first beat shows.
            continue
        raise bad_argument(
            f"the hook {name!r} of {type(agent).__name__} cannot be called: {why}",
            f"write def {name}({', '.join(('self', *arguments))}), or call the attribute something else",
        )
    return agent


def parts_of(agent: HeartbeatAgent) -> dict[str, Any]:
    """The parts that an agent names, checked."""
    try:
        parts = dict(agent.parts())
    except AttributeError as error:
        raise bad_argument(
            f"{type(agent).__name__} does not have the parts that it names: {error}",
            "call super().__init__() in its __init__, or say in parts() what it has",
        ) from error
    if RUNTIME in parts:
        raise InvalidInputError(
            f"a part of {type(agent).__name__} is called {RUNTIME!r}, which is the heartbeat's own",
            code=ErrorCode.BAD_NAME,
            hint="give it another name in parts()",
        )
    return parts


async def called(hook: Any, *arguments: Any) -> Any:
    """What a hook returns, awaited where it is a coroutine function."""
    result = hook(*arguments)
    return await result if inspect.isawaitable(result) else result
