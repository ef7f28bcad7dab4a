"""`holdfast import-langgraph`: threads that LangGraph's own savers wrote, taken over into a store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._figures import counted, figures
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._importing import target
from holdfast.cli._planning import dry_run_option, say_dry_run, say_plan
from holdfast.cli._progress import progress
from holdfast.cli._render import document
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import escape_controls

if TYPE_CHECKING:
    from holdfast.integrations.langgraph.importing import ImportReport, ThreadImport

_SHOWN = 5
"""Classes that are named."""

HELP = """Take over the threads of a database that LangGraph's own savers wrote.

SOURCE is the file of a SqliteSaver, or the postgresql:// URL of a PostgresSaver's database. It is only read, also while
a graph writes to it. Each thread becomes a session, with its checkpoints, ids, namespaces, metadata and pending writes;
a graph with HoldfastSaver goes on from there. What the store has already is passed over, so the same command goes on
where it was interrupted. The store is made if it is not there.

A thread that cannot be taken over ends the import; with --keep-going the others are imported, and the exit code is 1. A
dry run looks at all of them, and names every problem.

\b
Examples:
  holdfast import-langgraph checkpoints.sqlite
  holdfast import-langgraph checkpoints.sqlite --dry-run
  holdfast import-langgraph checkpoints.sqlite --thread 42 --thread 41=forty-one
  holdfast import-langgraph checkpoints.sqlite --keep-going
  holdfast import-langgraph checkpoints.sqlite --store agents.db
"""


class _ImportCommand(HoldfastCommand):
    """Takes no --session: threads say which sessions there will be."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        replaced = [param for param in self.shared if param.name == "session"]
        self.shared = [param for param in self.shared if param not in replaced]
        self.params = [param for param in self.params if param not in replaced]


@click.command(
    "import-langgraph", cls=_ImportCommand, short_help="Take over threads of LangGraph's savers", help=HELP
)
@click.argument("source")
@click.option(
    "--thread",
    "threads",
    multiple=True,
    metavar="ID[=NEW]",
    help="Only this thread, with another id if one is given; may be given again",
)
@click.option("--keep-going", is_flag=True, help="Import the other threads where one cannot be imported")
@dry_run_option
@pass_settings
def command(
    settings: Settings, source: str, *, threads: tuple[str, ...], keep_going: bool, dry_run: bool
) -> int:
    """Import, and say what came of it."""
    if misplaced := settings.typed & {"session", "branch"}:
        raise click.UsageError(f"--{min(misplaced)} does not apply: --thread chooses what is imported")
    # The first of all: where LangGraph is not installed, no store is made either.
    from holdfast.integrations.langgraph.importing import chosen_threads, import_langgraph

    chosen = chosen_threads(source, threads) if threads else None
    with (
        target(settings, lambda: _look_at(source), dry_run=dry_run) as (store, shown),
        progress(settings, "reading" if dry_run else "importing", unit="checkpoints") as update,
    ):

        def told(what: str, done: int) -> None:
            if what == "importing checkpoints":
                update(done)
            else:
                update(0, done)

        report = import_langgraph(
            source,
            store,
            threads=chosen,
            # A dry run is there to find everything that stands in the way.
            keep_going=keep_going or dry_run,
            progress=told,
            dry_run=dry_run,
        )
    _write(settings, report._replace(target=shown))
    return 1 if report.failed else 0


def _look_at(source: str) -> None:
    """What cannot be opened must not leave a new, empty store behind."""
    from holdfast.integrations.langgraph.importing import chosen_threads

    chosen_threads(source)


def _write(settings: Settings, report: ImportReport) -> None:
    if settings.json:
        document(report.to_dict())
        return
    say_plan(settings, f"{report.source} to {report.target}")
    by_status: dict[str, int] = {}
    for each in report.threads:
        by_status[each.status] = by_status.get(each.status, 0) + 1
    would = "would be " if report.dry_run else ""
    lines = [
        ("threads", ", ".join(f"{count:,} {status}" for status, count in by_status.items())),
        ("checkpoints", f"{report.checkpoints:,} {would}imported"),
        ("writes", f"{report.writes:,} {would}imported"),
    ]
    fields: dict[str, Any] = {
        "threads": len(report.threads),
        **{name: by_status.get(name, 0) for name in ("new", "updated", "unchanged", "ahead")},
        "checkpoints": report.checkpoints,
        "writes": report.writes,
        "opaque": sum(report.opaque.values()),
        "bare": sum(report.bare.values()),
    }
    if report.failed:
        fields["failed"] = len(report.failed)
    figures(settings, fields, lines)
    ahead = [each.id for each in report.threads if each.status == "ahead"]
    if ahead:
        settings.say(
            f"went on in the store since, and were left alone: {escape_controls(', '.join(ahead[:_SHOWN]))}"
        )
    _say_classes(
        settings,
        "kept as data until the class is allowed (HoldfastSaver(store, types=[...])):",
        report.opaque,
    )
    _say_classes(settings, "kept as bare data, because the class did not take it:", report.bare)
    for each in report.failed:
        _say_problem(settings, each)
    if report.dry_run:
        say_dry_run(settings)


def _say_problem(settings: Settings, failed: ThreadImport) -> None:
    """One thread that was not imported: all that an error would say."""
    problem = failed.problem or {}
    settings.say(
        escape_controls(f"{failed.id!r}: {problem.get('message')}"), label="not imported: ", style="red"
    )
    settings.say(
        escape_controls(f"{problem.get('hint')} ({problem.get('code')})"), label="hint: ", style="cyan"
    )


def _say_classes(settings: Settings, what: str, classes: Mapping[str, int]) -> None:
    if classes:
        most = sorted(classes.items(), key=lambda each: (-each[1], each[0]))
        named = ", ".join(f"{name} ({counted(count, 'object')})" for name, count in most[:_SHOWN])
        settings.say(escape_controls(f"{what} {named}{' and others' if len(most) > _SHOWN else ''}"))
