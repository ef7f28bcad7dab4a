"""Threads that save together, one of which is interrupted, or saves something else in between, at any step at all."""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from types import CodeType, FrameType, SimpleNamespace
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg")

from holdfast.backends.postgres import gathering  # noqa: E402
from holdfast.backends.postgres.gathering import Gathering  # noqa: E402

STEPS = [
    Gathering.send,
    Gathering._is_crowded,
    Gathering._is_to_lead,
    Gathering._is_any_under_way,
    Gathering._leave,
    Gathering._lead,
    Gathering._take_along,
    Gathering._call_next,
    Gathering._carry,
]


class Interrupted(BaseException):
    """What one thread raises in another."""


def places(code: CodeType) -> Iterator[int]:
    """Where Python looks whether something is to be raised: after calls, at jumps back, and at the beginning."""
    for before, after in pairwise(dis.get_instructions(code)):
        if before.opname in ("CALL", "CALL_FUNCTION_EX", "CALL_KW", "RESUME"):
            yield after.offset
        elif before.opname == "JUMP_BACKWARD":
            yield before.argval


class Pool:
    """Has one for everybody."""

    @contextmanager
    def connection(self) -> Iterator[None]:
        yield None


class Server:
    """Answers at once, but the first time only when it is told to."""

    def __init__(self) -> None:
        self.asked, self.answers = threading.Event(), threading.Event()
        self.said: list[Any] = []

    def execute_sent(self, _: Any, sent: Any) -> Any:
        self.said.append(sent)
        self.asked.set()
        self.answers.wait(10)
        return sent

    def execute_each(self, _: Any, __: Any, several: Any) -> Any:
        self.said += several
        return several


class Round:
    """Four threads; the first is under way while the others come, and one of them is interrupted at one place."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, code: CodeType, place: int, victim: int) -> None:
        self.server = Server()
        monkeypatch.setattr(gathering, "APPEND", self.server)
        self.gathering = Gathering(Pool(), flushes=True)  # type: ignore[arg-type]
        self.gathering.pace = SimpleNamespace(is_slow=True, note=lambda *_: None)  # type: ignore[assignment]
        self.code, self.place, self.victim = code, place, victim
        self.is_hit = False
        self.outcomes: dict[Any, Any] = {}

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code is not self.code:
            return self.trace if event == "call" else None
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_lasti == self.place and not self.is_hit:
            self.is_hit = True
            self.hit()
        return self.trace

    def hit(self) -> None:
        """What happens there."""
        raise Interrupted

    def work(self, number: int) -> None:
        if number == self.victim:
            sys.settrace(self.trace)
        appending: Any = SimpleNamespace(chunk=bytes([number]), sent=[number])
        try:
            self.outcomes[number] = self.gathering.send(appending)
        except BaseException as error:
            self.outcomes[number] = error
        finally:
            sys.settrace(None)

    def run(self) -> None:
        threads = [threading.Thread(target=self.work, args=(number,), daemon=True) for number in range(4)]
        threads[0].start()
        self.server.asked.wait(0.05 if self.victim == 0 else 10)
        for thread in threads[1:]:
            thread.start()
        for thread in threads[1:]:
            # Until they wait for the first one, or do not because that has gone.
            thread.join(0.005)
        self.server.answers.set()
        for thread in threads:
            thread.join(10)
        assert not [number for number, thread in enumerate(threads) if thread.is_alive()]

    def check(self) -> None:
        """Everybody else has an answer, or knows that it has to find out."""
        for number, outcome in self.outcomes.items():
            if number not in (self.victim, "nested"):
                assert isinstance(outcome, psycopg.OperationalError) or outcome == [number]
        assert not self.gathering._waiting
        assert not [trip for trip in self.gathering._trips if not trip.is_over]


@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_at_no_step_does_an_interruption_leave_somebody_waiting(
    step: Any, victim: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "_PATIENCE", 0.02)
    monkeypatch.setattr(gathering, "_CROWD", 1)
    hits = 0
    for place in places(step.__code__):
        one = Round(monkeypatch, step.__code__, place, victim)
        one.run()
        one.check()
        hits += one.is_hit
    # The first one never waits.
    assert hits or (step is Gathering._is_to_lead and victim == 0)


class SavingRound(Round):
    """The same; but what is collected as garbage at that place saves something."""

    def hit(self) -> None:
        """Save it in the same thread."""
        sys.settrace(None)
        appending: Any = SimpleNamespace(chunk=b"nested", sent=["nested"])
        self.outcomes["nested"] = self.gathering.send(appending)

    def check(self) -> None:
        """Everybody has an answer, and only one."""
        super().check()
        assert self.outcomes.pop("nested", ["nested"]) == ["nested"]
        assert len(self.outcomes) == 4
        for number, outcome in self.outcomes.items():
            assert outcome == [number]
        said = [each for (each,) in self.server.said]
        assert sorted(map(str, said)) == ["0", "1", "2", "3", *(["nested"] if self.is_hit else [])]


@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_at_each_step_something_else_can_be_saved(
    step: Any, victim: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "_PATIENCE", 0.1)
    monkeypatch.setattr(gathering, "_CROWD", 1)
    for place in places(step.__code__):
        one = SavingRound(monkeypatch, step.__code__, place, victim)
        one.run()
        one.check()
