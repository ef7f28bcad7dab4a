"""What the conformance kit cannot see of collections in SQLite: what stands on what, and what failures do."""

from __future__ import annotations

import random
from collections import Counter

import apsw
import pytest

import holdfast
from holdfast.backends.sqlite import gc
from holdfast.errors import BackendError, ErrorCode
from holdfast.testing.kit.gc import collect, saved, sweep_all, there, versions
from holdfast.testing.rows import batch, removal, row, save


def stored(path):
    """Number, base, depth and codec of every chunk."""
    connection = apsw.Connection(str(path), vfs="cksmvfs")
    try:
        return connection.execute("SELECT number, base, depth, codec FROM chunks ORDER BY number").fetchall()
    finally:
        connection.close()


def test_a_sweep_that_fails_is_done_again_from_where_it_was(store, path):
    pieces = versions(6)
    rows = saved(store, pieces)
    store.commit(removal(*rows))
    with store.collection() as collection:
        transaction = collection._transaction

        def failing(work):
            def fail():
                work()
                raise ZeroDivisionError

            return transaction(fail)

        collection._transaction = failing
        with pytest.raises(ZeroDivisionError):
            collection.sweep(2)
        assert len(stored(path)) == 6
        assert collection.unneeded().chunks == 6
        collection._transaction = transaction
        # The two that were not removed come first again: what they stand on must not go before them.
        collection.sweep(1)
        assert [number for number, *_ in stored(path)] == [1, 2, 3, 4, 5]
        store.commit(batch(row("again", root=pieces[4].hash), chunks=(pieces[4],)))
        sweep_all(collection, 1)
    assert pieces[4].data in there(store, pieces)
    collect(store)
    assert there(store, pieces) == [pieces[4].data]


def test_a_scrub_waits_for_readers_and_says_so(open_store):
    store = open_store(timeout=0.05)
    (gone,) = store.commit(save("a")).checkpoints
    with store.reader():
        store.commit(removal(gone))
        with pytest.raises(BackendError) as caught:
            store.scrub()
    assert caught.value.code is ErrorCode.STORE_LOCKED
    store.scrub()


def test_a_chunk_that_many_stand_on_is_left_in_bounded_steps(tmp_path):
    # A template that was forked a hundred times: each fork's root is kept as a difference to the one root.
    with holdfast.open(tmp_path / "s.db", durability="process") as opened:
        template = {str(n): random.Random(n).randbytes(60).hex() for n in range(60)}
        source = opened.session("source")
        source.save(template)
        others = [source.fork("@", session=f"s{n}") for n in range(100)]
        for n, other in enumerate(others):
            document = other.document()
            document["own"] = n
            document.save()
        for n in range(100):
            opened.session(f"s{n}").delete("#1")
        source.clear()
        on_one = max(Counter(base for _, base, *_ in stored(tmp_path / "s.db")).values())
        assert on_one > 2 * gc._REWRITTEN_AT_ONCE, "no chunk carries many"
        opened.gc(keep_days=0)
        for n in range(100):
            assert opened.session(f"s{n}").load() == template | {"own": n}
