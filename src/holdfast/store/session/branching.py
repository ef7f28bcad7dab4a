"""Lines of work: forks, branches, going back, and taking any of it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from holdfast.history.checkpoint import Checkpoint
from holdfast.store.session.identity import Ref, SessionIdentity, check_limit

# Each is imported by the methods that need it: a process that only saves is started faster.
if TYPE_CHECKING:
    from holdfast.store.branching import BranchInfo
    from holdfast.store.undoing import OperationInfo, Undone


class SessionBranching(SessionIdentity):
    """Branches, and the operation log."""

    def fork(self, ref: Ref = "@", name: str | None = None, *, session: str | None = None) -> Self:
        """Begin a new branch at a checkpoint, and return a Session on it. This one stays where it is.

        One checkpoint is written, with the same state and `ref` as its parent; no part of the state is copied.

        Args:
            ref: Where the branch begins.
            name: What it is called; by default after the branch in use: `main-1`, `main-2` ...
            session: Begin it in another session, new or not; there it is called `main` by default.

        Raises:
            ConflictError: There is a branch of that name already (`branch-exists`).
            NotFoundError: `ref` names nothing in this session.
        """
        from holdfast.store.branching import fork

        place, made = fork(self._writer.place, ref, name, session)
        claim, files = place.claim, self._writer.files
        forked = type(self)(
            self._writer.parts,
            claim.session,
            agent=claim.agent,
            project=claim.project,
            branch=place.branch,
            keep=self._writer.keep,
            lease=self._writer.lease,
            export_dir=None if files is None else files.folder,
            export_format="json.gz" if files is None else files.kind,
        )
        forked._writer.went_on(made)  # noqa: SLF001 - a Session like this one
        return forked

    def restore(self, ref: Ref) -> Checkpoint:
        """Go back: save the state of a checkpoint as a new one at the tip of the branch in use.

        Nothing is taken away. What was the head stays in history, right behind the new checkpoint, and `undo` makes it
        the head again.

        Raises:
            ConflictError: The branch moved since this Session saw it.
            NotFoundError: `ref` names nothing in this session.
        """
        from holdfast.store.branching import restore

        made = restore(self._writer.place, ref, self._writer.expected)
        self._writer.went_on(made)
        return made

    def branches(self) -> list[BranchInfo]:
        """List the branches of the session with their heads, by name."""
        from holdfast.store.branching import list_branches

        return list_branches(self._writer.place)

    def switch(self, name: str, *, remember: bool = False) -> Checkpoint:
        """Go on with another branch from here on; return its head, which the next save expects.

        Args:
            name: The branch.
            remember: Also make it the branch that the command line is on where none is named. Without it this Session
                alone is switched.

        Raises:
            NotFoundError: There is no such branch (`branch-missing`).
        """
        from holdfast.store.branching import switch

        head = switch(self._writer.place, name, remember=remember)
        self._writer.go_on(name, head)
        return head

    def rename_branch(self, old: str, new: str) -> BranchInfo:
        """Give a branch another name; this Session goes on with it if it is the branch in use.

        Raises:
            NotFoundError: There is no branch `old` (`branch-missing`).
            ConflictError: There is a branch `new` already (`branch-exists`).
        """
        from holdfast.store.branching import rename

        renamed = rename(self._writer.place, old, new)
        if self.branch == old:
            self._writer.branch = new
        return renamed

    def delete_branch(self, name: str, *, force: bool = False) -> Checkpoint:
        """Remove a branch and return the checkpoint it was at. Its checkpoints stay.

        The branch in use, the last one, and one that alone leads to its newest checkpoint need `force`. It can be
        undone in any case.
        """
        from holdfast.store.branching import drop

        head = drop(self._writer.place, name, force=force)
        if self.branch == name:
            # What it led to is still there: the next save should not begin a new line without being asked to.
            self._writer.go_on(name, head)
        return head

    def undo(self) -> Undone:
        """Take back the newest operation of the session: a restore, fork, tag, delete, prune and so on, never a save.

        The undo is an operation too, so that `redo` can take it back in turn.

        Raises:
            ConflictError: Something moved since (`undo-blocked`); the hint names what to do instead.
            NotFoundError: There is nothing to undo (`nothing-to-undo`), or gc removed what it would bring back
                (`undo-gone`).
        """
        return self._turn("undo")

    def redo(self) -> Undone:
        """Bring back what the last undo took, until something else is done.

        Raises:
            ConflictError: Something moved since (`undo-blocked`); the hint names what to do instead.
            NotFoundError: There is nothing to redo (`nothing-to-redo`), or gc removed what it would bring back
                (`undo-gone`).
        """
        return self._turn("redo")

    def operations(self, *, limit: int | None = 20) -> list[OperationInfo]:
        """List what was done to the history of the session, newest first: everything but saves."""
        from holdfast.store.undoing import operations

        return operations(self._writer.place, check_limit(limit))

    def _turn(self, verb: str) -> Undone:
        from holdfast.store.undoing import reverse

        turn = reverse(self._writer.place, verb)
        if turn.moved:
            self._writer.go_on(turn.branch, turn.undone.head)
        if turn.lost is not None:
            # The branch is gone and others are not: the next save should not begin a new line without being asked to.
            self._writer.expected = turn.lost
        return turn.undone
