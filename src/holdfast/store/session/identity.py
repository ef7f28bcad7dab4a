"""What every part of a Session stands on: the writer behind it, and who it is."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.history.checkpoint import Checkpoint
from holdfast.history.names import check_branch, check_label, check_session
from holdfast.storage.ports import Reader
from holdfast.storage.records import Claim
from holdfast.store.composition import Composition
from holdfast.store.writer import Writer

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.history.keep import Keep
    from holdfast.store.leases import HeldLease

Ref = str | Checkpoint

_USUAL_FILES: Final = "json.gz"


class SessionIdentity:
    """One writer on one branch of one session."""

    def __init__(  # noqa: PLR0913 - each is a keyword of the public contract
        self,
        parts: Composition,
        session: str,
        *,
        agent: str | None,
        project: str | None,
        branch: str,
        keep: Keep | None = None,
        lease: HeldLease | None = None,
        export_dir: str | Path | bool | None = None,
        export_format: str = _USUAL_FILES,
    ) -> None:
        claim = Claim(
            session=check_session(session),
            agent=check_label(agent, "agent"),
            project=check_label(project, "project"),
        )
        if lease is not None:
            # Only a session that is given one needs to know what a lease is.
            from holdfast.store.leases import check_held

            lease = check_held(lease)
        files = None
        if export_format != _USUAL_FILES and export_dir is None:
            # Nobody says how to write files and wants none; export_dir=False says that they are switched off.
            raise InvalidInputError(
                f"export_format={export_format!r:.40} without export_dir: no files would be written",
                code=ErrorCode.BAD_ARGUMENT,
                hint='pass export_dir, a folder or True for "checkpoints"; or leave both out for no files',
            )
        if export_dir is not None and export_dir is not False:
            # Only a session that keeps files needs to know how they are written.
            from holdfast.store.archives.keeping import ExportFolder

            files = ExportFolder(export_dir, export_format)
        self._writer = Writer(parts, claim, check_branch(branch), keep, lease, files)

    @property
    def id(self) -> str:
        """The id of the session."""
        return self._writer.claim.session

    @property
    def agent(self) -> str | None:
        """The agent it was opened for."""
        return self._writer.claim.agent

    @property
    def project(self) -> str | None:
        """The project it was opened for."""
        return self._writer.claim.project

    @property
    def branch(self) -> str:
        """The branch in use."""
        return self._writer.branch

    def _reader(self) -> AbstractContextManager[Reader]:
        return self._writer.parts.backend.reader()

    def __repr__(self) -> str:
        return f"<Session {self.id!r} on {self.branch!r} of {self._writer.parts.backend.url}>"


def check_limit(limit: int | None) -> int | None:
    """Return `limit` if it can bound a listing."""
    if limit is None or (type(limit) is int and limit > 0):
        return limit
    raise InvalidInputError(
        f"limit must be a whole number above 0, not {limit!r}",
        code=ErrorCode.BAD_ARGUMENT,
        hint="leave it out for everything",
    )
