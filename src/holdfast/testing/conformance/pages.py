"""In which order a reader gives what it finds, and from where on: pages in both directions, whatever is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.storage.ports import Backend
from holdfast.storage.records import CheckpointId, CheckpointRow, Query
from holdfast.testing.conformance.contract import Contract, commit_all, found
from holdfast.testing.rows import START, batch, edit, history, row, save

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


KEYS = [
    "",
    "A",
    "Z",
    "a",
    "a b",
    "a!",
    "a%",
    "ab",
    "b",
    "z",
    "\N{LATIN SMALL LETTER E WITH ACUTE}",
    "\u4e2d",
    "\ufb01",
    "\uffee",
    "\U00010000",
    "\U0001f600",
]
"""In the order of their bytes in UTF-8. UTF-16 would have the last two earlier, a language `A` beside `a`."""


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
    def _keyed(backend: Backend, **where: Any) -> list[str | None]:
        with backend.reader() as reader:
            return [each.key for each in reader.checkpoints(Query(by_key=True, **where))]

    def test_by_key_comes_in_the_order_of_bytes_and_leaves_out_what_has_no_key(
        self, backend: Backend
    ) -> None:
        """Whatever the order of arrival was."""
        shuffled = KEYS[1::2] + KEYS[-2::-2]
        assert sorted(shuffled, key=str.encode) == KEYS
        for number, key in enumerate(shuffled):
            backend.commit(batch(row(f"{number}", key=key)))
            backend.commit(batch(row(f"{number} without")))
        assert self._keyed(backend, session="work") == KEYS[::-1]
        assert self._keyed(backend, session="work", oldest_first=True) == KEYS
        assert self._keyed(backend, session="work", limit=3) == KEYS[:-4:-1]
        assert self._keyed(backend, session="work", limit=3, oldest_first=True) == KEYS[:3]
        assert self._keyed(backend, session="nobody") == []

    def test_a_range_of_keys_has_its_first_and_not_its_last(self, backend: Backend) -> None:
        """By UTF-8 bytes, from any key to any other, whether they are there or not."""
        for number, key in enumerate(reversed(KEYS)):
            backend.commit(batch(row(f"{number}", key=key)))
        backend.commit(batch(row("without")))
        for bound in (*KEYS, "a ", "B", "\ue000", "\U0010ffff"):
            above = [key for key in KEYS if key.encode() >= bound.encode()]
            below = [key for key in KEYS if key.encode() < bound.encode()]
            assert self._keyed(backend, session="work", key_from=bound, oldest_first=True) == above
            assert self._keyed(backend, session="work", key_below=bound, oldest_first=True) == below
            assert self._keyed(backend, session="work", key_from=bound, limit=2) == above[:-3:-1]
        between = {"session": "work", "key_from": "a", "key_below": "ab"}
        assert self._keyed(backend, **between) == ["a%", "a!", "a b", "a"]
        assert self._keyed(backend, **(between | {"key_below": "a"})) == []
        assert self._keyed(backend, **(between | {"key_below": "A"})) == []

    def test_a_range_of_keys_is_a_filter_like_any_other(self, backend: Backend) -> None:
        """Without the order of keys it leaves out what has no key, and what remains is newest first."""
        rows = commit_all(
            backend,
            *(save(f"{n}", branch=f"{n}", key=f"k{9 - n}" if n != 2 else None, step=n % 2) for n in range(5)),
        )
        assert found(backend, Query(session="work", key_from="")) == ids([rows[n] for n in (4, 3, 1, 0)])
        assert found(backend, Query(session="work", key_from="k6")) == ids([rows[3], rows[1], rows[0]])
        assert found(backend, Query(session="work", key_below="k8")) == ids([rows[4], rows[3]])
        assert found(backend, Query(key_from="k6", key_below="k9", oldest_first=True)) == ids(
            [rows[1], rows[3]]
        )
        assert found(backend, Query(session="work", key_from="k6", limit=1)) == ids([rows[3]])
        assert found(backend, Query(session="work", key_from="k6", step=0)) == ids([rows[0]])

    @every_way
    def test_the_order_of_keys_is_kept_whatever_else_is_asked_for(
        self, backend: Backend, way: dict[str, Any]
    ) -> None:
        """Each may lead a backend through another table."""
        for number in (3, 0, 4, 1, 2):
            made = row(f"{number}", key=f"k{number}", tags=("t",), metadata='{"m":1}')
            backend.commit(batch(made, agent="scout", project="acme"))
        backend.commit(batch(row("none", tags=("t",), metadata='{"m":1}'), agent="scout", project="acme"))
        assert self._keyed(backend, **way) == ["k4", "k3", "k2", "k1", "k0"]
        assert self._keyed(backend, **way, oldest_first=True, limit=2) == ["k0", "k1"]
        assert self._keyed(backend, **way, key_from="k1", key_below="k4", limit=2) == ["k3", "k2"]

    def test_the_same_key_in_two_sessions_comes_by_position(self, backend: Backend) -> None:
        """A key is unique in its session only."""
        rows = [
            backend.commit(batch(row(f"{key} {name}", session=name, key=key), session=name)).checkpoints[0]
            for key, name in (("b", "one"), ("b", "two"), ("a", "two"), ("a", "one"))
        ]
        assert found(backend, Query(by_key=True, oldest_first=True)) == ids([rows[2], rows[3], *rows[:2]])
        assert found(backend, Query(by_key=True)) == ids([rows[1], rows[0], rows[3], rows[2]])
        assert found(backend, Query(by_key=True, limit=3)) == ids([rows[1], rows[0], rows[3]])

    def test_removed_checkpoints_keep_their_place_among_the_keys(self, backend: Backend) -> None:
        """And come only when asked for."""
        rows = commit_all(backend, *(save(key, branch=key, key=key) for key in "cab"))
        backend.commit(batch(edits=(edit(rows[2], hidden=1),), operations=history(1)))
        assert self._keyed(backend, session="work") == ["c", "a"]
        assert self._keyed(backend, session="work", include_hidden=True) == ["c", "b", "a"]

    @staticmethod
    def _page_after(backend: Backend, after: int) -> list[CheckpointRow]:
        with backend.reader() as reader:
            return list(reader.checkpoints(Query(after_position=after, oldest_first=True, limit=2)))
