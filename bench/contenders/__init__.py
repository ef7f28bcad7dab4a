"""The contenders by name: each kind at both durabilities.

Names are `<kind>` at durability "power", which is the default everywhere, and `<kind>-process`. A kind is imported when
it is wanted, so that one can be looked at without the others being installed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.contenders.contract import POWER, PROCESS, Contender, Reader

__all__ = ["NAMES", "POWER", "PROCESS", "Contender", "Entry", "Reader", "entries"]


def _saver() -> type[Contender]:
    from bench.contenders.langgraph_saver import PlainSaver

    return PlainSaver


def _delta() -> type[Contender]:
    from bench.contenders.langgraph_saver import DeltaSaver

    return DeltaSaver


def _files() -> type[Contender]:
    from bench.contenders.plain_files import PlainFiles

    return PlainFiles


def _bare() -> type[Contender]:
    from bench.contenders.bare_sqlite import BareSqlite

    return BareSqlite


def _holdfast() -> type[Contender]:
    from bench.contenders.holdfast_store import PlainStore

    return PlainStore


def _document() -> type[Contender]:
    from bench.contenders.holdfast_store import DocumentStore

    return DocumentStore


_KINDS = {
    "saver": _saver,
    "delta": _delta,
    "files": _files,
    "bare": _bare,
    "holdfast": _holdfast,
    "document": _document,
}
NAMES = [name + suffix for name in _KINDS for suffix in ("", "-process")]


@dataclass(frozen=True)
class Entry:
    """A contender that can be made for a folder."""

    name: str
    kind: type[Contender]
    durability: str

    def make(self, folder: Path) -> Contender:
        """A contender that keeps its store in a folder of its own below `folder`."""
        own = folder / self.name
        own.mkdir(parents=True, exist_ok=True)
        return self.kind(own, self.durability)


def entries(wanted: Callable[[str], bool]) -> list[Entry]:
    """The contenders whose name is wanted, peers first."""
    made = []
    for name in filter(wanted, NAMES):
        kind, _, process = name.partition("-")
        made.append(Entry(name, _KINDS[kind](), PROCESS if process else POWER))
    return made
