"""Rules of the store machine for states of many chunks: edited between saves, as plain values and as documents."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule
from tests.property.machine_compared import written_alike
from tests.property.machine_inputs import WRITERS

from holdfast.objects.tree.boundaries import Cuts

# So small that a state of some hundred bytes has nodes in nodes, indexes over indexes and chunks that are differences.
SMALL = Cuts(
    item_limit=48,
    leaf_scale=64,
    index_scale=3,
    node_weight=32,
    piece_min=64,
    piece_mean=256,
    piece_max=1024,
    node_depth=8,
    node_limit=240,
)

TEXT = "Nobody expects the same words again and again, but that is what agents say. "
ITEMS = (
    st.integers(0, 999)
    | st.integers(0, 99).map(lambda n: f"{n}: " + TEXT[: n % 70])
    | st.integers(2, 8).map(lambda n: TEXT * n)
    | st.integers(0, 99).map(lambda n: {"id": n, "role": "tool", "content": [TEXT[n % 40 :], n]})
)
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "set", "insert", "delete", "trim", "key", "nest", "text"]),
        st.integers(0, 99),
        ITEMS,
    ),
    min_size=1,
    max_size=4,
)


DISTURBANCES = st.sampled_from(["gc", "delete", "erase", "erase", "prune", "restore"])


def large_state(length):
    """A list of tens of items, a dict of records and a long text."""
    return {
        "log": [{"n": n, "said": TEXT[n % 50 :]} for n in range(length)],
        "table": {f"k{n}": [n, TEXT[: n % 30]] for n in range(length)},
        "text": TEXT * (length // 3),
        "n": length,
    }


def edit(state, edits):
    """The same on a dict and on a Document."""
    for kind, place, item in edits:
        # Documents keep what they are given, and so does a plain state: each needs its own.
        value, log, table = copy.deepcopy(item), state["log"], state["table"]
        at = place % (len(log) + 1)
        if kind == "append":
            log.append(value)
        elif kind == "set" and log:
            log[at % len(log)] = value
        elif kind == "insert":
            log.insert(at, value)
        elif kind == "delete" and log:
            del log[at % len(log)]
        elif kind == "trim":
            log[: at // 2] = [value]
        elif kind == "key":
            table[f"k{place}"] = value
        elif kind == "nest":
            table.setdefault("nested", {}).setdefault(f"n{place % 5}", []).append(value)
        elif kind == "text":
            state["text"] = state["text"][:-at] + f"{value}" if at else f"{value}" + state["text"]


class LargeStateRules:
    """Part of a StoreMachine."""

    # What the machine has.
    both: Any
    delete: Any
    gc: Any
    load_the_newest: Any
    model: Any
    prune: Any
    restore: Any
    save: Any
    saved: Any
    writers: Any

    @rule(
        writer=WRITERS,
        length=st.integers(5, 60),
        versions=st.lists(EDITS, min_size=1, max_size=4),
        between=st.lists(DISTURBANCES, max_size=2),
    )
    def save_large(self, writer, length, versions, between):
        """One state after the other, each a little different, and something that removes in between."""
        state = large_state(length)
        for number, edits in enumerate([[], *versions]):
            edit(state, edits)
            self.save(writer, state, {"on_conflict": "fork"}, None, None)
            if number < len(between):
                self.disturb(writer, between[number])
        self.load_the_newest(writer)

    @rule(
        writer=WRITERS,
        length=st.integers(5, 60),
        versions=st.lists(EDITS, min_size=1, max_size=5),
        between=st.lists(DISTURBANCES, max_size=2),
        again=st.booleans(),
    )
    def edit_document(self, writer, length, versions, between, again):
        """A document that is saved, edited and saved, also while others remove what it was made from."""
        self.save(writer, large_state(length), {"on_conflict": "fork"}, None, None)
        real, model = self.writers[writer]
        state = model.load("@", default=None)
        if not (isinstance(state, dict) and "table" in state):
            # The save was refused, and what the branch has is not made for these edits.
            return
        # It is saved by the writer of its Session.
        document = real.document()
        for number, edits in enumerate(versions):
            edit(document, edits)
            edit(state, edits)
            assert document.plain() == state
            said = {"on_conflict": "fork", "check": again}
            pair = self.both(
                lambda s=said: document.save(**s),
                lambda done: model.save(state, on_conflict="fork", as_id=done.id if done else None),
                written_alike,
            )
            if pair is not None:
                self.saved.append(pair)
            if number < len(between):
                self.disturb(writer, between[number])

    def disturb(self, writer, how):
        """What others do between two saves."""
        if how == "gc":
            self.gc(0, dry_run=False)
        elif how == "delete":
            self.delete(writer, ("recent", 3), force=True)
        elif how == "erase":
            # What the next save would build on is gone, chunks and all.
            self.delete(writer, ("recent", 0), force=True)
            self.gc(0, dry_run=False)
        elif how == "prune":
            self.prune(writer, 1, as_cap=False, per_branch=False, dry_run=False)
        else:
            self.restore(writer, ("recent", 4))
