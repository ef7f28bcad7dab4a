"""Write the sections about commands of docs/reference/cli.md from their help; --check says whether they are current.

python tools/cli_doc.py [--check]

What is before the first command and after the last one is written by hand.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import click

from holdfast.cli.app import COMMANDS, RANGE, cli

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"
_FIRST, _LAST = "<!-- Commands: written by tools/cli_doc.py -->\n", "<!-- End of the commands -->\n"


def commands() -> str:
    """The sections of all commands."""
    return "\n".join(_section(name) for name, entry in COMMANDS.items() if entry.home)


def _section(name: str) -> str:
    ctx = click.Context(cli, info_name="holdfast")
    group: click.Command = cli
    for word in name.split():
        assert isinstance(group, click.Group)
        found = group.get_command(ctx, word)
        assert found is not None
        group = found
    help_text = inspect.cleandoc(group.help or "")
    prose, _, examples = help_text.replace("\b\n", "").partition("Examples:\n")
    lines = [f"## holdfast {name}", "", re.sub(r"\n{3,}", "\n\n", prose.strip())]
    own = [param for param in group.params if param not in getattr(group, "shared", ())]
    if own:
        lines += [
            "",
            "| | |",
            "|---|---|",
            *(_row(param, click.Context(group, info_name=name)) for param in own),
        ]
    schema = f"{name.replace(' ', '-')}.schema.json"
    if (PAGE.parent.parent / "spec" / "json" / schema).exists():
        lines += ["", f"With `--json`: [{schema}](../spec/json/{schema})."]
    commands = [line.strip() for line in examples.splitlines() if line.strip()]
    if commands:
        lines += ["", "```text", *(f"$ {line}" for line in commands), "```"]
    return "\n".join(lines) + "\n"


def _row(param: click.Parameter, ctx: click.Context) -> str:
    if isinstance(param, click.Argument):
        return f"| `{param.make_metavar(ctx).strip('[]')}` | |"
    names, about = param.get_help_record(ctx) or ("", "")
    words = ", ".join(f"`{each}`" for each in names.split(", ")).replace("|", "\\|")
    about = re.sub(RANGE, "", about).replace("|", "\\|")
    return f"| {words} | {about} |"


def page() -> str:
    """The whole page."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(_FIRST)
    return f"{before}{_FIRST}\n{commands()}\n{_LAST}{rest.partition(_LAST)[2]}"


def main() -> int:
    """Write the page, or check it."""
    made = page()
    if "--check" not in sys.argv:
        PAGE.write_text(made, encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") == made:
        return 0
    print("docs/reference/cli.md is not up to date: make docs")
    return 1


if __name__ == "__main__":
    sys.exit(main())
