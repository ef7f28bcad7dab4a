"""In which order a reader gives what it finds, and from where on: pages in both directions, whatever is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.storage.ports import Backend
from holdfast.storage.records import CheckpointId, CheckpointRow, Query
from holdfast.testing.conformance.contract import Contract, commit_all, found
from holdfast.testing.rows import START, batch, edit, row, save

EVERY_WAY: list[dict[str, Any]] = [
    {},
    {"session": "work"},
    {"tag": "t"},
    {"id_prefix": ""},
    {"agent": "scout"},
    {"project": "acme"},
    {"since": START - 100},
    {"until": START + 100},
    {"branch": "main"},
    {"metadata": ((("m",), "1"),)},
    {"session": "work", "tag": "t", "since": START - 100, "metadata": ((("m",), "1"),)},
]
"""Each may lead a backend through another table; all of them find the same six checkpoints."""


def six(backend: Backend) -> list[CheckpointRow]:
    """Six checkpoints of one session with one of another session, which no question here finds, in their middle."""
    rows: list[CheckpointRow] = []
    for number in range(6):
        if number == 3:
            backend.commit(save("x", session="other", branch="elsewhere", at=START + 999))
        # Times fall as seq rises, so that an order by time would show.
        made = row(f"{number}", created_at=START - number, tags=("t",), metadata='{"m":1}')
        rows += backend.commit(batch(made, agent="scout", project="acme")).checkpoints
    return rows


def ids(rows: list[CheckpointRow]) -> list[CheckpointId]:
    """Their ids."""
    return [each.id for each in rows]


every_way = pytest.mark.parametrize("way", EVERY_WAY, ids=lambda way: "-".join(way) or "everything")


class PageContract(Contract):
    """Order and pages are the same whatever is asked for; pages join without gap or repeat."""

    @every_way
    def test_oldest_first_is_newest_first_backwards(self, backend: Backend, way: dict[str, Any]) -> None:
        """By seq within a session, never by time."""
        rows = six(backend)
        way = self._only_these(way)
        assert found(backend, Query(**way)) == ids(rows[::-1])
        assert found(backend, Query(**way, oldest_first=True)) == ids(rows)

    @every_way
    def test_a_limit_takes_from_the_end_that_comes_first(self, backend: Backend, way: dict[str, Any]) -> None:
        """The oldest where the oldest come first."""
        rows = six(backend)
        way = self._only_these(way)
        assert found(backend, Query(**way, limit=2)) == ids(rows[:-3:-1])
        assert found(backend, Query(**way, limit=2, oldest_first=True)) == ids(rows[:2])

    @every_way
    def test_after_and_before_leave_out_their_own_number(self, backend: Backend, way: dict[str, Any]) -> None:
        """By seq and by position, alone and together, in both orders."""
        rows = six(backend)
        way = self._only_these(way)
        assert found(backend, Query(**way, after_seq=2, oldest_first=True)) == ids(rows[2:])
        assert found(backend, Query(**way, after_seq=2)) == ids(rows[:1:-1])
        assert found(backend, Query(**way, after_seq=1, before_seq=5)) == ids(rows[3:0:-1])
        second, fifth = rows[1].position, rows[4].position
        assert found(backend, Query(**way, after_position=second, oldest_first=True)) == ids(rows[2:])
        assert found(backend, Query(**way, after_position=second)) == ids(rows[:1:-1])
        between = Query(**way, after_position=second, before_position=fifth, oldest_first=True)
        assert found(backend, between) == ids(rows[2:4])
        assert found(backend, Query(**way, after_seq=6)) == []
        assert found(backend, Query(**way, after_position=rows[5].position)) == []
        assert found(backend, Query(**way, after_seq=0, after_position=0)) == ids(rows[::-1])

    @staticmethod
    def _only_these(way: dict[str, Any]) -> dict[str, Any]:
        """Without a filter that leaves it out, the other session's checkpoint is excluded by its branch."""
        return {"branch": "main"} | way

    def test_pages_from_the_oldest_on_cover_everything_once(self, backend: Backend) -> None:
        """Across sessions, by position; what is committed meanwhile comes last."""
        rows = commit_all(backend, *(save(f"{n}", session=f"s{n % 3}", branch=f"{n}") for n in range(5)))
        seen: list[CheckpointId] = []
        position = 0
        # Three pages of two; a fourth question finds nothing.
        for _ in range(4):
            page = self._page_after(backend, position)
            seen += ids(page)
            position = page[-1].position if page else position
            if len(seen) == 4:
                rows += commit_all(backend, save("late"))
        assert seen == ids(rows)

    def test_a_row_removed_meanwhile_moves_no_page(self, backend: Backend) -> None:
        """Positions are no counts: the rest keeps its own."""
        rows = commit_all(backend, *(save(f"{n}", branch=f"{n}") for n in range(5)))
        first = self._page_after(backend, 0)
        gone = rows[0]
        backend.commit(batch(edits=(edit(gone, hidden=1),), removals=(gone.id,)))
        assert ids(self._page_after(backend, first[-1].position)) == ids(rows[2:4])

    def test_the_order_holds_for_removed_checkpoints_too(self, backend: Backend) -> None:
        """They stand where they stood."""
        rows = commit_all(backend, *(save(f"{n}", branch=f"{n}") for n in range(3)))
        backend.commit(batch(edits=(edit(rows[1], hidden=1),)))
        assert found(backend, Query(oldest_first=True)) == ids([rows[0], rows[2]])
        assert found(backend, Query(oldest_first=True, include_hidden=True)) == ids(rows)
        assert found(backend, Query(session="work", include_hidden=True)) == ids(rows[::-1])

    @staticmethod
    def _page_after(backend: Backend, after: int) -> list[CheckpointRow]:
        with backend.reader() as reader:
            return list(reader.checkpoints(Query(after_position=after, oldest_first=True, limit=2)))
