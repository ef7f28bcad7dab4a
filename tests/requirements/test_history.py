"""What the source documents ask of history: times, pruning, forks, limits, search. Public API and command line only."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

import holdfast
from holdfast import Keep

NOW = datetime(2026, 3, 2, 14, 30, 30, tzinfo=UTC)


class Clock:
    """The time of day, as this process sees it."""

    def __init__(self) -> None:
        self.now = NOW

    def time_ns(self) -> int:
        return int(self.now.timestamp() * 1_000_000) * 1000


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(time, "time_ns", made.time_ns)
    return made


@pytest.fixture
def store(place):
    with holdfast.open(place, durability="process") as opened:
        yield opened


def save_at(session, clock, ago, state, message="", **options):
    clock.now = NOW - ago
    made = session.save(state, message, **options)
    clock.now = NOW
    return made


def run(place, *words):
    """The command line on the same store."""
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *words, "--store", place],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.requirement("T5")
def test_the_state_at_a_time_by_number_by_id_by_tag_and_by_a_tag_within_a_time(store, clock):
    s = store.session("debug")
    hours = [5, 4, 3, 2, 1]
    made = [
        save_at(s, clock, timedelta(hours=h), {"h": h}, tags=["verified"] if h in (4, 2) else [])
        for h in hours
    ]

    # At a time: the last one at or before it, whatever way it is written.
    assert s.load(s.at("2 hours ago")) == {"h": 2}
    assert s.load(s.at("150 minutes ago")) == {"h": 3}
    assert s.load(s.at(NOW - timedelta(hours=3, minutes=10))) == {"h": 4}
    assert s.load(s.at((NOW - timedelta(hours=1)).isoformat())) == {"h": 1}
    assert s.load("@{210 minutes ago}") == {"h": 4}
    around = s.around(NOW - timedelta(minutes=90))
    assert (around.before, around.after, around.missed) == (made[3], made[4], timedelta(minutes=30))
    with pytest.raises(holdfast.NotFoundError) as caught:
        s.at("6 hours ago")
    assert caught.value.code == "before-history"
    # By number, by id, by tag.
    assert s.load("#3") == {"h": 3}
    assert s.load(made[0].id) == s.load(made[0].id[:12]) == {"h": 5}
    assert s.load("tag:verified") == {"h": 2}
    # By a tag within a time.
    assert s.load(s.at("150 minutes ago", tag="verified")) == {"h": 4}
    found = store.find(session="debug", tag="verified", since="270 minutes ago", until="3 hours ago")
    assert [s.load(each) for each in found] == [{"h": 4}]


@pytest.mark.requirement("T8")
def test_pruning_keeps_the_last_hour_manual_and_significant_ones_and_one_an_hour_of_the_older(store, clock):
    s = store.session("debug")
    minute = timedelta(minutes=1)
    # Every ten minutes for six hours; the newest right now.
    for n in range(36, -1, -1):
        tags = ["hypothesis_confirmed"] if n == 20 else []
        trigger = "manual" if n == 25 else "auto:contradiction.detected" if n == 30 else "auto:tick"
        save_at(s, clock, n * 10 * minute, {"n": n}, step=n, trigger=trigger, tags=tags)
    policy = Keep(within="1h", manual=True, significant=True, hourly="all")

    planned = s.prune(policy, dry_run=True, only=True)
    report = s.prune(policy, only=True)

    assert report == planned.replace(dry_run=False)
    assert (report.total, report.kept + report.deleted) == (37, 37)
    kept = {each.checkpoint.step: each.reasons for each in report.decisions if each.kept}
    assert {0, 1, 2, 3, 4, 5} <= kept.keys()
    assert "within 1h" in kept[5]
    assert "manual" in kept[25]
    assert "significant" in kept[20]
    assert "significant" in kept[30]
    older = sorted(step for step in kept if step >= 6 and not {"manual", "significant"} & set(kept[step]))
    # One for each hour of the clock, the newest of it; that of 13:00 is 13:50, which the last hour keeps as well.
    times = [NOW - step * 10 * minute for step in older]
    assert [each.hour for each in times] == [12, 11, 10, 9, 8]
    assert all(f"hourly {each:%Y-%m-%d %H}:00" in kept[step] for each, step in zip(times, older, strict=True))
    assert "hourly 2026-03-02 13:00" in kept[4]
    assert len(s.log()) == report.kept == len(kept)
    # And it can be taken back.
    s.undo()
    assert len(s.log()) == 37


@pytest.mark.requirement("T8")
def test_pruning_from_the_command_line_reports_total_kept_and_deleted(store, place):
    s = store.session("debug")
    for n in range(8):
        s.save({"n": n}, trigger="auto:tick")

    words = [
        "prune",
        "--keep-last",
        "3",
        "--keep-manual",
        "--keep-significant",
        "--session",
        "debug",
        "--json",
    ]
    code, planned, _ = run(place, *words, "--dry-run")
    assert (code, len(s.log())) == (0, 8)
    code, done, _ = run(place, *words, "--yes")

    report = json.loads(done)
    assert (code, report["total"], report["kept"], report["deleted"]) == (0, 8, 3, 5)
    assert report["decisions"] == json.loads(planned)["decisions"]
    assert [each.seq for each in s.log()] == [8, 7, 6]


@pytest.mark.requirement("P2")
def test_save_load_list_delete_clear_and_prune_by_number_and_age(store, clock):
    s = store.session("plan-7", keep=Keep(at_most=10, max_age_days=30))
    made = [save_at(s, clock, timedelta(days=40 - n), {"step": n}, step=n) for n in range(8)]
    # The latest, one by id, the list.
    assert s.load() == {"step": 7}
    assert s.load(made[3].id) == {"step": 3}
    assert [each.step for each in store.find(session="plan-7")] == [7, 6, 5, 4, 3, 2, 1, 0]
    # The next save is more than 30 days after all of them but the tip that it follows: they go by themselves.
    s.save({"step": 8}, step=8)
    assert [each.step for each in s.log()] == [8]
    # And never more than ten.
    for n in range(9, 40):
        s.save({"step": n}, step=n)
        assert len(s.log()) <= 10
    assert [each.step for each in s.log()] == list(range(39, 29, -1))
    # The same on demand, for a session that was not opened with it.
    other = store.session("plan-8")
    for n in range(25):
        save_at(other, clock, timedelta(days=50 - 2 * n), {"step": n}, step=n)
    assert other.prune(Keep(max_age_days=30), only=True).deleted == 10
    assert other.prune(Keep(at_most=10), only=True).deleted == 5
    assert [each.step for each in other.log()] == list(range(24, 14, -1))
    # Delete one, clear all; another session is not touched.
    other.delete("@")
    assert other.load() == {"step": 23}
    assert other.clear() == 9
    assert other.log() == []
    assert other.load(default=None) is None
    assert len(s.log()) == 10


@pytest.mark.requirement("K4")
def test_a_fork_has_a_new_id_the_same_state_its_parent_and_nothing_shared(store, place):
    s = store.session("agent-7", agent="scout")
    s.save({"plan": ["look"], "n": 0})
    source = s.save({"plan": ["look", "think"], "n": 1})

    fork = s.fork(source, "risky")

    made = fork.checkpoint()
    assert made.id != source.id
    assert made.parent == source.id
    assert fork.load() == s.load() == {"plan": ["look", "think"], "n": 1}
    # What one does the other does not see: not in the store, and not in memory.
    mine = fork.load()
    mine["plan"].append("act")
    fork.save(mine)
    s.save({"plan": [], "n": 2})
    assert fork.load() == {"plan": ["look", "think", "act"], "n": 1}
    assert s.load() == {"plan": [], "n": 2}
    assert s.load(source) == {"plan": ["look", "think"], "n": 1}
    # Into a session of its own, too.
    alone = s.fork(source, session="agent-8")
    assert alone.load() == s.load(source)
    assert alone.checkpoint().parent == source.id
    alone.save({"n": 99})
    assert s.load() == {"plan": [], "n": 2}
    # And deleting what it came from takes nothing from it.
    s.delete(source, force=True)
    store.gc(keep_days=0)
    assert fork.load("@~1") == {"plan": ["look", "think"], "n": 1}
    assert alone.load("@-") == {"plan": ["look", "think"], "n": 1}

    # The tree: as data, and drawn.
    code, shown, _ = run(place, "tree", "--session", "agent-7", "--json")
    assert code == 0
    assert "risky" in shown
    nodes = {node.checkpoint.id: node for node in s.tree().nodes}
    assert len(nodes) == 4
    assert sum(not node.parents for node in nodes.values()) == 1
    assert run(place, "tree", "--session", "agent-7")[1].count("\n") == 4


@pytest.mark.requirement("K5")
def test_a_maximum_per_agent_is_kept_automatically(store):
    limit = Keep(at_most=100, per="agent")
    for n in range(130):
        store.session(f"run-{n % 4}", agent="scout", keep=limit).save({"n": n}, step=n)
        assert len(store.find(agent="scout")) <= 100
    store.session("other", agent="ranger").save({"n": 0})

    left = store.find(agent="scout")
    assert sorted(each.step for each in left) == list(range(30, 130))
    newest = max(left, key=lambda each: each.step)
    assert store.session(newest.session).load(newest) == {"n": 129}
    assert len(store.find(agent="ranger")) == 1


@pytest.mark.requirement("K5")
def test_a_clean_up_by_number_runs_on_demand(store, place):
    for n in range(30):
        store.session(f"run-{n % 2}", agent="scout").save({"n": n}, step=n)
    report = store.session("run-0", agent="scout").prune(Keep(at_most=20, per="agent"), only=True)

    assert (report.total, report.kept, report.deleted) == (30, 20, 10)
    words = ["prune", "--at-most", "5", "--per", "agent", "--session", "run-0", "--only", "--yes"]
    assert run(place, *words)[0] == 0
    assert sorted(each.step for each in store.find(agent="scout")) == [25, 26, 27, 28, 29]


@pytest.mark.requirement("K6")
def test_checkpoints_are_selected_by_status_step_range_of_time_and_metadata(store, clock, place):
    s = store.session("agent-7", agent="scout")
    for n in range(6):
        save_at(
            s,
            clock,
            timedelta(hours=6 - n),
            {"n": n},
            step=n,
            status="failed" if n == 3 else "running",
            metadata={"model": {"name": "m1" if n < 4 else "m2", "temperature": 0.5}, "cost": n},
        )

    def steps(**filters):
        return [each.step for each in store.find(session="agent-7", **filters)]

    assert steps(status="failed") == [3]
    assert steps(step=4) == [4]
    assert steps(since="4 hours ago", until="2 hours ago") == [4, 3, 2]
    assert steps(since=NOW - timedelta(hours=2)) == [5, 4]
    assert steps(metadata={"model": {"name": "m2"}}) == [5, 4]
    assert steps(metadata={"cost": 3}) == [3]
    assert steps(status="running", since="4 hours ago", metadata={"model": {"name": "m1"}}) == [2]
    assert steps(status="completed") == []
    # A value is a value, whatever it looks like.
    assert steps(metadata={"model": {"name": "m1' OR 1=1 --"}}) == []
    # The same from the command line, with times that are written out.
    since = (NOW - timedelta(hours=4)).isoformat()
    code, shown, _ = run(place, "list", "--session", "agent-7", "--status", "failed", "--since", since)
    assert (code, len(shown.splitlines())) == (0, 1)
