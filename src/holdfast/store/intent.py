"""What a writer wants of a save, and what came of it: the words between a writer and `saving`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Literal

from holdfast.history.checkpoint import Checkpoint
from holdfast.record import Record
from holdfast.storage.records import CheckpointId, CheckpointRow, ChunkHash, Claim, SessionRow
from holdfast.store.draft import Draft

if TYPE_CHECKING:
    from holdfast.storage.leasing import Fence
    from holdfast.store.policies import Coming
    from holdfast.store.retiring import Retirement


class Unset:
    """The type of `UNSET`, which stands for an argument that was not given where None means something."""

    def __repr__(self) -> str:
        return "<not given>"


UNSET: Final = Unset()

Expectation = CheckpointId | None | Unset
"""The head a writer builds on: an id, None for "no checkpoint yet", or UNSET for "whatever is there"."""

OnConflict = Literal["raise", "fork"]

Wanted = tuple[str, Expectation, str | None, OnConflict]
"""A branch, what is expected of it, the parent that was named, and what to do where it is not as expected."""


class Saved(Record):
    """What came of a save."""

    row: CheckpointRow
    owner: SessionRow
    """The session, as far as its agent and project go."""
    wrote: bool
    """False where the key named this state already, and nothing was written."""
    forked: bool = False
    """Whether it went beside the head that was there, because that was not the expected one."""
    went: Retirement | None = None
    """What was found to be gone with it; None where nobody looked, or what was found does not hold any more."""


class Unsettled(Record):
    """A save that ended in an error, and of which nobody knows yet whether it took place."""

    row: CheckpointRow
    draft: Draft
    wanted: Wanted
    """What the caller wanted of the branch: see `Intent.wanted`."""
    went: Retirement | None
    """What went with it, if it took place."""


class Intent(Record):
    """What the caller wants of the branch: where from, and what to do when it is not as expected."""

    claim: Claim
    branch: str
    expected: Expectation
    parent: str | Checkpoint | None
    on_conflict: OnConflict
    kept: Mapping[ChunkHash, CheckpointId]
    """Checkpoints of states that this writer loaded or saved, by root: what an encoded state may rely on."""
    last: Saved | None = None
    """What this writer saved last."""
    is_told: bool = False
    """Whether the caller said what is expected, and not only what this writer has seen."""
    unsettled: list[Unsettled] | None = None
    """Of this writer, which keeps the list: what a save leaves open is added to it."""
    fence: Fence | None = None
    """The lease that has to be held for anything to be written."""
    leads: bool = False
    """Whether whoever is on the branch goes along where this writer leaves it for a new one."""
    went_back: bool = False
    """Whether this writer went back to what it expects on purpose: going on beside the head is no conflict then."""
    along: Callable[[Coming], Retirement | None] | None = None
    """How to find what goes in the commit of this save, because the session does not keep it."""

    @property
    def wanted(self) -> Wanted:
        """What is the same when the same save is asked for again."""
        parent = self.parent
        return (
            self.branch,
            self.expected,
            parent.id if isinstance(parent, Checkpoint) else parent,
            self.on_conflict,
        )

    @property
    def begins_branch(self) -> bool:
        """Whether the caller said that there is no such branch yet. Who has merely seen nothing may have mistyped."""
        return self.is_told and self.expected is None
