"""People beside a live agent: whatever they do to its session, it goes on, and nothing that it saved is lost."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from threading import Semaphore, Thread

import pytest
from tests.surfaces.cli.places import place

import holdfast

DEEDS = 24
STEPS = 3
"""Steps of the agent for each deed of the person, at the same time."""

ANY = ["@", "@~1", "@~3", "#1", "tag:seen"]


def deeds(chance):
    """What a person may do, with words that may fit or not."""
    number = chance.randrange(10**6)
    return chance.choice(
        [
            ["create", f"note {number}"],
            ["create", f"mine {number}", "--state", "-"],
            ["tag", chance.choice(ANY[:2]), "seen"],
            ["pin", chance.choice(ANY)],
            ["annotate", "@", "--message", f"looked at {number}"],
            ["fork", chance.choice(ANY), f"try-{number}"],
            ["fork", chance.choice(ANY), f"go-{number}", "--switch"],
            ["switch", "main"],
            ["restore", chance.choice(ANY)],
            ["prune", "--keep-last", "5", "--yes"],
            ["prune", "--at-most", "3", "--only", "--yes"],
            ["delete", chance.choice(ANY), "--yes"],
            ["undo"],
        ]
    )


@dataclass
class Memory:
    """What it has done."""

    done: list[int] = field(default_factory=list)


class Agent(Thread):
    """An agent of the plainest kind: a list that grows, and a checkpoint after each step."""

    def __init__(self, target):
        super().__init__(daemon=True)
        self.target = target
        self.turns, self.began = Semaphore(0), Semaphore(0)
        self.saved, self.failed = {}, None

    def run(self):
        try:
            with holdfast.open(self.target) as store:
                recorder = holdfast.Recorder(store.session("default"), trigger=holdfast.every(steps=1))
                memory = Memory()
                recorder.connect("memory", memory)
                for step in range(DEEDS * STEPS):
                    self.turns.acquire()
                    memory.done.append(step)
                    self.saved[step] = recorder.step(step)
                    self.began.release()
        except BaseException as error:
            self.failed = error
            self.began.release()


@pytest.mark.parametrize("seed", range(3))
def test_an_agent_goes_on_whatever_a_person_does_beside_it(run, home, seed):
    chance, agent = random.Random(seed), Agent(place(home))
    agent.start()
    agent.turns.release(STEPS)
    agent.began.acquire()

    done = []
    for _ in range(DEEDS - 1):
        agent.turns.release(STEPS)
        words = deeds(chance)
        result = run(*words, input="[1]")
        # What is not there, is needed, or was overtaken is refused; nothing else goes wrong.
        assert result.exit_code in (0, 2, 4, 5), (words, result.stderr)
        done.append(result.exit_code)
    agent.join(60)

    assert agent.failed is None
    assert not agent.is_alive()
    assert done.count(0) > len(done) // 2
    assert None not in agent.saved.values()
    with holdfast.open(place(home)) as store:
        assert store.verify().ok
        # The newest has every step since the first, and each save is there or was removed by the person, who can undo.
        last = agent.saved[DEEDS * STEPS - 1]
        assert store.session("default").load(last.id)["memory"]["done"] == list(range(DEEDS * STEPS))
        kept = {each.id for each in store.find(session="default")}
        hidden = store.stats().hidden
        assert len({each.id for each in agent.saved.values()} - kept) <= hidden
