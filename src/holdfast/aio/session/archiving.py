"""Checkpoints of a session as files, awaitable."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import BinaryIO

from holdfast.aio.session.identity import AsyncSessionIdentity
from holdfast.aio.thread import in_thread
from holdfast.reports.transfer import ExportReport
from holdfast.store.place import Ref


class AsyncSessionArchiving(AsyncSessionIdentity):
    """What leaves the store as a file."""

    async def export(
        self,
        ref: Ref | Iterable[Ref] = "@",
        path: str | Path | BinaryIO = "checkpoints/",
        *,
        format: str | None = None,  # noqa: A002 - what a person calls it
        session: bool = False,
        force: bool = False,
    ) -> ExportReport:
        """See `Session.export`."""
        return await in_thread(
            partial(self._session.export, ref, path, format=format, session=session, force=force)
        )
