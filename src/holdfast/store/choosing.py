"""Where a save goes: one reading of the store, from which branch, parent and condition of the commit follow.

What was read is the condition: the head of the branch has to be what it was when the commit comes. `saving` reads again
where it is not.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from holdfast.errors import ConflictError
from holdfast.history.heads import find_head, missing_head
from holdfast.history.refs import resolve
from holdfast.objects.state import EncodedState
from holdfast.record import Record
from holdfast.storage.ports import Backend, Reader
from holdfast.storage.records import CheckpointId, CheckpointRow, Claim, Query, SessionRow
from holdfast.store.draft import Draft
from holdfast.store.intent import Intent, Unset, Unsettled

if TYPE_CHECKING:
    from holdfast.store.retiring import Retirement


class Landing(Record):
    """Where one attempt writes: a child of `parent` on `branch`, whose head must be `expected`."""

    branch: str
    parent: CheckpointRow | None
    expected: CheckpointId | None
    forked: bool = False
    """Whether that is beside the head, because somebody had moved it."""


_NOWHERE: Final = Landing("", None, None)


class Look(Record):
    """What one reading of the store says."""

    place: Landing
    owner: SessionRow
    known: SessionRow | None = None
    """The session as it is."""
    existing: CheckpointRow | None = None
    """The checkpoint that the key names already, with the same state; then there is nothing to write."""
    settled: bool = False
    """Whether that is what the same save wrote before, when it ended in an error."""
    went: Retirement | None = None
    """And what went with it."""


def look_for(backend: Backend, intent: Intent, encoded: EncodedState, draft: Draft, now: int) -> Look:
    """Read what a save needs to know.

    Raises:
        ConflictError: The branch is not where the writer expects it, or the key names another state.
        NotFoundError: The branch or the parent does not exist.
    """
    session = intent.claim.session
    with backend.reader() as reader:
        known = reader.session(session)
        owner = _owner(known, intent.claim, now)
        if (late := _arrived(reader, intent)) is not None:
            if (late.row.root, late.draft, late.wanted) == (encoded.root, draft, intent.wanted):
                return Look(
                    _NOWHERE, owner, known, late.row, settled=True, went=still_holds(late.went, late.row)
                )
            if intent.parent is None and not intent.is_told:
                intent = intent._replace(branch=late.row.branch, expected=late.row.id)
        existing = None if draft.key is None else _with_key(reader, session, draft.key, encoded)
        place = _NOWHERE if existing is not None else _choose(reader, intent, now)
    return Look(place, owner, known, existing)


def _arrived(reader: Reader, intent: Intent) -> Unsettled | None:
    """The newest save of this writer that took place after all, as long as the writer stands where it stood then."""
    for each in reversed(intent.unsettled or ()):
        if each.wanted[:2] == (intent.branch, intent.expected):
            found = reader.checkpoint(each.row.id)
            if found is not None and not found.hidden:
                return each._replace(row=found)
    return None


def _owner(known: SessionRow | None, claim: Claim, now: int) -> SessionRow:
    """The session as it will be after the commit, which sets what it does not have yet."""
    if known is None:
        return SessionRow(id=claim.session, agent=claim.agent, project=claim.project, created_at=now)
    return known._replace(agent=known.agent or claim.agent, project=known.project or claim.project)


def _with_key(reader: Reader, session: str, key: str, encoded: EncodedState) -> CheckpointRow | None:
    found = reader.checkpoints(Query(session=session, key=key, include_hidden=True, limit=1))
    if not found:
        return None
    if found[0].hidden:
        raise ConflictError.key_taken(session, key, existing=found[0].id, why="which was deleted")
    if found[0].root != encoded.root:
        raise ConflictError.key_taken(session, key, existing=found[0].id)
    return found[0]


def _choose(reader: Reader, intent: Intent, now: int) -> Landing:
    session, branch = intent.claim.session, intent.branch
    head = find_head(reader, session, branch)
    head_id = head.id if head else None
    # A writer that has seen the branch is told below that it is gone; one that has not, that it does not exist.
    seen = intent.expected is not None and not isinstance(intent.expected, Unset)
    known = seen or intent.begins_branch
    if head is None and not known and reader.branches(session) and not _was_there(reader, session, branch):
        missing_head(reader, session, branch)
    parent = None if intent.parent is None else resolve(reader, session, branch, intent.parent, now=now)
    if isinstance(intent.expected, Unset) or intent.expected == head_id:
        return Landing(branch, head, head_id) if parent is None else _beside(reader, intent, parent, head_id)
    if intent.on_conflict == "raise":
        raise ConflictError.branch_moved(session, branch, expected=intent.expected, actual=head_id)
    beside = _beside(reader, intent, parent or _seen(reader, intent, head_id), head_id)
    return beside._replace(forked=not intent.went_back)


def _was_there(reader: Reader, session: str, branch: str) -> bool:
    """Whether a branch without a head once had one: deleting its last checkpoint removes it, a save brings it back.

    Where a checkpoint that was born on it is still there, the branch was renamed or removed, and is not meant any more.
    """
    born = Query(session=session, branch=branch, limit=1)
    if reader.checkpoints(born):
        return False
    return bool(reader.checkpoints(born._replace(include_hidden=True)))


def _seen(reader: Reader, intent: Intent, head: CheckpointId | None) -> CheckpointRow | None:
    """The row the writer built on; None where it had seen an empty branch."""
    if intent.expected is None or isinstance(intent.expected, Unset):
        return None
    row = reader.checkpoint(intent.expected)
    if row is None and intent.last is not None and intent.last.row.id == intent.expected:
        # Saved by this writer, and retired since: a parent that is gone, with nothing known to be left before it.
        return intent.last.row._replace(hidden=1, prev=None, skipped=0)
    if row is None or row.session != intent.claim.session:
        # There is nothing to fork from: the expectation was never a checkpoint of this session.
        raise ConflictError.branch_moved(
            intent.claim.session, intent.branch, expected=intent.expected, actual=head
        )
    return row


def _beside(
    reader: Reader, intent: Intent, parent: CheckpointRow | None, head: CheckpointId | None
) -> Landing:
    if parent is not None and parent.id == head:
        return Landing(intent.branch, parent, head)
    taken = {branch.name for branch in reader.branches(intent.claim.session)}
    if not taken or (intent.begins_branch and intent.branch not in taken):
        return Landing(intent.branch, parent, None)
    free = next(name for n in count(1) if (name := f"{intent.branch}-{n}") not in taken)
    return Landing(free, parent, None)


def still_holds(went: Retirement | None, saved: CheckpointRow) -> Retirement | None:
    """What went with a checkpoint; None where others saved in between, and it was not the one to look after them."""
    return went if went is not None and went.holds(saved) else None
