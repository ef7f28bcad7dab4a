"""`holdfast create`: save a checkpoint by hand: a state from a JSON file, a patch of the newest state, or a note on it.

The plan of the save is worked out first and told; `--dry-run` tries it on a store in memory and stops there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._confirming import say_undo
from holdfast.cli._figures import counted
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._input import STATUSES, parse_metadata, parse_tags, read_state
from holdfast.cli._opening import open_existing, open_or_make, retention_of, session_of
from holdfast.cli._planning import say_unseen
from holdfast.cli._render import checkpoint_rows, document
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import escape_controls
from holdfast.errors import ConflictError, ErrorCode, NotFoundError
from holdfast.record import Record

if TYPE_CHECKING:
    from holdfast import Checkpoint, Session, Store

_ATTEMPTS = 100
"""How often a note is tried again on a newer state: each time it lost, another writer got on."""

HELP = """Save a checkpoint.

Without --state or --patch it is a note: the newest state of the session, saved again under MESSAGE.

\b
Examples:
  holdfast create "before the risky part" --tags safe
  holdfast create "imported" --state state.json --step 3
  my-agent --dump | holdfast create "nightly" --state -
  holdfast create "one more try" --patch patch.json
"""


class Source(Record):
    """Where the state of a save comes from: a file, stdin, an older checkpoint (patched or not), or nowhere."""

    kind: str
    state: Any
    origin: Checkpoint | None = None

    def describe(self) -> str:
        """Its name in the plan."""
        if self.kind == "patch":
            return f"that of #{self.origin.seq}, patched" if self.origin else "empty, {}, patched"
        if self.origin is not None:
            return f"that of #{self.origin.seq}, unchanged"
        return {"file": "from the file", "stdin": "from stdin"}.get(self.kind, "empty, {}")


Change = Callable[[Source], Source]
"""What is done to the newest state before it is saved again."""


def _empty() -> Source:
    # A new dict each time: a patch changes it in place.
    return Source("empty", {})


@click.command("create", cls=HoldfastCommand, short_help="Save a checkpoint", help=HELP)
@click.argument("message")
@click.option("--tags", multiple=True, metavar="A,B", help="Labels, separated by commas; can be repeated")
@click.option("--state", "state_from", metavar="FILE", help="The state: a JSON file, or - for stdin")
@click.option(
    "--patch",
    "patch_from",
    metavar="FILE",
    help="A JSON patch (RFC 6902) of the newest state, or - for stdin",
)
@click.option("--step", type=int, metavar="N", help="The agent's own step number")
@click.option(
    "--status", type=click.Choice(STATUSES), default="running", show_default=True, help="What it is doing"
)
@click.option(
    "--metadata", multiple=True, metavar="K=V", help="A text under a key, or a JSON object; can be repeated"
)
@click.option(
    "--key", metavar="K", help="Your own id for it: saving the same state under it again changes nothing"
)
@click.option("--agent", metavar="NAME", help="The agent that the session belongs to")
@click.option("--project", metavar="NAME", help="The project that the session belongs to")
@click.option("-n", "--dry-run", is_flag=True, help="Check everything, save nothing")
@pass_settings
def command(
    settings: Settings, *, state_from: str | None, patch_from: str | None, dry_run: bool, **given: Any
) -> None:
    """Save the checkpoint and print its row."""
    if state_from is not None and patch_from is not None:
        raise click.UsageError("--state and --patch both say what the state is: give one")
    labels = {"agent": given.pop("agent"), "project": given.pop("project")}
    given["tags"] = parse_tags(given["tags"])
    given["metadata"] = parse_metadata(given["metadata"])
    source = None if state_from is None else _handed_in(settings, state_from)
    change = _unchanged if patch_from is None else _patch(settings, patch_from)
    if dry_run:
        _dry_run(settings, source, change, given, labels)
        return
    # What cannot be saved must not leave a new, empty store behind.
    with open_or_make(
        settings.store,
        first=lambda: _rehearse(settings, source or change(_empty()), given, labels),
        durability=settings.durability,
        compress=settings.compress,
    ) as (
        store,
        made,
    ):
        if made:
            settings.say(f"{made} {escape_controls(store.url)}")
        session, keep = session_of(store, settings, **labels), retention_of(settings)
        checkpoint, used = _save(session, source, change, given)
        pruned = 0 if keep is None else session.prune(keep).deleted
        plan = _plan(settings, session.branch, used, given | labels)
        if settings.json:
            document({"store": store.url, "dry_run": False, "plan": plan, "checkpoint": checkpoint.to_dict()})
            return
        _say_plan(settings, plan, used)
        if checkpoint.key is None:
            say_unseen(settings, _parent(session, checkpoint))
        checkpoint_rows(settings, [checkpoint])
        if pruned:
            # Hidden, and not removed for good as a program's own retention does: others may have saved them.
            settings.say(counted(pruned, "older one"), label="pruned: ")
            say_undo(settings)


def _parent(session: Session, checkpoint: Checkpoint) -> Checkpoint | None:
    try:
        return session.checkpoint(checkpoint.parents[0]) if checkpoint.parents else None
    except NotFoundError:
        # Pruned a moment ago, or removed by somebody else.
        return None


def _save(
    session: Session, source: Source | None, change: Change, given: dict[str, Any]
) -> tuple[Checkpoint, Source]:
    for attempt in range(_ATTEMPTS):
        used = source or change(_newest(session))
        try:
            return session.save(used.state, **given), used
        except ConflictError as conflict:
            # A note or a patch is about the newest state, whoever wrote it: take the new one. A state that was handed
            # in is never in this place, because its session has read nothing and appends to whatever is there.
            if conflict.code is not ErrorCode.BRANCH_MOVED or attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("the loop returns or raises")


def _handed_in(settings: Settings, state_from: str) -> Source:
    return Source("stdin" if state_from == "-" else "file", _read(settings, state_from, "state"))


def _unchanged(source: Source) -> Source:
    return source


def _patch(settings: Settings, patch_from: str) -> Change:
    # Only those who patch need it.
    from holdfast.cli._patching import apply_patch, parse_patch

    steps = parse_patch(_read(settings, patch_from, "patch"), "stdin" if patch_from == "-" else patch_from)

    def change(source: Source) -> Source:
        return Source("patch", apply_patch(source.state, steps), source.origin)

    return change


def _read(settings: Settings, given: str, what: str) -> Any:
    if given == "-" and sys.stdin is not None and sys.stdin.isatty():
        settings.say(f"reading the {what} from the terminal: type JSON, end with Ctrl-D")
    return read_state(given, what)


def _newest(session: Session) -> Source:
    try:
        newest = session.checkpoint()
    except NotFoundError as error:
        # A branch that is not there beside others is a typo rather than a beginning.
        if error.code is ErrorCode.BRANCH_MISSING:
            raise
        return _empty()
    return Source("repeated", session.load(newest), newest)


def _rehearse(
    settings: Settings, source: Source, given: dict[str, Any], labels: dict[str, Any]
) -> Checkpoint:
    """Do to a store in memory what would be done to the real one: all that is checked there is checked here."""
    import holdfast

    with holdfast.open("memory:") as trial:
        return session_of(trial, settings, **labels).save(source.state, **given)


def _dry_run(
    settings: Settings, source: Source | None, change: Change, given: dict[str, Any], labels: dict[str, Any]
) -> None:
    url = branch = None
    existing: list[Checkpoint] = []
    try:
        with open_existing(settings) as store:
            url = store.url
            session = session_of(store, settings, **labels)
            newest, branch = _newest(session), session.branch
            source = source or change(newest)
            existing = _same_key(store, settings, given["key"])
    except NotFoundError as error:
        if error.code is not ErrorCode.STORE_MISSING:
            raise
    source = source or change(_empty())
    tried = _rehearse(settings, source, given, labels)
    branch = branch or tried.branch
    if existing and existing[0].root != tried.root:
        raise ConflictError.key_taken(settings.session, given["key"], existing=bytes.fromhex(existing[0].id))
    plan = _plan(settings, branch, source, given | labels)
    if settings.json:
        document({"store": url, "dry_run": True, "plan": plan, "checkpoint": None})
        return
    _say_plan(settings, plan, source)
    settings.say("a dry run: nothing was saved")


def _same_key(store: Store, settings: Settings, key: str | None) -> list[Checkpoint]:
    return [] if key is None else store.find(session=settings.session, key=key, limit=1)


def _plan(settings: Settings, branch: str, source: Source, given: dict[str, Any]) -> dict[str, Any]:
    origin = source.origin.id if source.origin else None
    place = {"session": settings.session, "branch": branch}
    return place | given | {"state": {"source": source.kind, "checkpoint": origin}}


def _say_plan(settings: Settings, plan: dict[str, Any], source: Source) -> None:
    place = f"session {plan['session']}, branch {plan['branch']}"
    settings.say(escape_controls(f"{place}; the state is {source.describe()}"), label="plan: ")
    if keep := retention_of(settings):
        settings.say(escape_controls(f"{keep}; the rest is pruned"), label="keeps: ")
