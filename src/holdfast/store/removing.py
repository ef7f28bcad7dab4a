"""Taking checkpoints out of history: one, or all of them; see `history.removal`."""

from __future__ import annotations

from holdfast.history.checkpoint import Checkpoint
from holdfast.history.removal import plan_clearing, plan_removal
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointRow, SessionRow
from holdfast.store.changing import OperationPlan, carry_out
from holdfast.store.place import Place


def delete(place: Place, ref: str | Checkpoint, *, force: bool) -> tuple[CheckpointRow, SessionRow]:
    """Hide a checkpoint; the row as it was left, and its session."""
    meant = ref

    def work(reader: Reader, session: SessionRow) -> tuple[OperationPlan, CheckpointRow]:
        nonlocal meant
        row = place.find(reader, meant)
        # "@" may name another checkpoint in the next round; the one that was meant is this.
        meant = Checkpoint(row, session)
        change = plan_removal(reader, session, row, force=force)
        new = next(new for _, new in change.edits if new.id == row.id)
        return OperationPlan("delete", edits=change.edits, moves=change.moves), row._replace(**new._asdict())

    done = carry_out(place, work)
    return done.found, done.session


def clear(place: Place, *, force: bool) -> list[str]:
    """Hide every checkpoint and remove every branch of the session; the ids of the checkpoints."""

    def work(reader: Reader, session: SessionRow) -> tuple[OperationPlan | None, list[str]]:
        change = plan_clearing(reader, session, force=force)
        if not change.edits and not change.moves:
            return None, []
        removed = [row.id.hex() for row, new in change.edits if new.hidden and not row.hidden]
        return OperationPlan("clear", edits=change.edits, moves=change.moves), removed

    return carry_out(place, work).found
