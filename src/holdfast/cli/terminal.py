r"""What a terminal is told: colour or not, how wide it is, and no character that could take it over.

Two rules hold everywhere. Colour decorates text for people and never reaches TSV or JSON; stdout and stderr are judged
each on its own. Text that came out of a store is hostile until escaped: control characters, escape sequences and the
marks that reorder text are shown as `\x1b` or `\u202e`, never sent.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import IO, Literal

ColorChoice = Literal["auto", "always", "never"]
TimeChoice = Literal["relative", "iso", "local"]

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}

_UNSAFE = (
    "[\x00-\x1f\x7f-\x9f"  # C0, DEL and C1: cursor moves, escape sequences, window titles
    "\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"  # invisible marks and those that reorder text
    "\u2028\u2029"  # line ends that are not \n
    "\ud800-\udfff"  # half a surrogate pair: cannot be encoded
    "\U000e0000-\U000e007f]"  # tag characters: invisible text
)
_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def use_color(choice: ColorChoice, stream: IO[str], environ: Mapping[str, str] | None = None) -> bool:
    """Whether to colour what goes to `stream`: the option, then NO_COLOR, then the forcing variables, then TERM."""
    env = os.environ if environ is None else environ
    if choice != "auto":
        return choice == "always"
    if env.get("NO_COLOR"):
        return False
    if any(env.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return env.get("TERM") != "dumb" and is_terminal(stream)


def is_terminal(stream: IO[str]) -> bool:
    """Whether a person is looking at `stream`; a closed stream has nobody."""
    try:
        return stream.isatty()
    except ValueError:  # what a closed file raises
        return False


def paint(text: str, style: str, *, on: bool) -> str:
    """`text` in one of the styles, or as it is."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if on and text else text


def terminal_width() -> int:
    """Columns of the terminal on stdout; COLUMNS wins, 80 where nobody knows."""
    given = os.environ.get("COLUMNS", "")
    if given.isascii() and given.isdigit() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns or 80
    except (OSError, ValueError):  # not a terminal, or no file behind it
        return 80


def escape_controls(text: str) -> str:
    """`text` on one line, with nothing in it that a terminal would act on."""
    return text if text.isprintable() else re.sub(_UNSAFE, _escaped, text)


def escape_field(text: str) -> str:
    r"""`text` as one TSV field: like `escape_controls`, and `\` doubled so that the original can be had back."""
    return escape_controls(text.replace("\\", "\\\\"))


def _escaped(found: re.Match[str]) -> str:
    char = found.group()
    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def escape_json(text: str) -> str:
    """JSON text that is safe to look at; the line ends between its tokens stay."""
    return re.sub(
        _UNSAFE,
        lambda found: found.group() if found.group() == "\n" else _json_escape(ord(found.group())),
        text,
    )


def _json_escape(code: int) -> str:
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)  # JSON escapes are UTF-16: two halves beyond the first 65,536
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def text_width(text: str) -> int:
    """How many columns a terminal gives `text`: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_char_width(char) for char in text)


def _char_width(char: str) -> int:
    import unicodedata  # a megabyte of tables that plain ASCII does not need

    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def shorten(text: str, width: int, *, mark: str = "…") -> str:
    """`text` in at most `width` columns, with `mark` where the rest was."""
    if text_width(text) <= width:
        return text
    room, kept = width - text_width(mark), 0
    for end, char in enumerate(text):
        kept += _char_width(char)
        if kept > room:
            return text[:end] + mark
    return text


def pad(text: str, width: int, *, right: bool = False) -> str:
    """`text` filled with spaces to `width` columns."""
    fill = " " * max(0, width - text_width(text))
    return fill + text if right else text + fill


def ellipsis_for(stream: IO[str]) -> str:
    """The sign for "there is more" that `stream` can encode."""
    try:
        "…".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):  # an old locale, or an encoding nobody knows
        return "..."
    return "…"


def size_text(count: int) -> str:
    """A number of bytes for people: `812 B`, `1.2 KB`, `3.4 GB`, in steps of 1,000."""
    size = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 999.95:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"


_UNITS = (
    ("y", 31_557_600),
    ("mo", 2_629_800),
    ("w", 604_800),
    ("d", 86_400),
    ("h", 3600),
    ("m", 60),
    ("s", 1),
)


_CLOCK_UNITS = _UNITS[3:]
"""Those that always have the same length for people, too."""


def age(then: datetime, now: datetime | None = None) -> str:
    """How long ago, in at most eight characters: `now`, `41s ago`, `2h ago`, `11mo ago`; `in 5m` for a clock ahead."""
    seconds = int(((now or datetime.now(UTC)) - then).total_seconds())
    if seconds == 0:
        return "now"
    unit, size = next((unit, size) for unit, size in _UNITS if abs(seconds) >= size)
    count = f"{abs(seconds) // size}{unit}"
    return f"{count} ago" if seconds > 0 else f"in {count}"


def lasted(length: timedelta, *, gap: str = "") -> str:
    """How long, in the two largest units: `3m 12s`, `2d 4h`, `41s`, `120ms`; `gap` goes between figure and unit."""
    seconds = int(length.total_seconds())
    if seconds < 1:
        return f"{length // timedelta(milliseconds=1)}{gap}ms"
    parts = []
    for unit, size in _CLOCK_UNITS:
        amount, seconds = divmod(seconds, size)
        parts.append((amount, unit))
    first = next(at for at, (amount, _) in enumerate(parts) if amount)
    return " ".join(f"{amount}{gap}{unit}" for amount, unit in parts[first : first + 2] if amount)


def show_time(moment: datetime, choice: TimeChoice) -> str:
    """A time for people: how long ago, or to the second as ISO 8601 in UTC, or on the clock of this machine."""
    if choice == "relative":
        return age(moment)
    if choice == "iso":
        return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def iso(moment: datetime) -> str:
    """A time as ISO 8601 in UTC, always with six digits of a second, so that texts sort as times do."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
