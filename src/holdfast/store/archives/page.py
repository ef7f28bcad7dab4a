"""One HTML file that shows checkpoints: a timeline, what each changed, and its state; it opens without a server.

There is no script in it and nothing is fetched: `<details>` folds and unfolds, links lead to other places of the page,
and a policy in its head forbids the rest. All text comes from states and people, so all of it is escaped. Light or dark
is for the reader to say.

A page has a size that a browser opens: what there is room for is shared among the checkpoints, so that of few each
state is whole, and of many each is shown by its beginning.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from holdfast.errors import HoldfastError
from holdfast.history.checkpoint import Checkpoint
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.tagged import tagged_json
from holdfast.record import Record
from holdfast.storage.records import CheckpointId, CheckpointRow, SessionRow
from holdfast.store.archives.page_changes import changes_list
from holdfast.store.archives.page_style import STYLE
from holdfast.store.archives.page_text import escaped, fitted, short, value_text
from holdfast.store.diff import diff_refs
from holdfast.store.place import Place

MOST: Final = 10_000
"""Checkpoints of one page; older ones are left out, and the page says so."""

_STATES: Final = 12_000_000
_CHANGES: Final = 4_000_000
"""Bytes of a page for both, shared among its checkpoints."""
_LONGEST_STATE: Final = 100_000
_LONGEST_MESSAGE: Final = 2000
_LONGEST_LABEL: Final = 300
_LONGEST_FACT: Final = 400
_COLOURS: Final = 6
_WIDTHS: Final = (6, 12)

_STYLE_HASH: Final = b64encode(sha256(STYLE.encode()).digest()).decode()
_POLICY: Final = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'"


class _Page(Record):
    """What every checkpoint of a page needs to know."""

    place: Place
    owner: SessionRow
    heads: Mapping[str, CheckpointId]
    rows: Mapping[str, CheckpointRow]
    """The checkpoints that are on it, by their id."""
    colours: Mapping[str, int]


def page_text(
    place: Place,
    owner: SessionRow,
    heads: Mapping[str, CheckpointId],
    rows: Sequence[CheckpointRow],
    states: Iterable[tuple[CheckpointRow, Any]],
    left_out: int = 0,
) -> Iterator[str]:
    """The page, in pieces.

    Args:
        place: The store, to read what differs.
        owner: The session.
        heads: Its branches.
        rows: The checkpoints, newest first.
        states: The same with what is stored of their states.
        left_out: How many older ones there are that it does not show.
    """
    names = sorted({*heads, *(row.branch for row in rows)})
    page = _Page(
        place,
        owner,
        heads,
        {row.id.hex(): row for row in rows},
        {name: number % _COLOURS for number, name in enumerate(names)},
    )
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escaped(f'{owner.id} · holdfast')}</title>\n<style>{STYLE}</style></head>\n<body>\n"
    )
    yield from _header(page, left_out)
    longest = max(map(len, names), default=0)
    # A column as wide as its longest name, of three widths: the policy allows no styles of a page's own.
    yield f"<main class=w{sum(longest > each for each in _WIDTHS)}>\n"
    day = ""
    for row, state in states:
        cp = Checkpoint(row, owner)
        if f"{cp.created_at:%Y-%m-%d}" != day:
            yield "</ol>\n" if day else ""
            day = f"{cp.created_at:%Y-%m-%d}"
            yield f"<h2><time>{day}</time></h2>\n<ol role=list>\n"
        yield from _checkpoint(page, cp, state)
    yield ("</ol>\n" if day else "<p>no checkpoint</p>\n") + "</main>\n"
    yield (
        "<footer class=dim>A page to look at, made by holdfast; times are in UTC. It cannot be imported: export a "
        ".jsonl file for that.</footer>\n</body></html>\n"
    )


def _header(page: _Page, left_out: int) -> Iterator[str]:
    owner, count = page.owner, len(page.rows)
    told = [f"agent {owner.agent}"] if owner.agent else []
    told += [f"project {owner.project}"] if owner.project else []
    told += [f"{count:,} checkpoint{'s' * (count != 1)}"]
    told += [f"{left_out:,} older ones are left out: export a range of them"] if left_out else []
    yield f"<header><h1>{escaped(owner.id)}</h1>\n<p class=dim>{escaped(' · '.join(told))}</p>\n"
    if page.heads:
        yield "<nav aria-label=Branches><ul role=list>\n"
        for name, head in page.heads.items():
            yield f'<li class="k{page.colours[name]}">{_link(page, head.hex(), name)}</li>\n'
        yield "</ul></nav>"
    yield "</header>\n"


def _link(page: _Page, id: str, text: str) -> str:  # noqa: A002 - what it is
    """A text that leads to a checkpoint, if that is on the page."""
    row = page.rows.get(id)
    shown = f"<span class=br>{short(text, _LONGEST_LABEL)}</span>"
    return shown if row is None else f'<a href="#c{row.seq}">{shown}</a>'


def _checkpoint(page: _Page, cp: Checkpoint, state: Any) -> Iterator[str]:
    tips = [name for name, head in page.heads.items() if head.hex() == cp.id]
    marks = [*(f"head of {name}" for name in tips), *cp.tags, *(["pinned"] if cp.pinned else [])]
    marks = [*(["merge"] if len(cp.parents) > 1 else []), *marks]
    shown = "".join(f" <span class=tag>{short(each, _LONGEST_LABEL)}</span>" for each in marks)
    changes, told = _changes(page, cp)
    merge = " m" if len(cp.parents) > 1 else ""
    yield (
        f'<li id=c{cp.seq} class="k{page.colours[cp.branch]}{merge}"><details><summary>'
        f"<span class=n>#{cp.seq}</span> <time>{cp.created_at:%H:%M:%S}</time> "
        f"<span class=br>{escaped(cp.branch)}</span> "
        f"<span class=msg>{short(cp.message or told, _LONGEST_LABEL)}{shown}</span></summary>\n<div class=in>\n"
    )
    if len(cp.message) > _LONGEST_LABEL:
        yield f"<p class=long>{short(cp.message, _LONGEST_MESSAGE)}</p>\n"
    yield _facts(page, cp)
    yield from changes
    yield "<h3>State</h3>\n<pre tabindex=0 role=group aria-label=State>"
    yield from _state(state, _share(_STATES, len(page.rows), _LONGEST_STATE))
    yield "</pre></div></details></li>\n"


def _facts(page: _Page, cp: Checkpoint) -> str:
    facts = {
        "id": f"<code>{cp.id}</code>",
        "parent" if len(cp.parents) == 1 else "parents": ", ".join(
            _parent(page, each) for each in cp.parents
        ),
        "status": escaped(cp.status),
        "trigger": escaped(cp.trigger),
        "step": cp.step,
        "key": short(cp.key or "", _LONGEST_FACT),
        "tokens": None if cp.tokens is None else f"{cp.tokens:,}",
        # Twelve digits: 0.1 + 0.2 is 0.3 to a reader.
        "cost, USD": None if cp.cost_usd is None else f"{cp.cost_usd:.12g}",
        "time, ms": None if cp.duration_ms is None else f"{cp.duration_ms:,.12g}",
        "metadata": escaped(value_text(cp.metadata, _LONGEST_FACT)) if cp.metadata else None,
    }
    items = "".join(
        f"<div><dt>{name}</dt><dd>{value}</dd></div>\n"
        for name, value in facts.items()
        if value not in (None, "")
    )
    return f"<dl>\n{items}</dl>\n"


def _parent(page: _Page, id: str) -> str:  # noqa: A002 - what it is
    row = page.rows.get(id)
    return f"{id[:12]}" if row is None else _link(page, id, f"#{row.seq} {row.branch}")


def _changes(page: _Page, cp: Checkpoint) -> tuple[Iterable[str], str]:
    """What a checkpoint changed, as a list, and in a line."""
    if cp.prev is None:
        return _no_changes("the first state of its line"), "first state"
    try:
        diff = diff_refs(page.place, TypeRegistry(), cp.prev, cp)
    except HoldfastError as error:
        # The page is of what can be shown: a state before this one that is damaged or gone does not end it.
        return _no_changes(str(error)), "unknown changes"
    if not diff:
        return _no_changes("none"), "no change"
    room = _share(_CHANGES, len(page.rows), _CHANGES)
    return ["<h3>Changes</h3>\n", *changes_list(diff.changes, room)], diff.summary()


def _no_changes(why: str) -> Iterable[str]:
    return (f"<h3>Changes</h3>\n<p class=dim>{short(why, _LONGEST_FACT)}</p>\n",)


def _state(state: Any, room: int) -> Iterator[str]:
    text, whole = fitted(tagged_json(state), room)
    yield text
    if not whole:
        yield f"\n<span class=dim>… cut after {room:,} bytes; an export as .json has all of it</span>"


def _share(all_of_it: int, count: int, most: int) -> int:
    return min(most, all_of_it // max(count, 1))
