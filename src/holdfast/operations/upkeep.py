"""Operations that keep a store in order: figures, checks, retention, collection; and jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from holdfast import Keep
from holdfast.operations.operation import Ref, Session, Tags, operation
from holdfast.operations.service import Job
from holdfast.reports import ForgetReport, GcReport, PruneReport, StatsReport, StoreTotals, VerifyReport

if TYPE_CHECKING:
    from holdfast.operations.service import Service

Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]


@operation("store.stats", path="/v1/stats")
def stats(service: Service) -> StatsReport:
    """Show how much is in the store."""
    totals = service.store.stats()
    ratio = round(totals.chunk_bytes / totals.stored_bytes, 2) if totals.stored_bytes else None
    return StatsReport(service.name, StoreTotals(**totals._asdict(), ratio=ratio), None)


@operation("store.verify", path="/v1/verify")
def verify(service: Service, session: Session | None = None, *, quick: bool = False) -> VerifyReport:
    """Check that nothing is damaged; quick checks the records without reading the states."""
    return service.store.verify(quick=quick, session=session)


@operation("session.prune", scope="admin", destroys=True)
def prune(
    service: Service,
    session: Session | None = None,
    *,
    last: Annotated[Count, Meta(description="Keep the newest so many")] | None = None,
    days: Annotated[Count, Meta(description="Keep all younger than so many days")] | None = None,
    hourly: Annotated[Count, Meta(description="Keep one for each of so many hours")] | None = None,
    daily: Annotated[Count, Meta(description="Keep one for each of so many days")] | None = None,
    manual: Annotated[bool, Meta(description="Keep those that somebody asked for")] = False,
    tags: Annotated[Tags, Meta(description="Keep those with one of these labels")] = [],
    at_most: Annotated[Count, Meta(description="Of all those, only the newest so many")] | None = None,
    only: Annotated[bool, Meta(description="Also remove what is manual or significant")] = False,
    dry_run: bool = False,
) -> PruneReport:
    """Remove the checkpoints that a policy does not keep. Undo brings them back, until gc."""
    rules: dict[str, Any] = {"last": last, "days": days, "hourly": hourly, "daily": daily, "at_most": at_most}
    chosen = {name: value for name, value in rules.items() if value is not None}
    keep = Keep(**chosen, manual=manual, tags=tags) if chosen or manual or tags else None
    return service.known(session).prune(keep, only=only, dry_run=dry_run)


@operation("store.gc", scope="admin", destroys=True)
def gc(
    service: Service,
    keep_days: Annotated[
        float, Meta(ge=0, le=100_000, description="For so long removed ones can be undone")
    ] = 14,
    *,
    dry_run: bool = False,
) -> GcReport:
    """Free what nothing needs any more. What was removed longer ago than that is gone for good."""
    return service.store.gc(keep_days=keep_days, dry_run=dry_run)


@operation("store.forget", scope="admin", destroys=True)
def forget(
    service: Service,
    session: Session,
    checkpoints: Annotated[
        list[Ref], Meta(max_length=1000, description="These; all of it unless given")
    ] = [],
    *,
    dry_run: bool = False,
) -> ForgetReport:
    """Erase a session, or some checkpoints of it, at once and for good."""
    return service.store.forget(session, *checkpoints, dry_run=dry_run)


@operation("job.get", path="/v1/jobs/{id}")
def job(
    service: Service,
    id: Annotated[str, Meta(max_length=40, description="What the call that took long gave")],  # noqa: A002
) -> Job:
    """Ask how an operation stands that takes longer than its caller waited."""
    return service.job(id)
