"""grep: where a text came in. Each checkpoint's changes are searched, newest first, as they are asked for.

A match counts where it touches what the checkpoint changed: notes that grow are told once for each time that a match
is written, and a state that is carried along unchanged not at all. Only texts that are values count: not keys, not
bytes, not times or numbers.

Plain words are found in time that grows with the text. Regular expressions can take for ever on a text made for it, so
they are left to the library `regex`, which can be told to give up.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from time import monotonic
from typing import Any, Final

from holdfast.errors import ErrorCode, InvalidInputError, NotFoundError, UnsupportedError
from holdfast.history.checkpoint import Checkpoint
from holdfast.objects.codec.opaque import Opaque
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.codec.state_path import PathStep, parse_path, path_text
from holdfast.objects.diff.alignment import common_start
from holdfast.objects.diff.diff import diff_roots
from holdfast.objects.tree.chunk_cache import ChunksAtHand
from holdfast.objects.tree.read import Read
from holdfast.record import Record
from holdfast.reports.search import GrepMatch
from holdfast.storage.ports import Reader
from holdfast.store.place import Place
from holdfast.store.search.changes import decoded, find_part
from holdfast.store.search.line import DAMAGED, Findings, Line, Notes, Stop, before

_LONGEST_PATTERN: Final = 1_000
_SECONDS: Final = 1.0
"""For one text. Ordinary patterns take microseconds; the first text that takes so long ends the search."""
_AROUND: Final = 60
"""Characters that are shown on each side of a match."""
_LONGEST_SHOWN: Final = 200
_NO_TYPES: Final = TypeRegistry()

Span = tuple[int, int]
Spans = Callable[[str], Iterator[Span]]
_Steps = tuple[PathStep, ...]


def pattern_spans(pattern: str, *, regex: bool = False, ignore_case: bool = False) -> Spans:
    """A function that yields where a text matches, from its beginning to its end.

    Raises:
        InvalidInputError: The pattern is none (`bad-pattern`).
        UnsupportedError: It is a regular expression, and the library for it is not installed.
    """
    if type(pattern) is not str or not 0 < len(pattern) <= _LONGEST_PATTERN:
        what = f"must be text of 1 to {_LONGEST_PATTERN:,} characters"
        raise _bad_pattern(f"the pattern {what}", "pass words, or a regular expression with regex=True")
    if regex:
        return _bounded(pattern, ignore_case=ignore_case)
    compiled = re.compile(re.escape(pattern), re.IGNORECASE if ignore_case else 0)
    return lambda text: (found.span() for found in compiled.finditer(text))


def _bounded(pattern: str, *, ignore_case: bool) -> Spans:
    try:
        # Only those who look for a regular expression need it.
        import regex
    except ImportError as error:
        raise UnsupportedError(
            "regular expressions need a library that is not installed: regex",
            code=ErrorCode.NOT_SUPPORTED,
            hint="pip install 'holdfast[query]' installs it; without it, grep finds words as they are",
        ) from error
    try:
        compiled = regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
    except (regex.error, RecursionError) as error:
        why = f"{pattern!r:.100} is not a regular expression: {error}"
        raise _bad_pattern(why, "put \\ before signs that stand for themselves") from error

    def spans(text: str) -> Iterator[Span]:
        # The library gives each match its time anew; here all matches in one text have it together.
        end = monotonic() + _SECONDS
        try:
            for found in compiled.finditer(text, timeout=_SECONDS):
                yield found.span()
                if monotonic() > end:
                    raise TimeoutError  # noqa: TRY301 - like that of the library
        except TimeoutError as error:
            raise _bad_pattern(
                f"the pattern {pattern!r:.100} takes more than {_SECONDS:g} s on a text of {len(text):,} characters",
                "write it without repeats inside repeats, such as (a+)+, or look for words as they are",
            ) from error

    return spans


def _bad_pattern(message: str, hint: str) -> InvalidInputError:
    return InvalidInputError(message, code=ErrorCode.BAD_PATTERN, hint=hint)


def grep(
    place: Place,
    spans: Spans,
    ref: str | Checkpoint | None = None,
    *,
    path: str | None = None,
    limit: int | None = None,
) -> Findings[GrepMatch]:
    """Where texts that match came in; see `Session.grep`. What is wrong with the call is raised at once."""
    search = _Search(Line(place, ref), spans, path)
    return Findings(islice(search.matches(), limit), search.notes)


class _Match(Record):
    """A text that matches, and where it is."""

    steps: _Steps
    text: str
    span: Span


class _Search:
    """One pattern, looked for in what each checkpoint of a line changed."""

    def __init__(self, line: Line, spans: Spans, path: str | None) -> None:
        self._line = line
        self._spans = spans
        self._path = path or None
        self._steps = [] if path is None else parse_path(path)
        self._at_hand = ChunksAtHand()
        self._seen = False
        """Whether some state had something at the path."""
        self.notes = Notes()

    def matches(self) -> Iterator[GrepMatch]:
        readable = False
        for batch in self._line.batches():
            for stop, found in self._searched(batch):
                readable = readable or found is not None
                checkpoint = self._line.checkpoint(stop) if found else None
                for each in found or ():
                    assert checkpoint is not None
                    yield _shown(checkpoint, each)
        if not readable and self.notes.failure is not None:
            raise self.notes.failure
        if self._line.empty is not None:
            self.notes.add(self._line.empty)
        elif not self._seen:
            self.notes.add(f"there is no {self._path} in any state that was searched")

    def _searched(self, batch: list[Stop]) -> Iterator[tuple[Stop, list[_Match] | None]]:
        def work(reader: Reader) -> list[list[_Match]]:
            return [self._came_in(reader, before(reader, stop), stop) for stop in batch]

        try:
            yield from zip(batch, self._line.read(batch, work), strict=True)
        except DAMAGED:
            for stop in batch:
                yield stop, self._alone(stop)

    def _alone(self, stop: Stop) -> list[_Match] | None:
        """What came in with one checkpoint since the nearest one that can be read; None if it cannot be read itself."""
        old: Stop | None = stop
        while True:
            assert old is not None
            old = self._line.older(old)
            try:
                return self._line.read([stop], lambda reader: self._came_in(reader, old, stop))  # noqa: B023
            except DAMAGED as error:
                if old is None or not self._is_readable(stop):
                    self.notes.unreadable(stop, error)
                    return None

    def _is_readable(self, stop: Stop) -> bool:
        try:
            self._line.read([stop], lambda reader: self._came_in(reader, None, stop))
        except DAMAGED:
            return False
        return True

    def _came_in(self, reader: Reader, old: Stop | None, new: Stop) -> list[_Match]:
        read = self._at_hand.begin().through(reader.chunks)
        try:
            return list(self._in_all(read, new) if old is None else self._in_changes(read, old, new))
        except InvalidInputError as error:
            # Which state a pattern takes too long in is of use to whoever wrote it.
            error.args = (f"{error}, in checkpoint {new}", *error.args[1:])
            raise

    def _in_all(self, read: Read, stop: Stop) -> Iterator[_Match]:
        part = find_part(stop, self._steps, read)
        if part.value is not None:
            self._seen = True
            yield from self._in_value(decoded(part.value, read, _NO_TYPES), part.steps)

    def _in_changes(self, read: Read, old: Stop, new: Stop) -> Iterator[_Match]:
        try:
            changes = diff_roots(old.root, new.root, read, _NO_TYPES, path=self._path)
        except NotFoundError:
            # Neither state has anything at the path.
            return
        self._seen = True
        for change in changes:
            if change.op not in ("add", "replace"):
                continue
            value, was = change.plain("new"), change.plain("old") if change.op == "replace" else None
            if type(value) is str and type(was) is str:
                yield from self._in_edited(value, was, change.steps)
            else:
                # Where a whole value took the place of another, texts that both have are not new.
                had = Counter(text for _, text in texts_in(was))
                for each in self._in_value(value, change.steps):
                    had[each.text] -= 1
                    if had[each.text] < 0:
                        yield each

    def _in_value(self, value: Any, steps: _Steps) -> Iterator[_Match]:
        for further, text in texts_in(value):
            if (span := next(self._spans(text), None)) is not None:
                yield _Match((*steps, *further), text, span)

    def _in_edited(self, new: str, old: str, steps: _Steps) -> Iterator[_Match]:
        start = common_start(old, new)
        stop = len(new) - common_start(old[start:][::-1], new[start:][::-1])
        for span in self._spans(new):
            if span[1] > start and span[0] < stop:
                yield _Match(steps, new, span)
                return


def texts_in(value: Any, steps: _Steps = ()) -> Iterator[tuple[_Steps, str]]:
    """The texts in a value, in order, each with the way to it."""
    if type(value) is str:
        yield steps, value
        return
    kind: Any = "key"
    if isinstance(value, Opaque):
        value, kind = value.data, "field"
        if not isinstance(value, Mapping):
            yield from texts_in(value, (*steps, PathStep("extra", None)))
            return
    items: Any = ()
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list | tuple | deque):
        kind, items = "index", enumerate(value)
    elif isinstance(value, set | frozenset):
        kind, items = "member", ((each, each) for each in value)
    for key, item in items:
        yield from texts_in(item, (*steps, PathStep(kind, key)))


def _shown(checkpoint: Checkpoint, match: _Match) -> GrepMatch:
    start, stop = match.span
    first, last = max(0, start - _AROUND), min(stop, start + _LONGEST_SHOWN)
    text = match.text[first : last + _AROUND]
    return GrepMatch(checkpoint, path_text(match.steps), text, start - first, last - first, start)
