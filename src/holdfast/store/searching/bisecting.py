"""bisect: the first checkpoint where something holds, found by halving.

Halving is right where the predicate is monotonic: once it holds, it holds for good. What was tested is always true of
the answer: it holds at `found`, and not at the nearest checkpoint before that could be tested. What lies further away
is assumed, unless it is asked for: by samples, or all of it.

Neighbours with the same root have the same state and count as one. A state is loaded once, and no view of the store is
open while the predicate runs: it may take minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

from holdfast.errors import ErrorCode, InvalidInputError, NotFoundError
from holdfast.history.checkpoint import Checkpoint
from holdfast.objects.codec.paths import parse_path
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.tree.chunk_cache import ChunksAtHand
from holdfast.objects.tree.select import select_part
from holdfast.objects.tree.state import read_state
from holdfast.reports.search import BisectReport, Monotonic
from holdfast.storage.ports import Reader
from holdfast.storage.records import ChunkHash
from holdfast.store.place import Place
from holdfast.store.searching.expressions import Expression
from holdfast.store.searching.findings import OF_ONE_STATE, Notes
from holdfast.store.searching.line import Line, Stop, read_stops
from holdfast.store.searching.reports import Skip

Check = Literal["ends", "sample", "all"]
Progress = Callable[[Checkpoint, bool | None, int], None]
"""Told of each state that was tested: its checkpoint, whether it holds (None: skipped), and how many may be left."""

_CHECKS: Final = ("ends", "sample", "all")
_SAMPLES: Final = 8
"""States that are tested on each side, where a sample is asked for."""


class Question:
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
        self._answers: dict[ChunkHash, bool | None] = {}
        self._at_hand = ChunksAtHand()
        self.loads = 0
        self.notes = Notes()

    def answer(self, stop: Stop) -> tuple[bool | None, bool]:
        """Whether it holds there, None where that cannot be said; and whether that was known before."""
        if stop.root in self._answers:
            return self._answers[stop.root], True
        self._answers[stop.root] = found = self._ask(stop)
        return found, False

    def _ask(self, stop: Stop) -> bool | None:
        self.loads += 1
        try:
            state = self._load(stop)
        except OF_ONE_STATE as error:
            self.notes.unreadable(stop, error)
            return None
        except NotFoundError as error:
            if error.code is not ErrorCode.PATH_MISSING:
                raise
            self.notes.say(stop, str(error))
            return False
        if self._expression is not None:
            answer = self._expression.holds(state)
            for note in answer.notes:
                self.notes.say(stop, note)
            return answer.holds
        return self._judged(stop, state)

    def _judged(self, stop: Stop, state: Any) -> bool | None:
        try:
            return _verdict(self._predicate(state))
        except Exception as error:
            # Whatever the program raises: who asked has to know for which checkpoint.
            raise InvalidInputError(
                f"the predicate failed at checkpoint {stop.shown()}: {type(error).__name__}: {error!s:.200}",
                code=ErrorCode.PREDICATE_FAILED,
                hint="let it return holdfast.Skip for states that it cannot judge",
                checkpoint=stop.id.hex(),
                seq=stop.seq,
            ) from error

    def _load(self, stop: Stop) -> Any:
        path, through = self._path, self._at_hand.begin().through
        if path is not None:
            return read_stops(
                self._line,
                [stop],
                lambda reader: select_part(stop.root, path, through(reader.chunks), self._types),
            )

        def work(reader: Reader) -> Any:
            return read_state(stop.root, through(reader.chunks))

        return read_stops(self._line, [stop], work).decode(self._types)


def _verdict(found: Any) -> bool | None:
    if hasattr(found, "__await__"):
        # Nobody will await it, and it would be true without having looked.
        getattr(found, "close", lambda: None)()
        raise TypeError("it returned something to await: AsyncSession.bisect takes such a predicate")
    return None if found is Skip or isinstance(found, Skip) else bool(found)


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
    if check not in _CHECKS:
        raise InvalidInputError(
            f"check cannot be {check!r:.60}", code=ErrorCode.BAD_ARGUMENT, hint=f"use one of {_CHECKS}"
        )
    if not callable(predicate) and not isinstance(predicate, str):
        raise InvalidInputError(
            f"a predicate is a function or an expression, not a {type(predicate).__name__}",
            code=ErrorCode.BAD_ARGUMENT,
            hint="pass a function that takes a state, or text like 'score < 0.5'",
        )
    line = Line(place, "@" if bad is None else bad, ranges=False)
    question = Question(line, types, predicate, path)
    oldest = line.count() - 1 if good is None else _good(line, good)
    # Oldest first from here on, as people think of it.
    stops = [stop for position in range(oldest, -1, -1) if (stop := line.at(position)) is not None]
    ends = "the oldest" if good is None else "good", "the newest" if bad is None else "given as bad"
    return _Search(line, stops, question, progress, ends).run(check, claimed=good is not None)


def _good(line: Line, ref: str | Checkpoint) -> int:
    row = line.find(ref)
    position = line.position(row)
    if position is None:
        newest = line.at(0)
        assert newest is not None
        raise InvalidInputError(
            f"good, #{row.seq}, is not in the history of bad, {newest.shown()}",
            code=ErrorCode.BAD_ARGUMENT,
            hint="good is the older one: an ancestor of bad, on the same branch",
        )
    return position


class _Search:
    """Halving, over runs of checkpoints that have the same state."""

    def __init__(
        self,
        line: Line,
        stops: list[Stop],
        question: Question,
        progress: Progress | None,
        ends: tuple[str, str],
    ) -> None:
        self._line = line
        self._ends = ends
        """What the first and the last of them are called."""
        self._stops = stops
        # Where each run begins.
        self._runs = [at for at, stop in enumerate(stops) if not at or stops[at - 1].root != stop.root]
        self._question = question
        self._progress = progress
        self._answers: dict[int, bool | None] = {}

    def run(self, check: str, *, claimed: bool) -> BisectReport:
        last = self._first_answer(reversed(range(len(self._runs))))
        first = self._first_answer(iter(range(len(self._runs))))
        if last is None or first is None:
            raise self._nothing_tested()
        if self._holds(first) and claimed and first == 0:
            raise InvalidInputError(
                f"it holds at good already, {self._stops[0].shown()}",
                code=ErrorCode.BAD_ARGUMENT,
                hint="name an older checkpoint as good, or leave it out to begin with the first",
            )
        if check == "all":
            return self._whole()
        if not self._holds(last):
            raise self._never(first, last, check)
        below, found = self._halved(first, last)
        contradictions = self._sampled(below, found) if check == "sample" else []
        return self._report(below, found, "sampled" if check == "sample" else "assumed", contradictions)

    def _halved(self, first: int, last: int) -> tuple[int | None, int]:
        """The last run where it does not hold and the first where it does, with none between that can be tested."""
        if self._holds(first):
            return None, first
        below, found = first, last
        while found - below > 1:
            middle = self._first_answer(_from_the_middle(below, found), below, found)
            if middle is None:
                break
            if self._holds(middle):
                found = middle
            else:
                below = middle
        return below, found

    def _whole(self) -> BisectReport:
        """Test every state: then the answer is exact, monotonic or not."""
        every = range(len(self._runs))
        tested = [at for at in every if self._answer(at) is not None]
        holding = [at for at in tested if self._answers[at]]
        if not holding:
            raise self._never(tested[0], tested[-1], "all")
        found = holding[0]
        below = max((at for at in tested if at < found), default=None)
        contradictions = [at for at in tested if at > found and not self._answers[at]]
        return self._report(below, found, "checked", contradictions)

    def _sampled(self, below: int | None, found: int) -> list[int]:
        older = _spread(0, -1 if below is None else below - 1)
        newer = _spread(found + 1, len(self._runs) - 1)
        wrong = [at for at in older if self._answer(at) is True]
        return wrong + [at for at in newer if self._answer(at) is False]

    def _answer(self, at: int, below: int = 0, found: int = 0) -> bool | None:
        if at not in self._answers:
            stop = self._stops[self._runs[at]]
            answer, known = self._question.answer(stop)
            self._answers[at] = answer
            if self._progress is not None and not known:
                self._progress(self._line.checkpoint(stop), answer, max(0, found - below - 1))
        return self._answers[at]

    def _holds(self, at: int) -> bool:
        return bool(self._answer(at))

    def _first_answer(self, places: Iterator[int], below: int = 0, found: int = 0) -> int | None:
        """The first of these that can be tested."""
        return next((at for at in places if self._answer(at, below, found) is not None), None)

    def _report(
        self, below: int | None, found: int, monotonic: Monotonic, contradictions: list[int]
    ) -> BisectReport:
        starts, stops, shown = self._runs, self._stops, self._line.checkpoint
        # The last checkpoint of the run below is the one right before the change.
        before = None if below is None else starts[below + 1] - 1
        between = range(0 if below is None else starts[below + 1], starts[found])
        # What was tested on the way may contradict as well, without being asked for.
        seen = {at for at, answer in self._answers.items() if answer is (at < found)} | set(contradictions)
        return BisectReport(
            found=shown(stops[starts[found]]),
            before=None if before is None else shown(stops[before]),
            oldest=shown(stops[0]),
            newest=shown(stops[-1]),
            total=len(stops),
            loads=self._question.loads,
            monotonic="contradicted" if seen else monotonic,
            contradictions=tuple(shown(stops[starts[at]]) for at in sorted(seen)),
            skipped=tuple(shown(stops[at]) for at in between),
            notes=self._question.notes.texts(),
        )

    def _never(self, first: int, last: int, check: str) -> NotFoundError:
        newest = self._stops[self._runs[last]]
        if check == "all":
            message = f"it holds at none of {len(self._stops):,} checkpoints"
            hint = "look at one of them: s.load(ref) (holdfast show)"
        elif self._holds(first):
            message = (
                f"it holds at {self._stops[0].shown()} and no longer at {newest.shown()}, {self._ends[1]}"
            )
            hint = (
                "to find where it stopped, ask for the contrary: not (...); "
                "where a state lacks what it asks for, neither holds"
            )
        else:
            message = f"it does not hold at {newest.shown()}, {self._ends[1]}, nor at {self._ends[0]}"
            hint = "where it may hold only for a while, check='all' tests every checkpoint"
        notes = self._question.notes.texts()
        if notes:
            message += f" ({notes[0]})"
        return NotFoundError(
            message, code=ErrorCode.NEVER_HOLDS, hint=hint, loads=self._question.loads, notes=list(notes)
        )

    def _nothing_tested(self) -> Exception:
        if self._question.notes.failure is not None:
            return self._question.notes.failure
        return NotFoundError(
            f"every one of {len(self._stops):,} checkpoints was skipped",
            code=ErrorCode.NEVER_HOLDS,
            hint="let the predicate return True or False for some of them",
            loads=self._question.loads,
            skipped=len(self._stops),
            notes=[],
        )


def _from_the_middle(below: int, found: int) -> Iterator[int]:
    """The places between, the middle first and then outward."""
    middle = (below + found) // 2
    for away in range(found - below):
        for at in dict.fromkeys((middle - away, middle + away)):
            if below < at < found:
                yield at


def _spread(first: int, last: int) -> list[int]:
    """Some places between two, both included, evenly apart."""
    if last - first < _SAMPLES:
        return list(range(first, last + 1))
    return sorted({first + (last - first) * step // (_SAMPLES - 1) for step in range(_SAMPLES)})
