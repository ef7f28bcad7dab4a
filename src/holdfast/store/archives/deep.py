"""A JSON parser that does not recurse, for values that lie deeper in each other than Python goes.

Ten times slower than the one in C, which is tried first, and to the same rules: `json.decoder` reads its strings, and
`strict` builds its objects.
"""

from __future__ import annotations

import re
from json.decoder import scanstring  # type: ignore[attr-defined]  # documented nowhere, there since 2.6
from typing import Any, Final, NoReturn

from holdfast.store.archives.strict import finite, unique

_TOKEN: Final = re.compile(
    r"[ \t\n\r]*(?:(?P<mark>[{}\[\],:\"])|(?P<word>true|false|null)"
    r"|(?P<number>-?(?:0|[1-9][0-9]*)(?P<real>\.[0-9]+)?(?P<power>[eE][-+]?[0-9]+)?))"
)
_BLANK: Final = re.compile(r"[ \t\n\r]*")
_WORDS: Final = {"true": True, "false": False, "null": None}
_OPEN: Final = {"[": "]", "{": "}"}


def parse_deep(text: str) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: It is none.
    """
    return _Parser(text).parse()


class _Open:
    """A list or an object that is being read."""

    __slots__ = ("end", "items", "key", "state")

    def __init__(self, end: str) -> None:
        self.end = end
        self.items: list[Any] = []
        self.key: str | None = None
        self.state = "first"
        """What may come: the first item or the end, an `item`, `after` one a comma or the end, a `colon`."""


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._stack: list[_Open] = []

    def parse(self) -> Any:
        """The value."""
        while True:
            mark, value = self._next()
            if mark in _OPEN:
                self._expect_value()
                self._stack.append(_Open(_OPEN[mark]))
                continue
            if mark in ("]", "}"):
                value = self._close(mark)
            elif mark in (",", ":"):
                self._separate(mark)
                continue
            else:
                if self._is_key(mark):
                    self._stack[-1].key, self._stack[-1].state = value, "colon"
                    continue
                self._expect_value()
            if not self._stack:
                return self._ended(value)
            top = self._stack[-1]
            top.items.append(value if top.end == "]" else (top.key, value))
            top.key, top.state = None, "after"

    def _next(self) -> tuple[str, Any]:
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            self._refuse()
        self._at = found.end()
        if found["mark"] == '"':
            value, self._at = scanstring(self._text, self._at)
            return '"', value
        if found["mark"]:
            return found["mark"], None
        if found["word"]:
            return "word", _WORDS[found["word"]]
        number = found["number"]
        return "number", finite(number) if found["real"] or found["power"] else int(number)

    def _is_key(self, mark: str) -> bool:
        top = self._stack[-1] if self._stack else None
        return (
            mark == '"'
            and top is not None
            and top.end == "}"
            and top.key is None
            and top.state in ("first", "item")
        )

    def _expect_value(self) -> None:
        if self._stack:
            top = self._stack[-1]
            if top.state not in ("first", "item") or (top.end == "}" and top.key is None):
                self._refuse()

    def _separate(self, mark: str) -> None:
        top = self._stack[-1] if self._stack else None
        if top is None or top.state != ("after" if mark == "," else "colon"):
            self._refuse()
        top.state = "item"

    def _close(self, mark: str) -> Any:
        top = self._stack.pop() if self._stack else None
        if top is None or top.end != mark or top.state not in ("first", "after"):
            self._refuse()
        return top.items if mark == "]" else unique(top.items)

    def _ended(self, value: Any) -> Any:
        blank = _BLANK.match(self._text, self._at)
        self._at = blank.end() if blank else self._at
        if self._at != len(self._text):
            self._refuse()
        return value

    def _refuse(self) -> NoReturn:
        raise ValueError(f"unexpected text at character {self._at:,}")
