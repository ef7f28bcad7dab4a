"""What every command is told besides its own options: the store, the session, the branch, and how to speak.

The same options are accepted before and after the command. An option on the command line wins over its environment
variable, and the later one on the line wins over the earlier.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import update_wrapper
from typing import IO, Any, Literal, cast

import click
from click.core import ParameterSource

from holdfast.cli._terminal import ColorChoice, TimeChoice, is_terminal, paint, show_time, use_color

DEFAULT_SESSION = "default"

_OPTIONS = frozenset(
    f"HOLDFAST_{name}"
    for name in ("STORE", "SESSION", "CONFIG", "TIME", "COLOR", "PAGER", "DEBUG", "REQUIRE")
)
"""Variables that are read as options are, or by others, without looking at all settings."""


class Settings:
    """The options that every command shares, as they stand when the command runs.

    Attributes:
        typed: The ones that were on the command line.
        origins: Where each one came from that was on the command line or in a variable.
        keep: The fields of the `Keep` for automatic retention.
        compress: Whether what is stored is compressed.
    """

    # A plain class: making a dataclass takes as long as reading the rest of this module.
    def __init__(self, *, json: bool = False) -> None:
        self.store: str | None = None
        self.session = DEFAULT_SESSION
        self.branch: str | None = None
        self.config: str | None = None
        self.json = json
        self.color: ColorChoice = "auto"
        self.no_progress = False
        self.no_pager = False
        self.time: TimeChoice = "relative"
        self.pager = os.environ.get("HOLDFAST_PAGER")
        self.durability: Literal["power", "process"] = "power"
        self.keep: dict[str, Any] = {}
        self.compress = True
        self.typed: set[str] = set()
        self.origins: dict[str, str] = {}

    def complete(self) -> None:
        """Fill in from settings files, and from variables that are no option, what nobody has said yet.

        Raises:
            InvalidInputError: A file or a variable cannot be used (`bad-config`).
            UnsupportedError: A YAML file was named, and nothing is installed that reads it.
        """
        from holdfast.settings.files import config_files

        files = [file for file in config_files(self.store, self.config) if file.counts]
        if not files and not any(
            name.startswith("HOLDFAST_") and name not in _OPTIONS for name in os.environ
        ):
            return
        from holdfast.settings.resolving import resolve

        for key, found in resolve({}, files).items():
            group, _, field = key.rpartition(".")
            if group == "keep":
                if found.value is not None:
                    self.keep[field] = found.value
            elif key == "checkpoint.compress":
                self.compress = found.value
            # The rest of the groups is for agents that run, and no command of this kind is one.
            elif not group and found.origin != "default" and key not in self.origins:
                setattr(self, key, found.value)

    def when(self, moment: datetime) -> str:
        """A time in a table, as the person likes it."""
        return show_time(moment, self.time)

    def paints(self, stream: IO[str]) -> bool:
        """Whether text for people is coloured on `stream`."""
        return use_color(self.color, stream)

    def for_people(self) -> bool:
        """Whether a person looks at stdout, so that tables and short forms are right."""
        return not self.json and is_terminal(sys.stdout)

    def pasteable(self, text: str) -> str:
        """`text` with each command in it made for the store, session and branch that were typed."""
        typed: dict[str, str] = {
            name: getattr(self, name) for name in ("store", "session", "branch") if name in self.typed
        }
        if not typed:
            return text
        from holdfast.cli._pasting import pasteable

        return pasteable(text, typed)

    def say(self, text: str, *, label: str = "", style: str = "dim") -> None:
        """Talk to the person: one line on stderr, never data. In JSON mode there is nobody to talk to."""
        if self.json:
            return
        if label != "plan: ":  # a plan speaks of names that people chose, and of no command
            text = self.pasteable(text)
        on = self.paints(sys.stderr)
        click.echo(paint(label, style, on=on) + text, file=sys.stderr, color=on)


def peek(argv: Sequence[str]) -> Settings:
    """How to speak if the arguments turn out to be wrong: what can be known before they are parsed."""
    words = list(argv[: argv.index("--")] if "--" in argv else argv)
    settings = Settings(json="--json" in words)
    for here, after in zip(words, [*words[1:], ""], strict=False):
        choice = after if here == "--color" else here.removeprefix("--color=")
        if choice in ("always", "never") and here.startswith("--color"):
            settings.color = cast("ColorChoice", choice)
    return settings


def shared_options(completers: Mapping[str, Callable[..., list[Any]]]) -> list[click.Option]:
    """New instances of the options that every command takes; `completers` know what a shell can offer for them."""
    return [
        _option(
            "--store", metavar="URL", envvar="HOLDFAST_STORE", help="The store: a folder, a file or a URL"
        ),
        _option(
            "--session",
            metavar="ID",
            envvar="HOLDFAST_SESSION",
            shell_complete=completers.get("session"),
            help="The session  [default: default]",
        ),
        _option(
            "--branch",
            metavar="NAME",
            shell_complete=completers.get("branch"),
            help="The branch  [default: the one in use]",
        ),
        _option(
            "--config",
            metavar="FILE",
            envvar="HOLDFAST_CONFIG",
            help="A settings file to read before all others",
        ),
        _option("--json", is_flag=True, help="Write one JSON document to stdout"),
        _option("--no-progress", is_flag=True, help="No progress on stderr"),
        _option("--no-pager", is_flag=True, help="No pager for long output"),
        _option(
            "--time",
            type=click.Choice(["relative", "iso", "local"]),
            envvar="HOLDFAST_TIME",
            help="Times in tables  [default: relative]",
        ),
        _option(
            "--color",
            envvar="HOLDFAST_COLOR",
            type=click.Choice(["auto", "always", "never"]),
            help="Colour  [default: auto]",
        ),
    ]


def _option(name: str, **attributes: Any) -> click.Option:
    return click.Option(
        [name],
        expose_value=False,
        callback=_remember,
        show_envvar=True,
        default=None if not attributes.get("is_flag") else False,
        **attributes,
    )


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    settings = ctx.ensure_object(Settings)
    name = param.name
    source = ctx.get_parameter_source(name)
    if source is ParameterSource.COMMANDLINE:
        setattr(settings, name, value)
        settings.typed.add(name)
        settings.origins[name] = param.opts[0]
    elif source is ParameterSource.ENVIRONMENT and name not in settings.typed:
        # Read once for the group and again for the command: it must not undo what was typed in between.
        setattr(settings, name, value)
        settings.origins[name] = str(param.envvar)


def pass_settings(command: Callable[..., int | None]) -> Callable[..., int | None]:
    """Hand the shared settings to a command as its first argument, with what settings files say."""

    def completed(settings: Settings, *args: Any, **kwargs: Any) -> int | None:
        settings.complete()
        return command(settings, *args, **kwargs)

    return pass_settings_alone(update_wrapper(completed, command))


def pass_settings_alone(command: Callable[..., int | None]) -> Callable[..., int | None]:
    """The same for a command that has to run although a settings file is wrong: the one that mends it."""
    return click.make_pass_decorator(Settings, ensure=True)(command)
