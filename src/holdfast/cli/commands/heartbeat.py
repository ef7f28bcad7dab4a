"""`holdfast heartbeat`: run an agent that lives in beats, until it goes to sleep or a signal comes.

One line on start says what was restored, one line each checkpoint, one line the end. With --json every line is an event
as it went over the bus. MODULE:NAME is imported from the folder that the command runs in, as `python -m` does: it is
the user's own program. Nothing that is stored is ever imported.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.app import command as make_command
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import counted, data, json_text
from holdfast.cli.terminal import escape_controls, paint
from holdfast.errors import ErrorCode, IntegrityError, InvalidInputError
from holdfast.settings.near import close_names, did_you_mean

if TYPE_CHECKING:
    from types import ModuleType

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


_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*)?")


def named_agent(text: str) -> HeartbeatAgent:
    """Import and make the agent: an instance, a class, or a function that returns one; alone in its module, unnamed.

    Raises:
        InvalidInputError: There is no such module or name, importing it failed, or it is no agent.
    """
    from holdfast.agents import HeartbeatAgent

    if not _NAME.fullmatch(text):
        raise _refused(
            f"{text!r} does not name an agent",
            _meant(text) or "write MODULE:NAME, such as scout:Scout for scout.py",
        )
    name, _, attribute = text.partition(":")
    module = _imported(name, attribute)
    found = _attribute(module, attribute) if attribute else _only_agent(module)
    made = found
    if isinstance(found, type) or inspect.isroutine(found):
        try:
            made = found()
        except Exception as error:
            # The user's own code, which may raise anything.
            raise _failed(f"making the agent {text} failed", error) from error
    if not isinstance(made, HeartbeatAgent):
        raise _refused(
            f"{text} is a {type(made).__name__} and no agent",
            "name an instance of a class that is built on holdfast.agents.HeartbeatAgent, or the class itself",
        )
    return made


def _meant(text: str) -> str:
    """The agent of a file that was named by its path; empty where it is something else."""
    path, colon, attribute = text.partition(":")
    name = path.removeprefix("./").removesuffix(".py").replace("/", ".")
    return f"did you mean {name}{colon}{attribute}?" if _NAME.fullmatch(f"{name}{colon}{attribute}") else ""


def _imported(name: str, attribute: str) -> ModuleType:
    folder = os.getcwd()  # noqa: PTH109 - no pathlib at start
    if folder not in sys.path:
        # First, as `python -m` has it: the user's own module wins over one of the same name that is installed.
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise _refused(
                f"there is no module {name!r} in this folder, or among those that are installed",
                _meant_within(name, attribute)
                or "run the command where the file is: scout:Scout is class Scout of scout.py",
            ) from error
        raise _failed(f"importing {name} failed", error) from error
    except Exception as error:
        # As above.
        raise _failed(f"importing {name} failed", error) from error


def _meant_within(name: str, attribute: str) -> str:
    """Where the module is there, and what was written behind its name with a dot is not one: what was meant."""
    parent, _, last = name.rpartition(".")
    module = sys.modules.get(parent)
    if module is None:
        return ""
    if last == "py":
        return f"did you mean {parent}{':' * bool(attribute)}{attribute}?"
    return f"did you mean {parent}:{last}?" if hasattr(module, last) else ""


def _attribute(module: ModuleType, path: str) -> Any:
    value: Any = module
    for part in path.split("."):
        if not hasattr(value, part):
            near = close_names(part, [name for name in vars(value) if not name.startswith("_")])
            hint = did_you_mean(near) or f"its agents are: {', '.join(_agents(module)) or 'none'}"
            raise _refused(f"{module.__name__} has no {path!r}", hint)
        value = getattr(value, part)
    return value


def _agents(module: ModuleType) -> dict[str, Any]:
    """The agents that a module defines itself, by name."""
    from holdfast.agents import HeartbeatAgent

    return {
        name: value
        for name, value in vars(module).items()
        if (
            inspect.isclass(value)
            and issubclass(value, HeartbeatAgent)
            and value.__module__ == module.__name__
        )
        or isinstance(value, HeartbeatAgent)
    }


def _only_agent(module: ModuleType) -> Any:
    found = _agents(module)
    if len(found) == 1:
        return next(iter(found.values()))
    names = ", ".join(f"{module.__name__}:{name}" for name in found)
    raise _refused(
        f"{module.__name__} has {len(found) or 'no'} agent{'' if len(found) == 1 else 's'}",
        f"name one of: {names}" if names else "write a class that is built on holdfast.agents.HeartbeatAgent",
    )


def _failed(what: str, error: BaseException) -> InvalidInputError:
    # The innermost place: the line of the user's code that raised, or that cannot be read.
    trace, file, line, said = error.__traceback__, "", 0, str(error)
    while trace is not None:
        file, line = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    if file.startswith("<frozen"):
        # In the import itself: a line of it says nothing about the user's.
        file = ""
    if isinstance(error, SyntaxError) and error.filename:
        file, line, said = error.filename, error.lineno or 0, error.msg
    place = f" ({os.path.basename(file)}:{line})" if file else ""  # noqa: PTH119 - as above
    return _refused(
        f"{what}: {type(error).__name__}: {said}{place}", "HOLDFAST_DEBUG=1 shows the whole traceback"
    )


def _refused(message: str, hint: str) -> InvalidInputError:
    return InvalidInputError(message, code=ErrorCode.BAD_ARGUMENT, hint=hint)
