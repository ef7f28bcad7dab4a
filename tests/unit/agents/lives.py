"""A life that a seed decides: the ten subsystems after some beats in which everything of them was used."""

from __future__ import annotations

import copy
import random
from typing import Any

from holdfast.agents.heartbeat.subsystems import ten


def live(mind: dict[str, Any], source: random.Random, beat: int) -> None:
    """One beat. Everything that happens depends on `source` and on what is in mind, and on nothing else."""
    pick = source.choice
    mind["affect"].feel(pick(list(mind["affect"].dimensions)), source.uniform(-0.5, 0.5))
    goals = mind["goals"]
    if source.random() < 0.4:
        goals.add(f"goal {beat}", priority=source.random())
    if goals.current:
        goals.advance(goals.current["id"], source.random() / 2)
    goals.goals = goals.goals[-20:]
    thinking = mind["metacognition"]
    name = thinking.predict(f"claim {beat}", source.random())
    if source.random() < 0.7:
        thinking.resolve(name, came_true=source.random() < 0.5)
    mind["theory_of_mind"].believes(pick("abcd"), pick("pq"), source.random())
    mind["interagent"].receive(pick("abcd"), {"beat": beat})
    mind["interagent"].delivered(mind["interagent"].send("a", [beat])["id"])
    mind["interagent"].take()
    mind["sensory"].sense(pick(["eye", "ear"]), pick([1, "two"]), source.random())
    mind["ethics"].principle(pick("xy"), "be kind", weight=source.random())
    mind["ethics"].concern(f"kind.{beat % 4}", f"because {beat}")
    mind["ethics"].concerns = mind["ethics"].concerns[-20:]
    mind["inner_life"].wonder(pick(["why", "how"]))
    if source.random() < 0.3:
        mind["inner_life"].answer(mind["inner_life"].questions[0], "so")
    mind["identity"].count(pick(["total_heartbeats", "dreams"]))
    mind["working_memory"].hold({"beat": beat}, source.random(), kind=pick(["", "plan"]))
    for part in mind.values():
        if hasattr(part, "settle"):
            part.settle()


def lived(seed: int, mind: dict[str, Any] | None = None, beats: int = 5) -> dict[str, Any]:
    """The mind after some beats; begun with a copy of another one, if that is given."""
    mind = ten() if mind is None else copy.deepcopy(mind)
    source = random.Random(seed)
    for beat in range(beats):
        live(mind, source, beat)
    return mind
