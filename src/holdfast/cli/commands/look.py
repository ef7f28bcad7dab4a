"""Commands that look at what is there: list, stats, show, at, watch."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.app import command
from holdfast.cli.completion import RefArgument, complete_tag
from holdfast.cli.inputs import STATUSES, moment_of
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import (
    Column,
    checkpoints,
    counted,
    data,
    document,
    json_text,
    record,
    rows,
    say_cut,
)
from holdfast.cli.paging import paging
from holdfast.cli.terminal import (
    age,
    ellipsis_for,
    escape_controls,
    iso,
    lasted,
    paint,
    shorten,
    show_time,
    size_text,
    terminal_width,
    text_width,
)
from holdfast.errors import ErrorCode, HoldfastError, IntegrityError, InvalidInputError, NotFoundError
from holdfast.integrations.langgraph.rows import folded
from holdfast.settings.near import close_names, did_you_mean

if TYPE_CHECKING:
    from holdfast import Checkpoint, Store
    from holdfast.reports import Recovered, SessionStats, StoreTotals

PAGE = 1000
"""Rows per question: a listing of any length runs in little memory, and starts to appear at once."""
SCREEN = 50
"""Rows on a terminal unless --limit says otherwise; a pipe gets all of them."""

LIMIT = click.option(
    "--limit", type=click.IntRange(min=0), metavar="N", help="At most so many; 0 for all  [terminal: 50]"
)
TIME_RANGE = (
    click.option("--since", metavar="TIME", help="Saved at or after: 30m, 2d, '2 hours ago', 2026-11-15"),
    click.option("--until", metavar="TIME", help="Saved at or before such a time"),
)


def pages(store: Store, session: str | None, **filters: Any) -> Iterator[Checkpoint]:
    """Checkpoints that match, newest first, page by page: those that arrive meanwhile do not shift the pages."""
    last: Checkpoint | None = None
    while True:
        page = store.find(session=session, **filters, before=last, limit=PAGE)
        yield from page
        if len(page) < PAGE:
            return
        last = page[-1]


@command(
    "list",
    """List checkpoints, newest first: all of the session, or with --branch the history of one branch.

    With REF it is the history that leads to that checkpoint; with A..B what leads to B and not to A.

    \b
    Examples:
      holdfast list
      holdfast list --tag verified --since 2h
      holdfast list @~2..@
      holdfast list --all-sessions --status failed --json
      holdfast list --format '{id:.8} {age} {message}'
      holdfast list --sessions
    """,
)
@click.argument("ref", metavar="[REF]", type=RefArgument(), required=False)
@click.option("--tag", metavar="TAG", shell_complete=complete_tag, help="With this tag")
@click.option("--status", type=click.Choice(STATUSES), help="With this status")
@click.option("--trigger", metavar="T", help="Saved for this reason; auto finds every auto:<event>")
@click.option("--step", type=int, metavar="N", help="With this step number")
@TIME_RANGE[0]
@TIME_RANGE[1]
@click.option("--agent", metavar="NAME", help="Of sessions of this agent")
@click.option("--project", metavar="NAME", help="Of sessions of this project")
@click.option("--all-sessions", is_flag=True, help="Of every session, not only the current one")
@click.option("--sessions", is_flag=True, help="The sessions themselves, oldest first")
@click.option(
    "--all", "everything", is_flag=True, help="Pending writes of a graph as rows of their own, as in --json"
)
@LIMIT
def list_(
    cmd: Invocation,
    *,
    ref: str | None,
    all_sessions: bool,
    sessions: bool,
    everything: bool,
    limit: int | None,
    **filters: Any,
) -> None:
    """Print the checkpoints that match, or the sessions."""
    if ref is not None and (all_sessions or sessions):
        raise click.UsageError("a REF is of one session: it excludes --all-sessions and --sessions")
    if all_sessions and cmd.typed & {"session", "branch"}:
        raise click.UsageError("--all-sessions excludes --session and --branch")
    filters = {name: value for name, value in filters.items() if value is not None}
    if sessions:
        _list_sessions(cmd, filters, limit, all_sessions=all_sessions)
        return
    asked = dict(filters)
    for option in filters.keys() & {"since", "until"}:
        filters[option] = moment_of(cmd, option, filters[option])
    if limit is None:
        limit = SCREEN if cmd.for_people() else 0
    session = None if all_sessions else cmd.session
    with cmd.open() as store:
        found = _matching(store, cmd, session, filters, ref)
        if not filters and not everything and not cmd.json:
            found = folded(found)
        first = next(found, None)
        if first is None:
            _explain_nothing(store, cmd, asked, ref, session)
        found = chain([] if first is None else [first], found)
        shown = islice(found, limit) if limit else found
        if cmd.json or cmd.for_people():
            listed = list(shown)
            more = next(found, None) is not None
            _write_list(cmd, store, listed, session, more=more)
            if more:
                say_cut(cmd, limit)
        else:
            checkpoints(cmd, shown)


def _write_list(
    cmd: Invocation, store: Store, listed: list[Checkpoint], session: str | None, *, more: bool
) -> None:
    from holdfast.reports import CheckpointList

    branch = None
    if cmd.for_people() and session is not None:
        here = branches_here(store, listed)
        branch = lambda each: here.get(each.id, each.branch) or f"({each.branch})"  # noqa: E731 - a column's value
    checkpoints(cmd, listed, lambda: CheckpointList(store.url, session, tuple(listed), more), branch=branch)


def _matching(
    store: Store, cmd: Invocation, session: str | None, filters: dict[str, Any], ref: str | None
) -> Iterator[Checkpoint]:
    wanted: set[str] | None = None
    if session is not None and (cmd.branch is not None or ref is not None):
        history = cmd.session_of(store).log(ref or "@")
        if not filters:
            yield from history
            return
        # `find` knows the branch a checkpoint was born on; a branch's history also has what it grew from.
        wanted = {each.id for each in history}
    for each in pages(store, session, **filters):
        if wanted is None or each.id in wanted:
            yield each


def _explain_nothing(
    store: Store, cmd: Invocation, asked: dict[str, Any], ref: str | None, session: str | None
) -> None:
    """Raise where an empty list is an error; say why it is empty where it is not."""
    if session is not None and (asked or "session" in cmd.typed or store.sessions()):
        cmd.check_session(store)
    if not asked:
        empty = f"nothing is in {ref}" if ref else why_empty(store, cmd, session)
        cmd.say(escape_controls(empty))
        return
    listed = " ".join(f"--{name} {value}" for name, value in asked.items()) + (f" in {ref}" if ref else "")
    near: list[str] = []
    if "tag" in asked:
        everything = _matching(store, cmd, session, {}, ref)
        near = close_names(asked["tag"], {tag for each in everything for tag in each.tags})
    raise NotFoundError(
        f"no checkpoint matches {listed}",
        code=ErrorCode.CHECKPOINT_MISSING,
        hint=did_you_mean(near) or "holdfast list without filters shows what there is",
        candidates=near,
    )


def why_empty(store: Store, cmd: Invocation, session: str | None) -> str:
    """Why there is no checkpoint: all were deleted, or none was saved."""
    if session is not None and any(each.id == session for each in store.sessions()):
        try:
            cmd.session_of(store).checkpoint()
        except NotFoundError as error:
            if error.code is ErrorCode.CHECKPOINT_MISSING:
                return f"{error}: holdfast undo brings back what was removed"
    return "no checkpoints yet: holdfast create MESSAGE saves one"


_SESSION_COLUMNS = (
    Column("id", header="SESSION", width=40, style="yellow"),
    Column("agent", width=24),
    Column("project", width=24),
    Column("created_at", kind="time", header="AGE", style="dim"),
    Column("saves", kind="count"),
    Column("branch", terminal=False),
)


def _list_sessions(
    cmd: Invocation, filters: dict[str, Any], limit: int | None, *, all_sessions: bool
) -> None:
    from holdfast.reports import SessionList

    others = [f"--{name}" for name in filters if name not in ("agent", "project")]
    others += [f"--{name}" for name in ("session", "branch") if name in cmd.typed]
    others += ["--all-sessions"] if all_sessions else []
    if others:
        raise click.UsageError(f"--sessions excludes {others[0]}: only --agent and --project go with it")
    with cmd.open() as store:
        found, known = store.sessions(**filters), store.sessions()
        url = store.url
    if filters and not found:
        near = [
            name
            for field, asked in filters.items()
            for name in close_names(asked, {getattr(each, field) or "" for each in known})
        ]
        raise NotFoundError(
            "no session of " + " and ".join(f"{field} {asked!r:.60}" for field, asked in filters.items()),
            code=ErrorCode.SESSION_MISSING,
            hint=did_you_mean(near) or "holdfast list --sessions shows all of them",
            candidates=near,
        )
    shown = found[-limit:] if limit else found
    rows(cmd, shown, _SESSION_COLUMNS, lambda: SessionList(url, tuple(shown)))
    if not shown:
        cmd.say("no sessions yet: holdfast create MESSAGE saves a first checkpoint")


@command(
    "stats",
    """Show what is in the store, or with --session what is in one session and how it stands.

    \b
    Examples:
      holdfast stats
      holdfast stats --session default --json
    """,
)
def stats(cmd: Invocation) -> None:
    """Print the figures."""
    from holdfast.reports import StatsReport, StoreTotals

    with cmd.open() as store:
        url = store.url
        if "session" in cmd.typed:
            one = _session_stats(store, cmd)
            report, found, lines = StatsReport(url, None, one), one.to_dict(), _session_lines(one)
        else:
            totals = store.stats()
            ratio = _ratio(totals.chunk_bytes, totals.stored_bytes)
            whole = StoreTotals(**totals._asdict(), ratio=ratio)
            report, found, lines = StatsReport(url, whole, None), whole.to_dict(), _store_lines(whole)
    record(cmd, report, [("store", url), *lines], {"store": url, **found})


def _session_stats(store: Store, cmd: Invocation) -> SessionStats:
    from holdfast.reports import SessionStats

    cmd.check_session(store)
    info = next(each for each in store.sessions() if each.id == cmd.session)
    count = state_bytes = stored_bytes = 0
    newest: Checkpoint | None = None
    for each in pages(store, cmd.session):
        newest = newest or each
        count += 1
        state_bytes += each.size_bytes
        stored_bytes += each.stored_bytes
    return SessionStats(
        id=info.id,
        agent=info.agent,
        project=info.project,
        created_at=info.created_at,
        saves=info.saves,
        checkpoints=count,
        newest_at=None if newest is None else newest.created_at,
        state_bytes=state_bytes,
        stored_bytes=stored_bytes,
        ratio=_ratio(state_bytes, stored_bytes),
        status=None if newest is None else newest.status,
        step=None if newest is None else newest.step,
        tokens=None if newest is None else newest.tokens,
        cost_usd=None if newest is None else newest.cost_usd,
    )


def _ratio(plain: int, stored: int) -> float | None:
    return round(plain / stored, 2) if stored else None


def _stored(stored: int, ratio: float | None) -> str:
    return f"{size_text(stored)} in the store" + (f", {ratio:,.1f} times smaller" if ratio else "")


def _session_lines(one: SessionStats) -> Iterator[tuple[str, str]]:
    origin = " ".join(f"{name} {getattr(one, name)}" for name in ("agent", "project") if getattr(one, name))
    removed = one.saves - one.checkpoints
    yield "session", one.id + (f" ({origin})" if origin else "")
    yield "checkpoints", f"{one.checkpoints:,}" + (f" ({removed:,} removed)" if removed else "")
    yield (
        "newest",
        "none" if one.newest_at is None else f"{one.newest_at:%Y-%m-%d %H:%M:%S} UTC ({age(one.newest_at)})",
    )
    if one.status is not None:
        yield "status", one.status + ("" if one.step is None else f", step {one.step:,}")
    used = [f"{one.tokens:,} tokens"] if one.tokens is not None else []
    used += [f"${one.cost_usd:,.4g}"] if one.cost_usd is not None else []
    if used:
        yield "used", ", ".join(used)
    yield "states", f"{size_text(one.state_bytes)} together, {_stored(one.stored_bytes, one.ratio)}"


def _store_lines(whole: StoreTotals) -> Iterator[tuple[str, str]]:
    hidden = f" ({whole.hidden:,} removed, not yet collected)" if whole.hidden else ""
    yield "sessions", f"{whole.sessions:,}, with {counted(whole.branches, 'branch', 'branches')}"
    yield "checkpoints", f"{whole.checkpoints:,}{hidden}"
    yield (
        "chunks",
        f"{whole.chunks:,}: {size_text(whole.chunk_bytes)}, {_stored(whole.stored_bytes, whole.ratio)}",
    )
    if whole.file_bytes is not None:
        yield "on disk", size_text(whole.file_bytes)


def labels_of(store: Store, shown: Iterable[Checkpoint], most: int | None = SCREEN) -> dict[str, str]:
    """What the first of those without a message changed, in brackets, by id; each costs a comparison of two states."""
    found: dict[str, str] = {}
    for each in islice((each for each in shown if not each.message), most):
        # Damaged, or gone a moment ago. Who wants to know asks for the state, and is told.
        with suppress(HoldfastError):
            found[each.id] = f"({store.session(each.session).label(each)})"
    return found


@command(
    "show",
    """Show a checkpoint and its state.

    REF is @ (the newest, and the default), @~3, a branch, tag:NAME, #42, key:TEXT, or four or more digits of an id.

    \b
    Examples:
      holdfast show
      holdfast show @~3
      holdfast show tag:verified --state --json
      holdfast show @ --path 'messages[-20:]'
      holdfast show --recover
    """,
)
@click.argument("ref", type=RefArgument(), default="@")
@click.option("--state", "only_state", is_flag=True, help="Only the state")
@click.option("--record", "only_record", is_flag=True, help="Only the record; the state is not even read")
@click.option(
    "--path", metavar="PATH", help="A part of the state, read without the rest: messages[-20:], plan.steps[0]"
)
@click.option("--recover", is_flag=True, help="Where REF is damaged: the newest before it that is whole")
@click.option("--full", is_flag=True, help="On a terminal: the whole state, however long")
def show(
    cmd: Invocation,
    *,
    ref: str,
    only_state: bool,
    only_record: bool,
    path: str | None,
    recover: bool,
    full: bool,
) -> None:
    """Print the record, the state, or both."""
    if only_record and (only_state or path is not None):
        raise click.UsageError("--record excludes --state and --path")
    if recover and (only_record or path is not None):
        raise click.UsageError("--recover excludes --record and --path: it reads whole states")
    if recover and only_state and cmd.json:
        raise click.UsageError("--recover --json excludes --state: it says what was passed over")
    only_state = only_state or path is not None
    chosen = cmd.fields is not None or cmd.format is not None
    with cmd.open(damaged=recover) as store:
        found = (
            _recovered(store, cmd, ref) if recover else _loaded(store, cmd, ref, path, only_record or chosen)
        )
        checkpoint = found.checkpoint
        label, here = "", None
        if cmd.for_people() and not only_state:
            label = "" if only_record else labels_of(store, [checkpoint]).get(checkpoint.id, "")
            here = branches_here(store, [checkpoint])
    if cmd.json and only_state:
        _write_json_state(found.state)
    elif cmd.json:
        plain = found.to_dict()
        names = ["checkpoint", *([] if only_record else ["state"]), *(["damaged"] if recover else [])]
        document({name: plain[name] for name in names})
    elif chosen:
        checkpoints(cmd, [checkpoint])
    else:
        cut = False
        with paging(cmd):
            if not only_state:
                times = {name: getattr(checkpoint, name) for name in ("created_at", "stored_at")}
                record(cmd, {}, _record_lines(checkpoint, label, here), checkpoint.to_dict() | times)
            cut = not only_record and write_state(cmd, found.state, full=full, after_record=not only_state)
        if cut:
            cmd.say("the state is cut short; --full shows all of it, --json all of it as JSON")


def _loaded(store: Store, cmd: Invocation, ref: str, path: str | None, without: bool) -> Recovered:  # noqa: FBT001
    from holdfast.reports import Recovered

    session = cmd.session_of(store)
    checkpoint = session.checkpoint(ref)
    # By id, not by ref again: the branch may have moved since.
    return Recovered(None if without else session.load(checkpoint, path=path), checkpoint, ())


def _recovered(store: Store, cmd: Invocation, ref: str) -> Recovered:
    """The newest checkpoint at or before `ref` that is whole; what was passed over is said."""
    try:
        session = cmd.session_of(store)
    except IntegrityError:
        # The row that says which branch people are on is damaged too.
        session = store.session(cmd.session)
    found = session.recover(ref)
    for each in found.damaged:
        name = f"#{each.seq}" if each.id is None else each.id[:8]
        cmd.say(escape_controls(f"{name}: {each.why}"), label="damaged: ")
    if found.damaged:
        cmd.say(f"#{found.checkpoint.seq} is the newest that is whole", label="shown: ")
    return found


def _record_lines(c: Checkpoint, label: str, here: dict[str, str | None] | None) -> Iterator[tuple[str, str]]:
    branch = c.branch if here is None else here.get(c.id)
    place = f"branch {branch}" if branch else "on no branch"
    saved_on = "" if branch == c.branch else f" (saved on {c.branch})"
    origin = " ".join(
        f"{name} {value}" for name, value in (("agent", c.agent), ("project", c.project)) if value
    )
    used = (("tokens", c.tokens), ("USD", c.cost_usd), ("ms", c.duration_ms))
    lines = {
        "checkpoint": c.id,
        "message": c.message or label,
        "place": f"#{c.seq} of session {c.session}, {place}{saved_on}" + (f" ({origin})" if origin else ""),
        "saved": f"{iso(c.created_at)} ({age(c.created_at)}), {c.trigger}",
        "status": c.status + (f", step {c.step}" if c.step is not None else ""),
        "tags": ", ".join(c.tags),
        "key": c.key or "",
        "metadata": json_text(c.metadata, indent=None) if c.metadata else "",
        "used": ", ".join(f"{value:,.12g} {unit}" for unit, value in used if value is not None),
        "state": f"{c.size_bytes:,} bytes",
    }
    return ((name, text) for name, text in lines.items() if text)


def write_state(cmd: Invocation, state: Any, *, full: bool = False, after_record: bool = False) -> bool:
    """Write a state in Python's notation; whether it was cut short."""
    if after_record:
        data("")
    # Those who only list need no notation.
    from holdfast.cli.pretty import Limits, Notation

    people = cmd.for_people()
    limits = Limits() if people and not full else None
    notation = Notation(terminal_width() if people else 100, limits, mark=ellipsis_for(sys.stdout))
    for line in notation.lines(state):
        data(line)
    return notation.cut


