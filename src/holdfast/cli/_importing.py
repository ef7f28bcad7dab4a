"""The store that an import writes to; what cannot be imported leaves no new, empty one behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.cli._opening import open_or_make
from holdfast.cli._settings import Settings
from holdfast.cli._terminal import escape_controls
from holdfast.errors import ErrorCode, NotFoundError

if TYPE_CHECKING:
    from holdfast import Store


@contextmanager
def target(
    settings: Settings, look_at_source: Callable[[], object], *, dry_run: bool
) -> Iterator[tuple[Store, str]]:
    """The store to import into, and its URL. A dry run makes none: an empty one in memory takes its place.

    Args:
        settings: Which store.
        look_at_source: Raises where the source cannot be imported; called before a store is made.
        dry_run: Whether nothing is written.
    """
    import holdfast

    if not dry_run:
        with open_or_make(
            settings.store, first=look_at_source, durability=settings.durability, compress=settings.compress
        ) as (store, made):
            if made:
                settings.say(f"{made} {escape_controls(store.url)}")
            yield store, store.url
        return
    try:
        opened = holdfast.open(settings.store, create=False)
    except NotFoundError as error:
        if error.code is not ErrorCode.STORE_MISSING:
            raise
        place = error.details.get("url") or f"sqlite:///{error.details.get('path', '')}"
        with holdfast.open("memory:") as store:
            yield store, str(place)
    else:
        with opened as store:
            yield store, store.url
