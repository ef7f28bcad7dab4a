"""Which states are whole, found out by reading each chunk of a store once.

A state is whole if its root is, and with it all that the root refers to. States share most of their chunks, so what is
known of a chunk is remembered; its bytes are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.errors import ErrorCode, IntegrityError
from holdfast.objects.hashing import hash_chunk
from holdfast.objects.tree.read import Read, links, read_chunk
from holdfast.record import Record
from holdfast.storage.ports import Inspection
from holdfast.storage.records import ChunkHash
from holdfast.store.place import Progress, silent

_STEP: Final = 1000


class Trouble(Record):
    """A chunk that cannot be read."""

    chunk: ChunkHash
    why: str
    lost: bool
    missing: bool
    """Whether it is not there at all, as after a gc that came in between."""


class States:
    """Which states are whole. Each chunk is read once, and only the names of those that were are kept.

    Args:
        seen: Where chunks are read from whatever is wrong around them.
        usual: Reads chunks as everybody does; None to do without.
        progress: Told how many chunks were read.
    """

    def __init__(self, seen: Inspection, usual: Read | None, progress: Progress | None = None) -> None:
        self._seen = seen
        self._usual = usual
        self._progress = progress or silent
        self._whole: set[ChunkHash] = set()
        self._spoiled: dict[ChunkHash, Trouble] = {}
        self.troubles: dict[ChunkHash, Trouble] = {}
        """The chunks that are themselves unreadable."""
        self.count = 0

    @property
    def readable(self) -> set[ChunkHash]:
        """The chunks that are whole, with all that they refer to."""
        return self._whole

    def trouble_with(self, root: ChunkHash) -> Trouble | None:
        """The reason why the state with this root cannot be read; None where it can."""
        # A chunk is done when all that it refers to is: it stays on the stack with those that are left.
        stack: list[tuple[ChunkHash, list[ChunkHash], Trouble | None]] = []
        self._open(root, stack)
        while stack:
            name, left, trouble = stack[-1]
            if left:
                child = left.pop()
                self._open(child, stack)
                continue
            stack.pop()
            refers = self._children.pop(name)
            found = self._worst(trouble, refers)
            if found is None:
                self._whole.add(name)
            else:
                self._spoiled[name] = found
        return self._spoiled.get(root)

    def check_others(self) -> None:
        """Look at the chunks that no checkpoint needs, too."""
        for name in self._seen.chunk_names():
            if name not in self._whole and name not in self._spoiled and name not in self.troubles:
                self._read(name)

    _children: dict[ChunkHash, list[ChunkHash]]

    def _open(self, name: ChunkHash, stack: list[tuple[ChunkHash, list[ChunkHash], Trouble | None]]) -> None:
        if name in self._whole or name in self._spoiled:
            return
        if not stack:
            self._children = {}
        if name in self._children:
            # Hashes cannot go round in a circle; chunks that were made to look so must not hang us.
            return
        data = self._read(name)
        children: list[ChunkHash] = []
        if data is not None:
            try:
                children = links(name, data)
            except IntegrityError as error:
                self.troubles[name] = Trouble(name, str(error), lost=True, missing=False)
        self._children[name] = children
        stack.append((name, list(children), self.troubles.get(name)))

    def _worst(self, own: Trouble | None, names: Sequence[ChunkHash]) -> Trouble | None:
        found = [own] if own is not None else []
        found += [self._spoiled[name] for name in names if name in self._spoiled]
        return next((each for each in found if each.lost), found[0] if found else None)

    def _read(self, name: ChunkHash) -> bytes | None:
        """The bytes of a chunk if they are its own; what is wrong with it is noted."""
        self.count += 1
        if self.count % _STEP == 0:
            self._progress("reading chunks", self.count)
        why, missing = "", False
        if self._usual is not None:
            try:
                return read_chunk(name, self._usual)
            except IntegrityError as error:
                why, missing = str(error), error.code is ErrorCode.CHUNK_MISSING
        data = self._seen.chunks([name]).get(name)
        if data is None or hash_chunk(data) != name:
            said = (
                "it is missing, or cannot be put together" if data is None else "its bytes have another hash"
            )
            self.troubles[name] = Trouble(name, why or said, lost=True, missing=missing or data is None)
            return None
        if why:
            self.troubles[name] = Trouble(name, why, lost=False, missing=missing)
        return data
