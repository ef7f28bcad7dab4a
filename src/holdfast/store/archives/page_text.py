"""Text of anybody's as text of a page: escaped, and no more of it than there is room for.

What could change how text around it is read (control characters, marks that turn its direction) is written as an
escape. Room is counted in bytes of the page, because that is what a page has a limit for.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Any, Final

from holdfast.objects.diffing.change import Excerpt
from holdfast.objects.tagged import tagged_json

_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]"
)
_STEP: Final = 500
"""Characters that are escaped at once: so much more than its room a text may take."""


def escaped(text: str) -> str:
    """A text as it stands between tags; nowhere else is it put, so quotation marks may stay."""
    seen = _UNSEEN.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
    # Half a surrogate pair has no bytes.
    return html.escape(seen.encode("utf-8", "backslashreplace").decode(), quote=False)


def fitted(pieces: Iterable[str], room: int) -> tuple[str, bool]:
    """As much of a text as there is room for, escaped, and whether that is all of it."""
    some: list[str] = []
    for piece in pieces:
        for at in range(0, len(piece), _STEP):
            if room <= 0:
                return "".join(some), False
            part = escaped(piece[at : at + _STEP])
            some.append(part)
            room -= len(part.encode())
    return "".join(some), True


def short(text: str, longest: int) -> str:
    """The beginning of a text, with a mark where that is not all of it; escaped."""
    return escaped(text) if len(text) <= longest else f"{escaped(text[:longest])} …"


def value_text(value: Any, longest: int) -> str:
    """A value in a line, as JSON, or what differs of a long one; not escaped."""
    if isinstance(value, Excerpt):
        return _beginning((f"{each!s} … " for each in value.parts), longest)
    return _beginning(tagged_json(value, one_line=True), longest)


def _beginning(pieces: Iterable[str], longest: int) -> str:
    some, size = [], 0
    for piece in pieces:
        some.append(piece)
        size += len(piece)
        if size > longest:
            return f"{''.join(some)[:longest]} …"
    return "".join(some)
