"""Comparing checkpoints: two rows are found, their states compared in one view of the store, and the result kept.

Two checkpoints with the same root have the same state, and nothing is read. A Diff may read again when it is asked for
a JSON patch, where a long text changed: through a view of its own, because the one it came from is closed by then.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.history.checkpoint import Checkpoint
from holdfast.history.refs import resolve
from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.encode import encode_value
from holdfast.objects.codec.paths import parse_path
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.diffing.change import PathStep
from holdfast.objects.diffing.diff import Diff
from holdfast.objects.diffing.states import changes_of_roots, plain_value_at
from holdfast.objects.tagged import json_form
from holdfast.storage.ports import Backend, Reader
from holdfast.storage.records import CheckpointRow, ChunkHash
from holdfast.store.place import Place, read_again, session_of

FIRST = "first state"
UNCHANGED = "no change"


def diff_refs(
    place: Place,
    types: TypeRegistry,
    old: str | Checkpoint,
    new: str | Checkpoint,
    *,
    path: str | None = None,
    whole: bool = False,
) -> Diff:
    """What differs between two checkpoints; a Checkpoint may be of any session of the store."""
    return read_again(partial(_diff_refs, place, types, old, new, path, whole=whole))


def _diff_refs(
    place: Place,
    types: TypeRegistry,
    old: str | Checkpoint,
    new: str | Checkpoint,
    path: str | None,
    *,
    whole: bool,
) -> Diff:
    with place.backend.reader() as reader:
        before, after = (_row(place, reader, ref) for ref in (old, new))
        return _diff(place.backend, reader, types, (before.root, after.root), path, whole=whole)


def check_checkpoints(*given: object) -> None:
    """Refuse what is no Checkpoint: a ref says nothing without the session that it is of."""
    for each in given:
        if not isinstance(each, Checkpoint):
            raise InvalidInputError(
                f"store.diff compares Checkpoints, not a {type(each).__name__}",
                code=ErrorCode.BAD_ARGUMENT,
                hint="Session.diff takes refs; s.checkpoint(ref) gives the Checkpoint of one",
            )


def label_of(place: Place, types: TypeRegistry, ref: str | Checkpoint) -> str:
    """What a checkpoint is called: its message, or else what it changed."""
    return read_again(partial(_label_of, place, types, ref))


def _label_of(place: Place, types: TypeRegistry, ref: str | Checkpoint) -> str:
    with place.backend.reader() as reader:
        row = _row(place, reader, ref)
        # As it is now: a message can be edited.
        message = Checkpoint(row, session_of(reader, row)).message
        if message:
            return message
        before = None if row.prev is None else reader.checkpoint(row.prev)
        if before is None:
            return FIRST
        diff = _diff(place.backend, reader, types, (before.root, row.root), None, whole=False)
    return diff.summary() or (UNCHANGED if row.trigger == "manual" else row.trigger)


def json_form_of(value: Any, types: TypeRegistry) -> Any:
    """A value in tagged JSON; objects of registered classes as what is stored of them."""
    return json_form(decode_value(encode_value(value, types), TypeRegistry()))


def _diff(
    backend: Backend,
    reader: Reader,
    types: TypeRegistry,
    roots: tuple[ChunkHash, ChunkHash],
    path: str | None,
    *,
    whole: bool,
) -> Diff:
    changes = changes_of_roots(*roots, reader.chunks, types, path=path, whole=whole)
    depth = 0 if path is None else len(parse_path(path))
    return Diff(changes, partial(_fetch, backend, roots[1]), depth)


def _fetch(backend: Backend, root: ChunkHash, steps: tuple[PathStep, ...]) -> Any:
    def work() -> Any:
        with backend.reader() as reader:
            return plain_value_at(root, steps, reader.chunks)

    return read_again(work)


def _row(place: Place, reader: Reader, ref: str | Checkpoint) -> CheckpointRow:
    if isinstance(ref, Checkpoint):
        return resolve(reader, ref.session, ref.branch, ref, now=place.clock())
    return place.find(reader, ref)
