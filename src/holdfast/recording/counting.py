"""Where a resumed agent goes on counting: the step, the beats and the amounts that belong to a state.

A recorder puts its counters onto each of its checkpoints. Others put the same state there once more without them: a
person with a note, a restore, a fork. The counters belong to the state, so they are looked for on the nearest
checkpoint that has that very state. Only rows are read for it, and no more than a few hundred.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, takewhile
from typing import Any, Final

from holdfast.errors import IntegrityError
from holdfast.history.checkpoint import Checkpoint
from holdfast.record import Record
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointId, CheckpointRow, Query, SessionRow
from holdfast.store.place import Place

_FARTHEST: Final = 300
"""How many rows of the history, and then of the session, are looked at."""


class Counters(Record):
    """What was counted up to a state; None where that is not known."""

    step: int | None = None
    beats: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None
    taken_from: str | None = None
    """The checkpoint that has them, where that is another one than the state was read from."""


def counters_of(place: Place, checkpoint: Checkpoint) -> Counters:
    """The counters of a checkpoint: its own, and where it has none, those of the nearest one with the same state."""
    known = _counted(checkpoint)
    if _is_whole(known):
        return known
    # One that has some and not others is most often of a recorder that counts no more than those. Then only what is
    # right before it is looked at; a restore and a fork have the step of what they copy, and not its beats.
    is_copy = checkpoint.trigger in ("restore", "fork")
    far = is_copy or (known.step is None and known.beats is None)
    try:
        with place.backend.reader() as reader:
            for row in _others(reader, checkpoint, far=far):
                if row.root.hex() == checkpoint.root:
                    known = _completed(known, row)
                if _is_whole(known):
                    break
    except IntegrityError:
        # The state is back, which is what counts; what else is damaged, `verify` says.
        return known
    return known


def beats_of(metadata: Mapping[str, Any]) -> int | None:
    """The beats that a recorder put onto a checkpoint."""
    beats = metadata.get("beats")
    return beats if type(beats) is int else None


def has_recorded(place: Place) -> bool:
    """Whether a recorder has saved into a session by itself, and that is still there."""
    with place.backend.reader() as reader:
        return any(
            reader.checkpoints(Query(session=place.claim.session, trigger=trigger, limit=1))
            for trigger in ("auto", "scheduled")
        )


def _is_whole(counters: Counters) -> bool:
    return counters.step is not None and counters.beats is not None


def _completed(known: Counters, row: CheckpointRow) -> Counters:
    """The same, with what another checkpoint of that state has and nobody had before."""
    found = _counted(Checkpoint(row, SessionRow(row.session, None, None, 0)))
    missing: dict[str, Any] = {
        name: theirs
        for name, ours, theirs in zip(Counters._fields, known, found, strict=True)
        if ours is None and theirs is not None
    }
    whole = known._replace(**missing)
    is_first = known.taken_from is None and (whole.step, whole.beats) != (known.step, known.beats)
    return whole._replace(taken_from=row.id.hex()) if is_first else whole


def _others(reader: Reader, checkpoint: Checkpoint, *, far: bool) -> Iterator[CheckpointRow]:
    """The checkpoints that may have the same state, nearest first."""
    source = checkpoint.metadata.get("restored_from")
    if type(source) is str and len(source) == len(checkpoint.id):
        # The same state may have been saved at several steps; a restore says which one it means.
        row = _row(reader, source)
        if row is not None:
            yield row
    history = islice(_history(reader, checkpoint), _FARTHEST)
    if not far:
        yield from takewhile(lambda row: row.root.hex() == checkpoint.root, history)
        return
    yield from history
    yield from reader.checkpoints(Query(session=checkpoint.session, limit=_FARTHEST))


def _history(reader: Reader, checkpoint: Checkpoint) -> Iterator[CheckpointRow]:
    # A fork into another session has no `prev`, but a parent.
    before = checkpoint.prev or checkpoint.parent
    while before is not None:
        row = _row(reader, before)
        if row is None:
            return
        yield row
        parent = row.prev or next(iter(row.parents), None)
        before = None if parent is None else parent.hex()


def _row(reader: Reader, name: str) -> CheckpointRow | None:
    try:
        return reader.checkpoint(CheckpointId(bytes.fromhex(name)))
    except ValueError:
        # Metadata is anybody's to write.
        return None


def _counted(checkpoint: Checkpoint) -> Counters:
    return Counters(
        checkpoint.step,
        beats_of(checkpoint.metadata),
        checkpoint.tokens,
        checkpoint.cost_usd,
        checkpoint.duration_ms,
    )
