"""What a contender has to do: keep a state of its own, save it after every step, and give any checkpoint back.

Writing and reading are apart. A `Contender` lives through one workload and remembers what names its checkpoints have;
a `Reader` is opened anew on what lies on the disk, knows nothing, and is thrown away after one read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

from bench.workloads import Change, State

POWER = "power"
PROCESS = "process"

_FOR_READING = {"folder", "url", "durability", "session", "names", "channels", "given"}


class Reader(ABC):
    """A store opened with nothing cached. `name` is what the contender called the checkpoint."""

    @abstractmethod
    def load(self, name: Any) -> State:
        """The whole state of a checkpoint."""

    @abstractmethod
    def log(self, limit: int) -> int:
        """List the newest `limit` checkpoints without asking for their state; how many there were."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the files."""


class Contender(ABC):
    """One way to keep checkpoints, at one durability.

    `power`: a save that returned survives a power cut. `process`: it survives the end of the process only.
    """

    label: ClassVar[str]
    readable: ClassVar[bool] = True
    """Whether any checkpoint can be loaded; the floor keeps changes only."""
    session = "bench"
    """Whose checkpoints they are; LangGraph calls it a thread."""

    def __init__(self, folder: Path, durability: str) -> None:
        self.folder = folder
        self.durability = durability
        self.names: list[Any] = []
        """What each checkpoint is called, the first state's at 0."""

    def __getstate__(self) -> dict[str, Any]:
        """What a process needs that only reads."""
        return {name: value for name, value in vars(self).items() if name in _FOR_READING}

    @classmethod
    def missing(cls) -> str | None:
        """Why this contender cannot run here, or None."""
        return None

    @abstractmethod
    def start(self, state: State) -> None:
        """Open an empty store and save the first state. The contender owns `state` from now on."""

    @abstractmethod
    def apply(self, changes: list[Change]) -> None:
        """Bring the contender's state up to date. Not timed."""

    @abstractmethod
    def save(self) -> None:
        """Save the state as it is now. Timed."""

    @abstractmethod
    def close(self) -> None:
        """Close the store as a program does that ends well, and drop the state."""

    @abstractmethod
    def reader(self) -> Reader:
        """Open what is on the disk anew."""

    def turn_begins(self) -> None:  # noqa: B027 - most have nothing to do
        """The saves that follow are this contender's. Not timed."""

    def turn_ends(self) -> None:  # noqa: B027 - likewise
        """Somebody else's turn. Not timed."""

    def settings(self) -> dict[str, Any]:
        """What shows that the durability is what it should be."""
        return {}

    def equal_settings(self) -> dict[str, Any]:
        """What `settings` has to be at this durability; comparing saves would be worth nothing otherwise."""
        return {"journal_mode": "wal", "synchronous": {POWER: 2, PROCESS: 1}[self.durability]}

    def more_figures(self) -> dict[str, Any]:
        """What else there is to say of the closed store, asked after its size."""
        return {}

    def size(self) -> int:
        """Bytes on disk: everything in the folder, a write-ahead log included."""
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())
