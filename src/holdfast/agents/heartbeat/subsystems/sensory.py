"""Sensory: what comes in through channels, and how much of it deserves notice.

Each channel grows used to what it hears again and again (habituation), and recovers when it is quiet; something new is
noticed at once. Salience is what an application acts on: intensity, times the channel's weight, times how fresh it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.agents.heartbeat.stored import NUMBER, as_dict, at_least_one, parts, rows, within


@dataclass(slots=True)
class Percept:
    """One thing that was sensed."""

    channel: str
    value: Any
    salience: float


@dataclass(slots=True)
class Channel:
    """Where percepts come from."""

    name: str
    weight: float = 1.0
    habituation: float = 0.0
    """How used to the last value it is: 0 not at all, 1 deaf to it."""
    last: str = ""


class Sensory:
    """Channels, and the percepts of the last beats.

    Args:
        habituate: How much less a repetition counts each time.
        recover: How much of that goes with each beat.
        limit: How many percepts are kept; the least salient go first.
    """

    def __init__(self, *, habituate: float = 0.3, recover: float = 0.1, limit: int = 50) -> None:
        self.habituate = within(habituate, "habituate")
        self.recover = within(recover, "recover")
        self.limit = at_least_one(limit, "limit")
        self._channels: dict[str, Channel] = {}
        self._percepts: list[Percept] = []

    def channel(self, name: str, *, weight: float | None = None) -> Channel:
        """A channel, opened if it is new; with a weight, it counts so much from now on."""
        found = self._channels.setdefault(name, Channel(name))
        if weight is not None:
            found.weight = within(weight, "weight", 0, 10)
        return found

    def sense(self, channel: str, value: Any, intensity: float = 0.5) -> Percept:
        """Take something in; return it with how salient it is."""
        source = self.channel(channel)
        # Compared as text: what an application senses need be neither hashable nor comparable.
        seen = repr(value)[:200]
        if seen == source.last:
            source.habituation = min(1.0, source.habituation + self.habituate * (1 - source.habituation))
        else:
            source.habituation, source.last = 0.0, seen
        salience = within(intensity, "intensity") * source.weight * (1 - source.habituation)
        percept = Percept(channel, value, salience)
        self._percepts.append(percept)
        if len(self._percepts) > self.limit:
            self._percepts.remove(min(self._percepts, key=lambda each: each.salience))
        return percept

    def salient(self, threshold: float = 0.3) -> list[Percept]:
        """What deserves notice, most of all first."""
        found = [percept for percept in self._percepts if percept.salience >= threshold]
        return sorted(found, key=lambda percept: -percept.salience)

    def clear(self) -> list[Percept]:
        """Give out everything that was sensed, and begin anew."""
        taken, self._percepts = self._percepts, []
        return taken

    def settle(self) -> None:
        """Let one beat pass: channels recover, percepts fade, and those that hardly count are gone."""
        for channel in self._channels.values():
            channel.habituation *= 1 - self.recover
        for percept in self._percepts:
            percept.salience *= 0.5
        self._percepts = [percept for percept in self._percepts if percept.salience >= 0.01]

    def snapshot(self) -> dict[str, Any]:
        """Channels and percepts."""
        return {
            "channels": [as_dict(channel) for channel in self._channels.values()],
            "percepts": [as_dict(percept) for percept in self._percepts],
        }

    def restore(self, value: Any) -> None:
        """Take over what `snapshot` gave."""
        found = parts(value, "sensory", channels=list, percepts=list)
        channels = rows(
            found.get("channels", ()), "sensory", name=str, weight=NUMBER, habituation=NUMBER, last=str
        )
        percepts = rows(found.get("percepts", ()), "sensory", channel=str, value=object, salience=NUMBER)
        self._channels = {row["name"]: Channel(**row) for row in channels}
        self._percepts = [Percept(**row) for row in percepts]
