"""A merge knows what may be lost of where two lines met, and what a prune took is not."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Keep


def gone_with_its_meeting(store):
    """Both sides met where nothing is left for good: x was 2 there, and one side took that back."""
    session = store.session("s")
    session.save({"x": 1, "y": 0})
    side = session.fork("@", "side")
    side.save({"x": 2, "y": 0})
    met = session.merge("side").checkpoint
    side.save({"x": 2, "y": 5})
    session.save({"x": 1, "y": 0})
    for each in (met, session.checkpoint("side~1")):
        session.delete(each, force=True)
    store.gc(keep_days=0)
    return session


@pytest.mark.parametrize("way", ["copy", "archive"])
def test_what_was_lost_before_a_copy_is_not_forgotten_by_it(way, tmp_path):
    with holdfast.open("memory:") as store, holdfast.open("memory:") as other:
        session = gone_with_its_meeting(store)
        assert not session.merge("side", resolve="ours", dry_run=True).base_exact
        if way == "copy":
            store.copy_session("s", "copy")
            copy = store.session("copy")
        else:
            session.export(path=tmp_path / "s.jsonl", session=True)
            other.import_(tmp_path / "s.jsonl")
            copy = other.session("s")
        assert not copy.merge("side", resolve="ours", dry_run=True).base_exact


def test_a_prune_by_hand_beside_automatic_retention_leaves_a_merge_exact():
    with holdfast.open("memory:") as store:
        session = store.session("s", keep=Keep(last=6, per="branch"))
        session.save({"main": 0, "side": 0})
        side = session.fork("@", "side")
        for turn in range(1, 20):
            side.save(side.load() | {"side": turn})
            session.save(session.load() | {"main": turn})
        session.prune(Keep(last=3, per="branch"))
        report = session.merge("side")
        assert report.base_exact
        assert not report.conflicts
        assert session.load() == {"main": 19, "side": 19}
