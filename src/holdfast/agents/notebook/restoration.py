"""Restoration: going back to a checkpoint with a safety checkpoint, a journal, and a way back.

The safety checkpoint has everything as it was, files included. Its metadata is the journal: what is to be restored, and
whether that is started, done or undone. It is written before the first file is, so that a restore that was killed is
known, and can be finished or taken back: each file is either as it was before, or as it should become.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from holdfast import Checkpoint
from holdfast.agents.notebook.systems import SYSTEMS
from holdfast.errors import ErrorCode, InvalidInputError, NotFoundError, StateError
from holdfast.workspace.code import CodeState, Workspace
from holdfast.workspace.restore import (
    RestorePlan,
    RestoreReport,
    apply_plan,
    plan_restore,
    remove_leftovers,
)

__all__ = ["RecoveryReport", "Restoration", "code_of"]

_TAG: Final = "restore"


@dataclass(frozen=True)
class RecoveryReport:
    """What a restore brought back."""

    restored_to: str
    timestamp: datetime
    message: str
    recovery_complete: bool
    """False where a stored part had nowhere to go, or a file was left alone."""
    without_place: tuple[str, ...] = ()
    """Stored parts whose system is not connected; they stay in the state."""
    code: RestoreReport | None = None
    safety: str | None = None
    """The checkpoint that has everything as it was before."""

    def to_dict(self) -> dict[str, Any]:
        """The report as data."""
        return {
            **vars(self),
            "timestamp": self.timestamp.isoformat(),
            "without_place": list(self.without_place),
            "code": self.code.to_dict() if self.code else None,
        }


class Restoration:
    """What brings a notebook and its files back."""

    def __init__(self, notebook: Any) -> None:
        self._nb = notebook

    def plan(self, ref: Any, paths: Iterable[str] | None) -> RestorePlan:
        """Return what a restore would do to the files."""
        workspace, target = self._workspace(), code_of(self._nb._stored(ref))
        return plan_restore(workspace, target, workspace.capture(), paths=paths)

    def restore(self, ref: Any, *, what: str, paths: Iterable[str] | None) -> RecoveryReport:
        """Go back to a checkpoint; see `Notebook.restore`."""
        if what not in ("all", "notebook", "code"):
            raise InvalidInputError(
                f"what cannot be {what!r}", code=ErrorCode.BAD_ARGUMENT, hint="use all, notebook or code"
            )
        if (unfinished := self.unfinished()) is not None:
            raise StateError(
                f"the restore that began with #{unfinished.seq} was interrupted",
                code=ErrorCode.RESTORE_UNFINISHED,
                hint="finish_restore() completes it, undo_restore() takes it back",
                checkpoint=unfinished.id,
            )
        target = self._nb.session.checkpoint(ref)
        stored = self._nb._stored(target)
        if what == "code":
            self._workspace()
            code_of(stored)
        files = None if paths is None else [str(each) for each in paths]
        safety = self._nb._save(
            f"Before restoring #{target.seq}", tags=("safety", _TAG), trigger="auto:safety"
        )
        return self._go_back(target, stored, safety, what, files, since=None)

    def unfinished(self) -> Checkpoint | None:
        """Return the safety checkpoint of a restore that was interrupted, if there is one."""
        newest = self._newest()
        return newest if newest is not None and newest.metadata["restore"]["state"] == "started" else None

    def finish(self) -> RecoveryReport:
        """Complete a restore that was interrupted. Files that were changed since are left alone.

        Raises:
            NotFoundError: There is none.
        """
        safety = self.unfinished()
        if safety is None:
            raise _no_restore("no restore was interrupted")
        order = safety.metadata["restore"]
        target = self._nb.session.checkpoint(order["target"])
        since = code_of(self._nb._stored(safety))
        return self._go_back(
            target, self._nb._stored(target), safety, order["what"], order["paths"], since=since
        )

    def undo(self) -> RecoveryReport:
        """Take back the last restore, finished or not. Files that were changed since are left alone.

        Raises:
            NotFoundError: There is none.
        """
        safety = self._newest()
        if safety is None or safety.metadata["restore"]["state"] == "undone":
            raise _no_restore("there is no restore to undo")
        order, stored = safety.metadata["restore"], self._nb._stored(safety)
        before = None
        if order["state"] == "done":
            before = self._nb._save(
                f"Before undoing the restore of #{safety.seq}", tags=("safety",), trigger="auto:safety"
            )
        report = None
        if order["what"] != "notebook" and self._nb.workspace is not None and stored["workspace"] is not None:
            report = self.restore_code(
                code_of(stored), order["paths"], code_of(self._nb._stored(order["target"]))
            )
        if order["state"] == "done" and order["what"] != "code":
            self._nb.session.switch(self._nb.session.branch, remember=False)
            self._nb.session.restore(safety)
            self._nb._open()
            self._nb._hand_over()
        self.mark(safety, {**order, "state": "undone"})
        complete = report is None or report.complete
        return RecoveryReport(
            safety.id,
            safety.created_at,
            safety.message,
            complete,
            code=report,
            safety=before.id if before else None,
        )

    def _go_back(
        self,
        target: Checkpoint,
        stored: Mapping[str, Any],
        safety: Checkpoint,
        what: str,
        paths: list[str] | None,
        since: CodeState | None,
    ) -> RecoveryReport:
        with_code = what != "notebook" and self._nb.workspace is not None and stored["workspace"] is not None
        order = {
            "target": target.id,
            "what": what if with_code else "notebook",
            "paths": paths,
            "state": "started",
        }
        self._nb.session.pin(safety)
        self.mark(safety, order)
        report = self.restore_code(code_of(stored), paths, since) if with_code else None
        missing = tuple(
            name
            for name, groups in SYSTEMS.items()
            if name not in self._nb._systems and any(stored[key] for key in groups if key != "current_branch")
        )
        if what != "code":
            self._nb.session.switch(self._nb.session.branch, remember=False)
            self._nb.session.restore(target)
            self._nb._open()
            self._nb._hand_over()
        else:
            self._nb._save(f"Restored the code of #{target.seq}", tags=(), trigger="auto:restore")
        self.mark(safety, {**order, "state": "done"})
        self._nb.session.unpin(safety)
        without = missing if what != "code" else ()
        return RecoveryReport(
            restored_to=target.id,
            timestamp=target.created_at,
            message=target.message,
            recovery_complete=not without and (report is None or report.complete),
            without_place=without,
            code=report,
            safety=safety.id,
        )

    def restore_code(
        self, target: CodeState, paths: list[str] | None, since: CodeState | None
    ) -> RestoreReport:
        """Bring the files to a captured state; leave those alone that somebody changed since another."""
        workspace = self._workspace()
        plan = plan_restore(workspace, target, workspace.capture(), paths=paths, unless_changed_since=since)
        # What a crash left of an earlier try.
        remove_leftovers(workspace.root, plan.considered)
        return apply_plan(plan)

    def _newest(self) -> Checkpoint | None:
        """The safety checkpoint of the newest restore, whatever branch it is on."""
        try:
            found: Checkpoint = self._nb.session.checkpoint(f"tag:{_TAG}")
        except NotFoundError:
            return None
        return found if "restore" in found.metadata else None

    def mark(self, safety: Checkpoint, order: dict[str, Any]) -> None:
        """Write the journal of a restore: it is the metadata of its safety checkpoint."""
        self._nb.session.annotate(safety, metadata={"restore": order})

    def _workspace(self) -> Workspace:
        if self._nb.workspace is None:
            raise InvalidInputError(
                "this notebook has no workspace: it captures and restores no code",
                code=ErrorCode.BAD_ARGUMENT,
                hint='open it with workspace=Workspace("."), or restore the notebook alone',
            )
        workspace: Workspace = self._nb.workspace
        return workspace


def code_of(stored: Mapping[str, Any]) -> CodeState:
    """Return the code that a stored notebook has.

    Raises:
        InvalidInputError: It has none.
    """
    if stored["workspace"] is None:
        raise InvalidInputError(
            "that checkpoint has no code",
            code=ErrorCode.BAD_ARGUMENT,
            hint='restore the notebook alone: what="notebook"',
        )
    return CodeState.from_data(stored["workspace"], stored["code_changes"])


def _no_restore(message: str) -> NotFoundError:
    return NotFoundError(
        message, code=ErrorCode.NOTHING_TO_UNDO, hint="holdfast list --tag safety shows them"
    )
