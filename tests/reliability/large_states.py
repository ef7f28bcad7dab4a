"""States of more than a megabyte that are told from their step: each is the one before with a few changes."""

from __future__ import annotations

import random
from functools import cache

WORDS = [
    "the",
    "agent",
    "looked",
    "at",
    "result",
    "tool",
    "and",
    "found",
    "that",
    "it",
    "was",
    "not",
    "planned",
]


def first_state():
    source = random.Random(0)
    return {
        "messages": [message(source) for _ in range(1_500)],
        "context": {f"key{n}": message(source) for n in range(50)},
        "notes": "".join(f"{source.choice(WORDS)} " for _ in range(20_000)),
        "step": 0,
    }


def message(source):
    said = " ".join(source.choices(WORDS, k=100))
    return {"role": source.choice(["user", "tool"]), "id": source.randbytes(8).hex(), "content": said}


def change(state, step):
    """What happens in one step: something is added at the end, some is edited, and now and then the oldest goes."""
    source = random.Random(step)
    messages = state["messages"]
    messages += [message(source) for _ in range(source.randrange(1, 60))]
    messages[source.randrange(len(messages))]["content"] += " and so on"
    state["context"][f"key{source.randrange(60)}"] = message(source)
    if step % 4 == 0:
        del messages[: source.randrange(1, 30)]
    state["notes"] += f"step {step} is done. "
    state["step"] = step


@cache
def state_at(step):
    """The state of a step, from the beginning. Not to be changed: it is made only once."""
    state = first_state()
    for each in range(1, step + 1):
        change(state, each)
    return state
