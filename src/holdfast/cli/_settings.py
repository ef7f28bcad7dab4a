"""What every command is told besides its own options: the store, the session, the branch, and how to speak.

The same options are accepted before and after the command. An option on the command line wins over its environment
variable, and the later one on the line wins over the earlier.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import IO, Any, cast

import click
from click.core import ParameterSource

from holdfast.cli._terminal import ColorChoice, is_terminal, paint, use_color

DEFAULT_SESSION = "default"


class Settings:
    """The options that every command shares, as they stand when the command runs.

    Attributes:
        typed: The ones that were on the command line.
    """

    # A plain class: making a dataclass takes as long as reading the rest of this module.
    def __init__(self, *, json: bool = False) -> None:
        self.store: str | None = None
        self.session = DEFAULT_SESSION
        self.branch: str | None = None
        self.json = json
        self.color: ColorChoice = "auto"
        self.typed: set[str] = set()

    def paints(self, stream: IO[str]) -> bool:
        """Whether text for people is coloured on `stream`."""
        return use_color(self.color, stream)

    def for_people(self) -> bool:
        """Whether a person looks at stdout, so that tables and short forms are right."""
        return not self.json and is_terminal(sys.stdout)

    def say(self, text: str, *, label: str = "", style: str = "dim") -> None:
        """Talk to the person: one line on stderr, never data. In JSON mode there is nobody to talk to."""
        if self.json:
            return
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


def shared_options() -> list[click.Option]:
    """New instances of the options that every command takes."""
    return [
        _option(
            "--store", metavar="URL", envvar="HOLDFAST_STORE", help="The store: a folder, a file or a URL"
        ),
        _option("--session", metavar="ID", envvar="HOLDFAST_SESSION", help="The session  [default: default]"),
        _option("--branch", metavar="NAME", help="The branch  [default: main]"),
        _option("--json", is_flag=True, help="Write one JSON document to stdout"),
        _option("--color", type=click.Choice(["auto", "always", "never"]), help="Colour  [default: auto]"),
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
    elif source is ParameterSource.ENVIRONMENT and name not in settings.typed:
        # Read once for the group and again for the command: it must not undo what was typed in between.
        setattr(settings, name, value)


def pass_settings(command: Callable[..., int | None]) -> Callable[..., int | None]:
    """Hand the shared settings to a command as its first argument."""
    return click.make_pass_decorator(Settings, ensure=True)(command)
