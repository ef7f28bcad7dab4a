"""What to look for in texts: letters as they are, or a regular expression whose time is bounded.

Letters are found by Python itself, in time that grows with the text. Regular expressions can take for ever on a text
that was made for it, so they are left to the library `regex`, which can be told to give up: one that takes longer than
a second on one text is refused, with the place where that happened.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
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
        every: Where a text matches, from its beginning to its end.
    """

    def __init__(self, text: str, *, regex: bool, ignore_case: bool) -> None:
        self.text = _checked(text)
        self.needle: bytes | None = None
        self.every: Callable[[str], Iterator[Span]]
        self._ignore_case = ignore_case
        if regex:
            self.every = _bounded(self.text, ignore_case=ignore_case)
        elif ignore_case:
            compiled = re.compile(re.escape(text), re.IGNORECASE)
            self.every = lambda searched: (found.span() for found in compiled.finditer(searched))
        else:
            self.needle = text.encode("utf-8", "surrogatepass")
            self.every = self._plainly

    def find(self, text: str) -> Span | None:
        """Where a text matches first; None where it does not."""
        return next(self.every(text), None)

    def word(self, text: str, span: Span) -> str:
        """What was matched there: the same for matches that are the same to this pattern."""
        matched = text[slice(*span)]
        return matched.casefold() if self._ignore_case else matched

    def absent(self, data: bytes) -> bool:
        """Whether no text in these encoded bytes can match; False where that is not known."""
        return self.needle is not None and self.needle not in data

    def _plainly(self, text: str) -> Iterator[Span]:
        size = len(self.text)
        at = text.find(self.text)
        while at >= 0:
            yield at, at + size
            at = text.find(self.text, at + size)


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


def _bounded(pattern: str, *, ignore_case: bool) -> Callable[[str], Iterator[Span]]:
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

    def every(text: str) -> Iterator[Span]:
        try:
            yield from _in_time(compiled.finditer(text, timeout=_SECONDS))
        except TimeoutError as error:
            raise InvalidInputError(
                f"the pattern {pattern!r:.100} takes more than {_SECONDS:g} s on a text of {len(text):,} characters",
                code=ErrorCode.BAD_PATTERN,
                hint="write it without repeats inside repeats, such as (a+)+, or look for words as they are",
                pattern=pattern,
            ) from error

    return every


def _in_time(matches: Iterable[Any]) -> Iterator[Span]:
    # The library gives each match its time anew; here all matches in one text have it together.
    last = monotonic() + _SECONDS
    for found in matches:
        yield found.span()
        if monotonic() > last:
            raise TimeoutError


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
