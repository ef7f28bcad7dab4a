"""`holdfast merge`: bring another line of work into the branch in use.

What both changed is listed as conflicts, and nothing is written as long as one of them is open: exit code 5. People get
what stood there before and what each side made of it, of the first twenty. A pipe gets one conflict a line: path, kind,
and the three values as JSON, with `-` for one that is not there. `--json` is one document with all of it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

from holdfast.cli._completing import RefArgument, complete_session
from holdfast.cli._confirming import say_undo
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._opening import missing_session, naming_candidates, open_existing, session_of
from holdfast.cli._planning import dry_run_option, head_of, say_dry_run, say_unseen
from holdfast.cli._render import checkpoint_rows, data, json_text
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import (
    ellipsis_for,
    escape_controls,
    escape_field,
    is_terminal,
    paint,
    shorten,
    terminal_width,
)
from holdfast.cli._values import NO_VALUE, json_line
from holdfast.errors import ErrorCode

if TYPE_CHECKING:
    from holdfast import Checkpoint, MergeConflict, MergeReport, Store

HELP = """Bring REF, usually a branch, into the branch you are on.

What only one side changed since they parted is taken from it. Where both changed the same, nothing is written until you
say whose counts: for all with --ours or --theirs, for a part with --resolve.

\b
Examples:
  holdfast merge risky-idea
  holdfast merge risky-idea --dry-run
  holdfast merge risky-idea --theirs
  holdfast merge risky-idea --resolve messages=ours --resolve 'beliefs.*.confidence=theirs'
