"""What a disk may hold after the power went: everything that was synced, and any part of what was not.

Until a file is synced its writes may reach the disk or not, in any order, in whole or in part. A write that was cut off
is torn at a sector. A file that was made or removed and never synced may be there or not. The main file of a store
exists from the start: it is made, and its folder synced, before SQLite sees it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Mode = Literal["nothing", "the first few", "any of them", "torn", "everything"]
MODES: tuple[Mode, ...] = ("nothing", "the first few", "any of them", "torn", "everything")
SECTOR = 512


@dataclass
class File:
    """What is sure, and what is on its way."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[str, Any]] = field(default_factory=list)


class Disk:
    """Follows the events of a recording, and can be cut off at any of them.

    A name that is removed and made again leads to another file: after a power cut it may lead to the old one, but never
    to a mixture.
    """

    def __init__(self) -> None:
        self.names: dict[str, File] = {"store.db": File()}
        self.sure_names = dict(self.names)
        """What the folder itself said when it was last synced."""
        self.acknowledged: list[str] = []

    def happen(self, what: str, name: str, details: Any) -> None:
        """Take in one event."""
        if what == "ack":
            self.acknowledged.append(name)
        elif what == "delete":
            self.names.pop(name, None)
            if details:
                self.sure_names = dict(self.names)
        else:
            file = self.names.setdefault(name, File())
            if what == "sync":
                for change in file.pending:
                    _carry_out(file.durable, *change)
                file.pending.clear()
                # With the first sync of a file that it made, SQLite syncs the folder too.
                if self.sure_names.get(name) is not file:
                    self.sure_names = dict(self.names)
            elif what != "open":
                file.pending.append((what, details))

    def after(self, mode: Mode, source: random.Random, folder: Path) -> None:
        """Write into `folder` what could be found there after the power went now."""
        for name in self.names.keys() | self.sure_names.keys():
            now, sure = self.names.get(name), self.sure_names.get(name)
            new_name = mode == "everything" or (mode != "nothing" and source.random() < 0.5)
            file = now if new_name else sure
            if file is None:
                continue
            content = bytearray(file.durable)
            for change in chosen(file.pending, mode, source):
                _carry_out(content, *change)
            (folder / name).write_bytes(content)


def chosen(pending: list[tuple[str, Any]], mode: Mode, source: random.Random) -> list[tuple[str, Any]]:
    """Which of the changes that were not synced reached the disk."""
    if mode == "nothing":
        return []
    if mode == "everything":
        return pending
    if mode == "the first few":
        return pending[: source.randint(0, len(pending))]
    some = [change for change in pending if source.random() < 0.5]
    if mode == "torn":
        return [_torn(change, source) if source.random() < 0.5 else change for change in some]
    return some


def _torn(change: tuple[str, Any], source: random.Random) -> tuple[str, Any]:
    what, details = change
    if what != "write" or len(details[1]) <= SECTOR:
        return change
    offset, data = details
    sectors = len(data) // SECTOR
    return what, [offset, data[: source.randint(0, sectors) * SECTOR]]


def _carry_out(content: bytearray, what: str, details: Any) -> None:
    if what == "truncate":
        del content[details:]
        content.extend(bytes(details - len(content)))
    elif what == "write":
        offset, data = details
        if len(content) < offset:
            content.extend(bytes(offset - len(content)))
        content[offset : offset + len(data)] = data
