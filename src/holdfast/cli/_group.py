"""The command group: commands are looked up in a table and imported only when they run.

`holdfast --help` needs each command's summary and nothing else, so the summary stands in the table beside the module.
Options that every command shares are added here, to the group and to each command, so that
`holdfast --json list` and `holdfast list --json` are the same.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import click

from holdfast.cli._completing import complete_branch, complete_session
from holdfast.cli._errors import run_guarded
from holdfast.cli._settings import peek, shared_options
from holdfast.record import Record
from holdfast.settings.near import close_names

PROGRAM = "holdfast"
_COMPLETERS = {"session": complete_session, "branch": complete_branch}

_RANGE = r"  \[[0-9<=]*x[0-9<>=]*\]$"

COMPLETE = "_HOLDFAST_COMPLETE"
"""Set by a completion script: the program is asked what could be typed next."""


class Entry(Record):
    """One line of the command table."""

    module: str
    section: str
    summary: str


class HoldfastCommand(click.Command):
    """A command that also takes the shared options, and shows them apart from its own."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.shared = shared_options(_COMPLETERS)
        self.params.extend(self.shared)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; an error knows which command it is about."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            # click leaves it out where an option has no value: the hint would lead to the help of the program.
            error.ctx = error.ctx or ctx
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, then the shared ones."""
        _write_options(ctx, formatter, "Options", [p for p in self.get_params(ctx) if p not in self.shared])
        _write_options(ctx, formatter, "Options of every command", self.shared)


class LazyGroup(click.Group):
    """Commands by name from a table; errors become exit codes; typos get a suggestion."""

    def __init__(self, *args: Any, table: Mapping[str, Entry], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.table = table
        self.params.extend(shared_options(_COMPLETERS))

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the table."""
        del ctx
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        del ctx
        entry = self.table.get(cmd_name)
        if entry is None:
            return None
        # Not importlib: only imports through the interpreter show up in `-X importtime`, which the start is judged by.
        command: click.Command = __import__(entry.module, fromlist=["command"]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one was meant; it is never run in its place."""
        name = args[0]
        if name not in self.table and not name.startswith("-") and not ctx.resilient_parsing:
            from holdfast.cli._usage import habit

            error = click.UsageError(f"there is no command {name!r}", ctx)
            meant, hint = habit(name)
            # Both are read by _errors.
            error.candidates = meant or ([] if hint else close_names(name, self.table))  # type: ignore[attr-defined]
            error.hint = hint  # type: ignore[attr-defined]
            raise error
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table, section by section, without importing a command."""
        del ctx
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self.table.items():
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
        settings = peek(argv)

        def action() -> int | None:
            try:
                with self.make_context(PROGRAM, argv, obj=settings, **extra) as ctx:
                    result: int | None = self.invoke(ctx)
                    return result
            except click.exceptions.Exit as end:
                return end.exit_code

        sys.exit(run_guarded(settings, action))


def _answer_shell(group: LazyGroup, instruction: str) -> NoReturn:
    from click.shell_completion import shell_complete

    # Imported for bash, whose way of asking it changes.
    __import__("holdfast.cli.completion")
    try:
        code = shell_complete(group, {}, PROGRAM, COMPLETE, instruction)
    except Exception:  # noqa: BLE001 - whatever half a command line leads to, nothing may appear in the middle of it
        code = 1
    sys.exit(code)


def _write_options(
    ctx: click.Context, formatter: click.HelpFormatter, title: str, params: Sequence[click.Parameter]
) -> None:
    if rows := [record for param in params if (record := param.get_help_record(ctx)) is not None]:
        with formatter.section(title):
            # click adds the range of a number as a formula; what it takes is said in words, where it is not obvious.
            formatter.write_dl([(names, re.sub(_RANGE, "", about)) for names, about in rows])
