"""Inter-agent: messages from and to other agents, held until they are dealt with.

What is sent stays here until somebody says that it was delivered, so that a message that was on its way when the
process died goes out again. The receiver knows it by its id, and takes it once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.agents.heartbeat.stored import as_dict, at_least_one, parts, rows, unknown

_SEEN = 1000
"""Ids of received messages that are remembered: one that comes again after so many others is taken for new."""


@dataclass(slots=True)
class Message:
    """Something said by one agent to another."""

    id: str
    peer: str
    body: Any


class InterAgent:
    """Messages in and out.

    Args:
        limit: How many messages wait on each side; the oldest go first, and are counted in `dropped`.
    """

    def __init__(self, *, limit: int = 500) -> None:
        self.limit = at_least_one(limit, "limit")
        self.dropped = 0
        self._inbox: dict[str, Message] = {}
        self._outbox: dict[str, Message] = {}
        self._seen: dict[str, None] = {}
        self._sent = 0
        self._received = 0

    def receive(self, sender: str, body: Any, *, id: str | None = None) -> bool:  # noqa: A002 - the glossary's word
        """Take in a message; False if one with this id from this sender was taken in before."""
        # Another sender may count its messages in the same way.
        name = f"{sender}/#{self._received}" if id is None else f"{sender}/{id}"
        if name in self._seen:
            return False
        self._received += 1
        self._seen[name] = None
        if len(self._seen) > _SEEN:
            del self._seen[next(iter(self._seen))]
        self._put(self._inbox, Message(name, sender, body))
        return True

    def take(self) -> Message | None:
        """The oldest message that came in, which is then dealt with; None where there is none."""
        return self._inbox.pop(next(iter(self._inbox))) if self._inbox else None

    def send(self, to: str, body: Any) -> Message:
        """Put a message up for delivery."""
        self._sent += 1
        message = Message(f"m{self._sent}", to, body)
        self._put(self._outbox, message)
        return message

    def delivered(self, id: str) -> None:  # noqa: A002 - the glossary's word
        """A message has arrived: it is not kept any longer."""
        if self._outbox.pop(id, None) is None:
            raise unknown("message", id)

    @property
    def waiting(self) -> list[Message]:
        """What came in and was not taken, oldest first."""
        return list(self._inbox.values())

    @property
    def undelivered(self) -> list[Message]:
        """What was sent and has not arrived as far as is known, oldest first."""
        return list(self._outbox.values())

    def snapshot(self) -> dict[str, Any]:
        """Both sides, and which messages were taken in before."""
        return {
            "inbox": [as_dict(message) for message in self._inbox.values()],
            "outbox": [as_dict(message) for message in self._outbox.values()],
            "seen": list(self._seen),
            "sent": self._sent,
            "received": self._received,
            "dropped": self.dropped,
        }

    def restore(self, value: Any) -> None:
        """Take over what `snapshot` gave."""
        counts = {"sent": int, "received": int, "dropped": int}
        found = parts(value, "interagent", inbox=list, outbox=list, seen=list, **counts)
        kinds: dict[str, Any] = {"id": str, "peer": str, "body": object}
        inbox = [Message(**row) for row in rows(found.get("inbox", ()), "interagent", **kinds)]
        outbox = [Message(**row) for row in rows(found.get("outbox", ()), "interagent", **kinds)]
        self._inbox = {message.id: message for message in inbox}
        self._outbox = {message.id: message for message in outbox}
        self._seen = dict.fromkeys(map(str, found.get("seen", ())))
        self._sent = found.get("sent", len(outbox))
        self._received = found.get("received", len(self._seen))
        self.dropped = found.get("dropped", 0)

    def _put(self, box: dict[str, Message], message: Message) -> None:
        box[message.id] = message
        if len(box) > self.limit:
            del box[next(iter(box))]
            self.dropped += 1
