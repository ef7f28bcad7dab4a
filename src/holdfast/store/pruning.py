"""prune: a `Keep` carried out because somebody asked. What goes is hidden and can be undone, like a delete."""

from __future__ import annotations

from holdfast.history.checkpoint import Checkpoint
from holdfast.history.heads import missing_head
from holdfast.history.keep import Keep, check_keep
from holdfast.record import Record
from holdfast.store.place import Place
from holdfast.store.policies import carry_out_all, read


class PruneDecision(Record):
    """What becomes of one checkpoint, and why."""

    checkpoint: Checkpoint
    kept: bool
    reasons: tuple[str, ...]
    """Every rule that keeps it, or what removes it."""


class PruneReport(Record):
    """What a prune did, or would do."""

    total: int
    kept: int
    deleted: int
    decisions: tuple[PruneDecision, ...]
    """Newest first."""
    dry_run: bool


def prune(place: Place, keep: Keep, *, dry_run: bool = False) -> PruneReport:
    """Remove what a policy does not keep from a session, or with `per="agent"` from all sessions of its agent."""
    check_keep(keep)
    session, now = place.claim.session, place.clock()
    with place.backend.reader() as reader:
        if reader.session(session) is None:
            missing_head(reader, session, place.branch)
        reading = read(reader, session, keep, now, kind="prune")
    if not dry_run:
        reading, _ = carry_out_all(place, keep, reading, now=now, kind="prune")
    decisions = tuple(
        PruneDecision(Checkpoint(each.row, reading.owners[each.row.session]), each.kept, each.reasons)
        for each in reading.plan.decisions
    )
    deleted = sum(not each.kept for each in decisions)
    return PruneReport(len(decisions), len(decisions) - deleted, deleted, decisions, dry_run)


def removed_by(report: PruneReport) -> dict[str, list[str]]:
    """The ids of the checkpoints that went, by their sessions; none where nothing was done."""
    gone: dict[str, list[str]] = {}
    for each in report.decisions:
        if not each.kept and not report.dry_run:
            gone.setdefault(each.checkpoint.session, []).append(each.checkpoint.id)
    return gone
