"""Comparing checkpoints: two rows are found, their states compared in one view of the store, and the result kept.

Two checkpoints with the same root have the same state, and nothing is read.
"""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import Any

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.history.checkpoint import Checkpoint
from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.encode import encode_value
from holdfast.objects.codec.errors import MalformedError
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.codec.tagged_json import from_json, json_form
from holdfast.objects.diff.diff import Diff, diff_roots
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
) -> Diff:
    """What differs between two checkpoints; a Checkpoint may be of any session of the store."""

    def once() -> Diff:
        with place.backend.reader() as reader:
            before, after = (place.find_any(reader, ref) for ref in (old, new))
            return diff_roots(before.root, after.root, reader.chunks, types, path=path)

    return read_again(once)


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
        row = place.find_any(reader, ref)
        # As it is now: a message can be edited.
        message = Checkpoint(row, session_of(reader, row)).message
        if message:
            return message
        before = None if row.prev is None else reader.checkpoint(row.prev)
        if before is None:
            return FIRST
        diff = diff_roots(before.root, row.root, reader.chunks, types)
    return diff.summary() or (UNCHANGED if row.trigger == "manual" else row.trigger)


def json_form_of(value: Any, types: TypeRegistry) -> Any:
    """A value in tagged JSON; objects of registered classes as what is stored of them."""
    return json_form(decode_value(encode_value(value, types), TypeRegistry()))


def value_of_json_form(data: Any, types: TypeRegistry) -> Any:
    """The value of tagged JSON; objects of registered classes as themselves."""
    try:
        value = from_json(deepcopy(data))
    except MalformedError as error:
        raise InvalidInputError(
            f"this is not the JSON form of a state: {error}",
            code=ErrorCode.BAD_ARGUMENT,
            hint="store.json_form(state) gives one",
        ) from error
    return decode_value(encode_value(value, TypeRegistry()), types)
