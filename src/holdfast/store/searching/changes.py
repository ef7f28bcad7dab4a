"""Who changed what is at a path: `blame` for the newest change, `history_of` for all of them.

Both walk the way that `log` shows, where what was merged is there from the merge on. blame goes further: where the
other side of a merge has the same value, it looks there for who set it, and names the merge as the way it came in.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from holdfast.errors import HoldfastError, NotFoundError
from holdfast.history.checkpoint import Checkpoint
from holdfast.objects.codec.paths import not_a_path, parse_path
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.tree.select import missing, select_part
from holdfast.reports.search import Blame, PathChange
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointId, CheckpointRow
from holdfast.store.place import Place
from holdfast.store.searching.findings import Findings, Notes
from holdfast.store.searching.line import Line, Stop, stop_of
from holdfast.store.searching.parts import Parts
from holdfast.store.searching.places import Places


def blame(
    place: Place, types: TypeRegistry, path: str, ref: str | Checkpoint = "@", *, exact: bool = False
) -> Blame:
    """The newest change of what is at a path; see `Session.blame`."""
    steps = parse_path(_checked(path))
    line = Line(place, ref, ranges=False)
    parts = Parts(line, steps, types, Notes())
    places = Places(parts, line)
    found = places.next_change(0, path, exact=exact)
    if found is None:
        raise _nowhere(parts, line, places, path, types, exact=exact)
    at, change = found
    certain = places.certain(at, exact=exact)
    merges: list[Checkpoint] = []
    while (merged := _merged_line(place, parts, line, change)) is not None:
        places = Places(parts, merged)
        found = places.next_change(0, path, exact=exact)
        if found is None:
            # The merged line never had anything there, and neither has the merge: it was the one to remove it.
            break
        merges.append(change.checkpoint)
        at, change = found
        certain = certain and places.certain(at, exact=exact)
    return Blame(
        change.checkpoint,
        change.op,
        change.path,
        change.value,
        change.old,
        change.before,
        certain=certain,
        loads=parts.loads,
        merges=tuple(merges),
        skipped=change.skipped,
        notes=parts.notes.texts(),
    )


def _merged_line(place: Place, parts: Parts, line: Line, change: PathChange) -> Line | None:
    """The line that a change came from by a merge: that of the merged checkpoint, if that has the same value."""
    made = change.checkpoint
    if len(made.parents) < 2:
        return None
    merge, row = line.view(lambda reader: _merge_and_merged(reader, made))
    if row is not None:
        merged = Line(place, row)
        newest = Places(parts, merged).newest()
        if newest is not None and parts.equal(merge, newest):
            return merged
    if row is None or row.id.hex() != made.parents[1]:
        parts.notes.say(merge, "it is a merge, and what was merged was removed: the value may be from there")
    return None


def _merge_and_merged(reader: Reader, made: Checkpoint) -> tuple[Stop, CheckpointRow | None]:
    merge = reader.checkpoint(CheckpointId(bytes.fromhex(made.id)))
    assert merge is not None
    return stop_of(merge), _nearest_left(reader, merge.parents[1])


def _nearest_left(reader: Reader, wanted: CheckpointId) -> CheckpointRow | None:
    """The checkpoint, or where it was removed the nearest before it that is left; None where that is not known."""
    row = reader.checkpoint(wanted)
    while row is not None and row.hidden:
        row = None if row.prev is None else reader.checkpoint(row.prev)
    return row


def history_of(
    place: Place,
    types: TypeRegistry,
    path: str,
    ref: str | Checkpoint = "@",
    *,
    oldest_first: bool = False,
    exact: bool = True,
    limit: int | None = None,
) -> Findings[PathChange]:
    """Every change of what is at a path; see `Session.history_of`. What is wrong with the call is raised at once."""
    steps = parse_path(_checked(path))
    line = Line(place, ref)
    parts = Parts(line, steps, types, Notes())
    found = _changes(parts, line, path, types, oldest_first=oldest_first, exact=exact)
    return Findings(islice(found, limit), parts.notes)


def _changes(
    parts: Parts, line: Line, path: str, types: TypeRegistry, *, oldest_first: bool, exact: bool
) -> Iterator[PathChange]:
    if line.empty is not None:
        parts.notes.add(line.empty)
        return
    places = Places(parts, line, oldest_first=oldest_first)
    found = places.next_change(0, path, exact=exact)
    if found is None and not parts.seen:
        raise _nowhere(parts, line, places, path, types, exact=exact)
    while found is not None:
        yield found[1]
        found = places.next_change(found[0] + 1, path, exact=exact)


def _checked(path: object) -> str:
    if not isinstance(path, str) or not path:
        raise not_a_path(path)
    return path


def _nowhere(
    parts: Parts, line: Line, places: Places, path: str, types: TypeRegistry, *, exact: bool
) -> HoldfastError:
    """The error for a path that leads nowhere in any state that was looked at: it says what the newest has instead."""
    if parts.notes.failure is not None and not parts.readable:
        return parts.notes.failure
    steps = parse_path(path)
    error = missing(steps, len(steps) - 1, "no state has it")
    newest = places.newest()
    if newest is not None:
        try:
            line.view(lambda reader: select_part(newest.root, path, reader.chunks, types))
        except NotFoundError as found:
            error = found
    where = "in any state of the history" if exact else "in the newest state, nor in the older ones looked at"
    error.args = (f"{error} (it is not {where})", *error.args[1:])
    if not exact:
        error.hint = f"{error.hint}; exact=True looks into every state"
    return error
