"""Whether a value is large, without encoding it: a lower bound that stops counting as soon as it is enough.

Encoding a large list or dict only to learn that it has to be cut takes as much memory as the list itself, and time. A
value of which this says no may still be large: the encoded bytes tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from holdfast.objects.codec.builtin_types import encoded_type

GlanceOf = Callable[[type], Callable[[Any], Any] | None]
"""See `BulkPacker.glance_of`."""

_MANY: Final = 32
_HOLDERS: Final = frozenset((list, dict))
_COUNTED: Final = frozenset((list, dict, str, bytes))
_BUILT_IN: Final = _COUNTED | {int, float, bool, type(None)}


def worth_asking(value: Any, beside: int) -> bool:
    """Whether a value that stands `beside` so many others may be so large that it pays to ask before encoding it.

    Items of long lists are many and small, and are not asked about, unless they hold many others themselves.
    """
    return encoded_type(value) in _HOLDERS and (beside < _MANY or len(value) >= _MANY)


def is_larger(value: Any, limit: int, glance_of: GlanceOf | None = None) -> bool:
    """Whether a list or dict is certain to be encoded to more bytes than this. It looks at no more values than that.

    With `glance_of`, it is nearly certain: objects are counted with their fields, of which some may be left out.
    """
    size = 0
    to_do = [value]
    while to_do:
        each = to_do.pop()
        # Each item of a list and each half of a pair takes a byte at least, and each character of a text.
        size += len(each)
        if size > limit:
            return True
        kind = encoded_type(each)
        if kind is dict:
            size += len(each)
            to_do += _counted(list(each.values()), glance_of)
        elif kind is list:
            to_do += _counted(list(each), glance_of)
    return False


def _counted(items: list[Any], glance_of: GlanceOf | None) -> list[Any]:
    if _BUILT_IN.issuperset(map(type, items)):
        # As in nearly every list and dict there is.
        return [item for item in items if type(item) in _COUNTED]
    counted = [item for item in items if encoded_type(item) in _COUNTED]
    if glance_of is not None:
        pairs = [(glance_of(type(item)), item) for item in items if type(item) not in _BUILT_IN]
        counted += [glance(item) for glance, item in pairs if glance is not None]
    return counted
