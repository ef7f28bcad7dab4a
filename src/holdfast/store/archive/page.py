"""One HTML file that shows checkpoints: a timeline, what each changed, and its state; it opens without a server.

There is no script in it and nothing is fetched: `<details>` folds and unfolds, links lead to other places of the page,
and a policy in its head forbids the rest. All text comes from states and people: all of it is escaped, and what could
change how text around it is read (control characters, marks that turn its direction) is written as an escape.

A page has a size that a browser opens: what there is room for is shared among the checkpoints, so that of few each
state is whole, and of many each is shown by its beginning. The template is `page.html`, the stylesheet `page.css`.
"""

from __future__ import annotations

import html
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from holdfast.errors import HoldfastError
from holdfast.history.checkpoint import Checkpoint
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.codec.tagged_json import tagged_json
from holdfast.objects.diff.alignment import common_start
from holdfast.objects.diff.change import Change
from holdfast.record import Record
from holdfast.storage.records import CheckpointId, CheckpointRow, SessionRow
from holdfast.store.diff import diff_refs
from holdfast.store.place import Place

MOST: Final = 10_000
"""Checkpoints of one page; older ones are left out, and the page says so."""

_STATES: Final = 12_000_000
_CHANGES: Final = 4_000_000
"""Bytes of a page for both, shared among its checkpoints."""
_LONGEST_STATE: Final = 100_000
_LONGEST_VALUE: Final = 400
_MOST_CHANGES: Final = 100
_COLOURS: Final = 6
_WIDTHS: Final = (6, 12)
"""Characters: the column of branches is as wide as its longest name, of three widths that the policy allows."""
_AROUND: Final = 60
"""Characters before and after what differs of a text."""
_ALIKE: Final = 0.4
"""Of the longer text, so much has to be the same in the other for the rest to be told by itself."""
_STEP: Final = 500
"""Characters that are escaped at once: so much more than its room a text may take."""
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]"
)


class _Entry(Record):
    """What the page shows of a checkpoint."""

    checkpoint: Checkpoint
    day: str
    time: str
    marks: Sequence[str]
    parents: Sequence[tuple[str, CheckpointRow | None]]
    """Their ids, and their rows where they are on the page."""
    facts: Sequence[tuple[str, object]]
    summary: str
    changes: Sequence[tuple[str, Markup | None, Markup | None]]
    more: str
    state: Markup
    cut: str


def page_text(
    place: Place,
    owner: SessionRow,
    heads: Mapping[str, CheckpointId],
    rows: Sequence[CheckpointRow],
    states: Iterable[tuple[CheckpointRow, Any]],
    left_out: int = 0,
) -> Iterator[str]:
    """Yield the page, in pieces.

    Args:
        place: The store, to read what differs.
        owner: The session.
        heads: Its branches.
        rows: The checkpoints, newest first.
        states: The same with what is stored of their states.
        left_out: How many older ones there are that it does not show.
    """
    there = {row.id.hex(): row for row in rows}
    names = sorted({*heads, *(row.branch for row in rows)})
    longest = max(map(len, names), default=0)
    about = [f"agent {owner.agent}"] if owner.agent else []
    about += [f"project {owner.project}"] if owner.project else []
    about += [f"{len(rows):,} checkpoint{'s' * (len(rows) != 1)}"]
    about += [f"{left_out:,} older ones are left out: export a range of them"] if left_out else []
    style = _file("page.css")
    template = Environment(
        autoescape=True, finalize=escaped, undefined=StrictUndefined, keep_trailing_newline=True
    )
    template.filters["short"] = _short
    return template.from_string(_file("page.html")).generate(
        owner=owner,
        about=" · ".join(about),
        style=Markup(style),  # noqa: S704 - a file of ours
        style_hash=b64encode(sha256(style.encode()).digest()).decode(),
        heads=[(name, there.get(head.hex())) for name, head in heads.items()],
        colours={name: number % _COLOURS for number, name in enumerate(names)},
        width=sum(longest > each for each in _WIDTHS),
        entries=(_entry(place, Checkpoint(row, owner), state, heads, there) for row, state in states),
    )


def escaped(text: object) -> Markup:
    """Return a text as it stands between tags; nowhere else is it put, so quotation marks may stay."""
    if isinstance(text, Markup):
        return text
    seen = _UNSEEN.sub(lambda found: f"\\u{ord(found.group()):04x}", str(text))
    # Half a surrogate pair has no bytes.
    whole = seen.encode("utf-8", "backslashreplace").decode()
    return Markup(html.escape(whole, quote=False))  # noqa: S704 - escaped


def _file(name: str) -> str:
    return files("holdfast.store.archive").joinpath(name).read_text("utf-8")


