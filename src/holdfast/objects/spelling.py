"""How a key is written in a path, and read again: every text has a spelling that leads back to it.

A plain name stands as it is. Any other key stands in quotes, as it is as well, up to the first quote that a `]` comes
after: there are no escapes, so that a backslash is a backslash. A key that has `']` and `"]` in it has a `#` before and
after its quotes, or as many as it takes: `[#'a']b"]c'#]`.
"""

from __future__ import annotations

import re
from itertools import count
from typing import Final

_PLAIN_NAME: Final = r"[^\W\d][\w-]*"

QUOTED: Final = r"\[ (?P<marks>\#*) (?P<quote>['\"]) (?P<text>(?s:.*?)) (?P=quote) (?P=marks) \]"
"""A step in quotes, for a regular expression that is `VERBOSE`; the key is its group `text`."""


def is_plain(key: str) -> bool:
    """Whether a key stands in a path as it is."""
    return re.fullmatch(_PLAIN_NAME, key) is not None


def quoted(key: str) -> str:
    """The step to any text key, in quotes that do not end before it does."""
    ends = ((quote, "#" * marks) for marks in count() for quote in "'\"")
    quote, marks = next((quote, marks) for quote, marks in ends if f"{quote}{marks}]" not in key)
    return f"[{marks}{quote}{key}{quote}{marks}]"
