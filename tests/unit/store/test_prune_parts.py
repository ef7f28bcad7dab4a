"""prune where checkpoints are parts of others: the store and the model of it agree, and the writer goes on."""

from __future__ import annotations

import pytest
from tests.model.store import ModelStore
from tests.unit.store.journal import check_links

from holdfast import Keep


class Twins:
    """The same steps in a store and in its model."""

    def __init__(self, store, clock):
        self.store = store
        self.real = store.session("s")
        self.model = ModelStore(clock=clock).session("s")

    def save(self, key):
        made = self.real.save({"of": key}, key=key)
        self.model.save({"of": key}, key=key, as_id=made.id)
        return made

    def prune(self, keep, newest, **how):
        """What stays of it, by the keys; the model says the same."""
        report = self.real.prune(keep, only=True)
        stay, go = self.model.prune(newest, **how)
        assert {each.checkpoint.id for each in report.decisions if each.kept} == stay
        assert {each.checkpoint.id for each in report.decisions if not each.kept} == go
        self.check()
        return {each.checkpoint.key for each in report.decisions if each.kept}

    def check(self):
        """Both have the same branches, and each checkpoint leads on to the same one."""
        heads = {each.name: each.head.id for each in self.real.branches()}
        assert heads == self.model.store.branches("s")
        ways = [(each.id, each.prev, each.skipped) for each in self.real.log()]
        assert ways == [(each.id, each.prev, each.skipped) for each in self.model.log()]
        check_links(self.store)


@pytest.fixture
def twins(store, clock):
    return Twins(store, clock)


@pytest.mark.parametrize("keep", [Keep(last=1), Keep(at_most=1)])
def test_the_newest_stays_with_its_part_and_the_part_is_not_counted(twins, keep):
    whole, part = twins.save("k1"), twins.save("k1 x")

    assert twins.prune(keep, 1) == {"k1", "k1 x"}
    assert (twins.real.checkpoint().id, twins.real.checkpoint().prev) == (part.id, whole.id)


def test_whoever_pruned_the_tip_saves_on_without_looking(twins):
    twins.save("k1")
    newest = twins.save("k2")
    twins.save("k1 x")
    twins.save("k1 y z")
    twins.real.prune(Keep(last=1), only=True)
    twins.model.prune(1)

    assert twins.save("k3").parent == newest.id
    twins.check()


def test_an_undo_brings_the_tip_back(twins):
    for key in ("k1", "k2", "k1 x"):
        last = twins.save(key)
    twins.prune(Keep(last=1), 1)
    twins.real.undo()
    twins.model.undo()

    twins.check()
    assert twins.save("k3").parent == last.id
    twins.check()