def _write_json_state(state: Any) -> None:
    from holdfast.cli.pretty import tagged_json

    data(tagged_json(state))


def branches_here(store: Store, shown: Iterable[Checkpoint]) -> dict[str, str | None]:
    """The branch that leads to each checkpoint of one session now, by id; None where there is none.

    A checkpoint says for good which branch it was saved on, and that may have been renamed or deleted since. Of several
    it is the one that the checkpoint was saved on, if that is among them. Only rows as new as the oldest are read.
    """
    wanted = {each.id: each for each in shown}
    if not wanted:
        return {}
    session = next(iter(wanted.values())).session
    oldest = min(each.seq for each in wanted.values())
    found: dict[str, str | None] = dict.fromkeys(wanted)
    leading: dict[str, set[str]] = {}
    try:
        for branch in store.session(session).branches():
            leading.setdefault(branch.head.id, set()).add(branch.name)
        for each in pages(store, session):
            names = leading.pop(each.id, set())
            if names and each.prev is not None:
                leading.setdefault(each.prev, set()).update(names)
            if names and each.id in wanted:
                # The shortest first: main-2 before main-10.
                found[each.id] = (
                    each.branch if each.branch in names else min(names, key=lambda n: (len(n), n))
                )
            if each.seq <= oldest:
                break
    except IntegrityError:
        # A list is shown of a damaged store too: then with what the checkpoints say of themselves.
        return {each.id: each.branch for each in wanted.values()}
    return found


