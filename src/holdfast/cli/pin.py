"""`holdfast pin`: protect a checkpoint from removal, end that, or list what is protected."""

from __future__ import annotations

import click

from holdfast.cli._completing import RefArgument
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._marks import checkpoints_of
from holdfast.cli._opening import open_existing, session_of
from holdfast.cli._paging import paging
from holdfast.cli._planning import Outcome, dry_run_option, open_for, report
from holdfast.cli._render import checkpoint_rows, document
from holdfast.cli._settings import Settings, pass_settings

HELP = """Protect a checkpoint: prune keeps it, and deleting it needs --force. Without REF: list what is pinned.

\b
Examples:
  holdfast pin tag:verified
  holdfast pin @ --remove
  holdfast pin
"""


@click.command("pin", cls=HoldfastCommand, short_help="Protect checkpoints from removal", help=HELP)
@click.argument("ref", type=RefArgument(), required=False)
@click.option("--remove", is_flag=True, help="End the protection")
@dry_run_option
@pass_settings
def command(settings: Settings, ref: str | None, *, remove: bool, dry_run: bool) -> None:
    """Pin, and print the row of the checkpoint; or print what is pinned."""
    if ref is None:
        if remove or dry_run:
            raise click.UsageError("missing REF: which checkpoint?")
        _list(settings)
        return
    with open_for(settings, dry_run=dry_run) as store:
        session = session_of(store, settings)
        before = session.checkpoint(ref)
        # By id: the ref may name another one by now.
        after = session.unpin(before) if remove else session.pin(before)
        url = store.url
    changed = before.pinned != after.pinned
    said = {
        (True, True): "is protected from removal",
        (True, False): "is protected already",
        (False, True): "is no longer protected",
        (False, False): "is not protected",
    }
    text = f"session {session.id}; #{after.seq} {said[after.pinned, changed]}"
    plan = {"session": session.id, "checkpoint": after.id, "pinned": after.pinned}
    report(settings, url, Outcome(plan, text, after, changed=changed), dry_run=dry_run)


def _list(settings: Settings) -> None:
    with open_existing(settings) as store:
        pinned = [each for each in checkpoints_of(store, settings) if each.pinned]
        url = store.url
    if settings.json:
        listed = [each.to_dict() for each in pinned]
        document({"store": url, "session": settings.session, "checkpoints": listed})
    elif pinned:
        with paging(settings):
            checkpoint_rows(settings, pinned)
    else:
        settings.say("nothing is pinned: holdfast pin REF protects a checkpoint")
