"""What the agents of the benchmark do: a first state, and the changes of every step.

A workload is data, made whole before anything is timed: the first state and one list of changes per step, all as JSON
bytes. Every contender decodes them for itself, so that no two share an object. A change is one of

    ["append", path, value]    ["set", path, key, value]    ["splice", path, start, stop, values]

where `path` leads from the state to the list or dict that changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import orjson
import zstandard

from bench.messages import context_entry, message, prose, record, record_edit, token

State = dict[str, Any]
Change = list[Any]


@dataclass(frozen=True)
class Workload:
    """One workload, ready to run."""

    name: str
    about: str
    initial: bytes
    steps: list[bytes]

    def first_state(self) -> State:
        """A state of one's own, as it is before the first step."""
        return orjson.loads(self.initial)

    def changes(self, step: int) -> list[Change]:
        """The changes of `step`, counted from 1, as objects of one's own."""
        return orjson.loads(self.steps[step - 1])

    def state_after(self, step: int) -> State:
        """What every contender has to give back for checkpoint `step`; 0 is the first state."""
        state = self.first_state()
        for each in range(1, step + 1):
            apply(state, self.changes(each))
        return state

    def new_content(self) -> tuple[int, int]:
        """Bytes of the first state and of every value a step wrote: as JSON, and that as one zstd-3 frame."""
        parts = [self.initial]
        for step in range(1, len(self.steps) + 1):
            parts += [part for change in self.changes(step) for part in _written(change)]
        whole = b"\n".join(parts)
        return sum(map(len, parts)), len(zstandard.ZstdCompressor(level=3).compress(whole))


def apply(state: Any, changes: Sequence[Change]) -> None:
    """Make `changes` in `state`, which may be a plain dict or anything that behaves like one."""
    for op, path, *rest in changes:
        target = state
        for key in path:
            target = target[key]
        if op == "append":
            target.append(rest[0])
        elif op == "set":
            target[rest[0]] = rest[1]
        else:
            target[rest[0] : rest[1]] = rest[2]


def _written(change: Change) -> Iterator[bytes]:
    """The new values of one change, a dict's with their key; where they go does not count as content."""
    op, _, *rest = change
    if op == "splice":
        yield from map(orjson.dumps, rest[2])
    elif op == "set" and isinstance(rest[0], str):
        yield orjson.dumps({rest[0]: rest[1]})
    else:
        yield orjson.dumps(rest[-1])


def _workload(name: str, about: str, initial: State, steps: Iterator[list[Change]]) -> Workload:
    return Workload(name, about, orjson.dumps(initial), [orjson.dumps(changes) for changes in steps])


def growing(steps: int, seed: int) -> Workload:
    """W1: a conversation that grows by a message a step, and a context of which two entries change."""
    rng = Random(seed)
    context = {f"{number:02}_{token(rng, 6)}": context_entry(rng) for number in range(50)}
    keys = list(context)

    def changes() -> Iterator[list[Change]]:
        for number in range(1, steps + 1):
            entries = [["set", ["context"], key, context_entry(rng)] for key in rng.sample(keys, 2)]
            yield [["append", ["messages"], message(rng, number)], *entries]

    about = f"{steps:,} steps: one more message, 2 of 50 context entries change"
    return _workload(f"W1-{steps}", about, {"messages": [], "context": context}, changes())


def long_conversation(messages: int, steps: int, seed: int) -> Workload:
    """W2: one more message at the end of a very long conversation."""
    rng = Random(seed)
    initial = {"messages": [message(rng, number) for number in range(messages)]}
    more = ([["append", ["messages"], message(rng, messages + number)]] for number in range(steps))
    return _workload("W2", f"{messages:,} messages, {steps} steps of one more", initial, more)


def trimming(steps: int, seed: int) -> Workload:
    """W3: agents that trim. Every 50 steps 40 old messages become one summary, and three in the middle are edited."""
    rng = Random(seed)

    def changes() -> Iterator[list[Change]]:
        length = 0
        for number in range(1, steps + 1):
            made: list[Change] = [["append", ["messages"], message(rng, number)]]
            length += 1
            if number % 50 == 0:
                summary = {"id": f"msg_{token(rng)}", "role": "system", "content": prose(rng, 1200)}
                made.append(["splice", ["messages"], 0, 40, [summary]])
                length -= 39
                middle = rng.sample(range(length // 4, length - length // 4), 3)
                made += [["set", ["messages", index], "content", prose(rng, 500)] for index in middle]
            yield made

    about = f"{steps:,} steps: one more message; every 50 steps 40 become a summary and 3 are edited"
    return _workload("W3", about, {"messages": []}, changes())


def records(tables: int, rows: int, steps: int, seed: int) -> Workload:
    """W4: many small records in a nested state, ten of which change a step."""
    rng = Random(seed)
    names = [f"table_{number:02}" for number in range(tables)]
    initial = {"tables": {name: [record(rng, number) for number in range(rows)] for name in names}}

    def edit() -> Change:
        field, value = record_edit(rng)
        return ["set", ["tables", rng.choice(names), rng.randrange(rows)], field, value]

    edits = ([edit() for _ in range(10)] for _ in range(steps))
    return _workload(
        "W4", f"{tables * rows:,} records of 5 fields, {steps} steps of 10 edits", initial, edits
    )


def steady(steps: int, seed: int) -> Workload:
    """A state that stays as large as it is: 40 messages of which one is replaced a step. For long histories."""
    rng = Random(seed)
    initial = {"messages": [message(rng, number) for number in range(40)]}
    edits = ([["set", ["messages"], rng.randrange(40), message(rng, number)]] for number in range(steps))
    return _workload("history", f"40 messages, {steps:,} steps of one replaced", initial, edits)


def suite(*, quick: bool, seed: int) -> dict[str, Callable[[], Workload]]:
    """The workloads of a run, by name, in order; each is made when it is its turn."""
    if quick:
        return {
            "W1-200": lambda: growing(200, seed),
            "W2": lambda: long_conversation(2_000, 20, seed),
            "W3": lambda: trimming(200, seed),
            "W4": lambda: records(20, 200, 40, seed),
        }
    return {
        "W1-1000": lambda: growing(1_000, seed),
        "W1-3000": lambda: growing(3_000, seed),
        "W2": lambda: long_conversation(10_000, 50, seed),
        "W3": lambda: trimming(1_000, seed),
        "W4": lambda: records(20, 1_000, 500, seed),
    }
