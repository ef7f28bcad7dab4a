"""bisect: the first checkpoint where something holds, found by halving.

Halving is right where the predicate is monotonic: once it holds, it holds for good. What was tested is always true of
the answer: it holds at `found`, and not at the nearest checkpoint before that could be tested. The rest is assumed,
unless all of it is asked for.

Neighbours with the same root have the same state and count as one. No view of the store is open while the predicate
runs: it may take minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Literal

from holdfast.errors import ErrorCode, InvalidInputError, NotFoundError
from holdfast.history.checkpoint import Checkpoint
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.codec.state_path import parse_path
from holdfast.objects.diff.location import select_part
from holdfast.objects.tree.chunk_cache import ChunksAtHand
from holdfast.objects.tree.state import read_state
from holdfast.reports.search import BisectReport
from holdfast.storage.ports import Reader
from holdfast.storage.records import ChunkHash
from holdfast.store.place import Place
from holdfast.store.search.line import DAMAGED, Line, Notes, Stop
from holdfast.store.search.where import Expression

Check = Literal["ends", "all"]
Progress = Callable[[Checkpoint, bool | None, int], None]
"""Told of each state that was tested: its checkpoint, whether it holds (None: skipped), and how many may be left."""


_AWAITABLE: Final = "it returned something to await: AsyncSession.bisect takes such a predicate"


class Skip:
    """What a predicate returns where it cannot say whether it holds: `return holdfast.Skip`."""


def bisect(
    place: Place,
    types: TypeRegistry,
    predicate: Callable[[Any], Any] | str,
    *,
    good: str | Checkpoint | None = None,
    bad: str | Checkpoint | None = None,
    path: str | None = None,
    check: str = "ends",
    progress: Progress | None = None,
) -> BisectReport:
    """The first checkpoint where the predicate holds; see `Session.bisect`."""
    if check not in ("ends", "all"):
        raise _bad_argument(f"check cannot be {check!r:.60}", 'use "ends" or "all"')
    if not callable(predicate) and not isinstance(predicate, str):
        raise _bad_argument(
            f"a predicate is a function or an expression, not a {type(predicate).__name__}",
            "pass a function that takes a state, or text like 'score < 0.5'",
        )
    line = Line(place, "@" if bad is None else bad, ranges=False)
    question = _Question(line, types, predicate, path)
    stops = list(line.stops())
    if good is not None:
        row = line.find(good)
        places = [at for at, stop in enumerate(stops) if stop.id == row.id]
        if not places:
            raise _bad_argument(
                f"good, #{row.seq}, is not in the history of bad, {stops[0]}",
                "good is the older one: an ancestor of bad, on the same branch",
            )
        stops = stops[: places[0] + 1]
    # Oldest first from here on, as people think of it.
    search = _Search(line, stops[::-1], question, progress)
    if good is not None and search.answer(0):
        raise _bad_argument(
            f"it holds at good already, {search.stops[0]}",
            "name an older checkpoint as good, or leave it out to begin with the first",
        )
    return search.all() if check == "all" else search.ends()


def _bad_argument(message: str, hint: str) -> InvalidInputError:
    return InvalidInputError(message, code=ErrorCode.BAD_ARGUMENT, hint=hint)


class _Question:
    """What is asked of each state, and what was answered so far."""

    def __init__(
        self, line: Line, types: TypeRegistry, predicate: Callable[[Any], Any] | str, path: str | None
    ) -> None:
        self._line = line
        self._types = types
        self._expression: Expression | None = None
        if callable(predicate):
            self._predicate = predicate
        else:
            # An expression sees what is stored, and no class of the application: no code of it runs.
            self._expression, self._types = Expression(predicate), TypeRegistry()
        if path is not None:
            parse_path(path)
        self._path = path or None
        self._at_hand = ChunksAtHand()
        self.answers: dict[ChunkHash, bool | None] = {}
        self.loads = 0
        self.notes = Notes()

    def ask(self, stop: Stop) -> bool | None:
        """Whether it holds there; None where that cannot be said."""
        self.loads += 1
        try:
            state = self._load(stop)
        except DAMAGED as error:
            self.notes.unreadable(stop, error)
            return None
        except NotFoundError as error:
            if error.code is not ErrorCode.PATH_MISSING:
                raise
            self.notes.add(str(error), stop)
            return False
        if self._expression is None:
            return self._judged(stop, state)
        answer = self._expression.holds(state)
        for note in answer.notes:
            self.notes.add(note, stop)
        return answer.holds

    def _judged(self, stop: Stop, state: Any) -> bool | None:
        try:
            found = self._predicate(state)
            if hasattr(found, "__await__"):
                # Nobody will await it, and it would be true without having looked.
                getattr(found, "close", lambda: None)()
                raise TypeError(_AWAITABLE)  # noqa: TRY301 - told like any other failure
            return None if found is Skip or isinstance(found, Skip) else bool(found)
        except Exception as error:
            # Whatever the caller's code raises: the caller has to know for which checkpoint.
            raise InvalidInputError(
                f"the predicate failed at checkpoint {stop}: {type(error).__name__}: {error!s:.200}",
                code=ErrorCode.PREDICATE_FAILED,
                hint="let it return holdfast.Skip for states that it cannot judge",
                checkpoint=stop.id.hex(),
                seq=stop.seq,
            ) from error

    def _load(self, stop: Stop) -> Any:
        path, through = self._path, self._at_hand.begin().through
        if path is not None:
            return self._line.read(
                [stop], lambda reader: select_part(stop.root, path, through(reader.chunks), self._types)
            )

        def work(reader: Reader) -> Any:
            return read_state(stop.root, through(reader.chunks))

        return self._line.read([stop], work).decode(self._types)


class _Search:
    """Halving, over runs of checkpoints that have the same state."""

    def __init__(self, line: Line, stops: list[Stop], question: _Question, progress: Progress | None) -> None:
        self._line = line
        self.stops = stops
        # Where each run begins.
        self._runs = [at for at, stop in enumerate(stops) if not at or stops[at - 1].root != stop.root]
        self._question = question
        self._progress = progress

    def answer(self, at: int, left: int = 0) -> bool | None:
        """Whether it holds in a run; `left` says how many runs lie between the two nearest answers."""
        stop, known = self.stops[self._runs[at]], self._question.answers
        if stop.root not in known:
            known[stop.root] = found = self._question.ask(stop)
            if self._progress is not None:
                self._progress(self._line.checkpoint(stop), found, max(0, left))
        return known[stop.root]

    def ends(self) -> BisectReport:
        """Test the ends, and the halves between them."""
        last = self._first_tested(reversed(range(len(self._runs))))
        first = self._first_tested(range(len(self._runs)))
        if last is None or first is None:
            raise self._nothing_tested()
        if not self.answer(last):
            raise self._never(self.stops[self._runs[last]], was_so=bool(self.answer(first)))
        below, found = first, last
        if self.answer(first):
            return self._report(None, first, "assumed")
        while found - below > 1:
            middle = self._first_tested(_from_the_middle(below, found), found - below - 1)
            if middle is None:
                break
            below, found = (below, middle) if self.answer(middle) else (middle, found)
        return self._report(below, found, "assumed")

    def all(self) -> BisectReport:
        """Test every state: then the answer is exact, monotonic or not."""
        tested = [at for at in range(len(self._runs)) if self.answer(at) is not None]
        if not tested:
            raise self._nothing_tested()
        found = next((at for at in tested if self.answer(at)), None)
        if found is None:
            raise self._never(None, was_so=False)
        return self._report(max((at for at in tested if at < found), default=None), found, "checked")

    def _first_tested(self, places: Iterable[int], left: int = 0) -> int | None:
        return next((at for at in places if self.answer(at, left) is not None), None)

    def _report(
        self, below: int | None, found: int, monotonic: Literal["assumed", "checked"]
    ) -> BisectReport:
        runs, stops, shown = self._runs, self.stops, self._line.checkpoint
        # The last checkpoint of the run below is the one right before the change.
        before = None if below is None else runs[below + 1] - 1
        between = range(0 if before is None else before + 1, runs[found])
        known = self._question.answers
        wrong = [at for at, start in enumerate(runs) if known.get(stops[start].root) is (at < found)]
        return BisectReport(
            found=shown(stops[runs[found]]),
            before=None if before is None else shown(stops[before]),
            oldest=shown(stops[0]),
            newest=shown(stops[-1]),
            total=len(stops),
            loads=self._question.loads,
            monotonic="contradicted" if wrong else monotonic,
            contradictions=tuple(shown(stops[runs[at]]) for at in wrong),
            skipped=tuple(shown(stops[at]) for at in between),
            notes=self._question.notes.texts(),
        )

    def _never(self, newest: Stop | None, *, was_so: bool) -> NotFoundError:
        message = f"it does not hold at {newest}, the newest, nor at the oldest"
        hint = "where it may hold only for a while, check='all' tests every checkpoint"
        if newest is None:
            message = f"it holds at none of {len(self.stops):,} checkpoints"
            hint = "look at one of them: s.load(ref) (holdfast show)"
        elif was_so:
            message = f"it holds at {self.stops[0]} and no longer at {newest}, the newest"
            hint = (
                "to find where it stopped, ask for the contrary: not (...); "
                "where a state lacks what it asks for, neither holds"
            )
        notes = self._question.notes.texts()
        if notes:
            message += f" ({notes[0]})"
        return NotFoundError(
            message, code=ErrorCode.NEVER_HOLDS, hint=hint, loads=self._question.loads, notes=list(notes)
        )

    def _nothing_tested(self) -> Exception:
        return self._question.notes.failure or NotFoundError(
            f"every one of {len(self.stops):,} checkpoints was skipped",
            code=ErrorCode.NEVER_HOLDS,
            hint="let the predicate return True or False for some of them",
            loads=self._question.loads,
            skipped=len(self.stops),
            notes=[],
        )


def _from_the_middle(below: int, found: int) -> Iterator[int]:
    """The places between, the middle first and then outward."""
    middle = (below + found) // 2
    for away in range(found - below):
        for at in dict.fromkeys((middle - away, middle + away)):
            if below < at < found:
                yield at
