"""The program `holdfast`: one table of commands, each imported only when it runs.

A new command is a line in `COMMANDS` and a function with `@command("name", HELP)` (CONTRIBUTING.md shows one whole).
Options that every command shares are added here, to the group and to each command, so that `holdfast --json list` and
`holdfast list --json` are the same. A name of two words, `plan run`, is a command of the group `plan`.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

import click

from holdfast.cli.completion import complete_branch, complete_session
from holdfast.cli.errors import habit, run_guarded
from holdfast.cli.invocation import PLACE, Invocation, peek, shared_options
from holdfast.settings.near import close_names

PROGRAM = "holdfast"
COMPLETE = "_HOLDFAST_COMPLETE"
"""Set by a completion script: the program is asked what could be typed next."""
_COMPLETERS = {"session": complete_session, "branch": complete_branch}
RANGE = r"  \[[0-9<=]*x[0-9<>=]*\]$"


class Entry(NamedTuple):
    """One line of the command table."""

    home: str
    """`module:function` under holdfast.cli; empty for a group."""
    section: str
    summary: str
    place: int = 3
    """How many of --store, --session and --branch it takes."""


COMMANDS = {
    "demo": Entry("demo:command", "Start", "Watch an agent be killed and go on where it was", 0),
    "init": Entry("commands.save:init", "Start", "Make a store", 1),
    "create": Entry("commands.save:create", "Start", "Save a checkpoint"),
    "edit": Entry("commands.edit:edit", "Start", "Edit a state in your editor, and save it", 2),
    "heartbeat": Entry("commands.heartbeat:command", "Start", "Run an agent that wakes up where it was", 2),
    "nb": Entry("", "Debug", "Keep hypotheses, beliefs, gaps, experiments and checks"),
    "nb board": Entry("commands.notebook:board", "Debug", "Show everything on one screen"),
    "nb note": Entry("commands.notebook:note", "Debug", "Write notes, the goal, what is next"),
    "nb hypothesis": Entry(
        "commands.notebook:hypothesis", "Debug", "Say what might be the cause, and judge it"
    ),
    "nb evidence": Entry(
        "commands.notebook:evidence", "Debug", "Say what speaks for or against a hypothesis"
    ),
    "nb belief": Entry(
        "commands.notebook:belief", "Debug", "Say what is held to be true, and what it rests on"
    ),
    "nb gap": Entry("commands.notebook:gap", "Debug", "Say what is not known yet"),
    "nb experiment": Entry("commands.notebook:experiment", "Debug", "Try an idea on a branch"),
    "nb check": Entry("commands.notebook:check", "Debug", "Run checks with an expectation"),
    "nb compare": Entry("commands.recovery:compare", "Debug", "Say what changed between two checkpoints"),
    "nb recovery": Entry(
        "commands.recovery:recovery", "Debug", "Show the steps that lead back, or take them"
    ),
    "nb restore": Entry("commands.recovery:restore", "Debug", "Go back: notebook, files or both"),
    "exec": Entry("commands.notebook:exec_", "Debug", "Run a command and keep it in the notebook"),
    "brief": Entry("commands.recovery:brief", "Debug", "Print the thread of a session in so many tokens"),
    "plan": Entry("", "Start", "Run plans that survive kill -9"),
    "plan run": Entry("commands.plan:run", "Plans", "Run a plan, or go on with it"),
    "plan resume": Entry("commands.plan:resume", "Plans", "Go on with what is unfinished"),
    "plan status": Entry("commands.plan:status", "Plans", "Show where an execution is"),
    "plan approve": Entry("commands.plan:approve", "Plans", "Decide about a step that waits"),
    "plan cancel": Entry("commands.plan:cancel", "Plans", "End an execution"),
    "plan show": Entry("commands.plan:show", "Plans", "Draw a plan"),
    "plan diff": Entry("commands.plan:diff", "Plans", "Show how a plan differs from the one that runs"),
    "plan whatif": Entry("commands.plan:whatif", "Plans", "Try a step with other parameters"),
    "list": Entry("commands.look:list_", "Look", "List checkpoints, newest first"),
    "show": Entry("commands.look:show", "Look", "Show a checkpoint and its state"),
    "diff": Entry("commands.compare:diff", "Look", "Show what differs between checkpoints"),
    "bisect": Entry("commands.search:bisect", "Look", "Find the first checkpoint where a condition is true"),
    "diverge": Entry("commands.compare:diverge", "Look", "Show where two lines of work differ first"),
    "blame": Entry("commands.search:blame", "Look", "Show who set a value, and what was before"),
    "history": Entry("commands.search:history", "Look", "Show a value over time"),
    "grep": Entry("commands.search:grep", "Look", "Find texts in the states of a history"),
    "tree": Entry("commands.lineage:tree", "Look", "Draw where branches part and meet"),
    "timeline": Entry("commands.lineage:timeline", "Look", "Show what was saved when, day by day"),
    "watch": Entry("commands.look:watch", "Look", "Show checkpoints as they are saved", 2),
    "stats": Entry("commands.look:stats", "Look", "Show what is in the store", 2),
    "why": Entry("commands.runs:why", "Look", "Say where a value comes from"),
    "ask": Entry("", "Look", "Answer ready questions about runs", 1),
    "ask tool-calls": Entry("commands.runs:tool_calls", "Ask", "Checkpoints in which a tool was called", 1),
    "ask tokens": Entry("commands.runs:tokens", "Ask", "Tokens and cost of each execution", 1),
    "ask errors": Entry("commands.runs:errors", "Ask", "Error rate and time of each tool", 1),
    "ask slowest": Entry("commands.runs:slowest", "Ask", "The calls that took longest", 1),
    "ask executions": Entry("commands.runs:executions", "Ask", "Executions and how they stand", 1),
    "sql": Entry("commands.runs:sql", "Look", "Answer a SELECT over published views", 1),
    "at": Entry("commands.look:at", "Travel", "Show what was newest at a moment"),
    "restore": Entry("commands.undo:restore", "Travel", "Go back to a checkpoint"),
    "undo": Entry("commands.undo:undo", "Travel", "Take back what was done last"),
    "redo": Entry("commands.undo:redo", "Travel", "Bring back what undo took"),
    "fork": Entry("commands.branches:fork", "Branch", "Begin a new branch at a checkpoint"),
    "branch": Entry("commands.branches:branch", "Branch", "List, rename and delete branches"),
    "switch": Entry("commands.branches:switch", "Branch", "Go to another branch", 2),
    "merge": Entry("commands.branches:merge", "Branch", "Bring another branch into this one"),
    "tag": Entry("commands.marks:tag", "Care", "Label checkpoints, and list the labels"),
    "pin": Entry("commands.marks:pin", "Care", "Protect checkpoints from removal"),
    "annotate": Entry("commands.marks:annotate", "Care", "Edit a message or metadata"),
    "delete": Entry("commands.undo:delete", "Care", "Remove a checkpoint from history"),
    "clear": Entry("commands.undo:clear", "Care", "Remove all checkpoints of a session", 2),
    "prune": Entry("commands.upkeep:prune", "Care", "Remove checkpoints that a policy does not keep", 2),
    "reindex": Entry("commands.runs:reindex", "Care", "Make the rows of runs again", 2),
    "gc": Entry("commands.upkeep:gc", "Care", "Free what nothing needs any more", 1),
    "forget": Entry("commands.upkeep:forget", "Care", "Erase a session or checkpoints for good"),
    "verify": Entry("commands.upkeep:verify", "Care", "Check that nothing is damaged", 2),
    "repair": Entry("commands.upkeep:repair", "Care", "Bring a damaged store back", 1),
    "backup": Entry("commands.transfer:backup", "Care", "Copy the store to a new file", 1),
    "copy": Entry("commands.transfer:copy", "Care", "Copy sessions to another store", 0),
    "export": Entry("commands.transfer:export", "Care", "Write checkpoints to files"),
    "import": Entry("commands.transfer:import_", "Care", "Take in files that export wrote", 2),
    "import-langgraph": Entry(
        "commands.transfer:import_langgraph", "Set up", "Take over threads of LangGraph's savers", 1
    ),
    "serve": Entry("commands.servers:serve", "Serve", "Serve the store: JSON-RPC, REST, events, metrics", 2),
    "mcp": Entry("commands.servers:mcp", "Serve", "Serve the store to a coding agent over MCP", 2),
    "live": Entry("", "Serve", "Reach agents that are awake in other processes"),
    "live list": Entry("commands.servers:live_list", "Live", "List the agents that are awake", 1),
    "live create": Entry("commands.servers:live_create", "Live", "Have a live agent save itself now", 2),
    "live restore": Entry("commands.servers:live_restore", "Live", "Have a live agent go back", 2),
    "config": Entry("commands.config:command", "Set up", "Show and change settings", 1),
    "completion": Entry(
        "commands.completion:command", "Set up", "Print a completion script for your shell", 0
    ),
}

Invocation.places = {name: entry.place for name, entry in COMMANDS.items()}


class Command(click.Command):
    """A command that also takes the shared options, and shows them apart from its own."""

    def __init__(self, name: str, *args: Any, **attributes: Any) -> None:
        full = attributes.pop("full_name", name)
        entry = COMMANDS.get(full)
        attributes.setdefault("short_help", entry.summary if entry else None)
        super().__init__(name, *args, **attributes)
        self.place = entry.place if entry else len(PLACE)
        own = {name for param in self.params for name in param.opts}
        shared = shared_options(self.place, _COMPLETERS)
        self.shared = [option for option in shared if not own & set(option.opts)]
        self.params.extend(self.shared)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; an error knows which command it is about."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            # click leaves it out where an option has no value: the hint would lead to the help of the program.
            error.ctx = error.ctx or ctx
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Refuse options that say where and do not apply, then run."""
        cmd = ctx.ensure_object(Invocation)
        wrong = [name for name in PLACE[self.place :] if name in cmd.typed]
        taken = {param.name for param in self.shared}
        if wrong and wrong[0] in taken:
            raise click.UsageError(f"--{wrong[0]} does not apply to {self.name}", ctx)
        if cmd.json and (cmd.fields or cmd.format):
            raise click.UsageError("--json excludes --fields and --format", ctx)
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, then the shared ones."""
        _write_options(ctx, formatter, "Options", [p for p in self.get_params(ctx) if p not in self.shared])
        _write_options(ctx, formatter, "Options of every command", self.shared)


def command(
    name: str, text: str, *, settings: bool = True
) -> Callable[[Callable[..., int | None]], click.Command]:
    """Make a command of a function, which gets the `Invocation` first and returns an exit code, or None for 0.

    Args:
        name: As in the table.
        text: Its help: what it does, then examples.
        settings: False for a command that has to run although a settings file is wrong.
    """

    def made(function: Callable[..., int | None]) -> click.Command:
        params = list(reversed(getattr(function, "__click_params__", [])))

        def callback(**given: Any) -> int | None:
            cmd = click.get_current_context().ensure_object(Invocation)
            if settings:
                cmd.complete()
            return function(cmd, **given)

        return Command(name.rpartition(" ")[2], full_name=name, callback=callback, params=params, help=text)

    return made


class LazyGroup(click.Group):
    """Commands by name from a table; errors become exit codes; typos get a suggestion."""

    def __init__(self, *args: Any, table: Mapping[str, Entry], prefix: str = "", **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.table, self.prefix = table, prefix
        self.params.extend(shared_options(len(PLACE), _COMPLETERS))

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the table."""
        del ctx
        names = (name.removeprefix(self.prefix) for name in self.table if name.startswith(self.prefix))
        return [name for name in names if " " not in name]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command, or make a group of those whose names begin with its name."""
        del ctx
        entry = self.table.get(self.prefix + cmd_name)
        if entry is None:
            return None
        if not entry.home:
            return LazyGroup(
                cmd_name, table=self.table, prefix=f"{self.prefix}{cmd_name} ", help=entry.summary
            )
        module, _, function = entry.home.partition(":")
        # Not importlib: only imports through the interpreter show up in `-X importtime`, which the start is judged by.
        found: click.Command = getattr(__import__(f"holdfast.cli.{module}", fromlist=[function]), function)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one was meant; it is never run in its place."""
        name = args[0]
        if self.prefix + name not in self.table and not name.startswith("-") and not ctx.resilient_parsing:
            error = click.UsageError(f"there is no command {self.prefix + name!r}", ctx)
            meant, hint = ([], "") if self.prefix else habit(name)
            # Both are read where the error is told.
            error.candidates = meant or ([] if hint else close_names(name, self.list_commands(ctx)))  # type: ignore[attr-defined]
            error.hint = hint  # type: ignore[attr-defined]
            raise error
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table, section by section, without importing a command."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            entry = self.table[self.prefix + name]
            sections.setdefault(entry.section, []).append((name, entry.summary))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands first: they are what a newcomer looks for."""
        self.format_commands(ctx, formatter)
        _write_options(ctx, formatter, "Options of every command", self.get_params(ctx))

    def main(  # type: ignore[override]  # click has overloads for a mode that this program does not have
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Run the program and end the process with the exit code of what happened."""
        argv = list(sys.argv[1:] if args is None else args)
        if instruction := os.environ.get(COMPLETE):
            _answer_shell(self, instruction)
        del prog_name  # the program has one name, however it was started
        extra.pop("standalone_mode", None)
        cmd = peek(argv)

        def action() -> int | None:
            try:
                with self.make_context(PROGRAM, argv, obj=cmd, **extra) as ctx:
                    result: int | None = self.invoke(ctx)
                    return result
            except click.exceptions.Exit as end:
                return end.exit_code

        sys.exit(run_guarded(cmd, action))


