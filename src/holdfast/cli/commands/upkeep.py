"""Commands that keep a store in order: prune, gc, forget, verify, repair."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from holdfast.cli.app import command
from holdfast.cli.completion import RefArgument, complete_tag
from holdfast.cli.invocation import DRY_RUN, YES, Invocation
from holdfast.cli.output import Column, counted, data, json_text, record, rows
from holdfast.cli.progress import progress
from holdfast.cli.terminal import escape_controls, paint, size_text
from holdfast.errors import ErrorCode, IntegrityError, InvalidInputError

if TYPE_CHECKING:
    from holdfast import Keep, Store
    from holdfast.reports import DamagedCheckpoint, GcReport, Problem, PruneReport, RepairReport, VerifyReport

_MOST = 1_000_000_000


class _Periods(click.ParamType[Any]):
    """A number of periods, or all of them."""

    name = "n|all"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See `click.ParamType.convert`."""
        if value == "all" or isinstance(value, int):
            return value
        if not (value.isascii() and value.isdigit() and 1 <= int(value[:11]) <= _MOST):
            self.fail(f"must be an integer >= 1, or all (got {value!r:.60})", param, ctx)
        return int(value)


_NUMBER = click.IntRange(min=1, max=_MOST)
_PERIODS = _Periods()

_DECISIONS = (
    Column("id", "checkpoint.id", kind="id", style="yellow"),
    Column("seq", "checkpoint.seq", kind="seq"),
    Column("created_at", "checkpoint.created_at", kind="time", header="AGE", style="dim"),
    Column("session", "checkpoint.session", width=24, varied=True),
    Column(
        "plan",
        lambda row: "keep" if row.kept else "remove",
        style=lambda row: "green" if row.kept else "red",
    ),
    Column("reasons", lambda row: "; ".join(row.reasons), width=36),
    Column("message", "checkpoint.message", width=10_000),
)


@command(
    "prune",
    """Remove the checkpoints that a policy does not keep. --verbose says why each stays or goes.

    Without options: the last hour, what is manual or significant, and one an hour of the older. A checkpoint stays if
    any --keep- option wants it; --at-most and --max-age-days win over those. What is manual or significant stays as
    well, unless --only is given. The tips of branches, checkpoints where branches part or meet and pinned ones always
    stay. Undo brings back what was removed, until gc has removed it for good.

    \b
    Examples:
      holdfast prune --keep-last 100 --keep-days 7 --dry-run --verbose
      holdfast prune --keep-hourly 24 --keep-daily all --keep-tag verified --yes
      holdfast prune --at-most 100 --per branch --only --yes
    """,
)
@click.option("--keep-last", "last", type=_NUMBER, metavar="N", help="Keep the newest N")
@click.option("--keep-within", "within", metavar="SPAN", help="Keep all younger than 90s, 30m, 1h, 2d or 1w")
@click.option("--keep-hourly", "hourly", type=_PERIODS, metavar="N|all", help="Keep one for each hour")
@click.option("--keep-daily", "daily", type=_PERIODS, metavar="N|all", help="Keep one for each day")
@click.option("--keep-weekly", "weekly", type=_PERIODS, metavar="N|all", help="Keep one for each week")
@click.option("--keep-monthly", "monthly", type=_PERIODS, metavar="N|all", help="Keep one for each month")
@click.option("--keep-days", "days", type=_NUMBER, metavar="N", help="Keep all younger than N days")
@click.option("--keep-manual", "manual", is_flag=True, help="Keep those that somebody asked for")
@click.option(
    "--keep-tag",
    "tags",
    multiple=True,
    metavar="TAG",
    shell_complete=complete_tag,
    help="Keep those with this tag; can be repeated",
)
@click.option("--keep-significant", "significant", is_flag=True, help="Keep those that changed a finding")
@click.option("--at-most", type=_NUMBER, metavar="N", help="Of all those, only the newest N")
@click.option("--max-age-days", type=_NUMBER, metavar="N", help="Nothing older than N days")
@click.option(
    "--per",
    type=click.Choice(["session", "branch", "agent"]),
    default="session",
    help="What numbers count in  [default: session]",
)
@click.option("--only", is_flag=True, help="Also remove what is manual or significant, if no option keeps it")
@click.option("-v", "--verbose", is_flag=True, help="A row for each checkpoint, with the reasons")
@DRY_RUN
@YES
def prune(cmd: Invocation, *, only: bool, verbose: bool, dry_run: bool, yes: bool, **fields: Any) -> None:
    """Show the plan, ask, and carry it out."""
    keep = _policy(fields)
    with cmd.open_session() as (store, session):
        report = session.prune(keep, only=only, dry_run=True)
        if verbose and cmd.for_people():
            # Before the question: it is what the question is about.
            _write(cmd, store.url, report, verbose=True)
        if report.deleted and not dry_run:
            cmd.confirm(_danger(report), yes=yes)
            # Decided anew: what was saved while somebody was thinking counts too.
            report = session.prune(keep, only=only)
        if not (verbose and cmd.for_people()):
            _write(cmd, store.url, report, verbose=verbose)
    _summary(cmd, report, only=only, verbose=verbose)


