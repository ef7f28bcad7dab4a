"""Commands that move checkpoints between stores and files: backup, copy, export, import, import-langgraph."""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.app import command
from holdfast.cli.completion import RefArgument
from holdfast.cli.invocation import DRY_RUN, Invocation
from holdfast.cli.output import counted, line, record
from holdfast.cli.progress import progress
from holdfast.cli.terminal import escape_controls, size_text
from holdfast.errors import ErrorCode, HoldfastWarning, InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from holdfast import Store
    from holdfast.reports import CopyReport, ImportReport, SessionImport

_LARGE = 10_000_000
"""Bytes of an export, from which on other ways to take checkpoints elsewhere are named."""
_SHOWN = 5
"""Names in a sentence, and lines of advice: more nobody reads there."""


@command(
    "backup",
    """Write a consistent copy of the whole store to a new file, beside running writers.

    PATH is the new file; what is there already is never replaced. The copy is a store like any other: give it to
    --store.

    \b
    Examples:
      holdfast backup before-the-upgrade.db
      holdfast backup monday.db --dry-run
    """,
)
@click.argument("path")
@click.option("-n", "--dry-run", is_flag=True, help="Check everything, write nothing")
def backup(cmd: Invocation, *, path: str, dry_run: bool) -> None:
    """Write the copy and print its path."""
    from holdfast.reports import BackupReport

    target = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111 - pathlib would resolve a link here
    _check_target(target)
    with cmd.open() as store:
        if store.url.startswith("postgresql://"):
            # Refused, with what to do instead; before a plan is told or a dry run says that all is well.
            store.backup(target)
        stats = store.stats()
        size = stats.file_bytes or stats.stored_bytes
        cmd.say_plan(f"copy {store.url}, about {size_text(size)}, to {target}")
        if not dry_run:
            store.backup(target)
            size = os.stat(target).st_size  # noqa: PTH116 - no pathlib at start
        report = BackupReport(store.url, dry_run, target, size, stats.checkpoints)
    if dry_run:
        cmd.say("dry run: nothing was written")
    if not dry_run or cmd.json:
        line(cmd, report, target)


def _check_target(target: str) -> None:
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


@command(
    "copy",
    """Copy sessions from one store to another, whatever keeps the two: a file, a server.

    SOURCE and TARGET are folders, files or URLs, as for --store. TARGET is made if it is not there. What it has already
    is not sent again, so the same command brings it up to date, and goes on where it was interrupted. What is gone for
    good at the source goes at the target. A session of TARGET that was written to by others is refused, before anything
    is written.

    \b
    Examples:
      holdfast copy .holdfast standby.db
      holdfast copy .holdfast standby.db --session default --dry-run
    """,
)
@click.argument("source")
@click.argument("target")
@click.option(
    "--session", "sessions", multiple=True, metavar="ID", help="Only this session; may be given again"
)
@DRY_RUN
def copy(cmd: Invocation, *, source: str, target: str, sessions: tuple[str, ...], dry_run: bool) -> None:
    """Copy, and say what came of it."""
    import holdfast

    if "session" in cmd.typed:
        # Typed before the command.
        sessions = (cmd.session, *sessions)
    cmd.store = source
    with cmd.open(missing="name the store to copy as SOURCE") as store:
        for each in sessions:
            cmd.check_session(store, each)
        total = store.stats().checkpoints or None
        with progress(cmd, "comparing" if dry_run else "copying", total, unit="checkpoints") as update:

            def told(what: str, done: int) -> None:
                if what == "copying checkpoints":
                    update(done)

            wanted = list(sessions) or None
            if dry_run:
                report = store.copy_to(target, sessions=wanted, dry_run=True, progress=told)
            else:
                with holdfast.open(target, durability=cmd.durability, compress=cmd.compress) as other:
                    report = store.copy_to(other, sessions=wanted, progress=told)
    cmd.say_plan(f"{report.source} to {report.target}", dry_run=dry_run)
    _write_copy(cmd, report)


def _by_status(items: Any, statuses: tuple[str, ...]) -> dict[str, int]:
    return {name: sum(each.status == name for each in items) for name in statuses}


