"""Waking up: which checkpoint, what of it, and what is said about that.

The agent's parts are connected in the order in which they come back, the heartbeat's own runtime behind them. A part
whose own database is newer than the checkpoint is connected only after the restore, so that it keeps what it has.

What somebody else saved into the session, with nothing of an agent in it, is passed over: the agent's own line goes on
from the newest checkpoint that has some of it, on a branch of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from holdfast.agents.heartbeat.agent import HeartbeatAgent
from holdfast.agents.heartbeat.report import WakeReport, as_text
from holdfast.agents.heartbeat.runtime import Runtime
from holdfast.aio import AsyncSession
from holdfast.errors import ErrorCode, IntegrityError, InvalidInputError, NotFoundError, StateError
from holdfast.history.checkpoint import Checkpoint
from holdfast.recording.async_recorder import AsyncRecorder
from holdfast.recording.report import ResumeReport

RUNTIME = "runtime"
"""The name of the heartbeat's own part."""


async def wake_up(
    agent: HeartbeatAgent, recorder: AsyncRecorder, runtime: Runtime, *, looking: AsyncSession, ref: str
) -> WakeReport:
    """Connect all parts and give back what is stored of them; nothing is written.

    Args:
        agent: Whose parts.
        recorder: Who restores.
        runtime: The heartbeat's own part.
        looking: A session to look at checkpoints with, without becoming their writer.
        ref: Which checkpoint.
    """
    parts = parts_of(agent) | {RUNTIME: runtime}
    newer = await _newer_parts(agent, parts, looking, ref)
    for name, part in parts.items():
        if name not in newer:
            recorder.connect(name, part)
    resumed = await recorder.resume(ref)
    foreign: tuple[str, ...] = ()
    if resumed is not None and resumed.checkpoint is not None and _is_foreign(resumed):
        own, foreign = await _own_checkpoint(looking, resumed.checkpoint, parts)
        newer = await _newer_parts(agent, parts, looking, own.id)
        for name in newer:
            if name in recorder.sources:
                recorder.disconnect(name)
        resumed = await recorder.resume(own.id)
    for name in newer:
        recorder.connect(name, parts[name])
    if resumed is None or RUNTIME not in resumed.named("restored"):
        # What the recorder says onto its own checkpoints is all that is known.
        runtime.beat = runtime.lived = recorder.beats
    # A checkpoint that a person made has the beats in its state, and not in the metadata that a resume reads.
    recorder.count_from(beats=runtime.lived, step=runtime.lived)
    return _reported(looking.id, resumed, runtime, newer, len(parts))._replace(foreign=foreign)