def _policy(fields: dict[str, Any]) -> Keep | None:
    from holdfast import Keep

    if fields["per"] == "session" and not any(value for name, value in fields.items() if name != "per"):
        return None
    try:
        return Keep(**fields)
    except InvalidInputError as error:
        if error.code is not ErrorCode.EMPTY_POLICY:
            raise
        raise InvalidInputError(
            "nothing says what to keep",
            code=ErrorCode.EMPTY_POLICY,
            hint="give a rule such as --keep-last 100 or --keep-days 7, or a cap such as --at-most 10",
        ) from error


def _touched(report: PruneReport) -> list[str]:
    return sorted({each.checkpoint.session for each in report.decisions if not each.kept})


def _danger(report: PruneReport) -> str:
    sessions = _touched(report)
    where = f" of {len(sessions)} sessions" if len(sessions) > 1 else ""
    return f"{report.deleted:,} of {counted(report.total, 'checkpoint')}{where} will be removed"


def _write(cmd: Invocation, url: str, report: PruneReport, *, verbose: bool) -> None:
    if verbose and not cmd.json:
        rows(cmd, report.decisions, _DECISIONS)
        return
    plain = report.to_dict()
    counts = {name: plain[name] for name in ("total", "kept", "deleted")}
    would = "would be " if report.dry_run else ""
    lines = [
        ("checkpoints", f"{report.total:,}"),
        ("kept", f"{report.kept:,}"),
        ("removed", f"{report.deleted:,} {would}removed" if report.deleted else "none"),
    ]
    record(cmd, {"store": url, **plain}, lines, counts)


def _summary(cmd: Invocation, report: PruneReport, *, only: bool, verbose: bool) -> None:
    protected = {name for name in ("manual", "significant") if not getattr(report.policy, name)}
    if not only and any(set(each.reasons) <= protected for each in report.decisions):
        cmd.say("what is manual or significant stays: --only removes it too, where no option keeps it")
    if not report.deleted:
        kept = "the one checkpoint is" if report.total == 1 else f"all {report.total:,} checkpoints are"
        cmd.say(f"nothing to remove: {kept} kept")
        return
    if report.dry_run:
        more = "" if verbose else "; --verbose says why each stays or goes"
        cmd.say(f"dry run: nothing was changed{more}")
        return
    touched = _touched(report)
    for name in touched:
        # Each session has its own operations to undo.
        cmd.say_undo(session=name if len(touched) > 1 else None)


_CONFIRM = click.option(
    "--confirm", "confirmed", metavar="NAME", help="The name of the store, instead of being asked for it"
)


@command(
    "gc",
    """Remove for good what was deleted or pruned long enough ago, and free the room that nothing needs.

    Undo cannot bring back what gc removed: where there is such a thing, the name of the store has to be typed, or given
    with --confirm. Safe beside running writers.

    \b
    Examples:
      holdfast gc
      holdfast gc --keep-days 30 --dry-run
    """,
)
@click.option(
    "--keep-days",
    type=click.FloatRange(min=0, max=1_000_000),
    default=14,
    metavar="N",
    help="Removed checkpoints stay for N days  [default: 14]",
)
@DRY_RUN
@_CONFIRM
def gc(cmd: Invocation, *, keep_days: float, dry_run: bool, confirmed: str | None) -> None:
    """Say what goes, ask where undo ends, and carry it out."""
    with cmd.open() as store:
        url = store.url
        report = _collect(cmd, store, keep_days, dry_run=True)
        if not dry_run:
            if report.checkpoints:
                danger = (
                    f"{counted(report.checkpoints, 'removed checkpoint')} of {_sessions(report)} will be gone: "
                    f"undo cannot bring them back; {size_text(report.freed_bytes)} will be freed"
                )
                cmd.confirm_by_name(danger, store=url, confirmed=confirmed)
            report = _collect(cmd, store, keep_days, dry_run=False)
    would = "would be " if dry_run else ""
    lines = [("checkpoints", f"{report.checkpoints:,} {would}removed for good")]
    if report.checkpoints:
        lines.append(("sessions", ", ".join(report.sessions)))
    lines.append(("chunks", f"{report.chunks:,} {would}freed, {size_text(report.freed_bytes)}"))
    if report.waiting_until is not None:
        when = f"{report.waiting_until:%Y-%m-%d %H:%M} UTC"
        first = "it" if report.waiting == 1 else "the first of them"
        text = f"{report.waiting:,} removed, which undo can bring back; gc takes {first} from {when} on"
        lines.append(("waiting", text))
    fields = ("checkpoints", "sessions", "waiting", "chunks", "freed_bytes", "waiting_until")
    plain = report.to_dict()
    record(
        cmd,
        {"store": url, "keep_days": keep_days, **plain},
        lines,
        {name: plain[name] for name in fields},
    )
    if report.overtaken:
        cmd.say("another collection began meanwhile; it, or holdfast gc later, removes what is left")
    if dry_run:
        cmd.say("dry run: nothing was changed")


