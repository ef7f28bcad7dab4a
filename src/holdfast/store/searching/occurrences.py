"""Whether a text that was edited has more matches than it had: what grows keeps what it had, and that is not new.

Texts are remembered by a mark alone, so that a long history fits in memory. Where one is not in the state before, a
comparison of both states says whether it stood there in another form; only then are both forms looked at.
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
        if type(old) is not str or type(new) is not str:
            yield each
        elif (span := _new_span(old, new, pattern)) is not None:
            yield found_at(new, span, each.steps)


def _new_span(old: str, new: str, pattern: Pattern) -> Span | None:
    """A match that the new text has more often than the old one had, if there is one: best in the part that is new."""
    spans = list(pattern.every(new))
    more = Counter(pattern.word(new, span) for span in spans)
    more.subtract(pattern.word(old, span) for span in pattern.every(old))
    wanted = [span for span in spans if more[pattern.word(new, span)] > 0]
    front = common_start(old, new)
    back = len(new) - common_start(old[front:][::-1], new[front:][::-1])
    within = (span for span in wanted if span[1] > front and span[0] < back)
    return next(within, wanted[0] if wanted else None)
