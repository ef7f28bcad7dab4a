"""Session: one line of work of one agent, seen by one writer.

A Session remembers the head it has seen. Loading or looking at the tip, and saving, set that expectation; the next
save is refused with ConflictError if the branch has moved since, so that no update is lost by accident. A Session that
has read nothing appends to the head there is. One Session is one writer: give each thread its own (`store.session()`
makes a new one each time, and costs nothing until it is used).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.errors import ConflictError, ErrorCode
from holdfast.history.checkpoint import Checkpoint
from holdfast.objects.state import EncodedState
from holdfast.store.draft import check_draft
from holdfast.store.intent import UNSET, OnConflict, Unset
from holdfast.store.session.archiving import SessionArchiving
from holdfast.store.session.branching import SessionBranching
from holdfast.store.session.changing import SessionChanging
from holdfast.store.session.comparing import SessionComparing
from holdfast.store.session.identity import Ref, check_limit
from holdfast.store.session.merging import SessionMerging
from holdfast.store.session.reading import SessionReading
from holdfast.store.session.searching import SessionSearching

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["Ref", "Session", "check_limit"]


class Session(
    SessionReading,
    SessionChanging,
    SessionBranching,
    SessionComparing,
    SessionMerging,
    SessionSearching,
    SessionArchiving,
):
    """One line of work; made by `store.session(...)`."""

    def save(  # noqa: PLR0913 - each is a keyword of the public contract
        self,
        state: Any,
        message: str = "",
        *,
        tags: Iterable[str] = (),
        step: int | None = None,
        status: str = "running",
        trigger: str = "manual",
        metadata: Mapping[str, Any] | None = None,
        tokens: int | None = None,
        cost_usd: float | None = None,
        duration_ms: float | None = None,
        key: str | None = None,
        created_at: datetime | None = None,
        expect: Ref | Unset | None = UNSET,
        parent: Ref | None = None,
        on_conflict: OnConflict = "raise",
    ) -> Checkpoint:
        """Save a state as a new checkpoint on the branch in use, durably before returning.

        Args:
            state: Any value that can be kept; usually a dict. Or what `encode` made of one.
            message: What happened, for people.
            tags: Labels; `tag:x` as a ref is the newest checkpoint that has it.
            step: The agent's own step number.
            status: running, paused, completed, failed or interrupted.
            trigger: Why it is saved: manual, auto:<event>, scheduled, error, restore, fork or merge.
            metadata: A dict of plain JSON, to find checkpoints by.
            tokens: Tokens used so far.
            cost_usd: Cost so far.
            duration_ms: Time taken so far.
            key: The caller's own id, unique in the session: saving the same state under it again returns the
                checkpoint that is there.
            created_at: When it was made, for what is brought here from elsewhere; now unless given. Never before its
                parent: where it would be, it is taken for made right after that. Without a zone it is local time.
            expect: Save only if this is still the head. None: only if the branch does not exist, and make it then; in a
                session that has other branches it begins a line of its own, without a parent.
            parent: Make a child of this checkpoint, on a new branch if it is not the head.
            on_conflict: "fork" saves onto a new branch where "raise" raises ConflictError. The Session goes on there.

        Raises:
            InvalidInputError: The state or an argument cannot be kept; the message has the path. Nothing is written.
            ConflictError: The branch moved since this Session saw it, or the key names another state.
            NotFoundError: The branch does not exist, and others do (`branch-missing`); `expect=None` makes it.
            BackendError: The store could not write; saving again is safe.
        """
        draft = check_draft(
            message,
            tags=tags,
            step=step,
            status=status,
            trigger=trigger,
            metadata=metadata,
            tokens=tokens,
            cost_usd=cost_usd,
            duration_ms=duration_ms,
            key=key,
            created_at=created_at,
        )
        writer = self._writer
        if isinstance(state, EncodedState):
            return writer.save(state, draft, expect, parent, on_conflict)
        try:
            return writer.save(writer.encode(state), draft, expect, parent, on_conflict)
        except ConflictError as conflict:
            if conflict.code is not ErrorCode.CHUNKS_GONE:
                raise
        # What the last save left in the store was removed since; the writer no longer counts on it.
        return writer.save(writer.encode(state), draft, expect, parent, on_conflict)

    def encode(self, state: Any) -> EncodedState:
        """Do the first half of a save: bytes that no later change of the state can reach. Give them to `save`.

        For programs that write in another thread than the one that owns the state. What this Session saved last is left
        out of them, so that they are of use to it alone, and at once: where that is removed in between, the save raises
        ConflictError (`chunks-gone`), and the state has to be encoded again.
        """
        return self._writer.encode(state)

    @property
    def seen(self) -> str | None:
        """The id of the checkpoint that the next save expects to be the head; None where nothing was seen yet."""
        expected = self._writer.expected
        return None if expected is None or isinstance(expected, Unset) else expected.hex()