def _short(value: object, longest: int) -> str:
    text = str(value)
    return text if len(text) <= longest else f"{text[:longest]} …"


def _entry(
    place: Place,
    cp: Checkpoint,
    state: Any,
    heads: Mapping[str, CheckpointId],
    there: Mapping[str, CheckpointRow],
) -> _Entry:
    tips = [f"head of {name}" for name, head in heads.items() if head.hex() == cp.id]
    marks = [*(["merge"] if len(cp.parents) > 1 else []), *tips, *cp.tags, *(["pinned"] if cp.pinned else [])]
    changes, summary = _changes(place, cp)
    shown, more = _fitted_changes(changes, _CHANGES // len(there))
    room = min(_LONGEST_STATE, _STATES // len(there))
    text, whole = _fitted([tagged_json(state)], room)
    facts = {
        "status": cp.status,
        "trigger": cp.trigger,
        "step": cp.step,
        "key": cp.key,
        "tokens": None if cp.tokens is None else f"{cp.tokens:,}",
        # Twelve digits: 0.1 + 0.2 is 0.3 to a reader.
        "cost, USD": None if cp.cost_usd is None else f"{cp.cost_usd:.12g}",
        "time, ms": None if cp.duration_ms is None else f"{cp.duration_ms:,.12g}",
        "metadata": _value_text(cp.metadata) if cp.metadata else None,
    }
    return _Entry(
        cp,
        f"{cp.created_at:%Y-%m-%d}",
        f"{cp.created_at:%H:%M:%S}",
        marks,
        [(each, there.get(each)) for each in cp.parents],
        [(name, value) for name, value in facts.items() if value is not None],
        summary,
        shown,
        f"{more:,}" if more else "",
        text,
        "" if whole else f"{room:,}",
    )


def _changes(place: Place, cp: Checkpoint) -> tuple[Sequence[Change], str]:
    """Return what a checkpoint changed, and that in a line."""
    if cp.prev is None:
        return (), "the first state of its line"
    try:
        diff = diff_refs(place, TypeRegistry(), cp.prev, cp)
    except HoldfastError as error:
        # The page is of what can be shown: a state before this one that is damaged or gone does not end it.
        return (), f"unknown changes: {error}"
    return diff.changes, diff.summary() or "no change"


def _fitted_changes(
    changes: Sequence[Change], room: int
) -> tuple[list[tuple[str, Markup | None, Markup | None]], int]:
    """Return as many changes as there is room for, and how many more there are."""
    shown: list[tuple[str, Markup | None, Markup | None]] = []
    for each in changes[:_MOST_CHANGES]:
        if room <= 0:
            break
        old, new = _sides(each)
        shown.append((each.path or "the whole state", old, new))
        room -= 60 + sum(len(side.encode()) for side in (old, new) if side is not None)
    return shown, len(changes) - len(shown)


def _sides(change: Change) -> tuple[Markup | None, Markup | None]:
    """Return what was there and what is there now; of a text that became another one, what differs is marked."""
    old, new = change.plain("old"), change.plain("new")
    if change.op == "replace" and type(old) is str and type(new) is str:
        start = common_start(old, new)
        end = common_start(old[start:][::-1], new[start:][::-1])
        # Where little is the same it is another text, not another wording: letters that happen to be alike say nothing.
        if start + end >= _ALIKE * max(len(old), len(new)):
            return _marked(old, start, len(old) - end), _marked(new, start, len(new) - end)
    before = None if change.op == "add" else escaped(_value_text(old))
    return before, None if change.op == "remove" else escaped(_value_text(new))


def _marked(text: str, start: int, end: int) -> Markup:
    before, after = text[max(0, start - _AROUND) : start], text[end : end + _AROUND]
    left = '"' if start <= _AROUND else "… "
    right = '"' if end + _AROUND >= len(text) else " …"
    middle = _short(text[start:end], _LONGEST_VALUE)
    return Markup("{}<mark>{}</mark>{}").format(
        escaped(left + before), escaped(middle), escaped(after + right)
    )


def _value_text(value: Any) -> str:
    """Return a value in a line, as JSON, or its beginning."""
    return _short(tagged_json(value, one_line=True), _LONGEST_VALUE)


def _fitted(pieces: Iterable[str], room: int) -> tuple[Markup, bool]:
    """Return as much of a text as there is room for, escaped, and whether that is all of it."""
    some: list[str] = []
    for piece in pieces:
        for at in range(0, len(piece), _STEP):
            if room <= 0:
                return Markup("").join(some), False
            part = escaped(piece[at : at + _STEP])
            some.append(part)
            room -= len(part.encode())
    return Markup("").join(some), True
