"""`holdfast heartbeat`: run an agent that lives in beats, until it goes to sleep or a signal comes.

One line on start says what was restored, one line each checkpoint, one line the end. With --json every line is an event
as it went over the bus. MODULE:NAME is imported from the folder that the command runs in, as `python -m` does: it is
the user's own program. Nothing that is stored is ever imported.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
from contextlib import suppress
from operator import attrgetter
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.app import command as make_command
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import counted, data, json_text
from holdfast.cli.terminal import escape_controls, paint
from holdfast.errors import ErrorCode, IntegrityError, InvalidInputError

if TYPE_CHECKING:
    from holdfast import Event
    from holdfast.agents import Heartbeat, HeartbeatAgent


_TOLD = (
    "heartbeat.woke",
    "heartbeat.failed",
    "heartbeat.slept",
    "checkpoint.*",
    "recorder.forked",
    "source.failed",
)
"""The events that become lines; phases and beats would be hundreds."""

HELP = """Run an agent that lives in beats, saves itself every so many, and wakes up where it was.

MODULE:NAME is an agent of your own: `holdfast heartbeat run scout:Scout` runs class Scout of scout.py in this folder.
Without one a small agent that watches this machine runs. It ends when the agent goes to sleep, after --max-beats, or
with Ctrl-C or SIGTERM, which are waited for until the agent is saved. A second one on the same session is refused.

\b
Examples:
  holdfast heartbeat --once
  holdfast heartbeat --max-beats 3 --interval 0.01 --session watcher
  holdfast heartbeat run --max-beats 5 --interval 0 --every 2 --json
