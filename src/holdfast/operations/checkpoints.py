"""Operations on checkpoints: list, look, compare, save, restore, label, remove."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from holdfast import Checkpoint
from holdfast.errors import ErrorCode, InvalidInputError, NotFoundError
from holdfast.operations.operation import (
    Branch,
    Limit,
    Message,
    Metadata,
    Path,
    Ref,
    Session,
    Tags,
    Time,
    operation,
)
from holdfast.reports import (
    AnnotatePlan,
    AtReport,
    CheckpointChange,
    CheckpointList,
    DeletePlan,
    Diff,
    PinPlan,
    Report,
    RestorePlan,
    TagPlan,
)

if TYPE_CHECKING:
    from holdfast.operations.service import Service

Status = Literal["running", "paused", "completed", "failed", "interrupted"]
Key = Annotated[
    str, Meta(min_length=1, max_length=200, description="An id of your own: saved once, whoever retries")
]
Tagged = Annotated[
    bool, Meta(description="The state is in tagged JSON: objects with $type become their type")
]


@dataclass(frozen=True)
class Listing(CheckpointList):
    """Checkpoints, newest first, each also with when it was saved and at which beat, as live agents count."""

    def to_dict(self) -> dict[str, Any]:
        """The list as plain JSON data."""
        return super().to_dict() | {"checkpoints": [_listed(each) for each in self.checkpoints]}


def _listed(checkpoint: Checkpoint) -> dict[str, Any]:
    beats = checkpoint.metadata.get("beats")
    return {
        **checkpoint.to_dict(),
        "timestamp": checkpoint.created_at.isoformat(),
        "beat_count": beats if type(beats) is int else None,
    }


@dataclass(frozen=True)
class Loaded(Report):
    """A checkpoint with its state, or with a part of it."""

    states: ClassVar[tuple[str, ...]] = ("state",)

    checkpoint: Checkpoint | None
    """None where the session has none."""
    state: Any
    """What JSON lacks is an object with $type and $value."""


@dataclass(frozen=True)
class Saved(Report):
    """A checkpoint that was saved."""

    checkpoint: Checkpoint
    live: bool
    """Whether a live agent saved itself; otherwise the state came with the call."""


@dataclass(frozen=True)
class Restored(CheckpointChange[RestorePlan]):
    """A state that came back."""

    live: bool = False
    """Whether a live agent took it up."""
    failed: tuple[str, ...] = ()
    """Parts of a live agent that could not be restored."""


@operation("checkpoint.list", path="/v1/sessions/{session}/checkpoints")
def list_(
    service: Service,
    session: Session | None = None,
    *,
    branch: Branch | None = None,
    tag: Annotated[str, Meta(max_length=200)] | None = None,
    status: Status | None = None,
    trigger: Annotated[str, Meta(max_length=100)] | None = None,
    since: Time | None = None,
    until: Time | None = None,
    after: Annotated[Ref, Meta(description="Go on after this one, the last of the page before")]
    | None = None,
    limit: Limit = 50,
) -> Listing:
    """List the checkpoints of a session, newest first; with a branch those that were saved on it."""
    found = service.known(session, branch)
    filters = {
        "branch": branch,
        "tag": tag,
        "status": status,
        "trigger": trigger,
        "since": since,
        "until": until,
    }
    before = None if after is None else found.checkpoint(after)
    page = service.store.find(
        session=found.id,
        before=before,
        limit=limit + 1,
        **{name: value for name, value in filters.items() if value is not None},  # type: ignore[arg-type]
    )
    return Listing(service.name, found.id, tuple(page[:limit]), more=len(page) > limit)


def _etag(
    service: Service, checkpoint: str = "@", session: str | None = None, *, path: str | None = None
) -> str:
    """The root of the state; labels change without it, and a part is another answer than the whole."""
    found = service.known(session).checkpoint(checkpoint)
    rest = msgspec.json.encode([found.to_dict(), path])
    return f"{found.root}-{hashlib.blake2b(rest, digest_size=8).hexdigest()}"


@operation("checkpoint.show", path="/v1/sessions/{session}/checkpoints/{checkpoint}")
def show(service: Service, checkpoint: Ref = "@", session: Session | None = None) -> Checkpoint:
    """Show the record of a checkpoint, without its state."""
    return service.known(session).checkpoint(checkpoint)


@operation("checkpoint.load", path="/v1/sessions/{session}/checkpoints/{checkpoint}/state", etag=_etag)
def load(
    service: Service, checkpoint: Ref = "@", session: Session | None = None, *, path: Path | None = None
) -> Loaded:
    """Load the state of a checkpoint, or a part of it. A session without checkpoints has the state null."""
    found = service.session(session)
    if checkpoint == "@" and not found.exists("@"):
        return Loaded(None, None)
    one = found.checkpoint(checkpoint)
    return Loaded(one, found.load(one, path=path))


@operation("checkpoint.at", path="/v1/sessions/{session}/at")
def at(service: Service, when: Time, session: Session | None = None) -> AtReport:
    """Show what was newest at a moment, how far it misses, and what came next."""
    found = service.known(session)
    around = found.around(when)
    return AtReport(
        service.name, found.id, around.asked, around.missed.total_seconds(), around.before, around.after
    )


@operation("checkpoint.diff", path="/v1/sessions/{session}/diff")
def diff(
    service: Service,
    a: Ref = "@~1",
    b: Ref = "@",
    session: Session | None = None,
    *,
    path: Path | None = None,
) -> Diff:
    """Show what differs between two checkpoints."""
    return service.known(session).diff(a, b, path=path)


@operation("checkpoint.create", scope="write")
def create(
    service: Service,
    session: Session | None = None,
    *,
    state: Any | UnsetType = UNSET,
    message: Message = "",
    tags: Tags = [],
    step: int | None = None,
    status: Status = "running",
    metadata: Metadata | None = None,
    key: Key | None = None,
    branch: Branch | None = None,
    expect: Annotated[Ref, Meta(description="Save only if this still is the newest")] | None = None,
    tagged: Tagged = False,
) -> Saved:
    """Save a state as a checkpoint; without a state, have the live agent of the session save itself now."""
    given = {"tags": tags, "step": step, "status": status, "metadata": metadata, "key": key}
    if state is UNSET:
        return Saved(_of_live(service, session, message), live=True)
    if tagged:
        state = service.store.from_json_form(state)
    expected = {} if expect is None else {"expect": expect}
    return Saved(service.save(session, branch, state, message, **given, **expected), live=False)


def _of_live(service: Service, session: str | None, message: str) -> Checkpoint:
    live = service.live(session)
    if live is None:
        raise NotFoundError(
            f"no live agent has the session {session or service.default_session()!r:.100}",
            code=ErrorCode.AGENT_MISSING,
            hint="give a state to save; live.list names the agents that are awake",
        )
    made = live.create(message)
    return service.store.session(live.session).checkpoint(made["id"])


@operation("checkpoint.restore", scope="write", destroys=True)
def restore(
    service: Service,
    checkpoint: Ref,
    session: Session | None = None,
    *,
    branch: Branch | None = None,
    dry_run: bool = False,
) -> Restored:
    """Make the state of a checkpoint the newest one; a live agent takes it up. What was newest stays behind it."""
    live = None if branch else service.live(session)
    found = service.known(live.session if live else session, branch)
    source, head = found.checkpoint(checkpoint), found.checkpoint()
    plan = RestorePlan(found.id, found.branch, source.id, head.id)
    if dry_run:
        return Restored(
            service.name, dry_run=True, changed=True, plan=plan, checkpoint=None, live=live is not None
        )
    if live is None:
        made = found.restore(source)
        return Restored(service.name, dry_run=False, changed=True, plan=plan, checkpoint=made)
    told = live.restore(source.id)
    failed = tuple(told.get("failed", ()))
    now = service.known(live.session, branch).checkpoint()
    return Restored(
        service.name, dry_run=False, changed=True, plan=plan, checkpoint=now, live=True, failed=failed
    )


@operation("checkpoint.tag", scope="write", idempotent=True)
def tag(
    service: Service,
    checkpoint: Ref,
    add: Tags = [],
    remove: Tags = [],
    session: Session | None = None,
) -> CheckpointChange[TagPlan]:
    """Add labels to a checkpoint, and take labels off."""
    found = service.known(session)
    one = found.checkpoint(checkpoint)
    before = set(one.tags)
    if not add and not remove:
        raise InvalidInputError(
            "there is no label to add or remove", code=ErrorCode.BAD_ARGUMENT, hint="give add or remove"
        )
    if add:
        one = found.tag(one, *add)
    if remove:
        one = found.untag(one, *remove)
    plan = TagPlan(found.id, one.id, tuple(sorted({*one.tags} - before)), tuple(sorted(before - {*one.tags})))
    return CheckpointChange(
        service.name, dry_run=False, changed={*one.tags} != before, plan=plan, checkpoint=one
    )


@operation("checkpoint.pin", scope="write", idempotent=True)
def pin(
    service: Service, checkpoint: Ref, session: Session | None = None, *, pinned: bool = True
) -> CheckpointChange[PinPlan]:
    """Protect a checkpoint from removal, or take the protection off."""
    found = service.known(session)
    before = found.checkpoint(checkpoint)
    one = found.pin(before) if pinned else found.unpin(before)
    plan = PinPlan(found.id, one.id, pinned)
    return CheckpointChange(
        service.name, dry_run=False, changed=before.pinned != pinned, plan=plan, checkpoint=one
    )


@operation("checkpoint.annotate", scope="write", idempotent=True)
def annotate(
    service: Service,
    checkpoint: Ref,
    session: Session | None = None,
    *,
    message: Message | None = None,
    metadata: Metadata | None = None,
) -> CheckpointChange[AnnotatePlan]:
    """Edit the message of a checkpoint, and add metadata."""
    found = service.known(session)
    one = found.annotate(checkpoint, message=message, metadata=metadata)
    plan = AnnotatePlan(found.id, one.id, message, metadata or {})
    return CheckpointChange(service.name, dry_run=False, changed=True, plan=plan, checkpoint=one)


@operation("checkpoint.delete", scope="admin", destroys=True)
def delete(
    service: Service,
    checkpoint: Ref,
    session: Session | None = None,
    *,
    force: Annotated[bool, Meta(description="Also if it is pinned, or branches part there")] = False,
    dry_run: bool = False,
) -> CheckpointChange[DeletePlan]:
    """Remove a checkpoint from history. Undo brings it back, until gc has removed it for good."""
    found = service.known(session)
    target = found.checkpoint(checkpoint)
    moved = tuple(each.name for each in found.branches() if each.head.id == target.id)
    plan = DeletePlan(found.id, target.id, moved, target.prev if moved else None)
    removed = None if dry_run else found.delete(target, force=force)
    return CheckpointChange(service.name, dry_run, changed=True, plan=plan, checkpoint=removed)
