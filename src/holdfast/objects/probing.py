"""Whether a value is large, without encoding it: a lower bound that stops counting as soon as it is enough.

Encoding a large list or dict only to learn that it has to be cut takes as much memory as the list itself, and time. A
value of which this says no may still be large: the encoded bytes tell.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.objects.tracked import encoded_type

_MANY: Final = 32
_HOLDERS: Final = frozenset((list, dict))
_COUNTED: Final = frozenset((list, dict, str, bytes))


def worth_asking(value: Any, beside: int) -> bool:
    """Whether a value that stands `beside` so many others may be so large that it pays to ask before encoding it.

    Items of long lists are many and small, and are not asked about, unless they hold many others themselves.
    """
    return encoded_type(value) in _HOLDERS and (beside < _MANY or len(value) >= _MANY)


def is_larger(value: Any, limit: int) -> bool:
    """Whether a list or dict is certain to be encoded to more bytes than this. It looks at no more values than that."""
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
            to_do += [item for item in list(each.values()) if encoded_type(item) in _COUNTED]
        elif kind is list:
            to_do += [item for item in list(each) if encoded_type(item) in _COUNTED]
    return False
