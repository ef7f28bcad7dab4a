"""What a search finds, one by one, and what is to be known about it: states that could not be read, above all.

One rule holds for every search: a state that is damaged is passed over, and a note says so, because those around it are
whole and hold the answer. Where no state at all can be read, that is an error.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Final, Generic, TypeVar

from holdfast.errors import HoldfastError, HoldfastWarning, IntegrityError, StateError, UnsupportedError
from holdfast.store.progress import callers_level
from holdfast.store.searching.line import Stop

_T = TypeVar("_T")

OF_ONE_STATE: Final = (IntegrityError, StateError, UnsupportedError)
"""What can be wrong with a state, while those around it are whole."""
_MOST: Final = 10
"""Notes that are told; the rest is counted."""
_MOST_ROWS: Final = 4
"""Rows of numbers in a note."""


class Notes:
    """What else is to be known about the answer of a search, the states that could not be read first."""

    def __init__(self) -> None:
        self.failure: HoldfastError | None = None
        """Why the first state could not be read that could not be."""
        self._unreadable: list[Stop] = []
        self._said: dict[str, tuple[Stop, int]] = {}
        self._of_all: list[str] = []

    def unreadable(self, stop: Stop, error: HoldfastError) -> None:
        """Remember a state that was passed over."""
        self.failure = self.failure or error
        self._unreadable.append(stop)

    def say(self, stop: Stop, text: str) -> None:
        """Remember something else about a state; what is the same for many is told once."""
        first, count = self._said.get(text, (stop, 0))
        self._said[text] = first, count + 1

    def add(self, text: str) -> None:
        """Remember something that is about no state alone."""
        self._of_all.append(text)

    def texts(self) -> tuple[str, ...]:
        """All of it, in words."""
        found = [self._damage()] if self._unreadable else []
        for text, (first, count) in list(self._said.items())[:_MOST]:
            others = f" and {count - 1:,} more" if count > 1 else ""
            found.append(f"{first.shown()}{others}: {text}")
        if len(self._said) > _MOST:
            found.append(f"{len(self._said) - _MOST:,} more notes")
        return (*found, *self._of_all)

    def _damage(self) -> str:
        """One note for all that is damaged: a chunk that many states need may be all there is to it."""
        first, count = self._unreadable[0], len(self._unreadable)
        if count == 1:
            return f"{first.shown()}: the state cannot be read: {self.failure}"
        shown = numbered(stop.seq for stop in self._unreadable)
        return f"{count:,} states cannot be read ({shown}); that of {first.shown()}: {self.failure}"


def numbered(seqs: Iterable[int]) -> str:
    """The numbers of some checkpoints, those in a row as `#5 to #9`."""
    rows: list[list[int]] = []
    for seq in sorted(seqs):
        if rows and seq == rows[-1][1] + 1:
            rows[-1][1] = seq
        else:
            rows.append([seq, seq])
    shown = [
        f"#{first} to #{last}" if last > first + 1 else ", ".join(f"#{seq}" for seq in range(first, last + 1))
        for first, last in rows[:_MOST_ROWS]
    ]
    more = sum(last - first + 1 for first, last in rows[_MOST_ROWS:])
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


class Findings(Iterator[_T], Generic[_T]):
    """What a search finds, as it is found. When it is done, `notes` says which states could not be read."""

    def __init__(self, found: Iterator[_T], notes: Notes) -> None:
        self._found = found
        self._notes = notes
        self._warned = False

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known about what was found so far: states that were passed over because they are damaged."""
        return self._notes.texts()

    def __next__(self) -> _T:
        """The next one. Warns when the first state was passed over."""
        try:
            found = next(self._found)
        except StopIteration:
            self._warn()
            raise
        self._warn()
        return found

    def _warn(self) -> None:
        # Who only goes through what is found would not know that something may be missing.
        if self._notes.failure is not None and not self._warned:
            self._warned = True
            warnings.warn(
                f"a state was passed over: {self._notes.texts()[0]}; .notes has them all in the end",
                HoldfastWarning,
                stacklevel=callers_level(),
            )
