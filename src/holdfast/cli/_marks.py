"""What people marked in a session, found by looking through its checkpoints: tags and pins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.cli._opening import missing_session
from holdfast.record import Record

if TYPE_CHECKING:
    from holdfast import Checkpoint, Store
    from holdfast.cli._settings import Settings

_PAGE = 1000
"""Rows per question, so that a long session is looked through in little memory."""


class Tag(Record):
    """A tag as it is listed."""

    name: str
    uses: int
    newest: Checkpoint
    """The one that `tag:NAME` means."""


def checkpoints_of(store: Store, settings: Settings) -> Iterator[Checkpoint]:
    """Every checkpoint of the session, newest first; a session that is not there is an error."""
    last: Checkpoint | None = None
    while True:
        page = store.find(session=settings.session, before=last, limit=_PAGE)
        if not page and last is None and settings.session not in (each.id for each in store.sessions()):
            raise missing_session(store, settings.session)
        yield from page
        if len(page) < _PAGE:
            return
        last = page[-1]


def tags_of(store: Store, settings: Settings) -> list[Tag]:
    """The tags of the session, by name."""
    found: dict[str, Tag] = {}
    for checkpoint in checkpoints_of(store, settings):
        for name in checkpoint.tags:
            known = found.get(name) or Tag(name, 0, checkpoint)
            found[name] = known._replace(uses=known.uses + 1)
    return sorted(found.values(), key=lambda tag: tag.name)
