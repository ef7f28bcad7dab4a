"""What a checkpoint changed, as a page shows it: where, what was there, and what is there now.

Of a text that became another one only the part that differs is shown, with some words around it: two long texts that
begin alike would look the same. The signs say what the colours say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from holdfast.objects.diffing.change import Change, Excerpt
from holdfast.store.archives.page_text import escaped, short, value_text

_MOST: Final = 100
_LONGEST_VALUE: Final = 400
_LONGEST_PATH: Final = 200
_MOST_PARTS: Final = 5
_AROUND: Final = 60
"""Characters before and after what differs of a text."""
_ALIKE: Final = 0.4
"""Of the longer text, so much has to be the same in the other for the rest to be told by itself."""


def changes_list(changes: Sequence[Change], room: int) -> Iterator[str]:
    """The changes as a list, as many as there is room for."""
    yield "<ul class=ch>\n"
    for count, each in enumerate(changes):
        if count == _MOST or room <= 0:
            yield f"<li class=dim>and {len(changes) - count:,} more</li>\n"
            break
        path = short(each.path, _LONGEST_PATH) or "the whole state"
        item = f"<li><code>{path}</code> <div>{_what(each)}</div></li>\n"
        room -= len(item.encode())
        yield item
    yield "</ul>\n"


def _what(change: Change) -> str:
    if change.op == "move":
        return f"moved from {change.old} to {change.new}"
    if change.op == "add":
        return f"<ins>{_whole(change.new)}</ins>"
    if change.op == "remove":
        return f"<del>{_whole(change.old)}</del>"
    old, new = _both(change.old, change.new)
    return f"<del>{old}</del><ins>{new}</ins>"


def _both(old: Any, new: Any) -> tuple[str, str]:
    if isinstance(old, Excerpt) and isinstance(new, Excerpt):
        # Of a long text: each part of one belongs to one of the other.
        pairs = [_both(*pair) for pair in zip(old.parts[:_MOST_PARTS], new.parts[:_MOST_PARTS], strict=True)]
        before, after = (" … ".join(side) for side in zip(*pairs, strict=True))
        return f"… {before} …", f"… {after} …"
    if type(old) is str and type(new) is str:
        start = _whole_words(old, _alike(old, new))
        end = _whole_words(old[::-1], _alike(old[start:][::-1], new[start:][::-1]))
        # Where little is the same it is another text, not another wording: letters that happen to be alike say nothing.
        if start + end >= _ALIKE * max(len(old), len(new)):
            return _marked(old, start, len(old) - end), _marked(new, start, len(new) - end)
    return _whole(old), _whole(new)


def _whole(value: Any) -> str:
    return escaped(value_text(value, _LONGEST_VALUE))


def _alike(one: str, other: str) -> int:
    """How many characters two texts begin with that are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _whole_words(text: str, end: int) -> int:
    """The place at or shortly before `end` where a word of the text ends; `end` where there is none."""
    if end == len(text):
        return end
    return next((at for at in range(end, max(0, end - _AROUND), -1) if not text[at - 1].isalnum()), end)


def _marked(text: str, start: int, end: int) -> str:
    """What differs of a text, marked, with some of what stands around it."""
    before, after = text[max(0, start - _AROUND) : start], text[end : end + _AROUND]
    left = '"' if start <= _AROUND else "… "
    right = '"' if end + _AROUND >= len(text) else " …"
    middle = text[start:end]
    if len(middle) > _LONGEST_VALUE:
        half = _LONGEST_VALUE // 2
        middle = f"{middle[:half]} … {middle[-half:]}"
    inner = f"<mark>{_unquoted(middle)}</mark>" if middle else ""
    return f"{left}{_unquoted(before)}{inner}{_unquoted(after)}{right}"


def _unquoted(text: str) -> str:
    """A part of a text as it stands in JSON, without the marks around it; each character may become six."""
    return escaped(value_text(text, 6 * len(text) + 2)[1:-1])
