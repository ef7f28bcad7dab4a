"""holdfast: a plain dict handed to `save`, and a Document that knows what changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import holdfast
from bench.contenders.contract import Contender, Reader
from bench.workloads import Change, State, apply


class StoreReader(Reader):
    """A new Store in the same place."""

    def __init__(self, place: Path | str, durability: str, session: str) -> None:
        self._store = holdfast.open(place, durability=durability, create=False)
        self._session = self._store.session(session)

    def load(self, name: str) -> State:
        """The state of a checkpoint, by its id."""
        return self._session.load(name)

    def log(self, limit: int) -> int:
        """The newest records."""
        return len(self._session.log(limit=limit))

    def close(self) -> None:
        """Close the store."""
        self._store.close()


class PlainStore(Contender):
    """`session.save(state)` with a plain dict: all of it is looked at to see what changed."""

    label = "holdfast, plain dict"

    def start(self, state: State) -> None:
        """Save the first state."""
        self._store = self._opened()
        self._session = self._store.session(self.session)
        self._state = state
        self.save()

    def apply(self, changes: list[Change]) -> None:
        """Change the state."""
        apply(self._state, changes)

    def save(self) -> None:
        """One save."""
        self.names.append(self._session.save(self._state, step=len(self.names)).id)

    def close(self) -> None:
        """Close the store."""
        self._store.close()
        del self._state

    def reader(self) -> Reader:
        """A Store with nothing cached."""
        return StoreReader(self._place, self.durability, self.session)

    def _opened(self) -> holdfast.Store:
        return holdfast.open(self._place, durability=self.durability)

    @property
    def _place(self) -> Path | str:
        return self.folder / "store.db"


class DocumentStore(PlainStore):
    """`session.document()`: the changes are made in the document, and that is timed too."""

    label = "holdfast, Document"

    @classmethod
    def missing(cls) -> str | None:
        """The Document is a later part of holdfast."""
        return None if hasattr(holdfast.Session, "document") else "not there yet"

    def start(self, state: State) -> None:
        """Fill a new document and save it."""
        self._store = self._opened()
        self._state: Any = self._store.session(self.session).document()
        self._changes: list[Change] = []
        for key, value in state.items():
            self._state[key] = value
        self.save()

    def apply(self, changes: list[Change]) -> None:
        """Keep the changes: tracking them is part of what a Document costs."""
        self._changes = changes

    def save(self) -> None:
        """Make the changes and save."""
        apply(self._state, self._changes)
        self.names.append(self._state.save(step=len(self.names)).id)
