"""`holdfast completion`: the script that teaches a shell to complete commands, options, and names from the store.

Bash gets a script of our own: it takes a word apart at `:`, `=` and `@`, so that `tag:ver` would arrive here as three
words; this one sends the whole line, and gets back only what is still to be typed. zsh and fish get click's scripts,
with two things mended. They replace the whole word, so that `--session=sc` has to be answered with `--session=` before
the name; and fish would cut an answer at its first comma, and take `-n` for an option of its own.
"""

from __future__ import annotations

import os

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

from holdfast.cli.app import COMPLETE, PROGRAM, cli
from holdfast.cli.app import command as make_command
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import document

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


class _WholeWord(ShellComplete):
    """A shell that puts the answer in the place of the whole word."""

    option = ""
    """What stands before the value in the word that is being typed: `--session=`."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """See `ShellComplete.get_completion_args`."""
        words, typing = super().get_completion_args()
        if typing.startswith("-") and "=" in typing:
            self.option = typing[: typing.index("=") + 1]
        return words, typing

    def format_completion(self, item: CompletionItem) -> str:
        """See `ShellComplete.format_completion`."""
        item.value = self.option + item.value
        return super().format_completion(item)


class ZshWord(_WholeWord, ZshComplete):
    """zsh, with whole words."""


class FishWord(_WholeWord, FishComplete):
    """fish, with whole words and whole answers."""

    source_template = FishComplete.source_template.replace(
        'string split "," $completion', 'string split -m1 "," $completion'
    ).replace("echo $metadata[2]", r'printf "%%s\n" $metadata[2]')


for _shell in (BashLine, ZshWord, FishWord):
    add_completion_class(_shell)


def script(shell: str) -> str:
    """The completion script for a shell."""
    found = get_completion_class(shell)
    assert found is not None, shell
    return found(cli, {}, PROGRAM, COMPLETE).source()


@make_command("completion", HELP, settings=False)
@click.argument("shell", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
def command(cmd: Invocation, *, shell: str) -> None:
    """Print the script."""
    if cmd.json:
        document({"shell": shell, "script": script(shell)})
    else:
        click.echo(script(shell).rstrip("\n"))
