"""Reading, in processes that do nothing else: one for each contender, as a program is that resumes.

In the process that saved, memory lies in pieces: thousands of saves of all contenders, whose states lived side by side.
Loads take longer there, and not all by the same part. Who opens a store to load from it has not saved before.

A process opens a store for each load, or one for several loads in a row; contenders take turns all the same.
"""

from __future__ import annotations

import gc
import multiprocessing
import traceback
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any, Self

from bench.contenders import Contender, Reader
from bench.timing import Sample, timed
from bench.workloads import State

_PATIENCE = 600.0
_FAREWELL = 30.0


class ReadingProcess:
    """The process that reads what one contender has saved; closed with `with`."""

    def __init__(self, contender: Contender) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(contender, other), daemon=True)
        self._process.start()
        # Its own end alone: who waits for a process that has ended hears of it then.
        other.close()

    def begin(self, step: int) -> None:
        """Load the state after a step, so that all is imported that this needs."""
        self._ask("begin", step)

    def load(self, step: int) -> tuple[Sample, Sample]:
        """Open the store, load the state after a step, close: how long opening and loading took."""
        opening, loading = self._ask("load", step)
        return opening, loading

    def states_anew(self, steps: Iterable[int]) -> Iterator[State]:
        """The states after these steps, each from a store that is opened for it."""
        for step in steps:
            yield from self.states([step])

    def states(self, steps: Iterable[int]) -> Iterator[State]:
        """The states after these steps, from a store that stays open."""
        self._ask("open", None)
        for step in steps:
            yield self._ask("state", step)
        self._ask("close", None)

    def in_a_row(self, steps: Sequence[int]) -> list[Sample]:
        """Open the store, load the states after these steps one after the other, close: how long each load took."""
        samples: list[Sample] = self._ask("in_a_row", steps)
        return samples

    def log(self, limit: int) -> tuple[int, Sample]:
        """Open the store and list checkpoints: how many there were, and how long listing took."""
        count, sample = self._ask("log", limit)
        return count, sample

    def _ask(self, what: str, argument: Any) -> Any:
        self._pipe.send((what, argument))
        if not self._pipe.poll(_PATIENCE):
            raise TimeoutError(f"{what}: no answer in {_PATIENCE:.0f} s")
        answer, trouble = self._pipe.recv()
        if trouble:
            raise RuntimeError(f"{what} failed in the process that reads:\n{trouble}")
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()
        self._process.join(_FAREWELL)
        if self._process.is_alive():
            self._process.terminate()


class _Reading:
    """What is asked, there."""

    _opened: Reader

    def __init__(self, contender: Contender) -> None:
        self._contender = contender

    def begin(self, step: int) -> None:
        self.load(step)
        # What was imported is not to be walked through in the middle of a load.
        gc.collect()
        gc.freeze()

    def load(self, step: int) -> tuple[Sample, Sample]:
        reader, opening = timed(self._contender.reader)
        # What is loaded is let go of before the next load: that finds the memory of this one.
        _, loading = timed(lambda: reader.load(self._contender.names[step]))
        reader.close()
        return opening, loading

    def open(self, _: None) -> None:
        self._opened = self._contender.reader()

    def state(self, step: int) -> State:
        return self._opened.load(self._contender.names[step])

    def close(self, _: None) -> None:
        self._opened.close()

    def in_a_row(self, steps: Sequence[int]) -> list[Sample]:
        reader = self._contender.reader()
        samples = [timed(lambda: reader.load(self._contender.names[step]))[1] for step in steps]  # noqa: B023 - called at once
        reader.close()
        return samples

    def log(self, limit: int) -> tuple[int, Sample]:
        reader = self._contender.reader()
        count, sample = timed(lambda: reader.log(limit))
        reader.close()
        return count, sample


def _serve(contender: Contender, pipe: Connection) -> None:
    reading = _Reading(contender)
    while True:
        try:
            what, argument = pipe.recv()
        except EOFError:
            return
        try:
            answer = (getattr(reading, what)(argument), "")
        except Exception:  # noqa: BLE001 - told to who asked
            answer = (None, traceback.format_exc())
        pipe.send(answer)
