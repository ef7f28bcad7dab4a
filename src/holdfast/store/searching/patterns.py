"""What to look for in texts: letters as they are, or a regular expression whose time is bounded.

Letters are found by Python itself, in time that grows with the text. Regular expressions can take for ever on a text
that was made for it, so they are left to the library `regex`, which can be told to give up: one that takes longer than
a second on one text is refused, with the place where that happened.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from holdfast.errors import ErrorCode, InvalidInputError, UnsupportedError

_LONGEST: Final = 1_000
_SECONDS: Final = 1.0
"""For one text. A pattern that is not made to hang takes microseconds; the first text that takes so long ends it."""

Span = tuple[int, int]


class Pattern:
    """A pattern, ready to be looked for.

    Attributes:
        needle: Bytes that are in every encoded text that matches; None where that cannot be said.
        find: Where a text matches first; None where it does not.
    """

    def __init__(self, text: str, *, regex: bool, ignore_case: bool) -> None:
        self.text = _checked(text)
        self.needle: bytes | None = None
        self.find: Callable[[str], Span | None]
        if regex:
            self.find = _bounded(self.text, ignore_case=ignore_case)
        elif ignore_case:
            self.find = _spans(re.compile(re.escape(text), re.IGNORECASE).search)
        else:
            self.needle = text.encode("utf-8", "surrogatepass")
            self.find = self._plainly

    def absent(self, data: bytes) -> bool:
        """Whether no text in these encoded bytes can match; False where that is not known."""
        return self.needle is not None and self.needle not in data

    def _plainly(self, text: str) -> Span | None:
        at = text.find(self.text)
        return None if at < 0 else (at, at + len(self.text))


def _checked(text: object) -> str:
    if isinstance(text, str) and 0 < len(text) <= _LONGEST:
        return text
    what = "is empty" if text == "" else f"has more than {_LONGEST:,} characters"
    if not isinstance(text, str):
        what = f"must be text, not {type(text).__name__}"
    raise InvalidInputError(
        f"the pattern {what}",
        code=ErrorCode.BAD_PATTERN,
        hint="pass the words to look for, or a regular expression with regex=True",
    )


def _spans(search: Callable[[str], re.Match[str] | None]) -> Callable[[str], Span | None]:
    def find(text: str) -> Span | None:
        found = search(text)
        return None if found is None else found.span()

    return find


def _bounded(pattern: str, *, ignore_case: bool) -> Callable[[str], Span | None]:
    library = _library()
    try:
        compiled = library.compile(pattern, library.IGNORECASE if ignore_case else 0)
    except (library.error, RecursionError) as error:
        at = getattr(error, "pos", None)
        where = "" if at is None else f", at character {at + 1}"
        raise InvalidInputError(
            f"{pattern!r:.100} is not a regular expression: {getattr(error, 'msg', error)}{where}",
            code=ErrorCode.BAD_PATTERN,
            hint="put \\ before signs that stand for themselves, or look for the words as they are",
            pattern=pattern,
            position=at,
        ) from error

    def find(text: str) -> Span | None:
        try:
            found = compiled.search(text, timeout=_SECONDS)
        except TimeoutError as error:
            raise InvalidInputError(
                f"the pattern {pattern!r:.100} takes more than {_SECONDS:g} s on a text of {len(text):,} characters",
                code=ErrorCode.BAD_PATTERN,
                hint="write it without repeats inside repeats, such as (a+)+, or look for words as they are",
                pattern=pattern,
            ) from error
        return None if found is None else found.span()

    return find


def _library() -> Any:
    try:
        # Only those who look for a regular expression need it.
        import regex
    except ImportError as error:
        raise UnsupportedError(
            "regular expressions need a library that is not installed: regex",
            code=ErrorCode.NOT_SUPPORTED,
            hint="pip install 'holdfast[query]' installs it; without it, grep finds words as they are",
        ) from error
    return regex
