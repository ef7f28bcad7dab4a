"""What a `Keep` means for checkpoints that are there: which stay, which go, and why.

Nothing is read and nothing written here; `plan` takes rows and answers with a decision and its reasons for each.

- Newest is by order of arrival, age is by `created_at`: clocks of different writers may disagree, the order cannot.
- Rules and caps count in groups (a session, a branch at birth, an agent). What always stays, stays in every group.
- `at_most` goes through all that would be kept, newest first, protected ones included, and stops at its number. What is
  protected and lies beyond stays all the same, but a pin of long ago never costs a newer checkpoint its place.
- A checkpoint that two lines lead to stays, beyond every count, and so does a merge with what it merged: the next merge
  begins there.
- A checkpoint whose key is that of another one, a blank and more is a part of that one (`owners`). It is not counted;
  it stays where its owner stays and goes where that goes. A pin on a part protects both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from holdfast.history.checkpoint import moment
from holdfast.history.keep import PERIODS, Keep, has_rules, microseconds
from holdfast.record import Record
from holdfast.storage.records import BranchRow, CheckpointId, CheckpointRow

_HOUR = 3_600_000_000
_DAY = 24 * _HOUR

SIGNIFICANT_TAGS = frozenset(
    {"hypothesis_confirmed", "hypothesis_rejected", "contradiction_detected", "branch_merged"}
)
SIGNIFICANT_TRIGGERS = frozenset({f"auto:{tag.replace('_', '.')}" for tag in SIGNIFICANT_TAGS} | {"merge"})

_TIP = "tip of "

_Reasons = dict[CheckpointId, list[str]]


class Decision(Record):
    """What becomes of one checkpoint, and why."""

    row: CheckpointRow
    kept: bool
    reasons: tuple[str, ...]
    """Every rule that keeps it, or what removes it."""


class RetentionPlan(Record):
    """The decisions for all checkpoints that are there, newest first."""

    decisions: tuple[Decision, ...]

    @property
    def removed(self) -> frozenset[CheckpointId]:
        """The ids of those that go."""
        return frozenset(each.row.id for each in self.decisions if not each.kept)


def plan(
    rows: Iterable[CheckpointRow],
    heads: Iterable[BranchRow],
    keep: Keep,
    now: int,
    *,
    agents: Mapping[str, str | None] | None = None,
    after_save: bool = False,
    spare: bool = False,
) -> RetentionPlan:
    """Decide about every visible row.

    `rows` and `heads` may be those of many sessions, but are all those of each. `agents` says whose each session is,
    for `per="agent"`; a session of nobody is a group of its own. A part that is the tip of a branch goes with its
    owner, and the branch goes back; but `after_save` both stay, because the tip may be what was saved just now.
    With `spare`, what is manual or significant stays, whatever the policy says.
    """
    there = sorted((row for row in rows if not row.hidden), key=_order, reverse=True)
    heads = list(heads)
    owned_by = owners(there)
    counted = [row for row in there if row.id not in owned_by]
    protected = _for_owners(_protected(there, heads), owned_by, heads_count=after_save)
    for row in counted if spare else ():
        if why := _worth_sparing(row):
            protected.setdefault(row.id, []).append(why)
    wanted: _Reasons = {}
    capped: _Reasons = {}
    for group in _groups(counted, keep, agents or {}).values():
        wanted |= _wanted(group, keep, now)
        capped |= _capped(group, keep, now, wanted=wanted, protected=protected)
    decided = {row.id: _decision(row, protected, wanted, capped) for row in counted}
    return RetentionPlan(
        tuple(decided.get(row.id) or _as_owner(row, decided[owned_by[row.id]]) for row in there)
    )


def owners(rows: Iterable[CheckpointRow]) -> dict[CheckpointId, CheckpointId]:
    """Which of these rows are parts, and of which other one.

    A part of a part belongs to the outermost one, which is counted. Where no row has the key of an owner, there is
    none.
    """
    rows = list(rows)
    keyed = {(row.session, row.key): row.id for row in rows if row.key is not None}
    found: dict[CheckpointId, CheckpointId] = {}
    for row in rows:
        key = row.key or ""
        at = key.find(" ")
        while 0 <= at < len(key) - 1:
            owner = keyed.get((row.session, key[:at]))
            if owner is not None:
                found[row.id] = owner
                break
            at = key.find(" ", at + 1)
    return found


def _for_owners(
    protected: _Reasons, owned_by: Mapping[CheckpointId, CheckpointId], *, heads_count: bool
) -> _Reasons:
    """What protects checkpoints that are counted, by themselves and through their parts."""
    reasons = {each: list(why) for each, why in protected.items() if each not in owned_by}
    for each, why in protected.items():
        if each in owned_by:
            counting = [word for word in why if heads_count or not word.startswith(_TIP)]
            for word in counting:
                reasons.setdefault(owned_by[each], []).append(f"a part: {word}")
    return reasons


def _as_owner(row: CheckpointRow, owner: Decision) -> Decision:
    return Decision(row, kept=owner.kept, reasons=(f"part of {owner.row.id.hex()[:12]}",))


def _order(row: CheckpointRow) -> tuple[int, int]:
    return row.position, row.seq


def _decision(row: CheckpointRow, protected: _Reasons, wanted: _Reasons, capped: _Reasons) -> Decision:
    if row.id in capped and row.id in wanted:
        why = protected.get(row.id, [])
        return Decision(row, kept=bool(why), reasons=tuple(why or capped[row.id]))
    why = protected.get(row.id, []) + wanted.get(row.id, [])
    kept = row.id in protected or row.id in wanted
    return Decision(row, kept=kept, reasons=tuple(dict.fromkeys(why)) if kept else ("no rule keeps it",))


def _groups(
    rows: Iterable[CheckpointRow], keep: Keep, agents: Mapping[str, str | None]
) -> dict[tuple[str, str | None], list[CheckpointRow]]:
    groups: dict[tuple[str, str | None], list[CheckpointRow]] = {}
    for row in rows:
        key: tuple[str, str | None] = (row.session, None)
        if keep.per == "branch":
            key = (row.session, row.branch)
        elif keep.per == "agent" and (agent := agents.get(row.session)) is not None:
            key = ("", agent)
        groups.setdefault(key, []).append(row)
    return groups


def _protected(newest_first: Sequence[CheckpointRow], heads: Iterable[BranchRow]) -> _Reasons:
    """What stays under any policy: pins, tips, where lines part or meet that a branch leads to, and merges.

    The nearest common ancestor of two checkpoints that stay is one of them, or two lines lead to it. So it stays, and
    with it what every later merge needs.
    """
    tips: dict[CheckpointId, list[str]] = {}
    for head in heads:
        tips.setdefault(head.head, []).append(head.name)
    there = {row.id for row in newest_first}
    lines = {checkpoint: len(names) for checkpoint, names in tips.items()}
    merged: set[CheckpointId] = set()
    reasons: _Reasons = {}
    for row in newest_first:
        # A child always is newer than its `prev`: all lines that go on from here have been counted.
        going_on = lines.get(row.id, 0)
        is_merge = going_on > 0 and len(row.parents) > 1
        if going_on:
            others = [each for each in row.parents[1:] if each in there and each != row.prev]
            merged.update(others)
            for each in (row.prev, *others):
                if each is not None:
                    lines[each] = lines.get(each, 0) + 1
        why = ["pinned"] if row.pinned else []
        why += [f"{_TIP}{name}" for name in tips.get(row.id, ())]
        why += ["branches part here"] if going_on > 1 and row.id not in merged else []
        why += ["branches meet here"] if is_merge or row.id in merged else []
        if why:
            reasons[row.id] = why
    return reasons


def _wanted(group: Sequence[CheckpointRow], keep: Keep, now: int) -> _Reasons:
    """The rows of a group, newest first, that a keep rule wants; with caps alone, all."""
    reasons: _Reasons = {}
    if not has_rules(keep):
        return {row.id: list(_within_caps(keep)) for row in group}
    for place, row in enumerate(group):
        if why := list(_matching(row, place, keep, now - row.created_at)):
            reasons[row.id] = why
    for period in PERIODS:
        count = getattr(keep, period)
        if count is not None:
            for row, label in _one_each(group, period, count):
                reasons.setdefault(row.id, []).append(f"{period} {label}")
    return reasons


def _matching(row: CheckpointRow, place: int, keep: Keep, age: int) -> Iterator[str]:
    if keep.last is not None and place < keep.last:
        yield f"last {keep.last}"
    if keep.within is not None and age < microseconds(keep.within):
        yield f"within {keep.within}"
    if keep.days is not None and age < keep.days * _DAY:
        yield f"younger than {_days(keep.days)}"
    if keep.manual and row.trigger == "manual":
        yield "manual"
    yield from (f"tag {tag}" for tag in keep.tags if tag in row.tags)
    if keep.significant and _is_significant(row):
        yield "significant"


def _is_significant(row: CheckpointRow) -> bool:
    return row.trigger in SIGNIFICANT_TRIGGERS or not SIGNIFICANT_TAGS.isdisjoint(row.tags)


def _worth_sparing(row: CheckpointRow) -> str | None:
    return "manual" if row.trigger == "manual" else "significant" if _is_significant(row) else None


def _within_caps(keep: Keep) -> Iterator[str]:
    if keep.at_most is not None:
        yield f"newest {keep.at_most}"
    if keep.max_age_days is not None:
        yield f"not older than {_days(keep.max_age_days)}"


def _one_each(
    group: Sequence[CheckpointRow], period: str, count: int | str
) -> Iterator[tuple[CheckpointRow, str]]:
    """The newest row of each of the latest `count` periods that have one, and what the period is called."""
    newest: dict[int, CheckpointRow] = {}
    for row in group:
        newest.setdefault(_bucket(row.created_at, period), row)
    latest = sorted(newest, reverse=True)
    for bucket in latest if count == "all" else latest[: int(count)]:
        yield newest[bucket], _label(newest[bucket].created_at, period)


def _bucket(at: int, period: str) -> int:
    if period == "hourly":
        return at // _HOUR
    if period == "daily":
        return at // _DAY
    if period == "weekly":
        # Day 0, the first of January 1970, was a Thursday: three days after a Monday.
        return (at // _DAY + 3) // 7
    when = moment(at)
    return when.year * 12 + when.month


def _label(at: int, period: str) -> str:
    when = moment(at)
    if period == "weekly":
        year, week, _ = when.isocalendar()
        return f"{year}-W{week:02}"
    return f"{when:{_FORMATS[period]}}"


_FORMATS = {"hourly": "%Y-%m-%d %H:00", "daily": "%Y-%m-%d", "monthly": "%Y-%m"}


def _capped(
    group: Iterable[CheckpointRow], keep: Keep, now: int, *, wanted: _Reasons, protected: _Reasons
) -> _Reasons:
    """The rows of a group, newest first, that are beyond a cap, protected ones included."""
    reasons: _Reasons = {}
    counted = 0
    for row in group:
        if keep.max_age_days is not None and now - row.created_at > keep.max_age_days * _DAY:
            reasons[row.id] = [f"older than {_days(keep.max_age_days)}"]
        elif row.id not in wanted and row.id not in protected:
            continue
        # What goes for its age takes no place from what is left.
        if row.id in protected or row.id not in reasons:
            counted += 1
            if keep.at_most is not None and counted > keep.at_most:
                reasons.setdefault(row.id, []).append(f"at most {keep.at_most}")
    return reasons


def _days(count: int) -> str:
    return f"{count} day" if count == 1 else f"{count} days"
