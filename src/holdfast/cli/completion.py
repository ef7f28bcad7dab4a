"""`holdfast completion`: the script that teaches a shell to complete commands, options, and names from the store.

The scripts for zsh and fish are click's. Bash gets one of our own: it takes a word apart at `:`, `=` and `@`, so that
`tag:ver` would arrive here as three words; this one sends the whole line, and gets back only what is still to be typed.
"""

from __future__ import annotations

import os

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    ShellComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

from holdfast.cli._group import COMPLETE, PROGRAM, HoldfastCommand
from holdfast.cli._render import document
from holdfast.cli._settings import Settings, pass_settings

HELP = """Print a script that teaches your shell to complete commands, options, and names from the store.

\b
  bash   eval "$(holdfast completion bash)"            in ~/.bashrc
  zsh    eval "$(holdfast completion zsh)"             in ~/.zshrc, after compinit
  fish   holdfast completion fish | source             in ~/.config/fish/config.fish

\b
Examples:
  holdfast completion bash
"""

_BASH = """\
%(complete_func)s() {
    local kind value
    COMPREPLY=()
    while IFS=, read -r kind value; do
        case $kind in
            plain) COMPREPLY+=("$value") ;;
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
        esac
    done < <(env COMP_LINE="$COMP_LINE" COMP_POINT="$COMP_POINT" COMP_WORDBREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1" 2>/dev/null)
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class BashLine(BashComplete):
    """Bash, asked with its line instead of its words."""

    source_template = _BASH

    def source(self) -> str:
        """The script. Unlike click's, it does not run bash only to look at its version."""
        return ShellComplete.source(self)

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is being typed, and that one."""
        line = os.environ.get("COMP_LINE")
        if line is None:  # a script that an older version printed
            return super().get_completion_args()
        line = line[: int(os.environ["COMP_POINT"])]
        words = split_arg_string(line)
        typing = words.pop() if words and not line[-1:].isspace() else ""
        value = typing.partition("=")[2] if typing.startswith("-") else typing
        breaks = os.environ.get("COMP_WORDBREAKS", "")
        # Bash replaces only what follows the last of its break characters.
        self.kept = 1 + max((at for at, char in enumerate(value) if char in breaks), default=-1)
        return words[1:], typing

    def format_completion(self, item: CompletionItem) -> str:
        """One line of the answer."""
        return f"{item.type},{item.value[getattr(self, 'kept', 0) :]}"


add_completion_class(BashLine)


def script(shell: str) -> str:
    """The completion script for a shell."""
    found = get_completion_class(shell)
    assert found is not None, shell
    from holdfast.cli import cli

    return found(cli, {}, PROGRAM, COMPLETE).source()


@click.command(
    "completion", cls=HoldfastCommand, short_help="Print a completion script for your shell", help=HELP
)
@click.argument("shell", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
@pass_settings
def command(settings: Settings, shell: str) -> None:
    """Print the script."""
    if settings.json:
        document({"shell": shell, "script": script(shell)})
    else:
        click.echo(script(shell).rstrip("\n"))
