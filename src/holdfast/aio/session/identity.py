"""What every part of an AsyncSession stands on: the Session that it hands work to, and the order of that work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio

from holdfast.aio.thread import in_thread
from holdfast.store.session import Session

_T = TypeVar("_T")


class AsyncSessionIdentity:
    """A Session whose work is done in another thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # Saves that are under way at once are written in the order in which they were called.
        self._turn = anyio.Lock()

    @property
    def id(self) -> str:
        """See `Session.id`."""
        return self._session.id

    @property
    def agent(self) -> str | None:
        """See `Session.agent`."""
        return self._session.agent

    @property
    def project(self) -> str | None:
        """See `Session.project`."""
        return self._session.project

    @property
    def branch(self) -> str:
        """See `Session.branch`."""
        return self._session.branch

    async def _written(self, write: Callable[[], _T]) -> _T:
        async with self._turn:
            return await in_thread(write)

    def __repr__(self) -> str:
        return f"<Async{repr(self._session)[1:]}"
