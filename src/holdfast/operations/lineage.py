"""Operations on sessions, branches and the order of things: list, fork, switch, merge, undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from holdfast.operations.operation import Branch, Limit, Message, Ref, Session, operation
from holdfast.reports import (
    BranchList,
    BranchPlace,
    CheckpointChange,
    ForkPlan,
    MergeReport,
    OperationList,
    SessionList,
    SwitchPlan,
    Tree,
    Undone,
    UndoPlan,
    UndoReport,
)

if TYPE_CHECKING:
    from holdfast.operations.service import Service

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Side = Literal["ours", "theirs", "base"]


@operation("session.list", path="/v1/sessions")
def sessions(
    service: Service,
    agent: Name | None = None,
    project: Name | None = None,
    *,
    after: Annotated[Session, Meta(description="Go on after this one, the last of the page before")]
    | None = None,
    limit: Limit = 200,
) -> SessionList:
    """List the sessions of the store, oldest first."""
    found = service.store.sessions(agent=agent, project=project)
    begin = 0
    if after is not None:
        begin = next((at + 1 for at, each in enumerate(found) if each.id == after), len(found))
    return SessionList(service.name, tuple(found[begin : begin + limit]))


@operation("branch.list", path="/v1/sessions/{session}/branches")
def branches(service: Service, session: Session | None = None) -> BranchList:
    """List the branches of a session, with the newest checkpoint of each."""
    found = service.known(session)
    return BranchList(
        service.name, found.id, dry_run=False, changed=False, plan=None, branches=tuple(found.branches())
    )


@operation("session.tree", path="/v1/sessions/{session}/tree")
def tree(service: Service, session: Session | None = None, limit: Limit = 200) -> Tree:
    """Show where branches part and meet: the newest checkpoints with what each leads to."""
    return service.known(session).tree(limit=limit)


@operation("session.operations", path="/v1/sessions/{session}/operations")
def operations(service: Service, session: Session | None = None, limit: Limit = 20) -> OperationList:
    """List what was done to the history of a session, newest first, and what undo takes back."""
    found = service.known(session)
    listed = found.operations(limit=limit + 1)
    return OperationList(service.name, found.id, tuple(listed[:limit]), more=len(listed) > limit)


@operation("branch.fork", scope="write")
def fork(
    service: Service,
    checkpoint: Ref = "@",
    name: Name | None = None,
    session: Session | None = None,
    *,
    into: Annotated[Session, Meta(description="Begin it in this session, new or not")] | None = None,
) -> CheckpointChange[ForkPlan]:
    """Begin a new branch at a checkpoint. Nobody is moved to it."""
    found = service.known(session)
    source = found.checkpoint(checkpoint)
    forked = found.fork(source, name, session=into)
    plan = ForkPlan(found.id, source.id, BranchPlace(forked.id, forked.branch))
    return CheckpointChange(
        service.name, dry_run=False, changed=True, plan=plan, checkpoint=forked.checkpoint()
    )


@operation("branch.switch", scope="write", idempotent=True)
def switch(service: Service, name: Name, session: Session | None = None) -> CheckpointChange[SwitchPlan]:
    """Go to another branch: it is the one that is used where none is named."""
    found = service.known(session)
    before = found.branch
    head = found.switch(name, remember=True)
    plan = SwitchPlan(found.id, before, name, head.id)
    return CheckpointChange(service.name, dry_run=False, changed=before != name, plan=plan, checkpoint=head)


@operation("branch.merge", scope="write")
def merge(
    service: Service,
    ref: Ref,
    session: Session | None = None,
    *,
    branch: Branch | None = None,
    resolve: Annotated[
        dict[str, Side],
        Meta(description="For conflicts: a path, or * for any step, and whose side counts there"),
    ] = {},
    message: Message = "",
    preview: Annotated[bool, Meta(description="Only say what would happen")] = False,
) -> MergeReport:
    """Bring a branch into another. Conflicts are told, and nothing is written until each is decided."""
    sides: dict[str, Any] = dict(resolve)
    return service.known(session, branch).merge(ref, resolve=sides, message=message, dry_run=preview)


@operation("session.undo", scope="write")
def undo(service: Service, session: Session | None = None) -> UndoReport:
    """Take back what was done last: a restore, fork, merge, label or removal. redo does it again."""
    found = service.known(session)
    return _report(service, found.id, found.undo(), found.branch)


@operation("session.redo", scope="write")
def redo(service: Service, session: Session | None = None) -> UndoReport:
    """Do again what undo took back."""
    found = service.known(session)
    return _report(service, found.id, found.redo(), found.branch)


def _report(service: Service, session: str, undone: Undone, branch: str) -> UndoReport:
    head = undone.head
    plan = UndoPlan(
        session,
        undone.number,
        undone.kind,
        undone.at,
        undone.summary,
        branch,
        None if head is None else head.id,
    )
    return UndoReport(service.name, dry_run=False, changed=True, plan=plan, head=head)