def _collect(cmd: Invocation, store: Store, keep_days: float, *, dry_run: bool) -> GcReport:
    with progress(cmd, "looking for what can go" if dry_run else "collecting") as update:
        return store.gc(keep_days=keep_days, dry_run=dry_run, progress=lambda _what, done: update(done))


def _sessions(report: GcReport) -> str:
    named = ", ".join(report.sessions[:5]) + (
        f" and {len(report.sessions) - 5} more" if report.sessions[5:] else ""
    )
    return f"{'session' if len(report.sessions) == 1 else 'sessions'} {named}"


@command(
    "forget",
    """Erase a session, or some of its checkpoints, from the files of the store: at once, for good, without an undo.

    For what must not be anywhere any more, such as a password. With --session alone all of that session goes; with REFs
    only those checkpoints, and the operation log of their session. What other checkpoints hold too stays with those.
    Backups and exports are not reached.

    \b
    Examples:
      holdfast forget --session default --dry-run
      holdfast forget tag:verified "#2" --dry-run
    """,
)
@click.argument("refs", nargs=-1, metavar="[REF...]", type=RefArgument())
@DRY_RUN
@_CONFIRM
def forget(cmd: Invocation, *, refs: tuple[str, ...], dry_run: bool, confirmed: str | None) -> None:
    """Say what goes, want the name of the store, and erase."""
    if not refs and "session" not in cmd.typed:
        raise click.UsageError("say what to forget: checkpoints by their refs, or a session with --session")
    if not refs and "branch" in cmd.typed:
        raise click.UsageError("--branch does not apply: a session is forgotten whole")
    with cmd.open_session() as (store, session):
        url = store.url
        # Here, where the branch is known; one that was removed before is found by its whole id alone.
        wanted = [ref if _WHOLE_ID.fullmatch(ref) else session.checkpoint(ref).id for ref in refs]
        report = store.forget(session.id, *wanted, dry_run=True)
        what = f"{counted(report.checkpoints, 'checkpoint')} of session {session.id}"
        what = what if refs else f"session {session.id} with {counted(report.checkpoints, 'checkpoint')}"
        cmd.say_plan(f"erase {what}, and the session's operation log", dry_run=dry_run)
        if not dry_run:
            danger = f"{what} will be erased at once and for good; nothing brings it back"
            cmd.confirm_by_name(danger, store=url, confirmed=confirmed)
            report = store.forget(session.id, *wanted)
    fields = {"session": session.id, **report.to_dict()}
    would = "would be " if dry_run else ""
    lines = [("session", session.id), ("checkpoints", f"{report.checkpoints:,} {would}erased")]
    if not dry_run:
        lines.append(("chunks", f"{report.chunks:,} that nothing else needed"))
    record(cmd, {"store": url, "dry_run": dry_run, "whole_session": not refs, **fields}, lines, fields)


_WHOLE_ID = re.compile("[0-9a-fA-F]{64}")

_RESULT_STYLE = {"lost": "red", "repairable": "green", "unreachable": "red", "damaged": "yellow"}
_WAY_OUT = "keep the file, and bring the store back from a backup; holdfast verify still names what is in it"


class _Finding(NamedTuple):
    """One line for people: what is damaged, and why."""

    result: str
    """`lost`: its bytes are gone; `repairable`: a repair brings it back; `unreachable`: it is there, and the file
    cannot be repaired; `damaged`: something that is no checkpoint."""
    what: str
    why: str


_FINDINGS = (
    Column("result", style=lambda row: _RESULT_STYLE[row.result]),
    Column("what", width=48),
    Column("why", width=10_000),
)
_FOUND = tuple(Column(name) for name in ("type", "kind", "session", "seq", "what", "why"))


