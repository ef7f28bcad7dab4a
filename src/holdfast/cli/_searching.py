"""What bisect, blame, history and grep say besides their answer: states that were passed over, keys not there."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.cli._terminal import escape_controls
from holdfast.errors import ErrorCode, HoldfastWarning, NotFoundError

if TYPE_CHECKING:
    from holdfast import Checkpoint
    from holdfast.cli._settings import Settings

_UNREADABLE = re.compile("states? cannot be read")


def say_notes(settings: Settings, notes: Iterable[str]) -> None:
    """Each on a line of its own, on stderr; with --json they are in the document instead."""
    told = list(notes)
    for note in told:
        settings.say(escape_controls(note), label="note: ", style="yellow")
    if any(_UNREADABLE.search(note) for note in told):
        settings.say("holdfast verify says what is damaged")


def numbered(checkpoints: Iterable[Checkpoint]) -> str:
    """The numbers of some checkpoints, those in a row as `#5 to #9`."""
    from holdfast.store.searching.findings import numbered

    return numbered(each.seq for each in checkpoints)


@contextmanager
def looking_everywhere(option: str) -> Iterator[None]:
    """Where nothing was found at a path by looking here and there, say which option looks into every state."""
    try:
        yield
    except NotFoundError as error:
        if error.code is ErrorCode.PATH_MISSING:
            error.hint = f"{error.hint}; {option} looks into every state"
        raise


@contextmanager
def notes_instead_of_warnings() -> Iterator[None]:
    """A program that goes through findings is warned of what was passed over; here the notes say it, in their place."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HoldfastWarning)
        yield
