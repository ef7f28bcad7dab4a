"""What is read from a database of LangGraph's, whichever saver wrote it.

A source is read in one transaction that sees one moment and changes nothing. For each thread there is first an index of
what it has, which is small, and then each checkpoint and its writes by themselves, so that one checkpoint at a time is
in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from holdfast.integrations.langgraph.importing.decoding import Decoder
from holdfast.record import Record


class Listed(Record):
    """A checkpoint in the index of a thread."""

    id: str
    namespace: str
    parent: str | None


class Stored(Record):
    """A checkpoint as LangGraph's saver would hand it out, without its writes."""

    checkpoint: dict[str, Any]
    metadata: dict[str, Any]


class Write(Record):
    """One pending write."""

    task: str
    path: str
    place: int
    channel: str
    value: Any


class Source(Protocol):
    """A database of LangGraph's, open for reading."""

    shown: str
    """Where it is, without any secret."""
    decoder: Decoder
    """What values are read with."""

    def count(self) -> int:
        """How many checkpoints there are in all, for those who watch."""
        ...

    def threads(self) -> Iterator[str]:
        """The ids of all threads."""
        ...

    def check(self, thread: str) -> None:
        """See that no value of a thread is of a kind that is not taken over: better now than in the middle of it.

        Raises:
            InvalidInputError: One is; the message says where it is (`value-unsupported`).
        """
        ...

    def index(self, thread: str) -> list[Listed]:
        """The checkpoints of a thread in the order of their ids."""
        ...

    def written(self, thread: str) -> list[tuple[str, str]]:
        """Namespace and id of each checkpoint of a thread that has writes, itself stored or not, by id."""
        ...

    def checkpoint(self, thread: str, entry: Listed) -> Stored:
        """A checkpoint.

        Raises:
            HoldfastError: A value in it cannot be taken over; the message says where it is.
        """
        ...

    def writes(self, thread: str, namespace: str, checkpoint: str) -> list[Write]:
        """The writes of a checkpoint, by task and index."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


def parents_first(entries: Iterable[Listed]) -> Iterator[Listed]:
    """The entries in their order, but none before its parent.

    Ids are given in the order of time, so that is nearly always their order already. Ids of the user's own, or a clock
    that went back, can have it otherwise. Where parents go round in a circle, the first of them begins it.
    """
    waiting = {(entry.namespace, entry.id): entry for entry in entries}
    for first in list(waiting):
        place = first
        chain: list[Listed] = []
        while place in waiting:
            entry = waiting.pop(place)
            chain.append(entry)
            if entry.parent is None:
                break
            place = (entry.namespace, entry.parent)
        yield from reversed(chain)
