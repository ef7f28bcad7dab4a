"""Which words of a text changed: the text of both sides as parts that stayed, went and came.

Words, runs of spaces and single signs are compared, so that a mark never begins in the middle of a word.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import Final, Literal

from holdfast.objects.diff.alignment import align, windows_between
from holdfast.record import Record

_WORD: Final = re.compile(r"\w+|\s+|[^\w\s]")


class Mark(Record):
    """A part of a text: `=` is on both sides, `-` only on the old one, `+` only on the new one."""

    sign: Literal["=", "-", "+"]
    text: str


def word_marks(old: str, new: str) -> list[Mark]:
    """Both texts as one sequence of marked parts; without the `+` it is the old one, without the `-` the new one."""
    before, after = _WORD.findall(old), _WORD.findall(new)
    pairs = align(before, after)
    found: list[Mark] = []
    at = 0
    for window in windows_between(pairs, (0, len(before), 0, len(after))):
        old_start, old_stop, new_start, new_stop = window
        found.append(Mark("=", "".join(before[at:old_start])))
        found.append(Mark("-", "".join(before[old_start:old_stop])))
        found.append(Mark("+", "".join(after[new_start:new_stop])))
        at = old_stop
    found.append(Mark("=", "".join(before[at:])))
    return _joined([mark for mark in found if mark.text])


def _joined(marks: list[Mark]) -> list[Mark]:
    """A single space between two changes reads better as part of them."""
    smooth: list[Mark] = []
    for number, mark in enumerate(marks):
        between = mark.sign == "=" and mark.text.isspace() and "\n" not in mark.text
        if between and 0 < number < len(marks) - 1:
            smooth += [Mark("-", mark.text), Mark("+", mark.text)]
        else:
            smooth.append(mark)
    result: list[Mark] = []
    for changed, run in groupby(smooth, key=lambda mark: mark.sign != "="):
        parts = list(run)
        if not changed:
            result += parts
            continue
        for sign in ("-", "+"):
            text = "".join(part.text for part in parts if part.sign == sign)
            if text:
                result.append(Mark(sign, text))
    return result


class Lines(Record):
    """Lines that both texts have, or that stand for each other: some that went, and some that came in their place."""

    same: bool
    old: list[str]
    new: list[str]


def line_marks(old: str, new: str) -> list[Lines]:
    """Both texts line by line, from the beginning to the end."""
    before, after = old.split("\n"), new.split("\n")
    pairs = align(before, after)
    found: list[Lines] = []
    at = 0
    for old_start, old_stop, new_start, new_stop in windows_between(pairs, (0, len(before), 0, len(after))):
        if at < old_start:
            found.append(Lines(same=True, old=before[at:old_start], new=before[at:old_start]))
        found.append(Lines(same=False, old=before[old_start:old_stop], new=after[new_start:new_stop]))
        at = old_stop
    if at < len(before):
        found.append(Lines(same=True, old=before[at:], new=before[at:]))
    return found
