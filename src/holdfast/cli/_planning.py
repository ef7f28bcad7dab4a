"""What the commands that change history share: the plan that is told, the dry run, and the way back.

A command carries its operation out, on the store or on a rehearsal of it, and tells the plan from what came of it. So a
dry run says word for word what the run itself says, fails where that would fail, and differs in one thing: nothing is
written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._confirming import say_undo
from holdfast.cli._opening import naming_candidates, open_existing
from holdfast.cli._render import checkpoint_rows, document
from holdfast.cli._terminal import escape_controls
from holdfast.errors import NotFoundError
from holdfast.record import Record

if TYPE_CHECKING:
    from holdfast import Checkpoint, Session, Store
    from holdfast.cli._settings import Settings

_Command = Callable[..., Any]


class Outcome(Record):
    """What a command did, or would do."""

    plan: dict[str, Any]
    """As data; the same in a dry run."""
    text: str
    """As a sentence for people."""
    checkpoint: Checkpoint
    """The checkpoint that was made or changed."""
    changed: bool = True
    """Whether anything is different afterwards."""
    session: str | None = None
    """The session whose log has it, where that is another one."""
    note: str = ""
    """Something to say after it was done."""
    built_on: Checkpoint | None = None
    """What a new checkpoint without a key goes on from."""


def number_of(session: Session, checkpoint: str) -> str:
    """A checkpoint as people call it; one that somebody removed meanwhile by its id."""
    try:
        return f"#{session.checkpoint(checkpoint).seq}"
    except NotFoundError:
        # What was asked for is done, and must not end with an error because of how it is told.
        return checkpoint[:12]


def dry_run_option(command: _Command) -> _Command:
    """Add `-n/--dry-run`; the command gets it as `dry_run`."""
    return click.option("-n", "--dry-run", is_flag=True, help="Show the plan, change nothing")(command)


@contextmanager
def open_for(settings: Settings, *, dry_run: bool) -> Iterator[Store]:
    """The store to carry an operation out on: the real one, or a rehearsal of it."""
    with open_existing(settings) as store, naming_candidates(store, settings):
        yield store.rehearsal() if dry_run else store


def report(settings: Settings, url: str, outcome: Outcome, *, dry_run: bool) -> None:
    """Tell what was done, or would be, and how to take it back."""
    if settings.json:
        record = None if dry_run else outcome.checkpoint.to_dict()
        document(
            head_of(url, outcome.plan, dry_run=dry_run, changed=outcome.changed) | {"checkpoint": record}
        )
        return
    say_plan(settings, outcome.text)
    say_unseen(settings, outcome.built_on)
    if dry_run:
        say_dry_run(settings)
        return
    checkpoint_rows(settings, [outcome.checkpoint])
    if outcome.note:
        settings.say(escape_controls(outcome.note))
    if outcome.changed:
        say_undo(settings, session=outcome.session)


def head_of(url: str, plan: dict[str, Any], *, dry_run: bool, changed: bool) -> dict[str, Any]:
    """How the JSON document of every change begins."""
    return {"store": url, "dry_run": dry_run, "changed": changed, "plan": plan}


def say_plan(settings: Settings, text: str) -> None:
    """One line about what is done; the same in a dry run."""
    settings.say(escape_controls(text), label="plan: ")


def say_unseen(settings: Settings, built_on: Checkpoint | None, then: str = "will not see this one") -> None:
    """Warn whoever saves by hand after a program that looks for checkpoints by key, as a graph of LangGraph does."""
    if built_on is not None and built_on.key is not None:
        settings.say(
            f"the program that saves here finds its checkpoints by key, and {then} "
            "(docs/integrations/langgraph.md says which commands act on a graph)",
            label="note: ",
            style="yellow",
        )


def say_dry_run(settings: Settings) -> None:
    """The last line of a dry run."""
    settings.say("a dry run: nothing was changed")
