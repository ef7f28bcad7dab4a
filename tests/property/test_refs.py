"""Refs of every form come back as they were written, and name what a plain reading of the history says they name."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

import holdfast
from holdfast import Checkpoint, ErrorCode, InvalidInputError, NotFoundError
from holdfast.backends.memory import MemoryBackend
from holdfast.history.refs import around, parse, parse_range, resolve, resolve_range

START = datetime(2026, 11, 15, 8, tzinfo=UTC)
ZERO = int(START.timestamp()) * 1_000_000
SECOND = 1_000_000

PIECES = st.sampled_from(
    [
        *(
            "@",
            "@-",
            "~",
            "~2",
            "@{",
            "}",
            "{",
            "now",
            "2 hours ago",
            "main",
            "tag:",
            "key:",
            "good",
            "#",
            "4",
            "abcd",
            "..",
        ),
        *("2026-11-15", "T17:00", " 17:00", "Z", "+01:00", "\n", "\x1b", " ", "-", "/", "\udc80"),
    ]
)
HOSTILE = st.text(max_size=30) | st.lists(PIECES, max_size=8).map("".join)


@given(HOSTILE)
def test_any_text_is_a_ref_a_range_or_an_error(text):
    for read in (parse, parse_range):
        with suppress(InvalidInputError):
            assert read(text).text == text


BRANCHES = st.from_regex(r"[a-z0-9][a-z0-9/+_]{0,8}[a-z0-9]", fullmatch=True)
TAGS = st.text(st.characters(categories=["L", "N", "P"], exclude_characters="~,{}"), min_size=1, max_size=10)
TIMES = st.sampled_from(
    ["now", "2 hours ago", "yesterday 17:00", "2026-11-15", "5pm", "2026-11-15T17:00:00+01:00"]
)
_STEPS = r"~[0-9]{0,9}$"
KEYS = (
    (
        st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "), min_size=1, max_size=20)
        | st.lists(PIECES, min_size=1, max_size=5).map("".join)
    )
    .map(str.strip)
    .filter(lambda key: key.isprintable() and key and not re.search(_STEPS, key))
)
BASES = (
    st.tuples(st.just("head"), st.just(""), st.just("@"))
    | BRANCHES.map(lambda name: ("name", name, name))
    | TAGS.map(lambda tag: ("tag", tag, f"tag:{tag}"))
    | st.integers(0, 10**17).map(lambda number: ("seq", str(number), f"#{number}"))
    | KEYS.map(lambda key: ("key", key, f"key:{key}"))
)


@given(BASES, st.none() | TIMES, st.none() | st.integers(0, 10**8))
def test_a_ref_is_read_as_it_was_put_together(base, when, back):
    kind, value, text = base
    if when is not None and kind in ("seq", "key"):
        when = None
    if when is not None:
        text = f"{'' if kind == 'head' else text}@{{{when}}}"
    text += "" if back is None else f"~{back}"
    assert parse(text) == (kind, value, back or 0, text, when)


@given(BASES, BASES, st.booleans(), st.booleans())
def test_a_range_is_read_as_it_was_put_together(left, right, has_left, has_right):
    texts = [left[2] if has_left else "", right[2] if has_right else ""]
    if not any(texts) or any("." in text for text in texts):
        return
    parsed = parse_range("..".join(texts))
    assert parsed.start == (parse(texts[0]) if has_left else None)
    assert parsed.end == (parse(texts[1]) if has_right else None)


@given(st.lists(KEYS, min_size=1, max_size=6, unique=True), st.data())
def test_a_key_names_its_checkpoint_and_nothing_else(keys, data):
    session = holdfast.Store(MemoryBackend()).session("s")
    made = {key: session.save(number, key=key) for number, key in enumerate(keys)}
    key = data.draw(st.sampled_from(keys))
    asked = data.draw(st.sampled_from([key, key[:-1], key + "x", key.swapcase()]))
    # Then the end of it would count steps.
    assume(not re.search(_STEPS, asked))

    def named(text):
        with suppress(InvalidInputError, NotFoundError):
            return session.checkpoint(text).id
        return None

    assert named(f"key:{asked}") == (made[asked].id if asked in made else None)
    back = data.draw(st.integers(0, keys.index(key)))
    assert named(f"key:{key}~{back}") == made[keys[keys.index(key) - back]].id


STEPS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(-3, 10), st.sets(st.sampled_from("xy"), max_size=2)),
    min_size=1,
    max_size=14,
)
"""Each a save: which checkpoint it goes on from, how far the clock goes meanwhile, and its tags."""


class History:
    """A session of random shape, and its checkpoints in the order of their numbers."""

    def __init__(self, steps: Any) -> None:
        self.now = ZERO
        self.backend = MemoryBackend()
        store = holdfast.Store(self.backend, clock=lambda: self.now)
        self.made: list[Checkpoint] = []
        for parent, gap, tags in steps:
            self.now += gap * SECOND
            after = self.made[parent % len(self.made)] if self.made else None
            self.made.append(store.session("s").save(parent, parent=after, tags=tags))
        self.now += SECOND
        with self.backend.reader() as reader:
            self.heads = {each.name: each.head.hex() for each in reader.branches("s")}

    def line(self, head: str) -> list[Checkpoint]:
        by_id = {each.id: each for each in self.made}
        found = [by_id[head]]
        while found[-1].prev is not None:
            found.append(by_id[found[-1].prev])
        return found


def answer(ask: Callable[[], Any]) -> Any:
    """What came of it, or the code of what was said instead."""
    try:
        return ask()
    except NotFoundError as error:
        return error.code


def expected_around(rows: list[Checkpoint], at: datetime, tag: str | None) -> Any:
    rows = [row for row in rows if tag is None or tag in row.tags]
    before = [row.seq for row in rows if row.created_at <= at]
    after = [row.seq for row in rows if row.created_at > at]
    if not rows:
        return ErrorCode.CHECKPOINT_MISSING
    return (max(before), min(after, default=None)) if before else ErrorCode.BEFORE_HISTORY


@given(STEPS, st.integers(-10, 150), st.sampled_from([None, "x", "y"]))
def test_a_moment_has_the_neighbours_that_a_plain_search_finds(steps, seconds, tag):
    history = History(steps)
    at = ZERO + seconds * SECOND
    when = START + timedelta(seconds=seconds)

    def found(branch, **options):
        with history.backend.reader() as reader:
            before, after = around(reader, "s", branch, at, tag=tag, **options)
            return before.seq, None if after is None else after.seq

    for name, head in history.heads.items():
        assert answer(partial(found, name)) == expected_around(history.line(head), when, tag)
    assert answer(partial(found, "main", all_branches=True)) == expected_around(history.made, when, tag)


@given(STEPS, st.integers(-10, 150), st.integers(0, 4))
def test_refs_with_times_name_what_a_plain_search_finds(steps, seconds, back):
    history = History(steps)
    when = START + timedelta(seconds=seconds)
    ago = history.now // SECOND - int(when.timestamp())

    def named(ref, branch="main"):
        with history.backend.reader() as reader:
            return resolve(reader, "s", branch, ref, now=history.now).seq

    def counted(rows):
        if not (left := [row for row in rows if row.created_at <= when]):
            return ErrorCode.BEFORE_HISTORY
        line = history.line(max(left, key=lambda row: row.seq).id)
        return line[back].seq if back < len(line) else ErrorCode.HISTORY_TOO_SHORT

    for name, head in history.heads.items():
        expected = counted(history.line(head))
        texts = [f"{name}@{{{when.isoformat()}}}~{back}", f"{name}@{{{ago} seconds ago}}~{back}"]
        for text in texts if ago >= 0 else texts[:1]:
            assert answer(partial(named, text)) == expected
        assert answer(partial(named, f"{when.isoformat()}~{back}", name)) == expected
    tagged = [row for row in history.made if "x" in row.tags]
    if tagged:
        assert answer(partial(named, f"tag:x@{{{when.isoformat()}}}~{back}")) == counted(tagged)


@given(STEPS, st.integers(0, 30), st.integers(0, 30))
def test_a_range_is_the_difference_of_two_lines(steps, left, right):
    history = History(steps)
    start, end = (history.made[number % len(history.made)] for number in (left, right))
    behind = {row.id for row in history.line(start.id)}
    expected = [row.seq for row in history.line(end.id) if row.id not in behind]
    with history.backend.reader() as reader:
        found = resolve_range(reader, "s", "main", f"{start.id[:20]}..#{end.seq}", now=history.now)
        assert [row.seq for row in found] == expected
