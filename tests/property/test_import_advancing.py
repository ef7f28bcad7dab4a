"""One history, cut into files anywhere and imported in order with `advance`, gives the branches that it had."""

from __future__ import annotations

import io
from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import Store

steps = st.lists(
    st.tuples(st.sampled_from(["save", "save", "save", "fork", "merge", "restore"]), st.integers(0, 9)),
    max_size=10,
)


def grow(store: Store, history: list[tuple[str, int]], begun: int = 0) -> None:
    """A session with branches that go on, are forked from, merged and restored."""
    session = store.session("s")
    if not begun:
        session.save({"n": 0})
    for number, (what, place) in enumerate(history, start=begun + 1):
        names = sorted(each.name for each in session.branches())
        at = store.session("s", branch=names[place % len(names)])
        if what == "fork":
            at.fork("@", f"b{number}")
        elif what == "merge" and len(names) > 1:
            at.merge(names[(place + 1) % len(names)], resolve="ours")
        elif what == "restore":
            at.restore("#1")
        else:
            at.save({"n": number})


def heads(store: Store) -> dict[str, str]:
    return {each.name: each.head.id for each in store.session("s").branches()}


@settings(max_examples=60)
@example([("fork", 0), ("save", 0), ("save", 1)], [2], False)
@given(steps, st.lists(st.integers(1, 12), max_size=4), st.booleans())
def test_files_in_order_give_the_heads_of_the_history(history, cuts, whole):
    with holdfast.open("memory:") as source, holdfast.open("memory:") as store:
        if whole:
            # The whole session, exported as it grew.
            edges = sorted({0, *(cut for cut in cuts if cut < len(history)), len(history)})
            for start, end in pairwise(edges) if history else [(0, 0)]:
                grow(source, history[start:end], start)
                text = io.BytesIO()
                source.session("s").export(path=text, session=True)
                store.import_(io.BytesIO(text.getvalue()), advance=True)
                assert heads(store) == heads(source)
        else:
            grow(source, history)
            ids = [each.id for each in sorted(source.find(), key=lambda each: each.seq)]
            edges = sorted({0, len(ids), *(cut for cut in cuts if cut < len(ids))})
            for start, end in pairwise(edges):
                text = io.BytesIO()
                source.session("s").export(ids[start:end], text, format="jsonl")
                store.import_(io.BytesIO(text.getvalue()), advance=True)
        assert heads(store) == heads(source)
        assert store.verify().ok
        entries = len(store.session("s").operations())
        for _ in range(entries):
            store.session("s").undo()
        assert store.verify().ok
