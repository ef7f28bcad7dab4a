"""`holdfast heartbeat`: run an agent that lives in beats, until it goes to sleep or a signal comes.

One line on start says what was restored, one line each checkpoint, one line the end. With --json every line is an event
as it went over the bus.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._figures import counted
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._opening import open_or_make
from holdfast.cli._render import data, json_text
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import escape_controls, paint

if TYPE_CHECKING:
    from holdfast import Store
    from holdfast.agents import Heartbeat
    from holdfast.recording.events import Event

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


@click.command(
    "heartbeat", cls=HoldfastCommand, short_help="Run an agent that wakes up where it was", help=HELP
)
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
@pass_settings
def command(settings: Settings, *, words: tuple[str, ...], **given: Any) -> int:
    """Run it; 1 if it went to sleep because too many beats failed."""
    if "branch" in settings.typed:
        raise click.UsageError("--branch does not apply: a heartbeat lives on the main branch of its session")
    name = _name(words)
    if given.pop("once"):
        if given["max_beats"] is not None:
            raise click.UsageError("--once and --max-beats both say when to end: give one")
        given["max_beats"] = 1
    # Before the store is made: what cannot run must not leave an empty one behind.
    from holdfast.agents.heartbeat.checking import checked_agent
    from holdfast.agents.heartbeat.pulse import Pulse
    from holdfast.cli._naming_agents import named_agent

    agent = Pulse() if name is None else checked_agent(named_agent(name))
    with open_or_make(settings.store, durability=settings.durability, compress=settings.compress) as (
        store,
        made,
    ):
        if made:
            settings.say(f"{made} {escape_controls(store.url)}")
        return asyncio.run(_run(settings, store, agent, given))


for _option in command.shared:
    if _option.name == "session":
        _option.help = "The session  [default: heartbeat]"


def _name(words: tuple[str, ...]) -> str | None:
    left = words[1:] if words[:1] == ("run",) else words
    if len(left) > 1:
        raise click.UsageError(f"there is nothing that takes {' '.join(left[1:])}")
    return left[0] if left else None


async def _run(settings: Settings, store: Store, agent: Any, given: dict[str, Any]) -> int:
    import holdfast
    from holdfast.agents import Heartbeat

    heartbeat = Heartbeat(
        agent,
        store,
        session=settings.session if "session" in settings.typed else None,
        trigger=None if given["every"] is None else holdfast.every(beats=given["every"]),
        interval=given["interval"],
        settings=holdfast.Settings.load(settings.config, store=settings.store),
        resume=given["ref"],
    )

    # In every hint: whoever pastes a command means the session that this was about.
    settings.session = heartbeat.session
    settings.typed.add("session")

    async def tell(event: Event) -> None:
        _tell(settings, heartbeat, event)

    for pattern in _TOLD:
        heartbeat.events.subscribe(pattern, tell)
    try:
        life = await heartbeat.run(max_beats=given["max_beats"])
    except holdfast.Interrupted as stopped:
        return 128 + stopped.signal
    finally:
        await heartbeat.events.aflush()
    return 1 if life.status == "failed" else 0


def _tell(settings: Settings, heartbeat: Heartbeat, event: Event) -> None:
    if settings.json:
        data(json_text(event.to_dict(), indent=None))
    elif line := _line(heartbeat, event):
        on = settings.paints(sys.stdout)
        label, text = line
        data(f"{paint(label, 'dim', on=on)} {escape_controls(text)}", color=on)
    # Whoever reads a pipe sees each line when it is written.
    sys.stdout.flush()


def _line(heartbeat: Heartbeat, event: Event) -> tuple[str, str] | None:
    """What an event is called, and what is said about it to people; None: the log or another line says it."""
    from holdfast.recording.events import CheckpointCreated, CheckpointFailed, RecorderForked

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
