"""Whether a text that was edited has more matches than it had: what grows keeps what it had, and that is not new.

Texts are remembered by a mark alone, so that a long history fits in memory. Where one is not in the state before, a
comparison of both states says whether it stood there in another form; only then are both forms looked at. What took
the place of quite another text is no edit of it: the next error in `last_error` is new, though the last one had the
same word. In doubt a match is told: one too many is passed over, one that is missing is not looked for again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from holdfast.objects.diffing.aligning import common_start
from holdfast.objects.diffing.change import Change, path_text
from holdfast.store.searching.patterns import Pattern, Span
from holdfast.store.searching.texts import Found, found_at


def came_in(found: Iterable[Found], changes: Iterable[Change], pattern: Pattern) -> Iterator[Found]:
    """Those of the matches that the changes brought: of an edited text, a match that it did not have before."""
    replaced = {change.path: change for change in changes if change.op == "replace"}
    for each in found:
        change = replaced.get(path_text(each.steps))
        old, new = (None, None) if change is None else (change.plain("old"), change.plain("new"))
        if type(old) is not str or type(new) is not str or not _is_edit(old, new):
            yield each
        elif (span := _new_span(old, new, pattern)) is not None:
            yield found_at(new, span, each.steps)


def _is_edit(old: str, new: str) -> bool:
    """Whether half of the old text is left, around a change or in one piece; or nothing else than a part of it."""
    return 2 * sum(_common_ends(old, new)) >= len(old) or new in old or _half_in_one_piece(old, new)


def _half_in_one_piece(old: str, new: str) -> bool:
    """Whether so much of the old text stands in the new one, wherever: it was cut at one end, and grew at the other."""
    # Every piece of half the length has one of these quarters whole in it, so that they are all that is looked for.
    quarter = max(1, len(old) // 4)
    for start in range(0, len(old) - quarter + 1, quarter):
        at = new.find(old[start : start + quarter])
        if at < 0:
            continue
        before = common_start(old[:start][::-1], new[:at][::-1])
        if 2 * (before + common_start(old[start:], new[at:])) >= len(old):
            return True
    return False


def _common_ends(old: str, new: str) -> tuple[int, int]:
    """How many characters are the same from the beginning on, and of the rest from the end on."""
    front = common_start(old, new)
    return front, common_start(old[front:][::-1], new[front:][::-1])


def _new_span(old: str, new: str, pattern: Pattern) -> Span | None:
    """A match that the new text has more often than the old one had, if there is one: best in the part that is new."""
    spans = list(pattern.every(new))
    more = Counter(pattern.word(new, span) for span in spans)
    more.subtract(pattern.word(old, span) for span in pattern.every(old))
    wanted = [span for span in spans if more[pattern.word(new, span)] > 0]
    front, back = _common_ends(old, new)
    within = (span for span in wanted if span[1] > front and span[0] < len(new) - back)
    return next(within, wanted[0] if wanted else None)
