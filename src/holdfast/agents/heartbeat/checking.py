"""What can be known about an agent before its first beat, so that it does not go wrong at the fiftieth.

A hook that cannot be called with what the heartbeat gives it fails in every beat; a part whose value cannot be stored
fails at every checkpoint. Both are refused when the heartbeat starts, by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from holdfast.agents.heartbeat.agent import HeartbeatAgent
from holdfast.agents.heartbeat.runtime import BEAT
from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.recording.async_recorder import AsyncRecorder
from holdfast.recording.sources import source_of
from holdfast.recording.stored import inner_session, unencodable

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
    """Return `agent` if a heartbeat can run it.

    Raises:
        InvalidInputError: It is no agent, or has a hook that cannot be called.
    """
    if not isinstance(agent, HeartbeatAgent):
        given = f"the class {agent.__name__}" if isinstance(agent, type) else f"a {type(agent).__name__}"
        raise InvalidInputError(
            f"a heartbeat cannot run {given}",
            code=ErrorCode.BAD_ARGUMENT,
            hint="pass an instance of a class that is built on HeartbeatAgent",
        )
    for name, arguments in _HOOKS.items():
        _check_hook(agent, name, arguments)
    return agent


def check_savable(parts: Mapping[str, Any], recorder: AsyncRecorder) -> None:
    """Encode each part once, and keep nothing of it.

    Raises:
        InvalidInputError: The value of a part cannot be stored; the message has its name, and where in it.
    """
    state = {}
    for name, part in parts.items():
        try:
            state[name] = source_of(part, can_await=True).snapshot()
        except Exception:  # noqa: BLE001, S112 - the application's own code: the first save says it, and goes on
            continue
    # Not by way of the session, which remembers what it has encoded, and takes it to be stored.
    refused = unencodable(inner_session(recorder.session), state)
    for name, why in refused.items():
        raise InvalidInputError(
            f"part {name!r} of the agent cannot be saved: {why}",
            code=ErrorCode.VALUE_UNSUPPORTED,
            hint="give it snapshot() and restore() with plain values, or leave it out of parts()",
            part=name,
            parts=list(refused),
        )


def _check_hook(agent: HeartbeatAgent, name: str, arguments: tuple[str, ...]) -> None:
    hook = getattr(agent, name)
    owner = type(agent).__name__
    wanted = f"def {name}({', '.join(('self', *arguments))})"
    if not callable(hook):
        raise InvalidInputError(
            f"{name!r} of {owner} is a {type(hook).__name__} and no method",
            code=ErrorCode.BAD_ARGUMENT,
            hint=f"it is the name of a hook: call the attribute something else, or write {wanted}",
        )
    try:
        signature = inspect.signature(hook)
    except (ValueError, TypeError):
        # One that is not written in Python and does not say: the first beat shows.
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise InvalidInputError(
            f"{owner}.{name}{signature} cannot be called: {error}",
            code=ErrorCode.BAD_ARGUMENT,
            hint=f"write {wanted}",
        ) from None