class _Found(NamedTuple):
    """One line for a program."""

    type: str
    kind: str | None
    session: str | None
    seq: int | None
    what: str
    why: str


@command(
    "verify",
    """Check that everything in the store is as it was saved, and name each checkpoint that cannot be loaded.

    Exit 0 if all is well, 1 if anything is damaged. With --session only that session is checked. Safe beside running
    writers.

    \b
    Examples:
      holdfast verify
      holdfast verify --quick --session default
      holdfast verify --json
    """,
)
@click.option("--quick", is_flag=True, help="Rows, links, heads and logs; do not read the states")
def verify(cmd: Invocation, *, quick: bool) -> int:
    """Check, print what is wrong, and answer with the exit code."""
    one = cmd.session if "session" in cmd.typed else None
    with cmd.open(damaged=True) as store:
        url = store.url
        with progress(cmd, "checking") as update:
            report = store.verify(quick=quick, session=one, progress=lambda _what, done: update(done))
        # A session of which nothing is left to see is named by what is wrong with it, not as missing.
        if one is not None and report.ok and not report.sessions:
            raise cmd.no_session(store, one)
        beyond = _is_beyond_repair(store, report.problems)
    outlook = "unreachable" if beyond else "repairable"
    summary = _verdict(report, outlook)
    if cmd.json:
        plain = report.to_dict()
        for name, kind in (("problems", "problem"), ("damaged", "damaged")):
            for each in plain.pop(name):
                data(json_text({"type": kind, **each}, indent=None))
        counts = {"problems": len(report.problems), "damaged": len(report.damaged)}
        data(json_text({"type": "summary", "store": url, **plain, **counts}, indent=None))
    elif cmd.for_people() and cmd.fields is None and cmd.format is None:
        rows(cmd, list(_findings(report.problems, report.damaged, outlook)), _FINDINGS)
        data(paint(summary, "green" if report.ok else "red", on=cmd.paints(sys.stdout)), color=True)
    else:
        rows(cmd, list(_all_found(report, outlook, summary)), _FOUND)
    if not report.ok:
        advice = "holdfast repair --dry-run shows what a repair keeps and what it leaves out"
        cmd.say(_WAY_OUT if beyond else advice, label="next: ", style="cyan")
    return 0 if report.ok else 1


def _all_found(report: VerifyReport, outlook: str, summary: str) -> Iterator[_Found]:
    for problem in report.problems:
        yield _Found("problem", problem.kind, problem.session, None, problem.what, problem.why)
    for each in report.damaged:
        yield _Found("damaged", each.id, each.session, each.seq, "lost" if each.lost else outlook, each.why)
    yield _Found("summary", "ok" if report.ok else "damaged", None, None, "", summary)


def _findings(
    problems: Sequence[Problem], damaged: Sequence[DamagedCheckpoint], outlook: str
) -> Iterator[_Finding]:
    """What is wrong, each thing once: what costs checkpoints is told with those."""
    told = {each.id for each in damaged if each.id is not None}
    for problem in problems:
        known = set(problem.checkpoints) <= told and (problem.checkpoints or problem.kind == "checkpoint")
        if problem.kind not in ("checkpoint", "chunk") or not (known and damaged):
            yield _Finding("damaged", problem.what, problem.why)
    # Those that come back are many where one page is damaged, all for the same reason.
    groups: dict[tuple[str | None, str], list[DamagedCheckpoint]] = {}
    for each in damaged:
        if each.lost:
            yield _Finding("lost", _name(each), each.why)
        else:
            groups.setdefault((each.session, each.why), []).append(each)
    for (session, why), group in groups.items():
        many = f"{counted(len(group), 'checkpoint')} of session {session or '?'}"
        yield _Finding(outlook, _name(group[0]) if len(group) == 1 else many, why)


def _name(each: DamagedCheckpoint) -> str:
    number = "" if each.seq is None else f" #{each.seq}"
    return f"{'?' if each.id is None else each.id[:8]}{number} of session {each.session or '?'}"


def _verdict(report: VerifyReport, outlook: str) -> str:
    # Rows that cannot be read are not among those that were counted.
    unreadable = sum(each.kind == "checkpoint" and not each.what.endswith(")") for each in report.problems)
    total = max(report.checkpoints + unreadable, len(report.damaged))
    looked = f"checked {counted(total, 'checkpoint')} of {counted(report.sessions, 'session')}"
    looked += ", without their states" if report.quick else f", {counted(report.chunks, 'chunk')}"
    if report.ok:
        return f"{looked}: nothing is damaged"
    lost = sum(each.lost for each in report.damaged)
    parts = [f"{total - len(report.damaged):,} fine", f"{lost:,} lost"]
    if back := len(report.damaged) - lost:
        parts.append(f"{back:,} {outlook}")
    if others := sum(each.kind not in ("checkpoint", "chunk") for each in report.problems):
        parts.append(f"{counted(others, 'other thing')} damaged")
    return f"{looked}: {', '.join(parts)}"