"""

_CONFLICT = 5
_SHOWN = 20
"""So many conflicts are drawn for people, and named if they were decided: more than that nobody reads there."""
_PATH_IN_HINT = 40
_SIDES: tuple[Literal["base", "ours", "theirs"], ...] = ("base", "ours", "theirs")
_STYLES = {"base": "dim", "ours": "green", "theirs": "cyan"}


@click.command("merge", cls=HoldfastCommand, short_help="Bring another branch into this one", help=HELP)
@click.argument("ref", type=RefArgument(), metavar="REF")
@click.option("--ours", is_flag=True, help="Where both changed the same, take what this branch has")
@click.option("--theirs", is_flag=True, help="Where both changed the same, take what REF has")
@click.option(
    "--resolve",
    "rules",
    multiple=True,
    metavar="PATH=SIDE",
    help="Take SIDE, ours or theirs, at PATH and in it; * is any step; can be repeated, the first that fits counts",
)
@click.option(
    "--from-session", metavar="ID", shell_complete=complete_session, help="The session that REF is in"
)
@click.option("-m", "--message", default="", help="What happened; says what was merged unless given")
@dry_run_option
@pass_settings
def command(
    settings: Settings,
    ref: str,
    *,
    ours: bool,
    theirs: bool,
    rules: Sequence[str],
    from_session: str | None,
    message: str,
    dry_run: bool,
) -> int:
    """Merge, and print the row of the new checkpoint, or the conflicts."""
    if ours and theirs:
        raise click.UsageError("--ours excludes --theirs")
    resolve = _resolve("ours" if ours else "theirs" if theirs else None, rules)
    with open_existing(settings) as store, naming_candidates(store, settings):
        meant = ref if from_session is None else _elsewhere(store, from_session, ref)
        session = session_of(store, settings)
        report = session.merge(meant, resolve=resolve, message=message, dry_run=dry_run)
        url = store.url
    if settings.json:
        _write_json(report, url, session.branch)
    elif report.conflicts:
        _tell_conflicts(settings, report)
    else:
        _tell(settings, report, session.branch)
    return _CONFLICT if report.conflicts else 0


def _resolve(side: Literal["ours", "theirs"] | None, rules: Iterable[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for rule in rules:
        path, equals, chosen = rule.rpartition("=")
        if not equals or chosen not in ("ours", "theirs"):
            raise click.UsageError(f"--resolve takes PATH=ours or PATH=theirs, not {rule!r:.80}")
        found.setdefault(path, chosen)
    # A path that is empty stands for the whole state: it decides where no other does.
    return found if side is None else {**found, "": side}


def _elsewhere(store: Store, session: str, ref: str) -> Checkpoint:
    if session not in (info.id for info in store.sessions()):
        raise missing_session(store, session, "--from-session")
    return store.session(session, branch=store.current_branch(session)).checkpoint(ref)


def _tell(settings: Settings, report: MergeReport, branch: str) -> None:
    ours, theirs = report.ours, report.theirs
    place = f"session {ours.session}, branch {branch}"
    if report.up_to_date:
        _say(settings, "plan: ", f"{place}; it has all of {_name(theirs, ours)} already")
    else:
        how = "which went on alone" if report.fast_forward else f"both went on since {_met(report)}"
        summary = report.changes.summary() if report.changes is not None else ""
        told = f"{place}; {_name(theirs, ours)} comes in, {how}:"
        _say(settings, "plan: ", told, summary or "the state stays as it is")
        say_unseen(settings, ours)
    _say_unsure(settings, report)
    _say_unused(settings, report)
    _say_resolved(settings, report)
    if report.dry_run:
        say_dry_run(settings)
        return
    checkpoint_rows(settings, [report.checkpoint or ours])
    if report.checkpoint is not None:
        say_undo(settings)


def _say_resolved(settings: Settings, report: MergeReport) -> None:
    width = terminal_width() if is_terminal(sys.stderr) else None
    mark = ellipsis_for(sys.stderr)
    for conflict, how in report.resolved[:_SHOWN]:
        told = f" ({conflict.kind}): {how}"
        path = escape_controls(conflict.path or "the whole state")
        settings.say((path if width is None else shorten(path, max(width - len(told), 20), mark=mark)) + told)
    left = len(report.resolved) - _SHOWN
    if left > 0:
        settings.say(f"and {left} more; --json has all of them")


def _say_unused(settings: Settings, report: MergeReport) -> None:
    """What was to be decided, and was no conflict: as it should be, or not what was meant."""
    if not report.unused:
        return
    paths = ", ".join(report.unused[:_SHOWN])
    there = report.conflicts or report.resolved
    why = f"no conflict is at {paths}" if there else f"there is no conflict, neither at {paths} nor elsewhere"
    _say(settings, "note: ", f"{why}: --resolve decided nothing there", style="yellow")


def _say(settings: Settings, label: str, *parts: str, style: str = "dim") -> None:
    """One line, or for people as many as their terminal needs."""
    lines = [" ".join(map(escape_controls, parts))]
    if is_terminal(sys.stderr):
        import textwrap

        width = max(terminal_width() - len(label), 20)
        if len(lines[0]) > width:
            folded = (textwrap.wrap(escape_controls(part), width, break_on_hyphens=False) for part in parts)
            lines = [line for part in folded for line in part]
    settings.say(f"\n{' ' * len(label)}".join(lines), label=label, style=style)


def _say_unsure(settings: Settings, report: MergeReport) -> None:
    """Why more is asked than what both sides changed."""
    if not report.base_exact:
        why = "where both met last is gone for good, so all that differs is asked about"
        _say(settings, "note: ", why, style="yellow")
    elif len(report.bases) > 1:
        why = f"both met last at {_met(report)}; what these do not agree on is asked about"
        _say(settings, "note: ", why, style="yellow")


def _met(report: MergeReport) -> str:
    return " and ".join(_name(each, report.ours) for each in report.bases)


def _name(checkpoint: Checkpoint, home: Checkpoint) -> str:
    if checkpoint.session != home.session:
        return f"#{checkpoint.seq} of session {checkpoint.session}"
    return f"#{checkpoint.seq} of {checkpoint.branch}"


def _tell_conflicts(settings: Settings, report: MergeReport) -> None:
    if settings.for_people():
        _draw(settings, report.conflicts)
    else:
        for conflict in report.conflicts:
            data("\t".join(_fields(conflict)))
    _say_unsure(settings, report)
    _say_unused(settings, report)
    number = len(report.conflicts)
    told = (
        f"{number} conflict{'' if number == 1 else 's'} between {_name(report.ours, report.ours)} and "
        f"{_name(report.theirs, report.ours)}, so nothing was merged"
    )
    _say(settings, "error: ", told, style="red")
    path = escape_controls(report.conflicts[0].path)
    # A long path is copied from the list: in the hint it would hide what that says.
    one = _quoted(f"{path}=theirs") if len(path) <= _PATH_IN_HINT else "PATH=theirs"
    decides = ("--ours or --theirs decides on all of them,", f"--resolve {one} on one")
    _say(settings, "hint: ", *decides, style="cyan")
    settings.say(ErrorCode.MERGE_CONFLICT, label="code: ")


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)


def _draw(settings: Settings, conflicts: Sequence[MergeConflict]) -> None:
    on, mark, width = settings.paints(sys.stdout), ellipsis_for(sys.stdout), terminal_width()
    cut = False
    for conflict in conflicts[:_SHOWN]:
        whole = escape_controls(conflict.path or "the whole state")
        path = shorten(whole, max(width - len(conflict.kind) - 2, 20), mark=mark)
        cut |= path != whole
        data(f"{paint(path, 'bold', on=on)}  {paint(conflict.kind, 'yellow', on=on)}", color=on)
        for side in _SIDES:
            text = "(not there)" if conflict.encoded(side) is None else json_line(conflict.plain(side))
            shown = shorten(text, max(width - 10, 20), mark=mark)
            cut |= shown != text
            data(f"  {paint(f'{side:<6}', _STYLES[side], on=on)}  {shown}", color=on)
    left = len(conflicts) - _SHOWN
    if left > 0:
        settings.say(f"and {left} more; --json has all of them")
    elif cut:
        settings.say("long values are cut short; --json has all of them")


def _fields(conflict: MergeConflict) -> Iterator[str]:
    yield escape_field(conflict.path)
    yield conflict.kind
    for side in _SIDES:
        absent = conflict.encoded(side) is None
        yield NO_VALUE if absent else escape_field(json_line(conflict.plain(side)))


def _write_json(report: MergeReport, url: str, branch: str) -> None:
    from holdfast.cli._tagged import tagged_json

    known = report.described()
    plan = {
        "session": report.ours.session,
        "branch": branch,
        **{side: known[side]["id"] for side in ("base", "ours", "theirs")},
        "bases": [each["id"] for each in known["bases"]],
        "base_exact": report.base_exact,
        "from_session": report.theirs.session,
        **{name: known[name] for name in ("up_to_date", "fast_forward", "changes")},
    }
    changed = not report.up_to_date and not report.conflicts
    head = head_of(url, plan, dry_run=report.dry_run, changed=changed) | {"checkpoint": known["checkpoint"]}
    conflicts = tagged_json([each.described() for each in report.conflicts], depth=1)
    resolved = tagged_json(
        [{**each.conflict.described(), "how": each.how} for each in report.resolved], depth=1
    )
    unused = json_text(known["unused"]).replace("\n", "\n  ")
    body = ['\n  "conflicts": ', *conflicts, ',\n  "resolved": ', *resolved, ',\n  "unused": ', unused]
    data("".join([json_text(head)[: -len("\n}")], ",", *body, "\n}"]))
