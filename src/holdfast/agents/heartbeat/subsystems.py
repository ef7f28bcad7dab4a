"""The ten parts of a mind, as dataclasses that are saved field by field.

They hold what an agent feels, wants and knows, in plain values, and do no more with it than a few lines each. An agent
can replace any of them, have others or none: what `HeartbeatAgent.parts` gives is what is saved.

Those that time passes for have `settle()`, which the heartbeat calls once a beat. Time is counted in beats and not in
seconds: an agent that was down for a night wakes up with what it had in mind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

DIMENSIONS = {"valence": 0.0, "arousal": 0.2, "dominance": 0.0, "curiosity": 0.3, "tension": 0.0}
"""The usual dimensions of affect with their baselines; each lies between -1 and 1."""

COUNTERS = ("total_heartbeats", "total_awakenings", "total_thoughts", "total_actions", "total_messages")
"""Those that an identity has from the start; `count` makes any other."""

_GONE = 0.01
"""Salience below which something is forgotten."""


@dataclass
class Affect:
    """How the agent feels: dimensions that events move, and that come back to a baseline."""

    dimensions: dict[str, float] = field(default_factory=lambda: dict(DIMENSIONS))
    baseline: dict[str, float] = field(default_factory=lambda: dict(DIMENSIONS))
    decay: float = 0.05
    """How much of the distance to the baseline goes with each beat."""

    def feel(self, dimension: str, amount: float) -> float:
        """Move a dimension by an amount, as far as it goes; return where it is now."""
        moved = self.dimensions.get(dimension, 0.0) + amount
        self.dimensions[dimension] = max(-1.0, min(1.0, moved))
        return self.dimensions[dimension]

    def settle(self) -> None:
        """Let one beat pass: everything comes nearer to its baseline."""
        for name, value in self.dimensions.items():
            self.dimensions[name] = value + (self.baseline.get(name, 0.0) - value) * self.decay


@dataclass
class Goals:
    """What the agent wants, how much, and how far it has come. A goal is a dict."""

    goals: list[dict[str, Any]] = field(default_factory=list)
    added: int = 0

    def add(self, title: str, *, priority: float = 0.5, parent: str | None = None) -> dict[str, Any]:
        """Take up a goal; part of another one where a parent is given."""
        self.added += 1
        goal = {"id": f"g{self.added}", "title": title, "priority": priority, "progress": 0.0}
        self.goals.append(goal | {"status": "active", "parent": parent})
        return self.goals[-1]

    def get(self, id: str) -> dict[str, Any]:  # noqa: A002 - the glossary's word
        """The goal of this id; a KeyError without one."""
        for goal in self.goals:
            if goal["id"] == id:
                return goal
        raise KeyError(id)

    def advance(self, id: str, amount: float) -> dict[str, Any]:  # noqa: A002 - the same
        """Come nearer to a goal; at 1 it is completed."""
        goal = self.get(id)
        goal["progress"] = round(min(1.0, goal["progress"] + amount), 9)
        if goal["progress"] == 1.0:
            goal["status"] = "completed"
        return goal

    def active(self) -> list[dict[str, Any]]:
        """What is to be done, most wanted first."""
        return sorted((g for g in self.goals if g["status"] == "active"), key=lambda g: -g["priority"])

    @property
    def current(self) -> dict[str, Any] | None:
        """The most wanted one."""
        return next(iter(self.active()), None)


@dataclass
class Metacognition:
    """What the agent expects, how surely, and what came of it."""

    open: dict[str, dict[str, Any]] = field(default_factory=dict)
    resolved: list[dict[str, Any]] = field(default_factory=list)
    made: int = 0
    limit: int = 200

    def predict(self, claim: str, confidence: float) -> str:
        """Note that something is expected, and how surely; return the id to settle it by."""
        self.made += 1
        self.open[f"p{self.made}"] = {"claim": claim, "confidence": confidence}
        if len(self.open) > self.limit:
            del self.open[next(iter(self.open))]
        return f"p{self.made}"

    def resolve(self, prediction: str, *, came_true: bool) -> None:
        """Say how a prediction turned out."""
        self.resolved.append(self.open.pop(prediction) | {"came_true": came_true})
        del self.resolved[: -self.limit]


@dataclass
class TheoryOfMind:
    """What the agent thinks that others believe, and how far it trusts them."""

    others: dict[str, dict[str, Any]] = field(default_factory=dict)

    def about(self, name: str) -> dict[str, Any]:
        """The model of somebody: `trust` and `beliefs`; made where there is none."""
        return self.others.setdefault(name, {"trust": 0.5, "beliefs": {}})

    def believes(self, name: str, proposition: str, confidence: float) -> None:
        """Note what somebody seems to hold true, and how surely."""
        self.about(name)["beliefs"][proposition] = confidence


@dataclass
class InterAgent:
    """Messages from and to other agents, held until they are dealt with.

    What is sent stays here until somebody says that it was delivered, so that a message that was on its way when the
    process died goes out again.
    """

    inbox: list[dict[str, Any]] = field(default_factory=list)
    outbox: list[dict[str, Any]] = field(default_factory=list)
    sent: int = 0

    def receive(self, sender: str, body: Any, *, id: str | None = None) -> None:  # noqa: A002 - the glossary's word
        """Take in a message."""
        self.inbox.append({"id": id, "peer": sender, "body": body})

    def take(self) -> dict[str, Any] | None:
        """The oldest message that came in, which is then dealt with; None where there is none."""
        return self.inbox.pop(0) if self.inbox else None

    def send(self, to: str, body: Any) -> dict[str, Any]:
        """Put a message up for delivery."""
        self.sent += 1
        self.outbox.append({"id": f"m{self.sent}", "peer": to, "body": body})
        return self.outbox[-1]

    def delivered(self, id: str) -> None:  # noqa: A002 - the same
        """A message has arrived: it is not kept any longer."""
        self.outbox = [message for message in self.outbox if message["id"] != id]


@dataclass
class Sensory:
    """What came in through channels, and how much of it deserves notice."""

    percepts: list[dict[str, Any]] = field(default_factory=list)
    limit: int = 50

    def sense(self, channel: str, value: Any, salience: float = 0.5) -> dict[str, Any]:
        """Take something in."""
        self.percepts.append({"channel": channel, "value": value, "salience": salience})
        del self.percepts[: -self.limit]
        return self.percepts[-1]

    def salient(self, threshold: float = 0.3) -> list[dict[str, Any]]:
        """What deserves notice, most of all first."""
        found = [percept for percept in self.percepts if percept["salience"] >= threshold]
        return sorted(found, key=lambda percept: -percept["salience"])

    def settle(self) -> None:
        """Let one beat pass: percepts fade, and those that hardly count are gone."""
        for percept in self.percepts:
            percept["salience"] *= 0.5
        self.percepts = [percept for percept in self.percepts if percept["salience"] >= _GONE]


@dataclass
class Ethics:
    """Principles, and concerns about kinds of action."""

    principles: dict[str, dict[str, Any]] = field(default_factory=dict)
    concerns: list[dict[str, Any]] = field(default_factory=list)

    def principle(self, name: str, text: str, *, weight: float = 1.0) -> None:
        """State what matters; said again, it replaces what was said before."""
        self.principles[name] = {"text": text, "weight": weight}

    def concern(self, action: str, why: str, *, severity: float = 0.5) -> None:
        """Speak against a kind of action (`mail.send`)."""
        self.concerns.append({"action": action, "why": why, "severity": severity})

    def against(self, action: str) -> list[dict[str, Any]]:
        """What speaks against an action: concerns about it, or about a kind that it is of."""
        return [each for each in self.concerns if f"{action}.".startswith(f"{each['action']}.")]


@dataclass
class InnerLife:
    """What the agent thinks to itself: reflections, newest last, and open questions."""

    reflections: list[dict[str, Any]] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    limit: int = 100

    def reflect(self, text: str, *, about: str = "") -> None:
        """Keep a thought."""
        self.reflections.append({"text": text, "about": about})
        del self.reflections[: -self.limit]

    def wonder(self, question: str) -> None:
        """Keep a question."""
        if question not in self.questions:
            self.questions.append(question)

    def answer(self, question: str, text: str) -> None:
        """Close a question; the answer becomes a reflection about it."""
        self.questions.remove(question)
        self.reflect(text, about=question)


@dataclass
class Identity:
    """Who the agent is over all its lives, and counters that only go up. The stored name wins when it wakes up."""

    name: str = "agent"
    traits: dict[str, str] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))

    def count(self, name: str, amount: int = 1) -> int:
        """Count something; return the new total."""
        self.counters[name] = self.counters.get(name, 0) + amount
        return self.counters[name]

    def total(self, name: str) -> int:
        """How often something was counted."""
        return self.counters.get(name, 0)


@dataclass
class WorkingMemory:
    """A few things that are on the agent's mind: the most salient of what there is."""

    items: list[dict[str, Any]] = field(default_factory=list)
    capacity: int = 7
    decay: float = 0.02
    """How much of its salience an item loses with each beat."""

    def hold(self, content: Any, salience: float = 0.5, *, kind: str = "") -> None:
        """Keep something in mind; what is least salient makes room."""
        self.items.append({"content": content, "salience": salience, "kind": kind})
        while len(self.items) > self.capacity:
            self.items.remove(min(self.items, key=lambda item: item["salience"]))

    def settle(self) -> None:
        """Let one beat pass: everything fades a little, and what has faded is gone."""
        for item in self.items:
            item["salience"] *= 1 - self.decay
        self.items = [item for item in self.items if item["salience"] >= _GONE]

    def __len__(self) -> int:
        return len(self.items)


ORDER = (
    "affect",
    "goals",
    "metacognition",
    "theory_of_mind",
    "interagent",
    "sensory",
    "ethics",
    "inner_life",
    "identity",
    "working_memory",
)
"""In which they start, are captured, and come back."""


def ten(name: str = "agent") -> dict[str, Any]:
    """New ones of all ten, in their order."""
    kinds = (Affect, Goals, Metacognition, TheoryOfMind, InterAgent, Sensory, Ethics, InnerLife)
    made: list[Any] = [*(kind() for kind in kinds), Identity(name), WorkingMemory()]
    return dict(zip(ORDER, made, strict=True))
