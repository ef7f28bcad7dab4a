"""Operations that search a history: texts, values over time, the step where something went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from holdfast.operations.operation import Limit, Path, Ref, Session, operation
from holdfast.reports import BisectReport, Blame, GrepReport, HistoryReport

if TYPE_CHECKING:
    from holdfast.operations.service import Service

Condition = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=2000,
        description='An expression over the state: score < 0.5 and "bug" in notes',
    ),
]


@operation("search.grep", path="/v1/sessions/{session}/grep")
def grep(
    service: Service,
    pattern: Annotated[
        str, Meta(min_length=1, max_length=1000, description="The words to look for, as they are")
    ],
    session: Session | None = None,
    *,
    checkpoint: Ref = "@",
    path: Path | None = None,
    ignore_case: bool = False,
    limit: Limit = 20,
) -> GrepReport:
    """Find a text in the states of a history, newest first."""
    found = service.known(session)
    matches = found.grep(pattern, checkpoint, path=path, ignore_case=ignore_case, limit=limit + 1)
    listed = tuple(matches)
    return GrepReport(found.id, pattern, listed[:limit], more=len(listed) > limit, notes=tuple(matches.notes))


@operation("search.bisect", path="/v1/sessions/{session}/bisect")
def bisect(
    service: Service,
    condition: Condition,
    session: Session | None = None,
    *,
    good: Annotated[Ref, Meta(description="Where it is not true yet; the oldest unless given")] | None = None,
    bad: Annotated[Ref, Meta(description="Where it is true; the newest unless given")] | None = None,
) -> BisectReport:
    """Find the first checkpoint where a condition on the state is true, loading few states."""
    return service.known(session).bisect(condition, good=good, bad=bad)


@operation("search.blame", path="/v1/sessions/{session}/blame")
def blame(service: Service, path: Path, session: Session | None = None, checkpoint: Ref = "@") -> Blame:
    """Find who set the value at a path, and what was there before."""
    return service.known(session).blame(path, checkpoint)


@operation("search.history", path="/v1/sessions/{session}/history")
def history(
    service: Service, path: Path, session: Session | None = None, checkpoint: Ref = "@", *, limit: Limit = 20
) -> HistoryReport:
    """Show each change of the value at a path, newest first."""
    found = service.known(session)
    changes = found.history_of(path, checkpoint, limit=limit)
    listed = tuple(changes)
    return HistoryReport(found.id, path, listed, tuple(changes.notes))
