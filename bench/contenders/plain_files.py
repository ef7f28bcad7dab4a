"""One file per checkpoint: orjson, zstd, fsync, rename. What careful people write when they write it themselves."""

from __future__ import annotations

import os
from pathlib import Path

import orjson
import zstandard

from bench.contenders.contract import POWER, Contender, Reader
from bench.workloads import Change, State, apply


class FilesReader(Reader):
    """Reads one file; lists the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, name: str) -> State:
        """The decoded file."""
        return orjson.loads(zstandard.ZstdDecompressor().decompress((self._folder / name).read_bytes()))

    def log(self, limit: int) -> int:
        """Names, sizes and times, newest first: all that can be known without reading the files."""
        found = sorted(((entry.name, entry.stat()) for entry in os.scandir(self._folder)), reverse=True)
        return len(found[:limit])

    def close(self) -> None:
        """Nothing is open."""


class PlainFiles(Contender):
    """The whole state in a new file at every step."""

    label = "files: orjson + zstd"

    def start(self, state: State) -> None:
        """Write the first file."""
        self._state = state
        self._compressor = zstandard.ZstdCompressor(level=3)
        self.save()

    def apply(self, changes: list[Change]) -> None:
        """Change the state."""
        apply(self._state, changes)

    def save(self) -> None:
        """Write beside, sync, rename into place, and sync the folder that holds the new name."""
        name = f"{len(self.names):06}.json.zst"
        body = self._compressor.compress(orjson.dumps(self._state))
        unfinished = self.folder / "unfinished"
        with unfinished.open("wb") as file:
            file.write(body)
            if self.durability == POWER:
                file.flush()
                os.fsync(file.fileno())
        unfinished.rename(self.folder / name)
        if self.durability == POWER:
            folder = os.open(self.folder, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)
        self.names.append(name)

    def close(self) -> None:
        """Drop the state."""
        del self._state

    def reader(self) -> Reader:
        """Nothing to open."""
        return FilesReader(self.folder)
