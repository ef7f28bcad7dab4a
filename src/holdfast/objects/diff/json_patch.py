"""JSON patches (RFC 6902) for the tagged JSON form of a state: made from changes, and applied.

Everything that shifts no positions is said first, by the pointers of the old state. Then come lists, the deepest first,
so that no pointer above is out of date: removals from the end, then what was added or moved, from the beginning. What
no pointer leads into, a set or a dict with other keys than texts, is replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from holdfast.errors import ConflictError, ErrorCode, InvalidInputError
from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.codec.state_path import (
    EXTRA,
    PathStep,
    Step,
    json_pointer,
    not_a_path,
    parse_path,
    position_of,
)
from holdfast.objects.codec.tagged_json import TYPE, VALUE, json_form, looks_like_tag
from holdfast.objects.diff.change import Change, Place

_NO_TYPES: Final = TypeRegistry()
_EXTRA: Final = "$extra"
_MEMBERS: Final = {
    "add": ("path", "value"),
    "remove": ("path",),
    "replace": ("path", "value"),
    "move": ("from", "path"),
    "copy": ("from", "path"),
    "test": ("path", "value"),
}
_MAPPINGS: Final = ("dict", "OrderedDict", "Counter", "defaultdict")
_SETS: Final = ("set", "frozenset")
_EXAMPLE: Final = 'a patch is a list such as [{"op": "replace", "path": "/plan/0", "value": "rest"}]'

Operation = dict[str, Any]


def make_patch(changes: Sequence[Change], depth: int) -> Iterator[Operation]:
    """The operations that make the old state, in its JSON form, the new one.

    Args:
        changes: All changes.
        depth: How many steps lead to the part that the patch is for.
    """
    told: set[int] = set()
    # A key of a dict that stands elsewhere now is none of JSON's business.
    moved = {id(change.place) for change in changes if change.op == "move" and _is_item(change.place)}
    lists: dict[int, list[Change]] = {}
    for change in changes:
        way = _way(change.place)[depth:]
        if any(id(place) in moved and (place, change.op) != (change.place, "move") for place in way):
            # It comes with what it is in.
            continue
        whole = next((place for place in way[:-1] if place.whole is not None), None)
        if whole is not None:
            if id(whole) not in told:
                told.add(id(whole))
                yield {"op": "replace", "path": _pointer(whole, depth), "value": _json(whole.whole)}
        elif change.op != "replace" and _is_item(change.place):
            lists.setdefault(id(change.place.parent), []).append(change)
        elif change.op == "remove":
            yield {"op": "remove", "path": _pointer(change.place, depth)}
        elif change.op != "move":
            pointer = _pointer(change.place, depth)
            yield {"op": change.op, "path": pointer, "value": json_form(change.plain("new"))}
    # By the depth of the list that they are in; those of one depth do not know of each other.
    for group in sorted(lists.values(), key=lambda group: -len(_way(group[0].place))):
        yield from _list_operations(group, depth)


def apply_patch(document: Any, patch: Any, name: str) -> Any:
    """A state in its JSON form after a patch.

    Args:
        document: The JSON form, which is changed on the way.
        patch: What a JSON parser has read.
        name: Where the patch comes from, for messages.

    Raises:
        InvalidInputError: It is no patch (`bad-argument`).
        ConflictError: An operation does not fit the state (`patch-failed`); the message names it.
    """
    # Only those who patch need it.
    import jsonpatch
    import jsonpointer

    check_patch(patch, name)
    for number, operation in enumerate(patch, 1):
        try:
            document = jsonpatch.apply_patch(document, [_through_tags(document, operation)], in_place=True)
        except (
            jsonpatch.JsonPatchException,
            jsonpointer.JsonPointerException,
            TypeError,
            LookupError,
        ) as error:
            source = f"{operation['from']:.100} to " if "from" in operation else ""
            raise ConflictError(
                f"operation {number} ({operation['op']} {source}{operation['path']:.200}) does not fit the state: "
                f"{error!s:.300}",
                code=ErrorCode.PATCH_FAILED,
                hint="holdfast show --state --json shows the state as a patch sees it",
                operation=number,
            ) from error
    return document


def check_patch(patch: Any, name: str) -> None:
    """Check all that can be said of a patch without the state.

    Raises:
        InvalidInputError: It is no patch; the message names the operation (`bad-argument`).
    """
    if not isinstance(patch, list):
        raise _malformed(f"{name} is not a list of operations", _EXAMPLE)
    for number, operation in enumerate(patch, 1):
        where = f"{name}, operation {number}"
        if not isinstance(operation, dict):
            raise _malformed(f"{where} is not an object", _EXAMPLE)
        op = operation.get("op")
        if not isinstance(op, str) or op not in _MEMBERS:
            raise _malformed(f"{where}: there is no op {op!r:.60}", f"op is one of: {', '.join(_MEMBERS)}")
        for member in _MEMBERS[op]:
            if member not in operation:
                raise _malformed(f"{where}: {op} needs {member!r}", _EXAMPLE)
            given = operation[member]
            if member != "value" and not (isinstance(given, str) and given[:1] in ("", "/")):
                raise _malformed(
                    f"{where}: {member} {given!r:.80} is not a JSON pointer", "a JSON pointer is like /plan/0"
                )


def replace_part(document: Any, path: str, value: Any) -> Any:
    """A state in its JSON form with another value at a path, which is in its JSON form too.

    Raises:
        InvalidInputError: The path is none, or names several places (`bad-path`).
        ConflictError: It leads nowhere (`patch-failed`).
    """
    steps = parse_path(path)
    if any(isinstance(step, slice) for step in steps):
        raise not_a_path(path)
    operation = {"op": "replace", "path": _pointer_through(document, steps), "value": value}
    return apply_patch(document, [operation], path)


def _through_tags(document: Any, operation: Operation) -> Operation:
    """The operation, whose pointers may leave out the `$value` of tags: `/plan/goal` leads into an object too."""
    told = dict(operation)
    for member in ("from", "path"):
        if member in operation:
            told[member] = _pointer_through(document, parse_path(operation[member]), operation["op"])
    return told


def _pointer_through(document: Any, steps: Sequence[Step], op: str | None = None) -> str:
    """A JSON Pointer to a place that may lie in tags; of an operation, positions stay as they were written."""
    found: list[str] = []
    here = document
    for number, step in enumerate(steps):
        key = step.key if isinstance(step, PathStep) else step
        if isinstance(here, dict) and looks_like_tag(here) and (not isinstance(key, str) or key not in here):
            if step == EXTRA:
                found.append(_EXTRA)
                here = here.get(_EXTRA)
                continue
            kind, here = here[TYPE], here[VALUE]
            found.append(VALUE)
            # A mapping is a list of pairs, a set one of members.
            keys = [pair[0] for pair in here] if kind in _MAPPINGS else here if kind in _SETS else []
            form = json_form(key)
            at = next((at for at, each in enumerate(keys) if each == form and type(each) is type(form)), None)
            if at is not None:
                whole = kind in _SETS or (op == "remove" and number == len(steps) - 1)
                found += [str(at)] if whole else [str(at), "1"]
                here = here[at] if kind in _SETS else here[at][1]
                continue
        at = position_of(step) if isinstance(here, list) else None
        if at is not None and at < 0 and op is None:
            at += len(here)
        found.append(str(step if at is None or op is not None else at))
        try:
            here = here[key if at is None else at]
        except (LookupError, TypeError):
            here = None
    return json_pointer(found)


def _list_operations(group: list[Change], depth: int) -> Iterator[Operation]:
    """What happens to the items of one list, when nothing in it has been shifted yet."""
    spot = group[0].place
    for at in sorted((c.place.old.key for c in group if c.op != "add" and c.place.old), reverse=True):
        yield {"op": "remove", "path": _pointer(spot, depth, at)}
    come = [(c.place.new.key, c) for c in group if c.op != "remove" and c.place.new]
    for at, change in sorted(come, key=lambda pair: pair[0]):
        value = json_form(change.plain("new")) if change.op == "add" else _json(change.item)
        yield {"op": "add", "path": _pointer(spot, depth, at), "value": value}


def _way(place: Place) -> list[Place]:
    """The places from the whole state to this one, with both."""
    return [place.chain()[0].parent, *place.chain()] if place.parent else [place]  # type: ignore[list-item]


def _is_item(place: Place) -> bool:
    step = place.old or place.new
    return step is not None and step.kind == "index"


def _pointer(place: Place, depth: int, last: int | None = None) -> str:
    """Where it is in the old state; `last` in the place of its own position."""
    chain = place.chain()[depth:]
    tokens: list[str] = []
    for each in chain:
        step = each.old or each.new
        assert step is not None
        key = last if last is not None and each is place else step.key
        tokens += [_EXTRA] if step.kind == "extra" else [*each.prefix, str(key)]
    return json_pointer(tokens)


def _json(data: bytes | None) -> Any:
    assert data is not None
    return json_form(decode_value(data, _NO_TYPES))


def _malformed(message: str, hint: str) -> InvalidInputError:
    return InvalidInputError(message, code=ErrorCode.BAD_ARGUMENT, hint=hint)
