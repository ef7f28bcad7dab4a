"""The two parts of a `Query` that databases answer differently: metadata, and the prefix of an id.

Metadata is compared here, in one place for all backends, because each database has its own idea of JSON equality. Two
values are equal when they are equal as JSON and of the same kind: `1`, `1.0` and `true` are three different values, as
they are in a saved state; the order of an object's keys does not count.
"""

from __future__ import annotations

import json
from typing import Any

from holdfast.errors import ErrorCode, InvalidInputError

Conditions = tuple[tuple[tuple[str, ...], str], ...]
"""(path of keys, value as JSON text) pairs, as `Query.metadata` has them."""

_ID_DIGITS = 64
_HEX = frozenset("0123456789abcdef")


def normalized(conditions: Conditions) -> Conditions:
    """The same conditions with their values in the form that `metadata_matches` compares."""
    return tuple((path, _text(json.loads(value))) for path, value in conditions)


def metadata_matches(metadata: str, added: str | None, conditions: Conditions) -> bool:
    """Whether metadata, with what was added laid over it, has all these values. The conditions are normalized."""
    if not conditions:
        return True
    value = json.loads(metadata)
    if added is not None:
        value = value | json.loads(added)
    return all(_holds(value, path, wanted) for path, wanted in conditions)


def id_range(prefix: str) -> tuple[bytes, bytes]:
    """The lowest and the highest id that start with these hex digits, of which there may be an odd number."""
    if len(prefix) > _ID_DIGITS or not _HEX.issuperset(prefix):
        raise InvalidInputError(
            f"{prefix!r:.80} is not the start of an id",
            code=ErrorCode.BAD_REF,
            hint="an id is 64 hex digits; give its first ones",
        )
    return bytes.fromhex(prefix.ljust(_ID_DIGITS, "0")), bytes.fromhex(prefix.ljust(_ID_DIGITS, "f"))


def _holds(value: Any, path: tuple[str, ...], wanted: str) -> bool:
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return _text(value) == wanted


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
