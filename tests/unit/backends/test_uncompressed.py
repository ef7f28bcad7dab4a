"""compress=False: what lies in the tables is what was saved, byte for byte; and it can be mixed with the other way."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import apsw
import pytest

import holdfast
from holdfast.objects.compression import RAW
from holdfast.objects.hashing import hash_chunk
from holdfast.storage.records import ChunkHash

Rows = list[tuple[Any, ...]]

WORDS = ["what", "agents", "remember", "is", "mostly", "words", "that", "come", "again", "and", "again"]


def state(size: int, seed: int = 1) -> dict[str, Any]:
    source = random.Random(seed)
    return {
        "notes": [" ".join(source.choices(WORDS, k=60)) for _ in range(size)],
        "secret": "plainly to be seen",
    }


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_place"))
    return str(tmp_path / "store.db")


@pytest.fixture
def stored(place: str, tmp_path) -> Callable[..., Rows]:
    """Codec, size, base, hash and bytes of the chunks in the tables, as they lie there."""
    question = "SELECT codec, size_bytes, base, hash, data FROM chunks ORDER BY number"

    def rows(at: str = place) -> Rows:
        if "://" not in at:
            connection = apsw.Connection(at, vfs="cksmvfs")
            found = connection.execute(question).fetchall()
            connection.close()
            return found
        from holdfast.backends.postgres.connection import Pool
        from holdfast.backends.postgres.url import parse

        with Pool(parse(at), durability="process", timeout=10).dedicated() as server:
            return [tuple(row) for row in server.execute(question, binary=True).fetchall()]

    return rows


def check_raw(rows: Rows) -> None:
    assert rows
    for codec, size_bytes, base, name, data in rows:
        assert (codec, base) == (RAW, None)
        assert len(data) == size_bytes
        assert hash_chunk(bytes(data)) == ChunkHash(bytes(name))


def test_every_chunk_is_stored_as_it_is(place, stored):
    with holdfast.open(place, compress=False) as store:
        session = store.session("a")
        changing = state(200)
        for step in range(5):
            changing["notes"].append(f"step {step}")
            session.save(changing)
        document = store.session("b").document()
        document["notes"] = state(50, 2)["notes"]
        document.save()
        document["notes"].append("one more")
        document.save()

    check_raw(stored())
    assert any(b"plainly to be seen" in bytes(row[4]) for row in stored())
    with holdfast.open(place) as store:
        assert store.session("a").load() == changing
        assert store.session("a").load("@~4")["notes"] == changing["notes"][:201]
        assert store.session("b").load()["notes"][-1] == "one more"
        assert not store.verify().damaged


def test_otherwise_it_is_compressed(place, stored):
    with holdfast.open(place) as store:
        store.session().save(state(200))

    assert {row[0] for row in stored()} != {RAW}
    assert sum(len(row[4]) for row in stored()) < sum(row[1] for row in stored()) / 2


def test_both_kinds_live_in_one_store(place, stored):
    changing = state(100)
    expected = []
    for step in range(6):
        changing["notes"].append(f"step {step}")
        expected.append(list(changing["notes"]))
        with holdfast.open(place, compress=step % 2 == 0) as store:
            store.session().save(changing)

    assert RAW in {row[0] for row in stored()}
    assert {row[0] for row in stored()} != {RAW}
    with holdfast.open(place, compress=False) as store:
        assert [store.session().load(f"@~{5 - n}")["notes"] for n in range(6)] == expected
        store.session().prune(holdfast.Keep(last=1), only=True)
        store.gc(keep_days=0)
        assert store.session().load()["notes"] == expected[-1]
        assert not store.verify().damaged


@pytest.mark.parametrize("value", [None, 1, 0, "no"])
def test_what_is_neither_true_nor_false_is_refused(value):
    with pytest.raises(holdfast.InvalidInputError, match="compress") as caught:
        holdfast.open("memory:", compress=value)
    assert caught.value.code is holdfast.ErrorCode.BAD_ARGUMENT
