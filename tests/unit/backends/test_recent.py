"""What a backend remembers, used by a signal handler or a finalizer in the very thread that is at it."""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import CodeType, FrameType
from typing import Any

import pytest

from holdfast.backends.recent import RecentChunks
from holdfast.storage.records import ChunkHash

_LIMIT = 400


def name(number: int) -> ChunkHash:
    return ChunkHash(bytes([number]) * 32)


def places(code: CodeType) -> Iterator[int]:
    """Where Python runs signal handlers and finalizers: after calls, at jumps back, and at the beginning."""
    for before, after in pairwise(dis.get_instructions(code)):
        if before.opname in ("CALL", "CALL_FUNCTION_EX", "CALL_KW", "RESUME"):
            yield after.offset
        elif before.opname.startswith("JUMP_BACKWARD") or before.opname.startswith("POP_JUMP_BACKWARD"):
            yield before.argval


def interrupted_by(between: Callable[[], None], code: CodeType, place: int, work: Callable[[], Any]) -> bool:
    """Do `work`, and at one place of some code something else in between; whether it came there."""
    is_hit = False

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal is_hit
        if frame.f_code is code:
            frame.f_trace_opcodes = True
            if event == "opcode" and frame.f_lasti == place and not is_hit:
                is_hit = True
                between()
        return trace

    def run() -> None:
        sys.settrace(trace)
        work()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive(), "it waits for itself"
    return is_hit


STEPS: list[tuple[Any, Callable[[RecentChunks], Any]]] = [
    (RecentChunks.get, lambda recent: recent.get(name(0))),
    (RecentChunks.put, lambda recent: recent.put(name(9), bytes(100))),
    (RecentChunks.take_stream, lambda recent: recent.take_stream(name(0))),
    (RecentChunks.put_stream, lambda recent: recent.put_stream(name(9), Any)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("step", "work"), STEPS, ids=lambda each: each.__name__)
def test_at_each_step_something_else_can_be_saved(step: Any, work: Callable[[RecentChunks], Any]) -> None:
    hits = 0
    for place in places(step.__code__):
        recent = RecentChunks(_LIMIT)
        for number in range(4):
            recent.put(name(number), bytes(100))

        def between(recent: RecentChunks = recent) -> None:
            # Pushes all others out, the one that is being looked for too, and the one that is being put.
            for number in (9, 5, 6, 7, 8):
                recent.put(name(number), bytes(90))
            for _, each in STEPS:
                each(recent)

        hits += interrupted_by(between, step.__code__, place, lambda recent=recent: work(recent))  # type: ignore[misc]
        # What is counted is what is there, so that later ones are neither dropped too early nor kept for ever.
        kept = sum(len(each.data) for each in recent._chunks.values())
        assert recent._size == kept <= _LIMIT
    assert hits
