"""Metadata and operation data as canonical JSON text.

State may hold any Python value; metadata may not. It is what people filter by and what every surface and both databases
show, so it is plain JSON: text keys, text, numbers, booleans, null, lists and objects. What JSON cannot keep is refused
with its path rather than bent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.storage.tables import is_storable

_MAX_DEPTH = 64
"""Deeper metadata belongs into the state. It also keeps the recursion here, and in the databases' JSON, bounded."""
_MAX_BYTES = 1 << 20


def metadata_text(metadata: Mapping[str, Any] | None) -> str:
    """Check metadata and return it as canonical text: no spaces, keys in the order given."""
    if metadata is None:
        return "{}"
    if not isinstance(metadata, Mapping):
        raise _refused("metadata", f"it must be a dict, not {type(metadata).__name__}")
    plain = dict(metadata)
    _check(plain, "metadata", 0)
    text = dump(plain)
    if len(text) > _MAX_BYTES:
        raise _refused("metadata", f"it takes {len(text)} bytes; {_MAX_BYTES} is the limit")
    return text


def dump(value: Any) -> str:
    """Canonical text of a value that is known to be plain JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def parse(text: str) -> Any:
    """The value of canonical text."""
    return json.loads(text)


def conditions(metadata: Mapping[str, Any] | None) -> tuple[tuple[tuple[str, ...], str], ...]:
    """A nested metadata filter as (path of keys, canonical value) pairs, all of which must hold."""
    if metadata is None:
        return ()
    if not isinstance(metadata, Mapping):
        raise _refused("metadata", f"it must be a dict, not {type(metadata).__name__}")
    _check(metadata, "metadata", 0)
    found: list[tuple[tuple[str, ...], str]] = []

    def collect(value: Mapping[str, Any], path: tuple[str, ...]) -> None:
        for key, item in value.items():
            if isinstance(item, Mapping) and item:
                collect(item, (*path, key))
            else:
                found.append(((*path, key), dump(item)))

    collect(metadata, ())
    return tuple(found)


def _check(value: Any, path: str, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise _refused(path, f"it is nested deeper than {_MAX_DEPTH} levels")
    kind = type(value)
    if kind is dict or (depth == 0 and isinstance(value, Mapping)):
        for key, item in value.items():
            if type(key) is not str:
                raise _refused(path, f"its key {key!r:.60} is not a text")
            _check_scalar(key, path)
            _check(item, f"{path}[{key!r}]", depth + 1)
    elif kind is list:
        for index, item in enumerate(value):
            _check(item, f"{path}[{index}]", depth + 1)
    else:
        _check_scalar(value, path)


def _check_scalar(value: Any, path: str) -> None:
    if value is None or type(value) is bool:
        return
    if type(value) is str:
        if not is_storable(value):
            raise _refused(path, "it holds a NUL or half a surrogate pair")
    elif type(value) is float:
        if not math.isfinite(value):
            raise _refused(path, f"{value} is not a JSON number")
    elif type(value) is int:
        if not -(2**63) <= value < 2**63:
            raise _refused(path, "it does not fit into 64 bits")
    else:
        raise _refused(path, f"a {type(value).__name__} is not plain JSON")


def _refused(path: str, why: str) -> InvalidInputError:
    return InvalidInputError(
        f"{path} cannot be kept as metadata: {why}",
        code=ErrorCode.BAD_METADATA,
        hint="metadata is plain JSON (dict, list, str, int, float, bool, None); put other values into the state",
        path=path,
    )
