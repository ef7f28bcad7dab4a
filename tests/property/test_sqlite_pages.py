"""Pages read without SQLite give what SQLite gives; and whatever the bytes are, reading them ends."""

from __future__ import annotations

from operator import itemgetter

import apsw
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.backends.sqlite.connection import PAGE_SIZE, RESERVED_BYTES
from holdfast.backends.sqlite.pages import TablePages

VALUES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40),
    st.binary(max_size=60),
    st.integers(0, 20_000).map(lambda size: b"x" * size),
)
ROWS = st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=120)


def pages_of(connection):
    content = connection.serialize("main")
    return TablePages(
        lambda number: content[(number - 1) * PAGE_SIZE : number * PAGE_SIZE], len(content) // PAGE_SIZE
    )


def database():
    connection = apsw.Connection(":memory:")
    connection.execute(f"PRAGMA page_size={PAGE_SIZE}").fetchall()
    connection.reserve_bytes(reserve=RESERVED_BYTES)
    connection.execute("CREATE TABLE t (a ANY, b ANY, c ANY) STRICT; CREATE INDEX i ON t (a, b)").fetchall()
    return connection


@settings(max_examples=60)
@given(rows=ROWS, step=st.sampled_from([1, 7, 2**40]), deleted=st.integers(0, 60))
def test_rows_come_out_as_sqlite_says(rows, step, deleted):
    connection = database()
    for number, row in enumerate(rows):
        connection.execute("INSERT INTO t (rowid, a, b, c) VALUES (?, ?, ?, ?)", (number * step - 5, *row))
    connection.execute("DELETE FROM t WHERE rowid IN (SELECT rowid FROM t LIMIT ?)", (deleted,))
    pages = pages_of(connection)
    told = connection.execute("SELECT rowid, a, b, c FROM t ORDER BY rowid").fetchall()
    found = sorted(((cell.rowid, *cell.values) for cell in pages.rows() if cell.page > 1), key=itemgetter(0))
    assert [list(map(repr, row)) for row in found] == [list(map(repr, row)) for row in told]
    assert len(pages.free) == connection.execute("PRAGMA freelist_count").get
    connection.close()


# A page is a few bytes over and over: as much can go wrong in it as in one that is all different.
PAGES = st.lists(
    st.tuples(st.sampled_from([0, 2, 5, 10, 13, 255]), st.binary(min_size=1, max_size=48)).map(
        lambda made: (bytes([made[0]]) + made[1] * PAGE_SIZE)[:PAGE_SIZE]
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=80)
@given(pages=PAGES)
def test_no_bytes_make_it_fail_or_go_on_for_ever(pages):
    for suspects in ((), range(1, len(pages) + 1)):
        table = TablePages(lambda number: pages[number - 1], len(pages), frozenset(suspects))
        assert len(list(table.rows())) < 10_000


def test_an_overflow_chain_that_goes_round_in_a_circle_ends():
    connection = database()
    connection.execute("INSERT INTO t VALUES (1, 2, randomblob(20000))")
    (stored,) = connection.execute("SELECT c FROM t").fetchone()
    content = bytearray(connection.serialize("main"))
    connection.close()

    def read(number):
        return bytes(content[(number - 1) * PAGE_SIZE : number * PAGE_SIZE])

    pages = TablePages(read, len(content) // PAGE_SIZE)
    assert [cell.values[2] for cell in pages.rows() if cell.page > 1] == [stored]
    chain = sorted(pages._claims)
    at = (chain[1] - 1) * PAGE_SIZE
    content[at : at + 4] = chain[0].to_bytes(4, "big")
    assert [cell.values for cell in pages.rows() if cell.page > 1] == []


USABLE = PAGE_SIZE - RESERVED_BYTES
CHAINED = 150
"""Pages of one chain."""


def varint(value):
    parts = [value & 0x7F]
    while value := value >> 7:
        parts.append(value & 0x7F | 0x80)
    return bytes(reversed(parts))


def leaf(cells, pointers=None):
    """A page of a table with these cells, and where each begins."""
    page, at, places = bytearray(PAGE_SIZE), USABLE, []
    for cell in cells:
        at -= len(cell)
        page[at : at + len(cell)] = cell
        places.append(at)
    places = pointers or places
    page[0] = 13
    page[3:5] = len(places).to_bytes(2, "big")
    for n, place in enumerate(places):
        page[8 + 2 * n : 10 + 2 * n] = place.to_bytes(2, "big")
    return bytes(page)


def blob_row(size):
    """A row of one blob, as it lies on pages."""
    kind = varint(12 + 2 * size)
    return varint(1 + len(kind)) + kind + b"x" * size


def test_rows_that_share_a_chain_give_out_no_more_than_a_few_times_the_file():
    """A file can be made in which each row claims all the pages that the others claim."""
    rest = CHAINED * (USABLE - 4)
    least = (USABLE - 12) * 32 // 255 - 23
    row = blob_row(rest + least - 4)
    assert len(row) == rest + least
    cell = varint(len(row)) + b"\x01" + row[:least] + (2).to_bytes(4, "big")
    chain = [
        (n + 3 if n < CHAINED - 1 else 0).to_bytes(4, "big") + b"y" * (PAGE_SIZE - 4) for n in range(CHAINED)
    ]
    leaves = [leaf([cell] * 7) for _ in range(CHAINED)]
    pages = [leaf([]), *chain, *leaves]
    reads = []

    def read(number):
        reads.append(number)
        return pages[number - 1]

    table = TablePages(read, len(pages))
    found = [len(each.values[0]) for n in range(CHAINED + 2, len(pages) + 1) for each in table.cells(n)]
    # One comes out, whichever is the right one; the others are more than the file can hold.
    assert 1 <= len(found) <= 4
    assert sum(found) <= 4 * len(pages) * PAGE_SIZE
    assert len(reads) < 20 * len(pages)
    # What came out once comes out again.
    again = [len(each.values[0]) for n in range(CHAINED + 2, len(pages) + 1) for each in table.cells(n)]
    assert again == found


def test_rows_that_lie_on_each_other_give_out_no_more_than_a_few_times_the_page():
    heads = b"".join(varint(2000) + b"\x01" + blob_row(1997)[:3] for _ in range(100))
    first = USABLE - len(heads) - 1997
    for pointers, most in (([first + 6 * n for n in range(100)], 11), ([first] * 100, 1)):
        page = leaf([heads + b"z" * 1997], pointers)
        # The second of two, because the first of a file begins with something else.
        found = list(TablePages([b"", page, page].__getitem__, 2).cells(2))
        assert 1 <= len(found) <= most
        assert sum(len(each.values[0]) for each in found) <= 5 * PAGE_SIZE
