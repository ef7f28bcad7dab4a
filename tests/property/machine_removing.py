"""Rules of the store machine that get rid of things: prune, gc and forget, with undo around them."""

from __future__ import annotations

from typing import Any

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import rule
from tests.property.machine_inputs import REFS, WRITERS

from holdfast import Keep

DAY = 86_400_000_000
NEWEST = st.integers(1, 4)
DAYS = st.sampled_from([0, 0, 0, 5, 14])


class RemovingRules:
    """Part of a StoreMachine."""

    # What the machine has.
    both: Any
    delete: Any
    model: Any
    new_writer: Any
    now: Any
    pick: Any
    real: Any
    restore: Any
    save: Any
    turn: Any
    writers: Any

    @rule(
        writer=WRITERS,
        newest=NEWEST,
        as_cap=st.booleans(),
        per_branch=st.booleans(),
        dry_run=st.booleans(),
    )
    def prune(self, writer, newest, as_cap, per_branch, dry_run):
        """`last` alone and `at_most` alone keep the same."""
        real, model = self.writers[writer]
        keep = Keep(**{"at_most" if as_cap else "last": newest, "per": "branch" if per_branch else "session"})
        self.both(
            lambda: real.prune(keep, dry_run=dry_run, only=True),
            lambda _: model.prune(newest, per_branch=per_branch, dry_run=dry_run),
            pruned_alike,
        )

    @rule(days=DAYS, dry_run=st.integers(0, 3).map(lambda n: n == 0))
    def gc(self, days, dry_run):
        if self.model.gc_hides_a_way(keep_days=days):
            return
        self.both(
            lambda: self.real.gc(keep_days=days, dry_run=dry_run),
            lambda _: self.model.gc(keep_days=days, dry_run=dry_run),
            collected_alike,
        )

    @rule(writer=WRITERS, ref=REFS, really=st.integers(0, 3))
    def forget(self, writer, ref, really):
        """Not often: no undo is left afterwards."""
        if really:
            return
        name = self.writers[writer][0].id
        real_ref, model_ref = self.pick(ref)
        self.both(
            lambda: self.real.forget(name, real_ref),
            lambda _: self.model.forget(name, model_ref),
            lambda done, wanted: done.checkpoints == wanted,
        )

    @rule(
        removals=st.lists(
            st.one_of(
                st.tuples(st.just("delete"), st.integers(0, 8)),
                st.tuples(st.just("prune"), NEWEST),
                st.tuples(st.just("restore"), st.integers(0, 8)),
                st.tuples(st.just("save"), st.just(0)),
                st.tuples(st.just("undo"), st.just(0)),
                st.tuples(st.just("gc"), st.just(0)),
            ),
            min_size=2,
            max_size=6,
        ),
        verbs=st.lists(st.sampled_from(["undo", "undo", "undo", "redo"]), max_size=4),
    )
    def days_go_by(self, removals, verbs):
        """One thing a week, and then a gc: of some the grace is over, and of others it is not."""
        self.new_writer(0, "main", None, None)
        for what, number in removals:
            note(f"{what} {number}")
            self.now += 7 * DAY
            if what == "delete":
                self.delete(0, ("recent", number), force=True)
            elif what == "prune":
                self.prune(0, number, as_cap=False, per_branch=False, dry_run=False)
            elif what == "restore":
                self.restore(0, ("recent", number))
            elif what == "save":
                self.save(0, {"at": self.now}, {}, None, None)
            elif what == "gc":
                self.gc(14, dry_run=False)
            else:
                self.turn(0, ["undo"])
        self.gc(14, dry_run=False)
        self.turn(0, verbs)


def pruned_alike(done, wanted):
    stay, go = wanted
    assert {each.checkpoint.id for each in done.decisions if each.kept} == stay
    assert {each.checkpoint.id for each in done.decisions if not each.kept} == go
    return (done.total, done.kept, done.deleted) == (len(stay) + len(go), len(stay), len(go))


def collected_alike(done, wanted):
    return (done.checkpoints, set(done.sessions), done.waiting) == wanted