@command(
    "repair",
    """Put what can still be read of a damaged store in its place, and name what is lost.

    Checkpoints that can be read keep their ids and numbers; history leads past those that cannot. The store as it was
    stays in a file beside it. A store in which nothing is damaged is left alone.

    \b
    Examples:
      holdfast repair --dry-run
      holdfast repair --yes
    """,
)
@DRY_RUN
@YES
def repair(cmd: Invocation, *, dry_run: bool, yes: bool) -> None:
    """Show what is lost, ask, and repair."""
    with cmd.open(damaged=True) as store:
        url = store.url
        report = _mend(cmd, store, dry_run=True)
        if _is_beyond_repair(store, report.problems):
            raise IntegrityError(
                f"the store {url} is damaged: its first page is not readable, so nothing can be put in its place",
                code=ErrorCode.STORE_DAMAGED,
                hint=_WAY_OUT,
                store=url,
            )
        if cmd.for_people() and report.lost:
            rows(cmd, list(_findings((), report.lost, "")), _FINDINGS)
        if report.needed and not dry_run:
            lost = f", {counted(len(report.lost), 'checkpoint')} left out" if report.lost else ""
            danger = f"the store will be written anew with {counted(report.kept, 'checkpoint')}{lost}"
            cmd.confirm(danger, yes=yes)
            report = _mend(cmd, store, dry_run=False)
        report = report.replace(dry_run=dry_run)
    fields = {
        "needed": report.needed,
        "problems": len(report.problems),
        "kept": report.kept,
        "lost": [each.id or "?" for each in report.lost],
        "relinked": report.relinked,
        "moved": [f"{each.session} {each.branch}" for each in report.moved],
        "logs_cut": list(report.logs_cut),
        "kept_aside": report.kept_aside,
    }
    record(cmd, {"store": url, **report.to_dict()}, _repair_lines(report), fields)
    if not report.needed:
        cmd.say("nothing is damaged: there is nothing to repair")
    elif dry_run:
        cmd.say("dry run: nothing was changed")
    elif report.kept_aside is not None:
        cmd.say(escape_controls(report.kept_aside), label="the store as it was: ")


def _mend(cmd: Invocation, store: Store, *, dry_run: bool) -> RepairReport:
    with progress(cmd, "checking" if dry_run else "repairing") as update:
        return store.repair(dry_run=dry_run, progress=lambda _what, done: update(done))


def _repair_lines(report: RepairReport) -> Iterator[tuple[str, str]]:
    would = "would be " if report.dry_run else ""
    if report.needed:
        yield "problems", f"{len(report.problems):,}"
    yield "checkpoints", f"{report.kept:,} can be read"
    if report.lost:
        yield "lost", f"{counted(len(report.lost), 'checkpoint')} {would}left out"
    if report.relinked:
        yield "history", f"leads past lost ones at {counted(report.relinked, 'place')}"
    for each in report.moved:
        before = "?" if each.before is None else each.before[:8]
        to = (
            "is gone: nothing of it is left"
            if each.after is None
            else f"moves from {before} to {each.after[:8]}"
        )
        yield "branch", f"{each.branch} of session {each.session} {to}"
    if report.logs_cut:
        yield "undo", f"ends here for {', '.join(report.logs_cut)}: the operation log was damaged"


def _is_beyond_repair(store: Store, problems: Sequence[Problem]) -> bool:
    """Whether a repair of what `problems` say would be refused.

    A repair writes through SQLite, which has to get beyond the first page: where its magic number or its page size is
    destroyed, nothing can be put in its place. Nothing is written to find out.
    """
    if not store.url.startswith("sqlite:///") or not any(
        each.kind in ("page", "header") for each in problems
    ):
        return False
    import urllib.parse

    import apsw

    path = urllib.parse.unquote(store.url.removeprefix("sqlite:///"))
    try:
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            # The first thing that needs the first page, and nothing else of the file.
            connection.execute("PRAGMA schema_version").fetchall()
        finally:
            connection.close()
    except (apsw.NotADBError, apsw.CorruptError):
        return True
    except apsw.Error:
        # Locked, or not to be opened now: the repair itself will say what is in its way.
        return False
    return False
