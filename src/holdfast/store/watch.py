"""watch: checkpoints as they come, from this process and from others.

The order is that of arrival in the store. Nothing is skipped and nothing comes twice: each look continues where the
last one ended, by position, which is never given twice.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Final

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.history.checkpoint import Checkpoint
from holdfast.storage.ports import Backend
from holdfast.storage.records import Query
from holdfast.store.place import read_again, records

_LONGEST_WAIT: Final = 0.5
"""Seconds in one question to the backend: whoever wants to stop waiting can do so between two."""

_PAGE: Final = 256


class Watch(Iterator[Checkpoint]):
    """A place in the stream of checkpoints, and what comes after it."""

    def __init__(
        self, backend: Backend, *, after: Checkpoint | None, session: str | None, timeout: float | None
    ) -> None:
        self._backend = backend
        self._session = session
        self._patience = _patience(timeout)
        # With nothing to begin after, it begins now.
        self._position = (
            read_again(partial(backend.wait_for_checkpoint, -1, 0)) if after is None else after.position
        )
        self._page: deque[Checkpoint] = deque()
        self._last = time.monotonic()

    def __next__(self) -> Checkpoint:
        """The next one, as soon as it comes."""
        while not self._page:
            found = self.page()
            if found is None:
                raise StopIteration
            self._page.extend(found)
        return self._page.popleft()

    def page(self, wait: float = _LONGEST_WAIT) -> list[Checkpoint] | None:
        """What has come, oldest first. Waits a moment; None when nothing has come for as long as was asked for."""
        left = self._last + self._patience - time.monotonic()
        # Whoever watches stays for days, and the place is only moved on at the end.
        found = read_again(partial(self._next_page, max(0.0, min(left, wait))))
        if found:
            self._last = time.monotonic()
        return found if found or left > 0 else None

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
            found = records(reader, rows)
        # Fewer than a page: what lies between is of other sessions, or was removed before it was seen.
        self._position = rows[-1].position if len(rows) == _PAGE else newest
        return found


def _patience(timeout: float | None) -> float:
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
