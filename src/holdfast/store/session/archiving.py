"""Checkpoints of a session as files: to read, to keep in git, to give to somebody."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from holdfast.store.session.identity import Ref, SessionIdentity

# Each is imported by the methods that need it: a process that only saves is started faster.
if TYPE_CHECKING:
    from holdfast.store.archives.report import ExportReport


class SessionArchiving(SessionIdentity):
    """What leaves the store as a file; `Store.import_` takes it in again."""

    def export(
        self,
        ref: Ref | Iterable[Ref] = "@",
        path: str | Path | BinaryIO = "checkpoints/",
        *,
        format: str | None = None,  # noqa: A002 - what a person calls it
        session: bool = False,
        force: bool = False,
    ) -> ExportReport:
        """Write checkpoints with their states to a file or a folder.

        The end of the name says how: `.json` is one checkpoint, readable, with a line for each value; `.json.gz` the
        same, compressed; `.jsonl` has one checkpoint a line and is appended to, by several writers at once if need be;
        `.html` is a page with a timeline, the states and what changed, which opens without a server and cannot be
        imported. A path that ends with `/`, or is a folder, gets a file for each checkpoint, named
        `YYYYMMDD-HHMMSS-xxxx.json.gz` by its time in UTC and the first digits of its id. A file that is replaced or
        made appears whole, and what was there is there until then.

        Args:
            ref: The checkpoint; or a range such as `main~5..main`, or several of both. A range with nothing in it is
                refused where it is alone, and a warning beside others.
            path: The file or folder; or a file that was opened to write bytes. A link is followed, and stays a link.
            format: json, json.gz, jsonl, jsonl.gz or html, where the name does not say it; where it does, the same.
            session: The whole session with its branches, in .jsonl, .jsonl.gz or .html; `ref` does not matter then.
            force: Write over a file that is there, also over one of lines. Lines are appended and folders are added to
                without it.

        Raises:
            NotFoundError: There is no such checkpoint.
            InvalidInputError: The file is there already, or is that of a whole session, to which nothing is appended
                (`path-exists`); or it does not fit what is to be written, or is no ordinary file (`bad-argument`).
            BackendError: The file cannot be written.
        """
        from holdfast.store.archives.exporting import export

        return export(self._writer.place, ref, path, format=format, session=session, force=force)
