"""docs/reference/cli.md says everything that the program can do."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from tests.surfaces.cli.json_schema import FOLDER

from holdfast.cli.app import COMMANDS, cli
from holdfast.cli.errors import EXIT_CODES
from holdfast.cli.output import CHECKPOINT

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    _, _, rest = PAGE.partition(f"\n## {title}\n")
    return rest.partition("\n## ")[0]


@pytest.mark.parametrize("name", [name for name, entry in COMMANDS.items() if entry.home])
def test_every_command_and_every_option_is_described(name):
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    text = section(f"holdfast {name}")

    # A group has the shared options alone.
    shared = command.params if isinstance(command, click.Group) else getattr(command, "shared", [])
    own = [param for param in command.params if param not in shared]
    for param in own:
        for word in (
            param.opts if isinstance(param, click.Option) else [param.make_metavar(click.Context(command))]
        ):
            assert f"`{word.strip('[]')}" in text, word


def test_the_shared_options_and_their_environment_are_described():
    text = section("Options of every command")

    for param in cli.params:
        assert f"`{param.opts[0]}" in text
        assert param.envvar is None or f"`{param.envvar}`" in text


def test_every_exit_code_is_described():
    text = section("Exit codes")

    for code, meaning in EXIT_CODES.items():
        assert f"| {code} | {meaning}" in text


def test_the_columns_of_a_pipe_and_the_schemas_are_listed():
    assert ", ".join(f"`{name}`" for name in [column.name for column in CHECKPOINT if column.pipe]) in PAGE
    for schema in FOLDER.iterdir():
        assert schema.name in PAGE
