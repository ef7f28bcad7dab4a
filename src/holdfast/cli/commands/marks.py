"""Commands that mark checkpoints: tag, pin, annotate."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from holdfast.cli.app import command
from holdfast.cli.commands.look import pages
from holdfast.cli.completion import RefArgument, complete_tag
from holdfast.cli.inputs import parse_metadata, parse_tags
from holdfast.cli.invocation import DRY_RUN, Invocation
from holdfast.cli.output import Column, change, checkpoints, rows
from holdfast.errors import ErrorCode, InvalidInputError, NotFoundError
from holdfast.settings.near import close_names, did_you_mean

if TYPE_CHECKING:
    from holdfast import Checkpoint
    from holdfast.reports import TagInfo

_REF = re.compile(r"[@#]|tag:|key:|.*~[0-9]*$|[0-9a-f]{8,64}$")
"""What can only be meant as a ref; the name of a branch can be a label too."""

_TAGS = (
    Column("name", header="TAG", width=40, style="cyan"),
    Column("count", kind="count"),
    Column("id", "newest.id", kind="id", style="yellow"),
    Column("seq", "newest.seq", kind="seq"),
    Column("created_at", "newest.created_at", kind="time", header="SAVED", style="dim"),
    Column("message", "newest.message", width=10_000),
)


@command(
    "tag",
    """Put labels on a checkpoint, or with --remove take them off. Without arguments: list the tags of the session.

    tag:NAME is the newest checkpoint that has it.

    \b
    Examples:
      holdfast tag @ golden reviewed
      holdfast tag tag:verified verified --remove
      holdfast tag
    """,
)
@click.argument("ref", type=RefArgument(), required=False)
@click.argument("tags", metavar="[TAG...]", nargs=-1, shell_complete=complete_tag)
@click.option("--remove", is_flag=True, help="Take them off")
@DRY_RUN
def tag(cmd: Invocation, *, ref: str | None, tags: Sequence[str], remove: bool, dry_run: bool) -> None:
    """Tag, and print the row of the checkpoint; or print the tags."""
    from holdfast.reports import CheckpointChange, TagPlan

    if ref is None:
        if remove or dry_run:
            raise click.UsageError("missing REF and TAG: which checkpoint, and which labels?")
        _list_tags(cmd)
        return
    names = parse_tags(tags)
    if not names:
        raise _missing_tag(ref, remove=remove)
    with cmd.open_session(dry_run=dry_run) as (store, session):
        before = session.checkpoint(ref)
        if remove:
            _check_there(before, names)
        # By id: the ref may name another one by now.
        after = session.untag(before, *names) if remove else session.tag(before, *names)
        url = store.url
    added = tuple(sorted(set(after.tags) - set(before.tags)))
    removed = tuple(sorted(set(before.tags) - set(after.tags)))
    said = [f"+{name}" for name in added] + [f"-{name}" for name in removed]
    plan = TagPlan(session.id, after.id, added, removed)
    report = CheckpointChange(url, dry_run, bool(said), plan, None if dry_run else after)
    change(cmd, report, f"session {session.id}: #{after.seq} {' '.join(said) or 'has them already'}", after)


def _missing_tag(word: str, *, remove: bool) -> InvalidInputError:
    """The error for one word alone: a ref whose label is missing, or a label without the ref before it."""
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


def _list_tags(cmd: Invocation) -> None:
    from holdfast.reports import TagInfo, TagList

    found: dict[str, TagInfo] = {}
    with cmd.open() as store:
        cmd.check_session(store)
        for each in pages(store, cmd.session):
            for name in each.tags:
                known = found.get(name) or TagInfo(name, 0, each)
                found[name] = known.replace(count=known.count + 1)
        url = store.url
    tags = tuple(found[name] for name in sorted(found))
    rows(cmd, tags, _TAGS, lambda: TagList(url, cmd.session, tags))
    if not tags:
        cmd.say("no tags yet: holdfast tag @ NAME puts one on the newest checkpoint")


@command(
    "pin",
    """Protect a checkpoint: prune keeps it, and deleting it needs --force. Without REF: list what is pinned.

    \b
    Examples:
      holdfast pin tag:verified
      holdfast pin @ --remove
      holdfast pin
    """,
)
@click.argument("ref", type=RefArgument(), required=False)
@click.option("--remove", is_flag=True, help="End the protection")
@DRY_RUN
def pin(cmd: Invocation, *, ref: str | None, remove: bool, dry_run: bool) -> None:
    """Pin, and print the row of the checkpoint; or print what is pinned."""
    from holdfast.reports import CheckpointChange, PinList, PinPlan

    if ref is None:
        if remove or dry_run:
            raise click.UsageError("missing REF: which checkpoint?")
        with cmd.open() as store:
            cmd.check_session(store)
            pinned = tuple(each for each in pages(store, cmd.session) if each.pinned)
            url = store.url
        checkpoints(cmd, pinned, lambda: PinList(url, cmd.session, pinned))
        if not pinned:
            cmd.say("nothing is pinned: holdfast pin REF protects a checkpoint")
        return
    with cmd.open_session(dry_run=dry_run) as (store, session):
        before = session.checkpoint(ref)
        # By id: the ref may name another one by now.
        after = session.unpin(before) if remove else session.pin(before)
        url = store.url
    changed = before.pinned != after.pinned
    said = ("pinned" if after.pinned else "not pinned") + (" now" if changed else " already")
    plan = PinPlan(session.id, after.id, after.pinned)
    report = CheckpointChange(url, dry_run, changed, plan, None if dry_run else after)
    change(cmd, report, f"session {session.id}: #{after.seq} is {said}", after)


@command(
    "annotate",
    """Edit the message of a checkpoint, or lay metadata over what it has. Its id and its state stay the same.

    \b
    Examples:
      holdfast annotate @ --message "the one that works"
      holdfast annotate tag:verified --metadata reviewer=ada --metadata '{"score": 0.9}'
    """,
)
@click.argument("ref", type=RefArgument())
@click.option("--message", metavar="TEXT", help="The new message")
@click.option(
    "--metadata", multiple=True, metavar="K=V", help="A text under a key, or a JSON object; can be repeated"
)
@DRY_RUN
def annotate(
    cmd: Invocation, *, ref: str, message: str | None, metadata: Sequence[str], dry_run: bool
) -> None:
    """Annotate, and print the row of the checkpoint."""
    from holdfast.reports import AnnotatePlan, CheckpointChange

    values = parse_metadata(metadata)
    if message is None and not values:
        raise click.UsageError("give --message or --metadata; holdfast tag sets labels")
    with cmd.open_session(dry_run=dry_run) as (store, session):
        before = session.checkpoint(ref)
        # By id: the ref may name another one by now.
        after = session.annotate(before, message=message, metadata=values or None)
        url = store.url
    changed = (before.message, before.metadata) != (after.message, after.metadata)
    parts = ([] if message is None else ["a new message"]) + (
        [f"metadata {', '.join(values)}"] if values else []
    )
    text = f"#{after.seq} gets {' and '.join(parts)}" if changed else f"#{after.seq} has that already"
    plan = AnnotatePlan(session.id, after.id, message, values)
    report = CheckpointChange(url, dry_run, changed, plan, None if dry_run else after)
    change(cmd, report, f"session {session.id}: {text}", after)
