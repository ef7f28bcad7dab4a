"""`holdfast export`: checkpoints as files, or on stdout."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from holdfast.cli._completing import RefArgument
from holdfast.cli._figures import figures
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._opening import naming_candidates, open_existing, session_of
from holdfast.cli._render import document
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import escape_controls, size_text
from holdfast.errors import HoldfastWarning

if TYPE_CHECKING:
    from holdfast import ExportReport

HELP = """Write checkpoints with their states to files that people can read, keep in git, and give to each other.

The end of the name says how: .json is one checkpoint, one value a line; .json.gz the same, compressed; .jsonl one
checkpoint a line, appended; .html a page to look at. A folder gets a file for each checkpoint, named by its time and
the first digits of its id. Without --output it goes to stdout. holdfast import takes all but a page in again, with the
same ids.

\b
Examples:
  holdfast export -o newest.json
  holdfast export @~1 -o before.json
  holdfast export main~2..main -o checkpoints/ --format json
  holdfast export --whole -o session.jsonl
  holdfast export --whole -o session.html
"""


@click.command("export", cls=HoldfastCommand, short_help="Write checkpoints to files", help=HELP)
@click.argument("refs", nargs=-1, metavar="[REF...]", type=RefArgument())
@click.option("-o", "--output", metavar="PATH", help="The file, or a folder (ends with /)")
@click.option(
    "--format",
    type=click.Choice(["json", "json.gz", "jsonl", "jsonl.gz", "html"]),
    help="Where the name does not say it",
)
@click.option("--whole", is_flag=True, help="The whole session with its branches")
@click.option("--force", is_flag=True, help="Write over a file that is there")
@pass_settings
def command(
    settings: Settings,
    *,
    refs: tuple[str, ...],
    output: str | None,
    format: str | None,  # noqa: A002 - the name of the option
    whole: bool,
    force: bool,
) -> None:
    """Export, and say what was written."""
    if whole and refs:
        raise click.UsageError("--whole writes all of the session: leave the refs out")
    with open_existing(settings) as store, naming_candidates(store, settings):
        session = session_of(store, settings)
        target = sys.stdout.buffer if output in (None, "-") else output
        sys.stdout.flush()
        with _saying_warnings(settings):
            report = session.export(refs or "@", target, format=format, session=whole, force=force)
        sys.stdout.flush()
    if output not in (None, "-"):
        _write(settings, report)


@contextmanager
def _saying_warnings(settings: Settings) -> Iterator[None]:
    """What a program is warned of is a note to a person; with --json it stays a warning, on stderr."""
    if settings.json:
        yield
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", HoldfastWarning)
        yield
    for each in caught:
        settings.say(escape_controls(str(each.message)), label="note: ", style="yellow")


def _write(settings: Settings, report: ExportReport) -> None:
    if settings.json:
        document(report.to_dict())
        return
    lines = [("checkpoints", f"{report.checkpoints:,} written"), ("size", size_text(report.bytes))]
    lines += [("file", each) for each in report.files[:_SHOWN]]
    if len(report.files) > _SHOWN:
        lines.append(("", f"and {len(report.files) - _SHOWN:,} more"))
    figures(settings, report.to_dict(), lines)


_SHOWN = 10
"""Files that a person is told of."""
