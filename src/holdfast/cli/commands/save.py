"""Commands that start something: init, create."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from holdfast.cli.app import command
from holdfast.cli.inputs import STATUSES, parse_metadata, parse_tags, read_json, value_of
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import checkpoints, counted, document, line
from holdfast.cli.terminal import escape_controls
from holdfast.errors import ConflictError, ErrorCode, NotFoundError

if TYPE_CHECKING:
    from holdfast import Checkpoint, Session
    from holdfast.reports import SavePlan

_ATTEMPTS = 100
"""How often a note is tried again on a newer state: each time it lost, another writer got on."""


@command(
    "init",
    """Make a store, by default in .holdfast here; commands in this folder and below will find it.

    \b
    Examples:
      holdfast init
      holdfast init ~/agents/scout
    """,
)
@click.argument("path", required=False)
def init(cmd: Invocation, *, path: str | None) -> None:
    """Make the store and print its URL."""
    from holdfast.reports import InitReport

    if path is not None and "store" in cmd.typed:
        raise click.UsageError("PATH excludes --store: both say where the store is")
    made: list[bool] = []
    with cmd.open_or_make(path or cmd.store or ".holdfast", first=lambda: made.append(True)) as store:
        report = InitReport(store.url, bool(made))
    if not made:
        cmd.say("a store is already there, nothing was changed:")
    line(cmd, report, report.store)
    if made:
        if path is not None and os.path.abspath(path) != os.path.abspath(".holdfast"):  # noqa: PTH100 - no pathlib at start
            # Nobody finds it there without being told where, and so it is part of the next command.
            cmd.store = path
            cmd.typed.add("store")
        cmd.say("next: holdfast create MESSAGE saves a checkpoint, holdfast demo shows an agent that does")


class _Source(NamedTuple):
    """Where the state of a save comes from: a file, stdin, an older checkpoint (patched or not), or nowhere."""

    kind: Literal["file", "stdin", "repeated", "patch", "empty"]
    state: Any
    origin: Checkpoint | None = None

    def __str__(self) -> str:
        of = f"of #{self.origin.seq}" if self.origin else "empty"
        return {
            "file": "from the file",
            "stdin": "from stdin",
            "patch": f"{of}, patched",
            "empty": "empty",
        }.get(self.kind, f"{of}, unchanged")


_Change = Callable[[_Source], _Source]
"""What is done to the newest state before it is saved again."""


@command(
    "create",
    """Save a checkpoint.

    Without --state or --patch it is a note: the newest state of the session, saved again under MESSAGE.

    \b
    Examples:
      holdfast create "before the risky part" --tags safe
      holdfast create "imported" --state state.json --step 3
      my-agent --dump | holdfast create "nightly" --state -
      holdfast create "one more try" --patch patch.json
    """,
)
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
def create(
    cmd: Invocation, *, state_from: str | None, patch_from: str | None, dry_run: bool, **given: Any
) -> None:
    """Save the checkpoint and print its row."""
    from holdfast.reports import SaveReport

    if state_from is not None and patch_from is not None:
        raise click.UsageError("--state excludes --patch: both say what the state is")
    labels = {"agent": given.pop("agent"), "project": given.pop("project")}
    given["tags"] = parse_tags(given["tags"])
    given["metadata"] = parse_metadata(given["metadata"])
    source = None
    if state_from is not None:
        name = "stdin" if state_from == "-" else state_from
        state = value_of(_read(cmd, state_from, "state"), name)
        source = _Source("stdin" if state_from == "-" else "file", state)
    change = _patch(cmd, patch_from) if patch_from is not None else lambda each: each
    if dry_run:
        _dry_run(cmd, source, change, given, labels)
        return
    # What cannot be saved must not leave a new, empty store behind.
    first = lambda: _rehearse(cmd, source or change(_Source("empty", {})), given, labels)  # noqa: E731
    with cmd.open_or_make(first=first) as store:
        session, keep = cmd.session_of(store, **labels), cmd.retention()
        checkpoint, used = _save(session, source, change, given)
        pruned = 0 if keep is None else session.prune(keep, only=True).deleted
        plan = _plan(cmd, session.branch, used, given | labels)
        if cmd.json:
            document(SaveReport(store.url, dry_run=False, plan=plan, checkpoint=checkpoint).to_dict())
            return
        _say(cmd, plan, used)
        if checkpoint.key is None:
            cmd.say_keyed(_parent(session, checkpoint))
        checkpoints(cmd, [checkpoint])
        if pruned:
            # Hidden, and not removed for good as a program's own retention does: others may have saved them.
            cmd.say(counted(pruned, "older one"), label="pruned: ")
            cmd.say_undo()


def _parent(session: Session, checkpoint: Checkpoint) -> Checkpoint | None:
    try:
        return session.checkpoint(checkpoint.parents[0]) if checkpoint.parents else None
    except NotFoundError:
        # Pruned a moment ago, or removed by somebody else.
        return None


def _save(
    session: Session, source: _Source | None, change: _Change, given: dict[str, Any]
) -> tuple[Checkpoint, _Source]:
    for attempt in range(_ATTEMPTS):
        used = source or change(_newest(session))
        try:
            if notebook := _notebook(session, used, given):
                return notebook.checkpoint(given["message"], given["tags"]), used
            return session.save(used.state, **given), used
        except ConflictError as conflict:
            # A note or a patch is about the newest state, whoever wrote it: take the new one. A state that was handed
            # in is never in this place, because its session has read nothing and appends to whatever is there.
            if conflict.code is not ErrorCode.BRANCH_MOVED or attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("the loop returns or raises")


def _notebook(session: Session, used: _Source, given: dict[str, Any]) -> Any:
    """The notebook of the session, where the state is one and nothing else was asked for: it takes the code along."""
    plain = {"message", "tags"} | {name for name, each in given.items() if each in (None, {}, (), "running")}
    if used.kind != "repeated" or not set(given) <= plain or "notebook" not in used.state:
        return None
    from holdfast.cli.commands.notebook import notebook_in

    return notebook_in(session)


def _patch(cmd: Invocation, patch_from: str) -> _Change:
    from holdfast.reports.text import apply_patch, check_patch, json_form

    patch, name = _read(cmd, patch_from, "patch"), "stdin" if patch_from == "-" else patch_from
    check_patch(patch, name)

    def change(source: _Source) -> _Source:
        patched = apply_patch(json_form(source.state), deepcopy(patch), name)
        return _Source("patch", value_of(patched, f"the state after {name}"), source.origin)

    return change


def _read(cmd: Invocation, given: str, what: str) -> Any:
    if given == "-" and sys.stdin is not None and sys.stdin.isatty():
        cmd.say(f"reading the {what} from the terminal: type JSON, end with Ctrl-D")
    return read_json(given, what)


def _newest(session: Session) -> _Source:
    try:
        newest = session.checkpoint()
    except NotFoundError as error:
        # A branch that is not there beside others is a typo rather than a beginning.
        if error.code is ErrorCode.BRANCH_MISSING:
            raise
        # A new dict each time: a patch changes it in place.
        return _Source("empty", {})
    return _Source("repeated", session.load(newest), newest)


def _rehearse(cmd: Invocation, source: _Source, given: dict[str, Any], labels: dict[str, Any]) -> Checkpoint:
    """Do to a store in memory what would be done to the real one: all that is checked there is checked here."""
    import holdfast

    with holdfast.open("memory:") as trial:
        return cmd.session_of(trial, **labels).save(source.state, **given)


def _dry_run(
    cmd: Invocation, source: _Source | None, change: _Change, given: dict[str, Any], labels: dict[str, Any]
) -> None:
    from holdfast.reports import SaveReport

    url = branch = None
    existing: list[Checkpoint] = []
    try:
        with cmd.open() as store:
            url, session = store.url, cmd.session_of(store, **labels)
            newest, branch = _newest(session), session.branch
            source = source or change(newest)
            if given["key"] is not None:
                existing = store.find(session=cmd.session, key=given["key"], limit=1)
    except NotFoundError as error:
        if error.code is not ErrorCode.STORE_MISSING:
            raise
    source = source or change(_Source("empty", {}))
    tried = _rehearse(cmd, source, given, labels)
    if existing and existing[0].root != tried.root:
        raise ConflictError.key_taken(cmd.session, given["key"], existing=bytes.fromhex(existing[0].id))
    plan = _plan(cmd, branch or tried.branch, source, given | labels)
    if cmd.json:
        document(SaveReport(url, dry_run=True, plan=plan, checkpoint=None).to_dict())
        return
    _say(cmd, plan, source)
    cmd.say("dry run: nothing was saved")


def _plan(cmd: Invocation, branch: str, source: _Source, given: dict[str, Any]) -> SavePlan:
    from holdfast.reports import SavePlan, StateSource

    origin = source.origin.id if source.origin else None
    return SavePlan(session=cmd.session, branch=branch, state=StateSource(source.kind, origin), **given)


def _say(cmd: Invocation, plan: SavePlan, source: _Source) -> None:
    cmd.say_plan(f"session {plan.session}, branch {plan.branch}: save the state, {source}")
    if keep := cmd.retention():
        cmd.say(escape_controls(f"{keep}; the rest is pruned"), label="keeps: ")
