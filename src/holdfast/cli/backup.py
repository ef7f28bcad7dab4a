"""`holdfast backup`: a consistent copy of the store in a new file, made beside running writers."""

from __future__ import annotations

import os

import click

from holdfast.cli._group import HoldfastCommand
from holdfast.cli._opening import open_existing
from holdfast.cli._progress import progress
from holdfast.cli._render import data, document
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import escape_controls, escape_field, size_text
from holdfast.errors import ErrorCode, InvalidInputError

HELP = """Write a consistent copy of the whole store to a new file, beside running writers.

PATH is the new file; what is there already is never replaced. The copy is a store like any other: give it to --store.

\b
Examples:
  holdfast backup before-the-upgrade.db
  holdfast backup monday.db --dry-run
"""


@click.command("backup", cls=HoldfastCommand, short_help="Copy the store to a new file", help=HELP)
@click.argument("path")
@click.option("-n", "--dry-run", is_flag=True, help="Check everything, write nothing")
@pass_settings
def command(settings: Settings, path: str, *, dry_run: bool) -> None:
    """Write the copy and print its path."""
    if misplaced := settings.typed & {"session", "branch"}:
        raise click.UsageError(f"--{min(misplaced)} does not apply: a backup has everything in it")
    target = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111 - pathlib would resolve a link here
    _check(target)
    with open_existing(settings) as store:
        if store.url.startswith("postgresql://"):
            # Refused, with what to do instead; before a plan is told or a dry run says that all is well.
            store.backup(target)
        stats = store.stats()
        size = stats.file_bytes or stats.stored_bytes
        settings.say(escape_controls(f"{store.url}, about {size_text(size)}, to {target}"), label="plan: ")
        if not dry_run:
            growing = _Growing(os.path.dirname(target))  # noqa: PTH120 - no pathlib at start
            with progress(settings, "copying", size, unit="bytes", measure=growing.size):
                store.backup(target)
            size = os.stat(target).st_size  # noqa: PTH116 - no pathlib at start
        url = store.url
    if settings.json:
        document(
            {
                "store": url,
                "dry_run": dry_run,
                "path": target,
                "bytes": size,
                "checkpoints": stats.checkpoints,
            }
        )
    elif dry_run:
        settings.say("a dry run: nothing was written")
    else:
        data(escape_controls(target) if settings.for_people() else escape_field(target))


class _Growing:
    """The copy while it is written: a new file beside the target, under a name that nobody else gives."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._before = set(self._files())

    def size(self) -> int | None:
        """How many bytes of it there are; None where there is none yet, or it has its own name already."""
        found = [name for name in self._files() if name not in self._before]
        try:
            return max((os.stat(os.path.join(self._folder, name)).st_size for name in found), default=None)  # noqa: PTH116, PTH118
        except OSError:  # it got its name just now
            return None

    def _files(self) -> list[str]:
        try:
            names = os.listdir(self._folder)  # noqa: PTH208 - no pathlib at start
        except OSError:
            return []
        return [name for name in names if name.startswith(".holdfast-") and name.endswith(".tmp")]


def _check(target: str) -> None:
    """Refuse what the copy would refuse, before a dry run says that all is well; the copy checks again."""
    if os.path.lexists(target):
        raise InvalidInputError(
            f"{target} is there already; a copy never replaces anything",
            code=ErrorCode.PATH_EXISTS,
            hint="name a new file",
            path=target,
        )
    if not os.path.isdir(os.path.dirname(target)):  # noqa: PTH112, PTH120 - no pathlib at start
        raise InvalidInputError(
            f"there is no folder {os.path.dirname(target)} to write the copy into",  # noqa: PTH120
            code=ErrorCode.BAD_ARGUMENT,
            hint="make the folder first, or name another",
            path=target,
        )
