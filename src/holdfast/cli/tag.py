"""`holdfast tag`: put labels on a checkpoint, take them off, or list those of the session."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from holdfast.cli._completing import RefArgument, complete_tag
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._input import parse_tags
from holdfast.cli._marks import tags_of
from holdfast.cli._opening import open_existing, session_of
from holdfast.cli._paging import paging
from holdfast.cli._planning import Outcome, dry_run_option, open_for, report
from holdfast.cli._render import Column, data, document, table
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import escape_field, iso
from holdfast.errors import ErrorCode, InvalidInputError, NotFoundError
from holdfast.settings.near import close_names, did_you_mean

if TYPE_CHECKING:
    from holdfast import Checkpoint

_REF = re.compile(r"[@#]|tag:|key:|.*~[0-9]*$|[0-9a-f]{8,64}$")
"""What can only be meant as a ref; the name of a branch can be a label too."""

HELP = """Put labels on a checkpoint, or with --remove take them off. Without arguments: list the tags of the session.

tag:NAME is the newest checkpoint that has it.

\b
Examples:
  holdfast tag @ golden reviewed
  holdfast tag tag:verified verified --remove
  holdfast tag
"""


@click.command("tag", cls=HoldfastCommand, short_help="Label checkpoints, and list the labels", help=HELP)
@click.argument("ref", type=RefArgument(), required=False)
@click.argument("tags", metavar="[TAG...]", nargs=-1, shell_complete=complete_tag)
@click.option("--remove", is_flag=True, help="Take them off")
@dry_run_option
@pass_settings
def command(settings: Settings, ref: str | None, tags: Sequence[str], *, remove: bool, dry_run: bool) -> None:
    """Tag, and print the row of the checkpoint; or print the tags."""
    if ref is None:
        if remove or dry_run:
            raise click.UsageError("missing REF and TAG: which checkpoint, and which labels?")
        _list(settings)
        return
    names = parse_tags(tags)
    if not names:
        raise _missing_tag(ref, remove=remove)
    with open_for(settings, dry_run=dry_run) as store:
        session = session_of(store, settings)
        before = session.checkpoint(ref)
        if remove:
            _check_there(before, names)
        # By id: the ref may name another one by now.
        after = session.untag(before, *names) if remove else session.tag(before, *names)
        url = store.url
    added = sorted(set(after.tags) - set(before.tags))
    removed = sorted(set(before.tags) - set(after.tags))
    said = [f"+{name}" for name in added] + [f"-{name}" for name in removed]
    text = f"session {session.id}; #{after.seq} {' '.join(said) or 'has them already'}"
    plan = {"session": session.id, "checkpoint": after.id, "added": added, "removed": removed}
    report(settings, url, Outcome(plan, text, after, changed=bool(said)), dry_run=dry_run)


def _missing_tag(word: str, *, remove: bool) -> InvalidInputError:
    """The error for one word alone: a ref whose label is missing, or a label without the ref before it."""
    import shlex

    verb = "holdfast tag --remove" if remove else "holdfast tag"
    quoted = shlex.quote(word)
    if _REF.match(word):
        ways = f"{verb} {quoted} NAME"
    else:
        ways = f"{verb} @ {quoted} for the newest one, {verb} REF {quoted} for another"
    return InvalidInputError(
        "missing TAG: which labels?",
        code=ErrorCode.BAD_ARGUMENT,
        hint=f"first the checkpoint, then its labels: {ways}",
    )


def _check_there(checkpoint: Checkpoint, names: Sequence[str]) -> None:
    for name in names:
        if name not in checkpoint.tags:
            near = close_names(name, checkpoint.tags)
            listed = f"its tags are: {', '.join(checkpoint.tags)}" if checkpoint.tags else "it has no tags"
            raise NotFoundError(
                f"#{checkpoint.seq} does not have the tag {name!r:.60}",
                code=ErrorCode.CHECKPOINT_MISSING,
                hint=did_you_mean(near) or listed,
                candidates=near,
            )


def _list(settings: Settings) -> None:
    with open_existing(settings) as store:
        tags = tags_of(store, settings)
        url = store.url
    if settings.json:
        listed = [{"name": each.name, "count": each.uses, "newest": each.newest.to_dict()} for each in tags]
        document({"store": url, "session": settings.session, "tags": listed})
        return
    if not tags:
        settings.say("no tags yet: holdfast tag @ NAME puts one on the newest checkpoint")
    elif settings.for_people():
        columns = [
            Column("TAG", lambda t: t.name, most=40, style=lambda _: "cyan"),
            Column("COUNT", lambda t: f"{t.uses:,}", right=True),
            Column("ID", lambda t: t.newest.id[:8], style=lambda _: "yellow"),
            Column("SEQ", lambda t: f"#{t.newest.seq}", right=True),
            Column("SAVED", lambda t: settings.when(t.newest.created_at), right=True, style=lambda _: "dim"),
            Column("MESSAGE", lambda t: t.newest.message, most=10_000),
        ]
        with paging(settings):
            for line in table(settings, columns, tags):
                data(line, color=True)
    else:
        for each in tags:
            newest = each.newest
            fields = [each.name, str(each.uses), newest.id, str(newest.seq), iso(newest.created_at)]
            data("\t".join(escape_field(field) for field in [*fields, newest.message]))
