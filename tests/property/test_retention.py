"""Retention and removal against a slow, obvious reading of the same words.

The model looks at one checkpoint at a time and asks every question again; it keeps the real parents beside the rows, so
that links are checked against the history that was, not against other links.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from holdfast import InvalidInputError, Keep
from holdfast.history.removal import remove
from holdfast.history.retention import plan
from holdfast.storage.records import BranchRow, CheckpointId, CheckpointRow
from holdfast.testing.rows import checkpoint_id, row

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 3, 2, 0, 30, tzinfo=UTC)  # a Monday, just after a month and a week began
HOUR = timedelta(hours=1)

TRIGGERS = ["manual", "auto:tick", "merge", "auto:hypothesis.confirmed", "auto:branch.merged", "restore"]
TAGS = ["golden", "b", "hypothesis_rejected", "branch_merged"]
SIGNIFICANT = {
    "hypothesis_confirmed", "hypothesis_rejected", "contradiction_detected", "branch_merged", "merge",
    "auto:hypothesis.confirmed", "auto:hypothesis.rejected", "auto:contradiction.detected", "auto:branch.merged",
}  # fmt: skip
AGENTS = {"a": "scout", "b": "scout", "c": None, "d": None}


class World(NamedTuple):
    rows: list[CheckpointRow]
    heads: list[BranchRow]
    parent: dict[CheckpointId, CheckpointId | None]

    def nearest(self, of: CheckpointId, without: set[CheckpointId]) -> tuple[CheckpointId | None, int]:
        """The nearest real ancestor that is not in `without`, and how many lie between."""
        found, skipped = self.parent[of], 0
        while found in without:
            found, skipped = self.parent[found], skipped + 1
        return found, skipped


@st.composite
def worlds(draw, sessions="abcd"):
    parent: dict[CheckpointId, CheckpointId | None] = {}
    drafts: list[dict[str, Any]] = []
    for position in range(1, draw(st.integers(0, 14)) + 1):
        session = draw(st.sampled_from(sessions))
        mates = [each for each in drafts if each["session"] == session]
        made = checkpoint_id(str(position))
        # Mostly the newest one, as in life; sometimes an older one, or nothing.
        back = draw(st.sampled_from([1, 1, 1, 2, 3, None]))
        parent[made] = mates[-back]["id"] if back is not None and back <= len(mates) else None
        age = draw(st.sampled_from([0, 1, 2, 24, 25, 48, 24 * 8, 24 * 40])) * HOUR + draw(
            st.sampled_from([timedelta(0), timedelta(microseconds=1), 31 * HOUR / 60, -HOUR])
        )
        drafts.append(
            {
                "id": made,
                "session": session,
                "branch": draw(st.sampled_from(["main", "side"])),
                "seq": len(mates) + 1,
                "position": position,
                "created_at": (NOW - age - EPOCH) // timedelta(microseconds=1),
                "trigger": draw(st.sampled_from(TRIGGERS)),
                "tags": tuple(sorted(draw(st.sets(st.sampled_from(TAGS), max_size=1)))),
                "pinned": draw(st.sampled_from([False, False, False, True])),
                "hidden": draw(st.sampled_from([0, 0, 0, 3])),
            }
        )
    hidden = {each["id"] for each in drafts if each["hidden"]}
    bare = World([], [], parent)
    rows = []
    for each in drafts:
        prev, skipped = bare.nearest(each["id"], hidden)
        rows.append(row("x", prev=prev, skipped=skipped, **each))
    visible = [each for each in rows if not each.hidden]
    chosen = draw(st.lists(st.sampled_from(visible), max_size=4)) if visible else []
    heads = [
        BranchRow(session=each.session, name=f"n{n}", head=each.id, moved_at=0)
        for n, each in enumerate(chosen)
    ]
    return World(draw(st.permutations(rows)), heads, parent)


COUNTS = st.integers(1, 4)
PERIODS = COUNTS | st.just("all")
SPANS = st.sampled_from(["1h", "59m", "1d", "2d", timedelta(hours=25)])


@st.composite
def policies(draw, *, caps=True):
    fields = {
        "last": COUNTS,
        "within": SPANS,
        "hourly": PERIODS,
        "daily": PERIODS,
        "weekly": PERIODS,
        "monthly": PERIODS,
        "days": st.sampled_from([1, 2, 8]),
        "manual": st.just(value=True),
        "tags": st.lists(st.sampled_from(TAGS), min_size=1, max_size=2),
        "significant": st.just(value=True),
        "at_most": COUNTS,
        "max_age_days": st.sampled_from([1, 2, 8]),
    }
    # A few at a time: with all of them, everything would be kept.
    names = list(fields)[: 12 if caps else 10]
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    chosen_fields = {name: draw(fields[name]) for name in chosen}
    return Keep(**chosen_fields, per=draw(st.sampled_from(["session", "branch", "agent"])))


def ancestors(rows, of):
    by_id = {each.id: each for each in rows}
    while of is not None:
        yield of
        of = by_id[of].prev


def is_protected(world, row):
    alive = {each for head in world.heads for each in ancestors(world.rows, head.head)}
    children = [each for each in world.rows if not each.hidden and each.prev == row.id and each.id in alive]
    tips = [head for head in world.heads if head.head == row.id]
    return row.pinned or bool(tips) or len(tips) + len(children) > 1


def group_of(world, row, keep):
    def key(each):
        if keep.per == "branch":
            return each.session, each.branch
        if keep.per == "agent" and AGENTS[each.session]:
            return "agent", AGENTS[each.session]
        return "session", each.session

    return [each for each in world.rows if not each.hidden and key(each) == key(row)]


def time(row):
    return EPOCH + timedelta(microseconds=row.created_at)


LABELS = {
    "hourly": lambda row: time(row).strftime("%Y-%m-%d %H"),
    "daily": lambda row: time(row).strftime("%Y-%m-%d"),
    "weekly": lambda row: time(row).strftime("%G-%V"),
    "monthly": lambda row: time(row).strftime("%Y-%m"),
}


def is_wanted(world, row, keep):
    group = group_of(world, row, keep)
    newer = [each for each in group if each.position > row.position]
    age = NOW - time(row)
    rules = [
        keep.last and len(newer) < keep.last,
        keep.within and age < timedelta(**{UNITS[keep.within[-1]]: int(keep.within[:-1])}),
        keep.days and age < timedelta(days=keep.days),
        keep.manual and row.trigger == "manual",
        set(keep.tags) & set(row.tags),
        keep.significant and SIGNIFICANT & {row.trigger, *row.tags},
    ]
    for period, label in LABELS.items():
        count = getattr(keep, period)
        same = [each for each in newer if label(each) == label(row)]
        later = {label(each) for each in group if label(each) > label(row)}
        rules.append(count and not same and (count == "all" or len(later) < count))
    caps = {"at_most", "max_age_days", "per"}
    return any(rules) or not any(value for name, value in keep.to_dict().items() if name not in caps)


UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}


def stays(world, row, keep):
    if is_protected(world, row):
        return True
    too_old = keep.max_age_days and NOW - time(row) > timedelta(days=keep.max_age_days)
    if too_old or not is_wanted(world, row, keep):
        return False
    ahead = [
        each
        for each in group_of(world, row, keep)
        if each.position > row.position
        and (
            is_protected(world, each)
            or (
                is_wanted(world, each, keep)
                and not (keep.max_age_days and NOW - time(each) > timedelta(days=keep.max_age_days))
            )
        )
    ]
    return not keep.at_most or len(ahead) < keep.at_most


def planned(world, keep):
    now = (NOW - EPOCH) // timedelta(microseconds=1)
    return plan(world.rows, world.heads, keep, now, agents=AGENTS)


@given(worlds(), policies())
def test_the_plan_is_what_the_words_say(world, keep):
    decided = planned(world, keep)

    visible = sorted((each for each in world.rows if not each.hidden), key=lambda each: -each.position)
    assert [each.row for each in decided.decisions] == visible
    assert [each.kept for each in decided.decisions] == [stays(world, each, keep) for each in visible]
    assert decided.removed == {each.row.id for each in decided.decisions if not each.kept}


@given(worlds(), policies())
def test_pruning_again_at_the_same_moment_removes_nothing_more(world, keep):
    first = planned(world, keep)
    rows = [each._replace(hidden=9) if each.id in first.removed else each for each in world.rows]
    edits = {each.id: each for _, each in remove(world.rows, (), first.removed, number=9).edits}
    rows = [each._replace(**edits[each.id]._asdict()) if each.id in edits else each for each in rows]
    again = planned(world._replace(rows=rows), keep)

    assert again.removed == frozenset()


@given(worlds(sessions="a"), st.data())
def test_links_close_over_whatever_goes(world, data):
    visible = [each.id for each in world.rows if not each.hidden]
    removed = data.draw(st.sets(st.sampled_from(visible))) if visible else set()
    change = remove(world.rows, world.heads, removed, number=7)
    edits = {new.id: new for _, new in change.edits}
    rows = {
        each.id: each._replace(**edits[each.id]._asdict()) if each.id in edits else each
        for each in world.rows
    }

    hidden = {each.id for each in world.rows if each.hidden}
    for old in world.rows:
        new = rows[old.id]
        assert (new.prev, new.skipped) == world.nearest(old.id, hidden | removed)
        assert new.prev is None or not rows[new.prev].hidden
        assert new.hidden == (7 if old.id in removed else old.hidden)
        assert new._replace(prev=old.prev, skipped=old.skipped, hidden=old.hidden) == old
    assert [old for old, new in change.edits if rows[old.id] == old] == []
    assert list(change.edits) == remove(world.rows, (), removed, number=7).edits

    moved = {(each.branch, each.expected, each.head) for each in change.moves}
    assert moved == {
        (head.name, head.head, world.nearest(head.head, hidden | removed)[0])
        for head in world.heads
        if head.head in removed
    }


@given(worlds(sessions="a"), st.data())
def test_removing_one_after_another_is_removing_them_together(world, data):
    visible = [each.id for each in world.rows if not each.hidden]
    removed = data.draw(st.lists(st.sampled_from(visible), unique=True)) if visible else []
    rows = {each.id: each for each in world.rows}
    for each in removed:
        for old, new in remove(rows.values(), (), {each}, number=7).edits:
            rows[old.id] = old._replace(**new._asdict())

    together = {new.id: new for _, new in remove(world.rows, (), set(removed), number=7).edits}
    assert {each.id: (each.prev, each.skipped, each.hidden) for each in rows.values()} == {
        each.id: (
            (together[each.id].prev, together[each.id].skipped, together[each.id].hidden)
            if each.id in together
            else (each.prev, each.skipped, each.hidden)
        )
        for each in world.rows
    }


@given(policies())
def test_a_keep_is_made_again_from_its_dict_and_its_repr(keep):
    assert Keep(**keep.to_dict()) == keep
    assert eval(repr(keep), {"Keep": Keep}) == keep


@given(st.text(alphabet="0123456789wdhms ", max_size=6))
@example("1h")
def test_any_text_is_a_span_or_an_error(text):
    try:
        keep = Keep(within=text)
    except InvalidInputError:
        return
    assert Keep(within=keep.within).within == keep.within
