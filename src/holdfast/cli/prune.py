"""`holdfast prune`: remove what a policy does not keep, and say why each checkpoint stays or goes.

It is a question before it is an act: the table comes first. What goes is hidden, so that undo brings it back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._completing import complete_tag
from holdfast.cli._confirming import confirm, say_undo, yes_option
from holdfast.cli._figures import counted
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._opening import naming_candidates, open_existing, session_of
from holdfast.cli._paging import paging
from holdfast.cli._planning import dry_run_option, say_dry_run
from holdfast.cli._render import Column, data, document, table
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import escape_field, iso
from holdfast.errors import ErrorCode, InvalidInputError

if TYPE_CHECKING:
    from holdfast import Keep
    from holdfast.store.pruning import PruneReport

_MOST = 1_000_000_000

HELP = """Remove the checkpoints that a policy does not keep; the table says why each stays or goes.

A checkpoint stays if any --keep- option wants it; --at-most and --max-age-days win over those. The tips of branches,
checkpoints where branches part or meet and pinned ones always stay. Undo brings back what was removed, until gc has
removed it for good.

\b
Examples:
  holdfast prune --keep-last 100 --keep-days 7 --dry-run
  holdfast prune --keep-hourly 24 --keep-daily all --keep-tag verified --yes
  holdfast prune --at-most 100 --per branch --yes
"""


class _Periods(click.types.StringParamType):
    """A number of periods, or all of them."""

    name = "n|all"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See `click.ParamType.convert`."""
        if value == "all":
            return value
        if isinstance(value, int):
            return value
        if not (value.isascii() and value.isdigit() and 1 <= int(value[:11]) <= _MOST):
            self.fail(f"{value!r:.60} is neither a whole number from 1 on nor all", param, ctx)
        return int(value)


_NUMBER = click.IntRange(min=1, max=_MOST)
_PERIODS = _Periods()


@click.command(
    "prune", cls=HoldfastCommand, short_help="Remove checkpoints that a policy does not keep", help=HELP
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
@dry_run_option
@yes_option
@pass_settings
def command(settings: Settings, *, dry_run: bool, yes: bool, **fields: Any) -> None:
    """Show the plan, ask, and carry it out."""
    if "branch" in settings.typed:
        raise click.UsageError("--branch does not apply: --per branch counts in each branch")
    keep = _policy(fields)
    with open_existing(settings) as store, naming_candidates(store, settings):
        session = session_of(store, settings)
        report = session.prune(keep, dry_run=True)
        _show_to_people(settings, report)
        if report.deleted and not dry_run:
            confirm(settings, _danger(report), yes=yes)
            # Decided anew: what was saved while somebody was thinking counts too.
            report = session.prune(keep)
        url = store.url
    _write(settings, url, keep, report, dry_run=dry_run)


def _policy(fields: dict[str, Any]) -> Keep:
    from holdfast import Keep

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


def _danger(report: PruneReport) -> str:
    sessions = {each.checkpoint.session for each in report.decisions if not each.kept}
    where = f" of {len(sessions)} sessions" if len(sessions) > 1 else ""
    return f"{report.deleted:,} of {counted(report.total, 'checkpoint')}{where} will be removed"


def _show_to_people(settings: Settings, report: PruneReport) -> None:
    if not settings.for_people() or not report.decisions:
        return
    columns = [
        Column("ID", lambda d: d.checkpoint.id[:8], style=lambda _: "yellow"),
        Column("SEQ", lambda d: f"#{d.checkpoint.seq}", right=True),
        Column(
            "AGE" if settings.time == "relative" else "TIME",
            lambda d: settings.when(d.checkpoint.created_at),
            right=True,
            style=lambda _: "dim",
        ),
        Column("PLAN", _verdict, style=lambda d: "green" if d.kept else "red"),
        Column("REASONS", lambda d: ", ".join(d.reasons), most=36),
        Column("MESSAGE", lambda d: d.checkpoint.message, most=10_000),
    ]
    if len({each.checkpoint.session for each in report.decisions}) > 1:
        columns.insert(2, Column("SESSION", lambda d: d.checkpoint.session, most=24))
    with paging(settings):
        for line in table(settings, columns, report.decisions):
            data(line, color=True)


def _verdict(decision: Any) -> str:
    return "keep" if decision.kept else "remove"


def _write(settings: Settings, url: str, keep: Keep, report: PruneReport, *, dry_run: bool) -> None:
    if settings.json:
        decisions = [
            {"checkpoint": each.checkpoint.to_dict(), "kept": each.kept, "reasons": list(each.reasons)}
            for each in report.decisions
        ]
        counts = {"total": report.total, "kept": report.kept, "deleted": report.deleted}
        head = {
            "store": url,
            "session": settings.session,
            "dry_run": dry_run,
            "changed": bool(report.deleted) and not dry_run,
        }
        document(head | {"policy": keep.to_dict(), **counts, "decisions": decisions})
        return
    if not settings.for_people():
        for each in report.decisions:
            data("\t".join(escape_field(field) for field in _fields(each)))
    _summary(settings, report, dry_run=dry_run)


def _fields(decision: Any) -> list[str]:
    each = decision.checkpoint
    reasons = "; ".join(decision.reasons)
    return [
        each.id,
        str(each.seq),
        iso(each.created_at),
        each.session,
        _verdict(decision),
        reasons,
        each.message,
    ]


def _summary(settings: Settings, report: PruneReport, *, dry_run: bool) -> None:
    if not report.deleted:
        kept = "the one checkpoint is" if report.total == 1 else f"all {report.total:,} checkpoints are"
        settings.say(f"nothing to remove: {kept} kept")
        return
    would = "would be " if dry_run else ""
    settings.say(
        f"{counted(report.total, 'checkpoint')}: {report.kept:,} {would}kept, {report.deleted:,} {would}removed"
    )
    if dry_run:
        say_dry_run(settings)
        return
    touched = {each.checkpoint.session for each in report.decisions if not each.kept}
    for name in sorted(touched):
        # Each session has its own operations to undo.
        say_undo(settings, session=name if len(touched) > 1 else None)