def _answer_shell(group: LazyGroup, instruction: str) -> NoReturn:
    from click.shell_completion import shell_complete

    # Imported for bash, whose way of asking it changes.
    __import__("holdfast.cli.commands.completion")
    try:
        code = shell_complete(group, {}, PROGRAM, COMPLETE, instruction)
    except Exception:  # noqa: BLE001 - whatever half a command line leads to, nothing may appear in the middle of it
        code = 1
    sys.exit(code)


def _write_options(
    ctx: click.Context, formatter: click.HelpFormatter, title: str, params: Sequence[click.Parameter]
) -> None:
    # Arguments stand in the first line of the help, and in its text.
    options = [each for each in params if not isinstance(each, click.Argument)]
    if rows := [record for each in options if (record := each.get_help_record(ctx)) is not None]:
        with formatter.section(title):
            # click adds the range of a number as a formula; what it takes is said in words, where it is not obvious.
            formatter.write_dl([(names, re.sub(RANGE, "", about)) for names, about in rows])


def _show_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's signature
    if wanted and not ctx.resilient_parsing:
        from holdfast import __version__

        click.echo(f"{PROGRAM} {__version__}")
        ctx.exit()


cli = LazyGroup(
    PROGRAM,
    table=COMMANDS,
    help="Keep the state of AI agents: save every step, survive kill -9, go back to any of them.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_version,
            help="Show the version and end",
        )
    ],
)


def main() -> None:
    """Run the command line: the entry point of the `holdfast` program and of `python -m holdfast`."""
    for name in ("stdout", "stderr"):
        # A process started without one (`>&-`) has None there, and everything that writes would fail on it.
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - for good
    # Loading modules makes many objects and no garbage; looking for some is a twentieth of a short command.
    gc.set_threshold(50_000, 20, 20)
    try:
        cli.main()
    except SystemExit as end:
        # The store is closed, and taking the interpreter apart would cost another tenth of the run.
        for stream in (sys.stdout, sys.stderr):
            # What could not be written has been reported; all that is left is the exit code.
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))