@command(
    "at",
    """Show the last checkpoint at a moment or before it, in the history of the branch in use.

    WHEN is "2 hours ago", "yesterday 17:00", "monday 9:00", 2026-11-15 or 2026-11-15T17:00:00+01:00; local time where
    it names no zone.

    \b
    Examples:
      holdfast at now
      holdfast at "2 hours ago" --nearest
      holdfast at "2025-01-20 14:30:00" --nearest --json
      holdfast at now --tag verified --state
    """,
)
@click.argument("when", nargs=-1, required=True)
@click.option("--all", "all_branches", is_flag=True, help="Over all branches of the session")
@click.option(
    "--tag", metavar="TAG", shell_complete=complete_tag, help="Only checkpoints with this tag count"
)
@click.option("--nearest", is_flag=True, help="Where all are younger: the first one")
@click.option("--state", "with_state", is_flag=True, help="Print the state instead, as show --state does")
def at(cmd: Invocation, *, when: Sequence[str], nearest: bool, with_state: bool, **which: Any) -> None:
    """Print the checkpoint, or its state."""
    from holdfast import parse_time
    from holdfast.reports import AtReport

    with cmd.open_session() as (store, session):
        asked = parse_time(" ".join(when), what="WHEN")
        try:
            around = session.around(asked, **which)
            asked, found, after = around.asked, around.before, around.after
        except NotFoundError as error:
            if error.code is not ErrorCode.BEFORE_HISTORY:
                raise
            if not nearest:
                error.hint += "; --nearest takes it"
                raise
            found = session.checkpoint(error.details["first"]["id"])
            # What follows the first one is what lies around the moment at which it was saved.
            after = session.around(found.created_at, **which).after
        state = session.load(found) if with_state else None
        url = store.url
    missed = asked - found.created_at
    side = "before" if missed > timedelta() else "after"
    text = f"{lasted(abs(missed), gap=' ')} {side} the asked time" if missed else "exactly at the asked time"
    then = "none after it" if after is None else f"next one {lasted(after.created_at - asked, gap=' ')} after"
    cmd.say(iso(asked), label="asked: ")
    cmd.say(f"#{found.seq}, {text}; {then}", label="found: ")
    if with_state and cmd.json:
        _write_json_state(state)
    elif with_state:
        cut = False
        with paging(cmd):
            cut = write_state(cmd, state)
        if cut:
            cmd.say(f"the state is cut short; holdfast show {found.id[:12]} --full shows all of it")
    else:
        report = AtReport(url, session.id, asked, missed.total_seconds(), found, after)
        checkpoints(cmd, [found], lambda: report)