"""


@make_command("heartbeat", HELP)
@click.argument("words", nargs=-1, metavar="[run MODULE:NAME]")
@click.option("--max-beats", type=click.IntRange(min=1), metavar="N", help="Go to sleep after N beats")
@click.option("--once", is_flag=True, help="Go to sleep after one beat")
@click.option(
    "--interval",
    type=click.FloatRange(0, 86400),
    metavar="S",
    help="Seconds between two beats, always the same",
)
@click.option(
    "--every", type=click.IntRange(min=1), metavar="N", help="Save when N beats have passed  [default: 50]"
)
@click.option(
    "--from", "ref", default="@", metavar="REF", help="Wake up from this checkpoint  [default: the newest]"
)
def command(cmd: Invocation, *, words: tuple[str, ...], **given: Any) -> int:
    """Run it; 1 if it went to sleep because too many beats failed."""
    name = _name(words)
    if given.pop("once"):
        if given["max_beats"] is not None:
            raise click.UsageError("--once and --max-beats both say when to end: give one")
        given["max_beats"] = 1
    # Before the store is made: what cannot run must not leave an empty one behind.
    from holdfast.agents.heartbeat.agent import checked_agent
    from holdfast.agents.heartbeat.pulse import Pulse

    agent = Pulse() if name is None else checked_agent(named_agent(name))
    # Made here where there is none, and said so. One that is damaged is the heartbeat's to mend.
    with suppress(IntegrityError, InvalidInputError), cmd.open_or_make():
        pass
    return asyncio.run(_run(cmd, agent, given))


def _name(words: tuple[str, ...]) -> str | None:
    left = words[1:] if words[:1] == ("run",) else words
    if len(left) > 1:
        raise click.UsageError(f"there is nothing that takes {' '.join(left[1:])}")
    return left[0] if left else None


async def _run(cmd: Invocation, agent: Any, given: dict[str, Any]) -> int:
    import holdfast
    from holdfast.agents import Heartbeat

    heartbeat = Heartbeat(
        agent,
        cmd.store,
        session=cmd.session if "session" in cmd.typed else None,
        trigger=None if given["every"] is None else holdfast.every(beats=given["every"]),
        interval=given["interval"],
        settings=holdfast.Settings.load(
            cmd.config, store=cmd.store, durability=cmd.durability, checkpoint_compress=cmd.compress
        ),
        resume=given["ref"],
    )

    # In every hint: whoever pastes a command means the session that this was about.
    cmd.session = heartbeat.session
    cmd.typed.add("session")

    async def tell(event: Event) -> None:
        _tell(cmd, heartbeat, event)

    for pattern in _TOLD:
        heartbeat.events.subscribe(pattern, tell)
    try:
        life = await heartbeat.run(max_beats=given["max_beats"])
    except holdfast.Interrupted as stopped:
        return 128 + stopped.signal
    finally:
        await heartbeat.events.aflush()
    return 1 if life.status == "failed" else 0


def _tell(cmd: Invocation, heartbeat: Heartbeat, event: Event) -> None:
    if cmd.json:
        data(json_text(event.to_dict(), indent=None))
    elif line := _line(heartbeat, event):
        on = cmd.paints(sys.stdout)
        label, text = line
        data(f"{paint(label, 'dim', on=on)} {escape_controls(text)}", color=on)
    # Whoever reads a pipe sees each line when it is written.
    sys.stdout.flush()


def _line(heartbeat: Heartbeat, event: Event) -> tuple[str, str] | None:
    """What an event is called, and what is said about it to people; None: the log or another line says it."""
    from holdfast import CheckpointCreated, CheckpointFailed, RecorderForked

    if event.type == "heartbeat.woke":
        return "woke:", str(heartbeat.woke)
    if event.type == "heartbeat.slept":
        return "slept:", str(heartbeat.life)
    if isinstance(event, CheckpointCreated):
        size = counted(event.size_bytes, "byte")
        return "saved:", f"beat {event.beat_count} as {event.checkpoint_id[:12]}, {size}, {event.trigger}"
    if isinstance(event, CheckpointFailed):
        return "failed:", f"a checkpoint could not be saved: {event.message}"
    if isinstance(event, RecorderForked):
        return (
            "forked:",
            f"somebody else saved in this session; the heartbeat goes on in branch {event.branch}",
        )
    return None


def named_agent(text: str) -> HeartbeatAgent:
    """Import and make the agent: an instance, a class, or a function that returns one; alone in its module, unnamed.

    Raises:
        InvalidInputError: There is no such module or name, importing it failed, or it is no agent.
    """
    from holdfast.agents import HeartbeatAgent

    if "" not in sys.path:
        # First, as `python -m` has it: the user's own module wins over one of the same name that is installed.
        sys.path.insert(0, "")
    module, _, name = text.partition(":")
    module = module.removeprefix("./").removesuffix(".py").replace("/", ".")
    found: Any = None
    try:
        found = importlib.import_module(module)
        found = attrgetter(name)(found) if name else _only_agent(found)
        if isinstance(found, type) or inspect.isroutine(found):
            found = found()
    except InvalidInputError:
        raise
    except Exception as error:
        # The user's own code, which may raise anything.
        there = f"agents of {module}: {', '.join(_agents(found))}; " if isinstance(found, ModuleType) else ""
        raise _refused(
            f"the agent {text} cannot be made: {type(error).__name__}: {error}",
            f"{there}scout:Scout is class Scout of scout.py in this folder; HOLDFAST_DEBUG=1 shows the traceback",
        ) from error
    if not isinstance(found, HeartbeatAgent):
        raise _refused(
            f"{text} is a {type(found).__name__} and no agent",
            "name an instance of a class that is built on holdfast.agents.HeartbeatAgent, or the class itself",
        )
    return found


def _agents(module: ModuleType) -> dict[str, Any]:
    """The agents that a module defines itself, by name."""
    from holdfast.agents import HeartbeatAgent

    def own(value: Any) -> bool:
        if isinstance(value, type):
            return issubclass(value, HeartbeatAgent) and value.__module__ == module.__name__
        return isinstance(value, HeartbeatAgent)

    return {name: value for name, value in vars(module).items() if own(value)}


def _only_agent(module: ModuleType) -> Any:
    found = _agents(module)
    if len(found) == 1:
        return next(iter(found.values()))
    names = ", ".join(f"{module.__name__}:{name}" for name in found)
    raise _refused(
        f"{module.__name__} has {len(found) or 'no'} agents",
        f"name one of: {names}" if names else "write a class that is built on holdfast.agents.HeartbeatAgent",
    )


def _refused(message: str, hint: str) -> InvalidInputError:
    return InvalidInputError(message, code=ErrorCode.BAD_ARGUMENT, hint=hint)