def parts_of(agent: HeartbeatAgent) -> dict[str, Any]:
    """The parts that an agent names, checked."""
    try:
        parts = dict(agent.parts())
    except AttributeError as error:
        raise InvalidInputError(
            f"{type(agent).__name__} does not have the parts that it names: {error}",
            code=ErrorCode.BAD_ARGUMENT,
            hint="call super().__init__() in its __init__, or say in parts() what it has",
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


async def _newer_parts(
    agent: HeartbeatAgent, parts: Mapping[str, Any], looking: AsyncSession, ref: str
) -> tuple[str, ...]:
    """The parts that the agent's own database has at the checkpoint's time or later."""
    try:
        told = await called(agent.database_time)
    except Exception as error:
        # The application's own code. Without its answer nobody knows what to restore: either way could lose something.
        raise StateError(
            f"database_time() of {type(agent).__name__} failed: {type(error).__name__}: {as_text(error)}",
            code=ErrorCode.HOOK_FAILED,
            hint="nothing was restored or saved; see the cause, and start it again",
        ) from error
    if told is None:
        return ()
    try:
        # By way of recovery: what counts is the checkpoint that will be served, not a damaged one before it.
        served = (await looking.recover(ref)).checkpoint
    except (NotFoundError, IntegrityError):
        # The restore will say so.
        return ()
    if not isinstance(told, Mapping):
        # The beat is the heartbeat's own; no database of the agent's knows it.
        told = {name: told for name in parts if name != RUNTIME}
    unknown = [name for name in told if name not in parts]
    if unknown:
        raise InvalidInputError(
            f"database_time() speaks of a part {unknown[0]!r}, and there is none",
            code=ErrorCode.BAD_NAME,
            hint=f"the parts are: {', '.join(parts)}",
        )
    return tuple(name for name in parts if name in told and _moment(told[name]) >= served.created_at)


def _moment(told: Any) -> datetime:
    if not isinstance(told, datetime):
        raise InvalidInputError(
            f"database_time() gave {told!r:.60}",
            code=ErrorCode.BAD_TIME,
            hint="return a datetime, a dict of them by part, or None",
        )
    # Without a zone it is local time, as everywhere in holdfast.
    return told.astimezone(UTC)


def _reported(
    session: str,
    resumed: ResumeReport | None,
    runtime: Runtime,
    newer: tuple[str, ...],
    count: int,
) -> WakeReport:
    if resumed is None:
        return WakeReport(session, runtime.beat, "first")
    passed_over = tuple(f"#{each.seq or '?'} ({each.why})" for each in resumed.passed_over)
    if resumed.checkpoint is None:
        why = (resumed.reason,) if not passed_over and resumed.reason else passed_over
        return WakeReport(session, runtime.beat, "damaged", passed_over=why)
    # Everything but the runtime was newer in the database.
    reason = "database" if len(newer) >= count - 1 else "restored"
    sources = {
        name: f"{each.outcome}: {as_text(each.message)}" if each.message else each.outcome
        for name, each in resumed.sources.items()
    }
    return WakeReport(
        session,
        runtime.beat,
        reason,
        checkpoint=resumed.checkpoint,
        age_seconds=resumed.age_seconds,
        order=resumed.named("restored"),
        sources=sources,
        newer=newer,
        passed_over=passed_over,
        handed_over=runtime.hand_over(),
        at_most_lost=_at_most_lost(resumed.checkpoint, runtime),
    )


def _at_most_lost(checkpoint: Checkpoint, runtime: Runtime) -> int:
    """A life that ended in order has saved its last beat; another one may have lived until right before a save."""
    if checkpoint.status != "running":
        return 0
    if runtime.last_every and runtime.last_epoch is not None and runtime.epoch == runtime.last_epoch + 1:
        # The life that saved it was the last one.
        return runtime.last_every - 1
    # There was another in between, that died before its first checkpoint; it may have been set as this one.
    return max(runtime.last_every or 1, runtime.every or 1) - 1


def _is_foreign(resumed: ResumeReport) -> bool:
    """Whether a checkpoint has nothing at all for the agent: neither one of its parts, nor the heartbeat's own."""
    told = resumed.sources.values()
    return bool(told) and all(each.outcome == "missing" for each in told)


async def _own_checkpoint(
    looking: AsyncSession, newest: Checkpoint, parts: Mapping[str, Any]
) -> tuple[Checkpoint, tuple[str, ...]]:
    """The newest checkpoint before `newest` that has something of the agent, and what was passed over for it.

    Raises:
        StateError: There is none: the session is not that of an agent (`type-mismatch`).
    """
    passed = []
    for each in await looking.log(newest.id):
        try:
            state = await looking.load(each)
        except IntegrityError:
            passed.append(f"#{each.seq} (damaged)")
            continue
        except StateError:
            # Of types that this program does not know: the restore looks at each part by itself.
            return each, tuple(passed)
        if isinstance(state, dict) and not parts.keys().isdisjoint(state):
            return each, tuple(passed)
        passed.append(f"#{each.seq} ({as_text(each.message)[:60]!r})" if each.message else f"#{each.seq}")
    raise StateError(
        f"session {looking.id!r} is not that of an agent: #{newest.seq} has none of the parts {', '.join(parts)}",
        code=ErrorCode.TYPE_MISMATCH,
        hint="give the agent a session of its own: what is in this one would be removed as it saves",
        session=looking.id,
        checkpoint=newest.id,
    )