_REF = re.compile(r"[@#]|tag:|key:|[0-9a-f]{4,}$", re.IGNORECASE)
"""What can be nothing but a ref; any other word could have been meant as a time."""


@command(
    "watch",
    """Show checkpoints as they are saved, by any process: of every session, or with --session of one.

    It ends with Ctrl-C, or when none came for --timeout seconds. --since takes a time (30m, 2d, "2 hours ago",
    2026-11-15) or a REF.

    \b
    Examples:
      holdfast watch --timeout 0.5
      holdfast watch --after @~2 --timeout 0
      holdfast watch --since 1h --timeout 0
      holdfast watch --session default --timeout 0.5 --json
    """,
)
@click.option(
    "--after",
    type=RefArgument(),
    metavar="REF",
    help="Begin with what came after this checkpoint  [default: now]",
)
@click.option(
    "--since",
    type=RefArgument(),
    metavar="TIME",
    help="Begin with what was saved at or after this time, or after this REF",
)
@click.option("--timeout", type=click.FloatRange(min=0), metavar="S", help="End when none came for S seconds")
def watch(cmd: Invocation, *, after: str | None, since: str | None, timeout: float | None) -> None:
    """Print what comes, each line at once; with --json each line is an object of its own."""
    if after is not None and since is not None:
        raise click.UsageError("--after excludes --since: both say where to begin")
    one = cmd.session if "session" in cmd.typed else None
    moment = None
    with suppress(InvalidInputError):
        moment = None if since is None else moment_of(cmd, "since", since)
    with cmd.open() as store:
        if one is not None and all(each.id != one for each in store.sessions()):
            cmd.say(escape_controls(f"there is no session {one} yet: waiting for its first checkpoint"))
        begin = None
        if moment is not None:
            for each in pages(store, one, since=moment):
                begin = each
            if begin is not None:
                _tell(cmd, begin, sessions=one is None)
        elif (ref := after if since is None else since) is not None:
            begin = _beginning(store, cmd, ref, since=since is not None)
        for each in store.watch(after=begin, session=one, timeout=timeout):
            # Where clocks differ, one that came later can say that it was saved before.
            if moment is None or each.created_at >= moment:
                _tell(cmd, each, sessions=one is None)


