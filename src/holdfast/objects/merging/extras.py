"""What a pydantic model keeps beside its fields: the names of those that were set.

They are a sorted list, left out where it has all fields, so they are merged as what they stand for: a set of names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.objects.diffing.encoded import DICT, Encoded, open_value, text_of
from holdfast.objects.merging import building
from holdfast.storage.records import ChunkHash

_NIL = b"\xc0"
_SET = "set"


def merge_set_names(
    extras: tuple[Encoded, Encoded, Encoded], fields: Sequence[Sequence[str]], merged: Sequence[str]
) -> Encoded | None:
    """The extra of the merged object, where the three differ in nothing but the names; None where they do.

    Args:
        extras: Of the common ancestor, of ours and of theirs.
        fields: The names of the fields that each of them has.
        merged: The names of the fields that the merged object has.
    """
    if all(extra.data == _NIL for extra in extras):
        return extras[0]
    names: list[set[str]] = []
    for extra, all_names in zip(extras, fields, strict=True):
        told = _names(extra, all_names)
        if told is None:
            return None
        names.append(told)
    base, ours, theirs = names
    found = (ours | (theirs - base)) - (base - theirs)
    if found == set(merged):
        return Encoded(_NIL)
    values = [building.text_of(name) for name in sorted(found)]
    return building.map_of({_SET: building.list_of(values, _no_chunks)}, _no_chunks)


def _names(extra: Encoded, fields: Sequence[str]) -> set[str] | None:
    if extra.data == _NIL:
        return set(fields)
    opened = open_value(extra)
    if opened is None or opened.shape != DICT or list(opened.keys) != [_SET]:
        return None
    return {text_of(name) for name in opened.values[0].inside().values}


def _no_chunks(names: Iterable[ChunkHash]) -> dict[ChunkHash, bytes]:
    raise AssertionError(f"names stand whole: {list(names)}")
