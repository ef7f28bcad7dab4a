"""watch: checkpoints as they come, from this process and from others.

The order is that of arrival in the store. Nothing is skipped and nothing comes twice: each look continues where the
last one ended, by position, which is never given twice.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from functools import partial
from typing import Final

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.history.checkpoint import Checkpoint
from holdfast.storage.ports import Backend
from holdfast.storage.records import Query
from holdfast.store.place import read_again, session_of

LONGEST_WAIT: Final = 0.5
"""Seconds in one question to the backend: whoever wants to stop waiting can do so between two."""

_PAGE: Final = 256


class Watch:
    """A place in the stream of checkpoints, and what comes after it."""

    def __init__(self, backend: Backend, *, after: Checkpoint | None, session: str | None) -> None:
        self._backend = backend
        self._session = session
        # With nothing to begin after, it begins now.
        self._position = (
            read_again(partial(backend.wait_for_checkpoint, -1, 0)) if after is None else after.position
        )

    def next_page(self, timeout: float) -> list[Checkpoint]:
        """What has come, oldest first; empty if nothing comes within so many seconds."""
        # Whoever watches stays for days, and the place is only moved on at the end.
        return read_again(partial(self._next_page, timeout))

    def _next_page(self, timeout: float) -> list[Checkpoint]:
        newest = self._backend.wait_for_checkpoint(self._position, timeout)
        if newest <= self._position:
            return []
        with self._backend.reader() as reader:
            rows = reader.checkpoints(
                Query(
                    session=self._session,
                    after_position=self._position,
                    # Beyond it lower ones may still be on their way.
                    before_position=newest + 1,
                    oldest_first=True,
                    limit=_PAGE,
                )
            )
            owners = {row.session: session_of(reader, row) for row in rows}
        # Fewer than a page: what lies between is of other sessions, or was removed before it was seen.
        self._position = rows[-1].position if len(rows) == _PAGE else newest
        return [Checkpoint(row, owners[row.session]) for row in rows]


def check_timeout(timeout: float | None) -> float:
    """The seconds to wait for the next checkpoint; for ever where none are given."""
    if timeout is None:
        return math.inf
    if type(timeout) not in (int, float) or not timeout >= 0:
        raise InvalidInputError(
            f"timeout cannot be {timeout!r}",
            code=ErrorCode.BAD_ARGUMENT,
            hint="give a number of seconds, or None to wait for ever",
        )
    return timeout


def each(pages: Watch, timeout: float) -> Iterator[Checkpoint]:
    """Yield checkpoints as they come, until none came for so many seconds."""
    last = time.monotonic()
    while True:
        left = last + timeout - time.monotonic()
        page = pages.next_page(max(0.0, min(left, LONGEST_WAIT)))
        yield from page
        if page:
            last = time.monotonic()
        elif left <= 0:
            return
