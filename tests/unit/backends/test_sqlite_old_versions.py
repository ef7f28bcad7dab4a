"""What SQLite left of a row that was written anew elsewhere: its seal is right, and it must not come back.

Freed bytes stay where they are, and a damaged page may lead to them. Here such bytes are put where they can be met: the
row as it was before, behind the last cell that a page knows of, and a bit of its cell count flipped.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.backends.sqlite.connection import PAGE_SIZE
from holdfast.backends.sqlite.pages import Cell, TablePages, _varint
from holdfast.backends.sqlite.repair import _table_of

_POINTERS = 8
_COUNT = 3
_FIRST_CELL = 5


def number_in(page: bytearray, at: int) -> int:
    return int.from_bytes(page[at : at + 2], "big")


class File:
    """The pages of a store that is closed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        content = path.read_bytes()
        self.pages = [bytearray(content[at : at + PAGE_SIZE]) for at in range(0, len(content), PAGE_SIZE)]
        self.rows = list(TablePages(lambda number: bytes(self.pages[number - 1]), len(self.pages)).rows())

    def cells(self, table: str) -> Iterator[Cell]:
        return (cell for cell in self.rows if _table_of(cell) == table)

    def bytes_of(self, cell: Cell) -> bytes:
        page = bytes(self.pages[cell.page - 1])
        size, place = _varint(page, cell.at)
        _, place = _varint(page, place)
        return page[cell.at : place + size]

    def room_in(self, number: int) -> int:
        page = self.pages[number - 1]
        return number_in(page, _FIRST_CELL) - _POINTERS - 2 * number_in(page, _COUNT)

    def lay_behind_the_cells(self, number: int, old: bytes) -> None:
        """Have a page lead to bytes in its free room, as one wrong bit of its cell count does."""
        page = self.pages[number - 1]
        assert self.room_in(number) > 2 + len(old)
        at = number_in(page, _FIRST_CELL) - len(old)
        page[at : at + len(old)] = old
        behind = _POINTERS + 2 * number_in(page, _COUNT)
        page[behind : behind + 2] = at.to_bytes(2, "big")
        page[_COUNT] ^= 4
        self.path.write_bytes(b"".join(self.pages))


def a_store(path: Path) -> tuple[File, File]:
    """A store before its checkpoints were annotated, one was saved and another branch made current; and after that."""
    with holdfast.open(path, durability="process") as store:
        session = store.session("work")
        source = random.Random(7)
        for step in range(60):
            state = {"step": step, "noise": source.randbytes(170)}
            session.save(state, f"step {step}", step=step, tags=["early"])
    before = path.with_name("before.db")
    before.write_bytes(path.read_bytes())
    with holdfast.open(path, durability="process") as store:
        session = store.session("work")
        for back in range(60):
            session.annotate(f"@~{back}", message=f"said better, {back}")
            session.untag(f"@~{back}", "early")
        session.save({"step": 60}, "step 60", step=60)
        session.fork("@~2", "aside")
        session.switch("aside", remember=True)
    return File(before), File(path)


def answers(path: Path, *, repair: bool) -> object:
    with holdfast.open(path, damaged=True) as store:
        if repair:
            # An old version is no second opinion on what the others say.
            assert not [each for each in store.verify().problems if each.kind == "tag"]
            assert not store.repair().lost
            assert store.verify().ok
        main = store.session("work", branch="main")
        return store.current_branch("work"), main.load(), [each.to_dict() for each in main.log()]


@pytest.mark.parametrize("table", ["checkpoints", "sessions", "branches"])
def test_an_old_version_of_a_row_in_its_own_page_is_passed_over(tmp_path: Path, table: str) -> None:
    path = tmp_path / "store.db"
    before, now = a_store(path)
    truth = answers(path, repair=False)
    earlier = {cell.rowid: cell for cell in before.cells(table)}
    present = [cell for cell in now.cells(table) if cell.rowid in earlier]
    current = max(present, key=lambda cell: now.room_in(cell.page))
    old = earlier[current.rowid]
    assert old.values != current.values
    now.lay_behind_the_cells(current.page, before.bytes_of(old))
    assert answers(path, repair=True) == truth


def test_an_old_version_of_a_row_in_another_page_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    before, now = a_store(path)
    truth = answers(path, repair=False)
    earlier = {cell.rowid: before.bytes_of(cell) for cell in before.cells("checkpoints")}
    cells = [cell for cell in now.cells("checkpoints") if cell.rowid in earlier]
    longest = max(map(len, earlier.values()))
    roomy = [page for page in dict.fromkeys(cell.page for cell in cells) if now.room_in(page) > 2 + longest]
    assert roomy
    for page in roomy:
        # Whichever way the tree is gone through, one of these pages comes before the damaged one, or one after it.
        others = [cell for cell in cells if cell.page != page]
        for current in (others[0], others[-1]):
            spoiled = File(path)
            spoiled.path = tmp_path / f"spoiled-{page}-{current.rowid}.db"
            spoiled.lay_behind_the_cells(page, earlier[current.rowid])
            assert answers(spoiled.path, repair=True) == truth
