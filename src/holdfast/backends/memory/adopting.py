"""What taking over rows of another store makes of a moment: first everything is checked, then nothing can fail."""

from __future__ import annotations

from holdfast.backends import rules
from holdfast.backends.memory.moment import Moment
from holdfast.errors import ConflictError
from holdfast.storage.copy_rows import Adoption, adoption_mark
from holdfast.storage.records import CheckpointId


def check_adoption(moment: Moment, batch: Adoption) -> None:
    """Raise where the session is not as expected, or a chunk is not there."""
    if moment.sessions.get(batch.session.id) != batch.expected:
        raise ConflictError.session_changed(batch.session.id)
    for name in batch.found:
        if name not in moment.chunks:
            raise rules.chunk_gone(name)


def adopt(moment: Moment, batch: Adoption) -> None:
    """Put the rows in their places."""
    name = batch.session.id
    moment.sessions[name] = batch.session
    moment.chunks.update((each.hash, each.data) for each in batch.chunks if each.hash not in moment.chunks)
    moment.stamps.update((each.hash, moment.epoch) for each in batch.chunks)
    moment.stamps.update((each, moment.epoch) for each in batch.found)
    # All go before any comes: a key may pass from one to another.
    for gone in (*batch.removals, *(row.id for row in batch.checkpoints)):
        _take_out(moment, gone, name)
    for row in batch.checkpoints:
        if not row.position:
            moment.position += 1
        placed = row if row.position else row._replace(position=moment.position)
        moment.checkpoints[row.id] = placed
        if row.key is not None:
            moment.keys[name, row.key] = row.id
    if any(row.position for row in batch.checkpoints):
        in_order = sorted(moment.checkpoints.items(), key=lambda item: item[1].position)
        moment.checkpoints = dict(in_order)
    if batch.branches is not None:
        for old in [each for each in moment.branches if each[0] == name]:
            del moment.branches[old]
        moment.branches.update(((name, each.name), each) for each in batch.branches)
    if batch.cuts_log_from:
        numbers = [number for session, number in moment.operations if session == name]
        for number in [each for each in numbers if each >= batch.cuts_log_from]:
            del moment.operations[name, number]
    moment.operations.update(((name, each.number), each) for each in batch.operations)
    _remember(moment, batch)


def _remember(moment: Moment, batch: Adoption) -> None:
    if batch.whole is None:
        moment.adopted.pop(batch.session.id, None)
    else:
        mark = adoption_mark(batch.session, "whole" if batch.whole else "partial")
        moment.adopted[batch.session.id] = mark


def _take_out(moment: Moment, checkpoint: CheckpointId, session: str) -> None:
    row = moment.checkpoints.get(checkpoint)
    if row is None or row.session != session:
        return
    del moment.checkpoints[checkpoint]
    if row.key is not None:
        del moment.keys[session, row.key]