def _beginning(store: Store, cmd: Invocation, ref: str, *, since: bool) -> Checkpoint:
    try:
        return cmd.session_of(store).checkpoint(ref)
    except (NotFoundError, InvalidInputError) as error:
        if since:
            if error.code in (ErrorCode.CHECKPOINT_MISSING, ErrorCode.BAD_REF) and not _REF.match(ref):
                error.args = (f"--since: {ref!r:.60} is neither a time nor a ref: {error}", *error.args[1:])
            error.hint += "; a time is written 30m, 1h, 2d, '2 hours ago' or 2026-11-15"
        raise


def _tell(cmd: Invocation, each: Checkpoint, *, sessions: bool) -> None:
    if cmd.json:
        data(json_text({"type": "checkpoint", "checkpoint": each.to_dict()}, indent=None))
    elif cmd.for_people() and cmd.fields is None and cmd.format is None:
        on, mark = cmd.paints(sys.stdout), ellipsis_for(sys.stdout)
        # A line stays on the screen: how long ago it was would soon be wrong.
        when = show_time(each.created_at, "local" if cmd.time == "relative" else cmd.time)
        parts = [(when, "dim"), (each.id[:8], "yellow"), (f"#{each.seq}", "bold")]
        parts += [(shorten(escape_controls(each.session), 16, mark=mark), "bold")] if sessions else []
        parts += (
            [(shorten(escape_controls(each.branch), 16, mark=mark), "blue")] if each.branch != "main" else []
        )
        parts += [(shorten(escape_controls(",".join(each.tags)), 24, mark=mark), "cyan")] if each.tags else []
        used = sum(text_width(text) + 2 for text, _ in parts)
        message = shorten(escape_controls(each.message), max(10, terminal_width() - used), mark=mark)
        data("  ".join([*(paint(text, style, on=on) for text, style in parts), message]).rstrip(), color=True)
    else:
        checkpoints(cmd, [each])
    # Whoever reads it wants it now, not when a buffer is full; and a reader that went away is noticed.
    sys.stdout.flush()
