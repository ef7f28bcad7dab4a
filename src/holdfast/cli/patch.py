"""A JSON patch (RFC 6902) applied to a state that is more than JSON.

A patch goes through dicts by their text keys and through lists, tuples and deques by position; everything it does not
touch stays the object that it is, whatever its type. What it goes through keeps its type too: an item of a tuple is
replaced by making a new tuple. A set, a datetime or an object of a class has no inside for a patch; it can be moved,
copied, removed or replaced as a whole.

The state is changed in place and is of no use after an error: the caller saves only what was patched to the end.
docs/adr/0008-json-patch.md says why this is not a library.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, NoReturn

from holdfast.errors import ConflictError, ErrorCode, InvalidInputError
from holdfast.record import Record
from holdfast.settings.near import close_names, did_you_mean

_MEMBERS = {
    "add": ("path", "value"),
    "remove": ("path",),
    "replace": ("path", "value"),
    "move": ("from", "path"),
    "copy": ("from", "path"),
    "test": ("path", "value"),
}
_INDEX = re.compile("0|[1-9][0-9]{0,17}")
_END = "-"
_BAD_ESCAPE = re.compile("~(?![01])")
_EXAMPLE = 'a patch is a list such as [{"op": "replace", "path": "/plan/0", "value": "rest"}]'


class Step(Record):
    """One operation of a patch, checked and taken apart."""

    number: int
    op: str
    path: tuple[str, ...]
    source: tuple[str, ...] | None = None
    value: Any = None

    def __str__(self) -> str:
        origin = "" if self.source is None else f"{_pointer(self.source)} to "
        return f"operation {self.number} ({self.op} {origin}{_pointer(self.path)})"


class _Refusal(Exception):  # noqa: N818 - caught in this module, where the step is known
    """Why an operation does not fit the state."""

    def __init__(self, why: str, hint: str = "") -> None:
        super().__init__(why)
        self.hint = hint or "holdfast show --state --json shows the state as it is"


def parse_patch(document: Any, name: str) -> list[Step]:
    """The steps of a patch document; `name` says where it came from.

    Raises:
        InvalidInputError: It is not a patch; the message names the operation.
    """
    if not isinstance(document, list):
        _malformed(f"{name} holds {_kind(document)}, not a list of operations", _EXAMPLE)
    return [_parse_step(each, number, name) for number, each in enumerate(document, 1)]


def _parse_step(given: Any, number: int, name: str) -> Step:
    where = f"{name}, operation {number}"
    if not isinstance(given, dict):
        _malformed(f"{where}: {_kind(given)} is not an operation", _EXAMPLE)
    op = given.get("op")
    if not isinstance(op, str) or op not in _MEMBERS:
        near = close_names(op, _MEMBERS) if isinstance(op, str) else []
        why = f"there is no operation {op!r:.60}" if "op" in given else "it has no op"
        _malformed(f"{where}: {why}", did_you_mean(near) or f"op is one of: {', '.join(_MEMBERS)}")
    for member in _MEMBERS[op]:
        if member not in given:
            _malformed(f"{where}: {op} needs {member!r}", _EXAMPLE)
    pointers = {
        member: _tokens(given[member], f"{where}: {member}")
        for member in _MEMBERS[op]
        if member in ("path", "from")
    }
    path, source = pointers["path"], pointers.get("from")
    if op == "move" and source is not None and path != source and path[: len(source)] == source:
        _malformed(f"{where}: a value cannot be moved into itself", "copy it, or move what is in it")
    return Step(number, op, path, source, given.get("value"))


def _tokens(pointer: Any, where: str) -> tuple[str, ...]:
    """The parts of a JSON pointer (RFC 6901), unescaped."""
    if not isinstance(pointer, str):
        _malformed(f"{where} is {_kind(pointer)}, not a JSON pointer", "a JSON pointer is text: /plan/0")
    if pointer and not pointer.startswith("/"):
        _malformed(f"{where} {pointer!r:.80} does not begin with /", f"write /{pointer:.80}")
    if _BAD_ESCAPE.search(pointer):
        hint = "in a JSON pointer ~ is written ~0, and / inside a key ~1"
        _malformed(f"{where} {pointer!r:.80} has a ~ that stands for nothing", hint)
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])


def _pointer(tokens: Sequence[str]) -> str:
    text = "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in tokens)
    return text if len(text) <= 200 else text[:200] + "..."


def apply_patch(state: Any, steps: Sequence[Step]) -> Any:
    """The state after all steps, in order.

    Raises:
        ConflictError: A step does not fit the state (`patch-failed`); the message names it.
    """
    for step in steps:
        try:
            state = _STEPS[step.op](state, step)
        except _Refusal as refusal:
            raise ConflictError(
                f"{step} does not fit the state: {refusal}",
                code=ErrorCode.PATCH_FAILED,
                hint=refusal.hint,
                operation=step.number,
            ) from None
    return state


def _add(state: Any, step: Step) -> Any:
    return _put(state, step.path, step.value)


def _remove(state: Any, step: Step) -> Any:
    return _take(state, step.path)[0]


def _replace(state: Any, step: Step) -> Any:
    if not step.path:
        return step.value
    return _edit(state, step.path, lambda parent, key: _set(parent, key, step.value))


def _move(state: Any, step: Step) -> Any:
    if step.source == step.path:
        _find(state, step.path)
        return state
    state, value = _take(state, step.source or ())
    return _put(state, step.path, value)


def _copy(state: Any, step: Step) -> Any:
    found = _find(state, step.source or ())
    try:
        # A copy of its own: a later step that changes one of the two must not change both.
        twin = deepcopy(found)
    except RecursionError:
        raise _Refusal(
            "the value is nested too deeply to be copied", "move it, or save it through Python"
        ) from None
    return _put(state, step.path, twin)


def _test(state: Any, step: Step) -> Any:
    found = _find(state, step.path)
    if not _equal(found, step.value):
        raise _Refusal(f"the value there is {_shown(found)}, not {_shown(step.value)}")
    return state


_STEPS: dict[str, Callable[[Any, Step], Any]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def _put(state: Any, path: Sequence[str], value: Any) -> Any:
    if not path:
        return value

    def insert(parent: Any, token: str) -> Any:
        if isinstance(parent, dict):
            parent[token] = value
            return parent
        at = len(parent) if token == _END else _index(parent, token, room=1)
        if type(parent) is tuple:
            return (*parent[:at], value, *parent[at:])
        if isinstance(parent, deque) and parent.maxlen == len(parent):
            raise _Refusal("the deque there is full", "remove an item of it first")
        parent.insert(at, value)
        return parent

    return _edit(state, path, insert, new=True)


def _take(state: Any, path: Sequence[str]) -> tuple[Any, Any]:
    if not path:
        raise _Refusal(
            "the whole state cannot be taken away", 'replace it: {"op": "replace", "path": "", ...}'
        )
    taken = None

    def out(parent: Any, key: Any) -> Any:
        nonlocal taken
        taken = parent[key]
        if type(parent) is tuple:
            return (*parent[:key], *parent[key + 1 :])
        del parent[key]
        return parent

    return _edit(state, path, out), taken


def _set(parent: Any, key: Any, value: Any) -> Any:
    if type(parent) is tuple:
        return (*parent[:key], value, *parent[key + 1 :])
    parent[key] = value
    return parent


def _edit(state: Any, path: Sequence[str], change: Callable[[Any, Any], Any], *, new: bool = False) -> Any:
    """Let `change` alter the parent of what `path` names; where that makes a new object, put it in the old one's place.

    With `new` the last part of the path need not be there yet, and is handed over as it is.
    """
    above: list[tuple[Any, Any]] = []
    here = state
    for depth, token in enumerate(path[:-1]):
        key = _key(here, token, path[:depth])
        above.append((here, key))
        here = here[key]
    key = _key(here, path[-1], path[:-1], new=new)
    changed = change(here, key)
    # Only tuples come back as another object; everything else has changed in place.
    while above and changed is not here:
        here, key = above.pop()
        changed = _set(here, key, changed)
    return state if changed is here else changed


def _find(state: Any, path: Sequence[str]) -> Any:
    for depth, token in enumerate(path):
        state = state[_key(state, token, path[:depth])]
    return state


def _key(parent: Any, token: str, where: Sequence[str], *, new: bool = False) -> Any:
    """What `parent` calls the part of a pointer: a text, or a position."""
    if isinstance(parent, dict):
        if not new and token not in parent:
            near = close_names(token, [key for key in parent if isinstance(key, str)])
            raise _Refusal(f"{_pointer(where) or 'the state'} has no key {token!r:.80}", did_you_mean(near))
        return token
    if not _is_sequence(parent):
        raise _Refusal(
            f"{_pointer(where) or 'the state'} is {_kind(parent)}, and a patch cannot go into that"
        )
    return token if new else _index(parent, token)


def _index(items: Sequence[Any], token: str, *, room: int = 0) -> int:
    if token == _END:
        raise _Refusal("- is the place after the last item, where there is nothing yet", "- is only for add")
    if not _INDEX.fullmatch(token):
        raise _Refusal(f"{token!r:.60} is no position in a list", "positions are 0, 1, 2 ...")
    if int(token) >= len(items) + room:
        raise _Refusal(f"there is no position {token} in a list of {len(items)}")
    return int(token)


def _equal(found: Any, wanted: Any) -> bool:
    """Whether a value of the state is what a value of JSON says: 1 is 1.0, true is not 1, a tuple is a list."""
    pairs = [(found, wanted)]
    # A stack instead of recursion: both may be as deep as JSON can be read.
    while pairs:
        left, right = pairs.pop()
        if isinstance(right, dict):
            if not isinstance(left, dict) or left.keys() != right.keys():
                return False
            pairs += [(left[key], right[key]) for key in right]
        elif isinstance(right, list):
            if not _is_sequence(left) or len(left) != len(right):
                return False
            pairs += zip(left, right, strict=True)
        elif _scalar(left) is not _scalar(right) or left != right:
            return False
    return True


def _is_sequence(value: Any) -> bool:
    # Not a class that is built on tuple: making it anew from its items may not be what it wants.
    return isinstance(value, list | deque) or type(value) is tuple


def _scalar(value: Any) -> type | None:
    """The type of JSON that a value is, where it is a text, a number, a boolean or null."""
    if isinstance(value, float):
        return int
    return next((kind for kind in (bool, int, str, type(None)) if isinstance(value, kind)), None)


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    # Python refuses to write numbers of thousands of digits.
    if isinstance(value, float | str) or (isinstance(value, int) and value.bit_length() < 200):
        return f"{value!r:.60}"
    return _kind(value)


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "a boolean", type(None): "null"}
    names |= {int: "a number", float: "a number"}
    return names.get(type(value), f"of type {type(value).__name__}")


def _malformed(message: str, hint: str) -> NoReturn:
    raise InvalidInputError(message, code=ErrorCode.BAD_ARGUMENT, hint=hint)
