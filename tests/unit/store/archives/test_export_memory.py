"""However many checkpoints are exported, and however: memory holds the largest of them and no more."""

from __future__ import annotations

import os

import pytest
from tests.memory import peak

import holdfast
from holdfast.objects import at_hand
from holdfast.store import loading
from holdfast.store.archives import packing


class Nowhere:
    def write(self, data):
        return len(data)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with holdfast.open(tmp_path_factory.mktemp("s") / "s.db", durability="process") as made:
        for count, name in ((8, "few"), (40, "many")):
            session = made.session(name)
            for _ in range(count):
                session.save({"noise": os.urandom(50_000)})
        yield made


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("a.jsonl", {"session": True}),
        ("a.jsonl.gz", {"session": True}),
        ("a.html", {"session": True}),
        ("lines.jsonl", {}),
        ("folder/", {"format": "json"}),
        ("", {"session": True}),
    ],
)
def test_memory_is_that_of_the_largest_checkpoint(store, tmp_path, monkeypatch, target, options):
    # What is read together has fixed sizes; with small ones, few states show that nothing else grows.
    monkeypatch.setattr(loading, "_PAGE_BYTES", 100_000)
    monkeypatch.setattr(at_hand, "KEPT_BYTES", 100_000)
    monkeypatch.setattr(packing, "_REMEMBERED", 100_000)

    def work(name, look):
        session = store.session(name)
        place = f"{tmp_path}/{name}-{look}-{target}" if target else Nowhere()
        session.export([f"#{each}" for each in range(1, len(session.log()) + 1)], place, **options)

    # What is imported and made once in a process is not of the one that is measured first.
    work("few", "warm")
    small = peak(lambda look: work("few", look))
    # Five times as many, 2 MB in all.
    enough = 1.5 * small
    assert peak(lambda look: work("many", look), below=enough) < enough
