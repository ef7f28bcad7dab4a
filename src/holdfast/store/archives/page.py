"""One HTML file that shows checkpoints: a timeline, what each changed, and its state; it opens without a server.

There is no script in it and nothing is fetched: `<details>` folds and unfolds, and a policy in its head forbids the
rest. All text comes from states and people, so all of it is escaped, and what could change how text around it is read
(control characters, marks that turn its direction) is written as an escape. Light or dark is for the reader to say.
"""

from __future__ import annotations

import html
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

from holdfast.errors import HoldfastError
from holdfast.history.checkpoint import Checkpoint
from holdfast.objects.diffing.change import Change, Excerpt
from holdfast.objects.registry import TypeRegistry
from holdfast.objects.tagged import tagged_json
from holdfast.storage.records import CheckpointId, CheckpointRow, SessionRow
from holdfast.store.archives.page_style import STYLE
from holdfast.store.diffs import diff_refs
from holdfast.store.place import Place

_LONGEST_STATE: Final = 100_000
"""Characters of one state; more is cut, and the page says so. A .json file has all of it."""
_LONGEST_VALUE: Final = 400
_MOST_CHANGES: Final = 100
_COLOURS: Final = 6

_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]"
)

_STYLE_HASH: Final = b64encode(sha256(STYLE.encode()).digest()).decode()
_POLICY: Final = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'"


def page_text(
    place: Place,
    owner: SessionRow,
    heads: Mapping[str, CheckpointId],
    states: Iterable[tuple[CheckpointRow, Any]],
) -> Iterator[str]:
    """The page, in pieces.

    Args:
        place: The store, to read what differs.
        owner: The session.
        heads: Its branches.
        states: The checkpoints with what is stored of their states, newest first.
    """
    title = f"{owner.id} · holdfast"
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{_text(title)}</title>\n<style>{STYLE}</style></head>\n<body>\n"
    )
    yield f"<header><h1>{_text(owner.id)}</h1>\n<p class=dim>{_whose(owner, heads)}</p></header>\n<main>\n"
    day = ""
    for row, state in states:
        cp = Checkpoint(row, owner)
        if f"{cp.created_at:%Y-%m-%d}" != day:
            yield "</ol>\n" if day else ""
            day = f"{cp.created_at:%Y-%m-%d}"
            yield f"<h2><time>{day}</time></h2>\n<ol>\n"
        yield from _checkpoint(place, cp, state, heads)
    yield ("</ol>\n" if day else "<p>no checkpoint</p>\n") + "</main>\n</body></html>\n"


def _whose(owner: SessionRow, heads: Mapping[str, CheckpointId]) -> str:
    told = [f"agent {owner.agent}"] if owner.agent else []
    told += [f"project {owner.project}"] if owner.project else []
    told += [f"branches: {', '.join(heads)}"] if heads else []
    return _text(" · ".join([*told, "times in UTC"]))


def _checkpoint(place: Place, cp: Checkpoint, state: Any, heads: Mapping[str, CheckpointId]) -> Iterator[str]:
    names = sorted({*heads, cp.branch})
    tips = [name for name, head in heads.items() if head.hex() == cp.id]
    marks = [*(f"head of {name}" for name in tips), *cp.tags, *(["pinned"] if cp.pinned else [])]
    shown = "".join(f" <span class=tag>{_text(each)}</span>" for each in marks)
    changes, told = _changes(place, cp)
    colour = names.index(cp.branch) % _COLOURS
    yield (
        f'<li class="k{colour}"><details><summary><span class=dim>#{cp.seq} '
        f"<time>{cp.created_at:%H:%M:%S}</time></span> <span class=br>{_text(cp.branch)}</span> "
        f"{_text(cp.message or told)}{shown}</summary>\n<div class=in>"
    )
    yield _facts(cp)
    yield from changes
    yield "<h3>State</h3>\n<pre>"
    yield from _state(state)
    yield "</pre></div></details></li>\n"


def _facts(cp: Checkpoint) -> str:
    facts = {
        "id": cp.id,
        "parents": ", ".join(each[:12] for each in cp.parents),
        "status": cp.status,
        "trigger": cp.trigger,
        "step": cp.step,
        "key": cp.key,
        "tokens": cp.tokens,
        "cost, USD": cp.cost_usd,
        "time, ms": cp.duration_ms,
        "metadata": _short(cp.metadata) if cp.metadata else None,
    }
    rows = "".join(
        f"<tr><th>{name}</th><td>{_text(str(value))}</td></tr>"
        for name, value in facts.items()
        if value not in (None, "")
    )
    return f"<table>{rows}</table>\n"


def _changes(place: Place, cp: Checkpoint) -> tuple[list[str], str]:
    """What a checkpoint changed, as a table, and in a line."""
    if cp.prev is None:
        return ["<h3>Changes</h3>\n<p class=dim>the first state of its line</p>\n"], "first state"
    try:
        diff = diff_refs(place, TypeRegistry(), cp.prev, cp)
    except HoldfastError as error:
        # The page is of what can be shown: a state before this one that is damaged or gone does not end it.
        return [f"<h3>Changes</h3>\n<p class=dim>{_text(str(error))}</p>\n"], "unknown changes"
    if not diff:
        return ["<h3>Changes</h3>\n<p class=dim>none</p>\n"], "no change"
    rows = [_change(each) for each in diff.changes[:_MOST_CHANGES]]
    if len(diff) > _MOST_CHANGES:
        rows.append(f"<tr><td colspan=3 class=dim>and {len(diff) - _MOST_CHANGES:,} more</td></tr>")
    return ["<h3>Changes</h3>\n<table>", *rows, "</table>\n"], diff.summary()


def _change(change: Change) -> str:
    if change.op == "move":
        cells = f"<td class=v colspan=2>moved from {change.old} to {change.new}</td>"
    else:
        before = "" if change.op == "add" else _short(change.old)
        after = "" if change.op == "remove" else _short(change.new)
        cells = (
            f'<td class="v{" remove" if before else ""}">{_text(before)}</td>'
            f'<td class="v{" add" if after else ""}">{_text(after)}</td>'
        )
    return f'<tr><td class="v p">{_text(change.path or "the whole state")}</td>{cells}</tr>\n'


def _short(value: Any) -> str:
    if isinstance(value, Excerpt):
        return _cut((f"{each!s} … " for each in value.parts), _LONGEST_VALUE)[0]
    text, whole = _cut(tagged_json(value, one_line=True), _LONGEST_VALUE)
    return text if whole else f"{text} …"


def _state(state: Any) -> Iterator[str]:
    text, whole = _cut(tagged_json(state), _LONGEST_STATE)
    yield _text(text)
    if not whole:
        yield f"\n… cut after {_LONGEST_STATE:,} characters; an export as .json has all of it"


def _cut(pieces: Iterable[str], longest: int) -> tuple[str, bool]:
    """So many characters of a text, and whether that is all of it."""
    some: list[str] = []
    size = 0
    for piece in pieces:
        some.append(piece)
        size += len(piece)
        if size > longest:
            return "".join(some)[:longest], False
    return "".join(some), True


def _text(text: str) -> str:
    """Text of anybody's as text of a page."""
    seen = _UNSEEN.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
    # Half a surrogate pair has no bytes.
    return html.escape(seen.encode("utf-8", "backslashreplace").decode())