def _said(by_status: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {status}" for status, count in by_status.items() if count) or "none"


def _write_copy(cmd: Invocation, report: CopyReport) -> None:
    by_status = _by_status(report.sessions, ("new", "updated", "unchanged", "ahead"))
    would, size = "would be " if report.dry_run else "", size_text(report.bytes)
    lines = [("sessions", _said(by_status)), ("checkpoints", f"{report.checkpoints:,} {would}copied")]
    if report.changed:
        lines.append(("changed", f"{counted(report.changed, 'checkpoint')} {would}brought up to date"))
    lines.append(
        ("size", f"about {size}") if report.dry_run else ("chunks", f"{report.chunks:,} sent, {size}")
    )
    if report.removed:
        lines.append(("removed", f"{report.removed:,} {would}removed, gone for good at the source"))
    fields: dict[str, Any] = {
        "sessions": len(report.sessions),
        **by_status,
        "checkpoints": report.checkpoints,
        "changed": report.changed,
        "removed": report.removed,
        # Which of them the target has already is only known once they are sent.
        **({} if report.dry_run else {"chunks": report.chunks}),
        "bytes": report.bytes,
    }
    record(cmd, report, lines, fields)
    if ahead := [each.id for each in report.sessions if each.status == "ahead"]:
        cmd.say(f"the target is ahead of the source, and was left alone: {', '.join(ahead[:_SHOWN])}")


@command(
    "export",
    """Write checkpoints with their states to files that people can read, keep in git, and give to each other.

    The end of the name says how: .json is one checkpoint, one value a line; .json.gz the same, compressed; .jsonl one
    checkpoint a line, appended; .html a page to look at. A folder gets a file for each checkpoint, named by its time
    and the first digits of its id. Without --output it goes to stdout. holdfast import takes all but a page in again,
    with the same ids.

    Every file has whole states, so that many checkpoints take far more room than in the store. For a safety copy use
    holdfast backup, for another store holdfast copy: both take what the store takes.

    \b
    Examples:
      holdfast export -o newest.json
      holdfast export @~1 -o before.json
      holdfast export main~2..main -o checkpoints/ --as json
      holdfast export --whole -o session.jsonl
      holdfast export --whole -o session.html
    """,
)
@click.argument("refs", nargs=-1, metavar="[REF...]", type=RefArgument())
@click.option("-o", "--output", metavar="PATH", help="The file, or a folder (ends with /)")
@click.option(
    "--as",
    "file_format",
    type=click.Choice(["json", "json.gz", "jsonl", "jsonl.gz", "html"]),
    help="The format of the files, where the name does not say it",
)
@click.option("--whole", is_flag=True, help="The whole session with its branches")
@click.option("--force", is_flag=True, help="Write over a file that is there")
@click.option("-n", "--dry-run", is_flag=True, help="Say how large it would be, write nothing")
def export(
    cmd: Invocation,
    *,
    refs: tuple[str, ...],
    output: str | None,
    file_format: str | None,
    whole: bool,
    force: bool,
    dry_run: bool,
) -> None:
    """Export, and say what was written."""
    if whole and refs:
        raise click.UsageError("--whole writes all of the session: leave the refs out")
    with cmd.open_session() as (store, session):
        target = sys.stdout.buffer if output in (None, "-") else output
        chosen: Any = (refs or "@", target)
        planned = session.export(*chosen, format=file_format, session=whole, force=force, dry_run=True)
        if planned.bytes >= _LARGE:
            stats = store.stats()
            cmd.say_plan(
                f"write {counted(planned.checkpoints, 'checkpoint')}, about {size_text(planned.bytes)}; "
                f"holdfast backup and holdfast copy take all of the store with {size_text(stats.stored_bytes)}"
            )
        if not dry_run:
            sys.stdout.flush()
            with _saying_warnings(cmd):
                planned = session.export(*chosen, format=file_format, session=whole, force=force)
            sys.stdout.flush()
    if output in (None, "-") and not dry_run:
        return
    report, would = planned, "would be " if dry_run else ""
    lines = [("checkpoints", f"{report.checkpoints:,} {would}written")]
    lines += [("size", f"{'about ' if dry_run else ''}{size_text(report.bytes)}")]
    lines += [("file", each) for each in report.files[: 2 * _SHOWN]]
    if len(report.files) > 2 * _SHOWN:
        lines.append(("", f"and {len(report.files) - 2 * _SHOWN:,} more"))
    record(cmd, report, lines)


@contextmanager
def _saying_warnings(cmd: Invocation) -> Iterator[None]:
    """What a program is warned of is a note to a person; with --json it stays a warning, on stderr."""
    if cmd.json:
        yield
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", HoldfastWarning)
        yield
    for each in caught:
        cmd.say(escape_controls(str(each.message)), label="note: ", style="yellow")


@contextmanager
def _target(cmd: Invocation, look_at: Callable[[], object], *, dry_run: bool) -> Iterator[tuple[Store, str]]:
    """The store to import into, and its URL. A dry run makes none: an empty one in memory takes its place.

    `look_at` raises where the source cannot be imported; it is called before a store is made.
    """
    import holdfast

    if not dry_run:
        with cmd.open_or_make(first=look_at) as store:
            yield store, store.url
        return
    try:
        opened = holdfast.open(cmd.store, create=False)
    except NotFoundError as error:
        if error.code is not ErrorCode.STORE_MISSING:
            raise
        place = error.details.get("url") or f"sqlite:///{error.details.get('path', '')}"
        with holdfast.open("memory:") as store:
            yield store, str(place)
    else:
        with opened as store:
            yield store, store.url


@command(
    "import",
    """Take in checkpoints from a file or a folder that holdfast export wrote, or from stdin (-).

    Everything is verified before anything is written: a file that was changed is refused, and then nothing is imported.
    Checkpoints come with the ids, keys, tags and lineage they had. What is there already is left alone, so the same
    command can be run again, and the files of one import may come in any order; folders in a folder are not searched.

    No branch that is there moves: a head that is new gets its own branch, main-1 if main is taken. With --advance,
    branches that the import extends are fast-forwarded. The last lines say how to take the import back. The store is
    made if it is not there.

    Files of another program ({"version": "0.0.1", "id": ..., "snapshot": ...}) are taken in with their id as the key,
    into the session that --session names.

    \b
    Examples:
      holdfast import checkpoints/
      holdfast import session.jsonl --dry-run
      holdfast import session.jsonl --advance
      holdfast import ckpt_abc123.json --session research-42
      ssh other holdfast export | holdfast import -
    """,
)
@click.argument("path")
@click.option("--advance", is_flag=True, help="Fast-forward branches that the import extends")
@DRY_RUN
def import_(cmd: Invocation, *, path: str, advance: bool, dry_run: bool) -> None:
    """Import, and say what came of it."""
    import shutil
    import tempfile

    import holdfast

    wanted = cmd.session if "session" in cmd.typed else None
    # Kept in a file: what cannot be imported must not leave a new, empty store behind, so it is read twice.
    piped = tempfile.SpooledTemporaryFile(max_size=1 << 26) if path == "-" else None  # noqa: SIM115 - open as long as the command runs
    if piped is not None:
        shutil.copyfileobj(sys.stdin.buffer, piped)

    def source() -> Any:
        if piped is not None:
            piped.seek(0)
        return piped or path

    def look_at() -> None:
        with holdfast.open("memory:") as trial:
            trial.import_(source(), session=wanted, dry_run=True)

    with (
        _target(cmd, look_at, dry_run=dry_run) as (store, shown),
        progress(cmd, "reading", unit="checkpoints") as update,
    ):
        report = store.import_(
            source(),
            session=wanted,
            advance=advance,
            dry_run=dry_run,
            progress=lambda _what, done: update(done),
        )
    report = report.replace(target=shown, source="stdin" if piped else report.source)
    cmd.say_plan(f"{report.source} to {report.target}", dry_run=dry_run)
    _write_import(cmd, report, advance=advance)
    if not dry_run:
        lines = [line for each in report.sessions for line in _way_back(each)]
        for line in lines[:_SHOWN]:
            cmd.say(line, label="Undo: ")
        if len(lines) > _SHOWN:
            cmd.say(f"and {len(lines) - _SHOWN:,} more like these", label="Undo: ")


def _write_import(cmd: Invocation, report: ImportReport, *, advance: bool) -> None:
    would = "would be " if report.dry_run else ""
    by_status = _by_status(report.sessions, ("new", "updated", "unchanged"))
    branches = [f"{each.id}:{name}" for each in report.sessions for name in each.branches]
    removed = sum(each.removed for each in report.sessions)
    cut_off = sum(each.cut_off for each in report.sessions)
    lines = [
        ("sessions", _said(by_status)),
        ("checkpoints", f"{report.checkpoints:,} {would}imported, {report.unchanged:,} there already"),
        ("branches", ", ".join(branches) or "none is new"),
    ]
    fields: dict[str, Any] = {
        "sessions": len(report.sessions),
        **by_status,
        "checkpoints": report.checkpoints,
        "unchanged_checkpoints": report.unchanged,
        "removed": removed,
        "cut_off": cut_off,
        "branches": branches,
        "advanced": [f"{each.id}:{move.branch}" for each in report.sessions for move in each.advanced],
    }
    record(cmd, report, lines, fields)
    if removed:
        cmd.say(f"{counted(removed, 'checkpoint')} of them stay removed here; holdfast undo brings them back")
    if cut_off:
        cmd.say(
            f"history begins at {counted(cut_off, 'checkpoint')} whose parent is not among the files; "
            "import it together with these into another store to join them"
        )
    for each in report.sessions:
        for move in each.advanced:
            moved = "would move" if report.dry_run else "moved"
            cmd.say(
                f"branch {each.id}:{move.branch} {moved} forward from {move.before[:12]} to {move.after[:12]}"
            )
        if each.could_advance:
            names = ", ".join(f"{each.id}:{name}" for name in each.could_advance)
            cmd.say(f"the import extends {names}; --advance moves it there")
        if advance and each.branches and not each.advanced and each.status == "updated":
            cmd.say(f"no branch of {each.id} moved: the import extends none, and is on {each.branches[0]}")


def _way_back(told: SessionImport) -> Iterator[str]:
    """The commands that take back what an import did with a session."""
    session = f"--session {shlex.quote(escape_controls(told.id))}"
    if told.status == "new":
        yield f"holdfast forget {session}"
        return
    if told.advanced:
        yield f"holdfast undo {session}"
    for name in told.branches:
        yield f"holdfast branch {session} --delete {shlex.quote(escape_controls(name))} --force"
    if told.checkpoints and not told.advanced and not told.branches:
        yield f"holdfast forget {session} REF, for each: no branch leads to what came in"


@command(
    "import-langgraph",
    """Take over the threads of a database that LangGraph's own savers wrote.

    SOURCE is the file of a SqliteSaver, or the postgresql:// URL of a PostgresSaver's database. It is only read, also
    while a graph writes to it. Each thread becomes a session, with its checkpoints, ids, namespaces, metadata and
    pending writes; a graph with HoldfastSaver goes on from there. What the store has already is passed over, so the
    same command goes on where it was interrupted. The store is made if it is not there.

    A thread that cannot be taken over ends the import; with --keep-going the others are imported, and the exit code is
    1. A dry run looks at all of them, and names every problem.

    \b
    Examples:
      holdfast import-langgraph checkpoints.sqlite
      holdfast import-langgraph checkpoints.sqlite --dry-run
      holdfast import-langgraph checkpoints.sqlite --thread 42 --thread 41=forty-one
      holdfast import-langgraph checkpoints.sqlite --keep-going
      holdfast import-langgraph checkpoints.sqlite --store agents.db
    """,
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
@DRY_RUN
def import_langgraph(
    cmd: Invocation, *, source: str, threads: tuple[str, ...], keep_going: bool, dry_run: bool
) -> int:
    """Import, and say what came of it."""
    # The first of all: where LangGraph is not installed, no store is made either.
    from holdfast.integrations.langgraph import import_saver

    chosen = import_saver.chosen_threads(source, threads) if threads else None
    with (
        _target(cmd, lambda: import_saver.chosen_threads(source), dry_run=dry_run) as (store, shown),
        progress(cmd, "reading" if dry_run else "importing", unit="checkpoints") as update,
    ):
        report = import_saver.import_langgraph(
            source,
            store,
            threads=chosen,
            # A dry run is there to find everything that stands in the way.
            keep_going=keep_going or dry_run,
            progress=lambda _what, done: update(done),
            dry_run=dry_run,
        )
    report = report._replace(target=shown)
    cmd.say_plan(f"{report.source} to {report.target}", dry_run=dry_run)
    would = "would be " if dry_run else ""
    by_status = _by_status(report.threads, ("new", "updated", "unchanged", "ahead"))
    lines = [
        ("threads", _said(by_status)),
        ("checkpoints", f"{report.checkpoints:,} {would}imported"),
        ("writes", f"{report.writes:,} {would}imported"),
    ]
    fields: dict[str, Any] = {
        "threads": len(report.threads),
        **by_status,
        "checkpoints": report.checkpoints,
        "writes": report.writes,
        "opaque": sum(report.opaque.values()),
        "bare": sum(report.bare.values()),
        **({"failed": len(report.failed)} if report.failed else {}),
    }
    record(cmd, report.to_dict(), lines, fields)
    if ahead := [each.id for each in report.threads if each.status == "ahead"]:
        cmd.say(
            escape_controls(f"went on in the store since, and were left alone: {', '.join(ahead[:_SHOWN])}")
        )
    _say_classes(
        cmd, "kept as data until the class is allowed (HoldfastSaver(store, types=[...])):", report.opaque
    )
    _say_classes(cmd, "kept as bare data, because the class did not take it:", report.bare)
    for each in report.failed:
        problem = each.problem or {}
        cmd.say(
            escape_controls(f"{each.id!r}: {problem.get('message')}"), label="not imported: ", style="red"
        )
        cmd.say(
            escape_controls(f"{problem.get('hint')} ({problem.get('code')})"), label="hint: ", style="cyan"
        )
    return 1 if report.failed else 0


def _say_classes(cmd: Invocation, what: str, classes: Mapping[str, int]) -> None:
    if classes:
        most = sorted(classes.items(), key=lambda each: (-each[1], each[0]))
        named = ", ".join(f"{name} ({counted(count, 'object')})" for name, count in most[:_SHOWN])
        cmd.say(escape_controls(f"{what} {named}{' and others' if len(most) > _SHOWN else ''}"))
