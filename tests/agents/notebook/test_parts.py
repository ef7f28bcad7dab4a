"""The systems of a notebook, each used alone: rules, callbacks, bad input."""

from __future__ import annotations

import pytest

from holdfast import HoldfastError, InvalidInputError, NotFoundError
from holdfast.agents import (
    BeliefGraph,
    ExperimentManager,
    GapAnalyzer,
    HypothesisBoard,
    VerificationRunner,
)
from holdfast.agents.notebook.board import confidence_of
from holdfast.agents.notebook.journal import CommandHistory, Notes


def test_confidence_follows_evidence_by_the_rule_until_a_person_says_otherwise():
    board = HypothesisBoard()
    h = board.add("the scale is applied twice")
    board.add_evidence(h, "the ratio is two", strength=1.0)
    assert board.get(h)["confidence"] == pytest.approx(5 / 6, abs=1e-4)
    board.add_evidence(h, "not on the CPU", supports=False, strength=0.5, source="c3")
    assert board.get(h)["confidence"] == confidence_of(0.5, [1.0], [0.5])
    board.set_confidence(h, 0.2, reason="I do not trust the ratio")
    board.add_evidence(h, "again", strength=1.0)
    assert board.get(h)["confidence"] == 0.2
    assert board.follow_evidence(h)["confidence"] == confidence_of(0.5, [1.0, 1.0], [0.5])
    assert [each["source"] for each in board.evidence(h)] == ["", "c3", ""]


def test_a_board_tells_when_a_verdict_falls():
    board, told = HypothesisBoard(), []
    board.on_hypothesis_confirmed(lambda h: told.append(("confirmed", h["id"])))
    board.on_hypothesis_rejected(lambda h: told.append(("rejected", h["id"])))
    one, other = board.add("one"), board.add("other")
    board.test(one)
    board.confirm(one, evidence="seen")
    board.confirm(one)
    board.reject(other, evidence="not seen")
    board.supersede(other, by=one)

    assert told == [("confirmed", one), ("rejected", other)]
    assert board.get(other)["superseded_by"] == one
    assert [each["id"] for each in board.all(status="confirmed")] == [one]


def test_what_falls_with_a_belief_is_said_with_the_way():
    graph = BeliefGraph()
    base, middle, top, weak, apart = (
        graph.add(text, confidence=0.9) for text in ("base", "middle", "top", "weak", "apart")
    )
    graph.link(middle, "requires", base)
    graph.link(top, "derived_from", middle)
    graph.link(middle, "supports", weak)

    fall = graph.retract(base, reason="measured wrongly")

    assert fall.falls == {middle: (middle, base), top: (top, middle, base)}
    assert fall.weakened == (weak,)
    assert graph.get(top)["status"] == "held"
    graph.hold(base)
    graph.retract(base, cascade=True)
    assert [each["id"] for each in graph.all(held=True)] == [weak, apart]


def test_a_contradiction_is_told_once_with_its_path_and_again_when_it_comes_back():
    graph = BeliefGraph()
    told: list[dict] = []
    graph.on_contradiction(told.append)
    a, b, c = graph.add("a", confidence=0.9), graph.add("b", confidence=0.2), graph.add("c", confidence=0.8)
    graph.link(b, "contradicts", c)
    assert told == []
    graph.link(a, "requires", b)
    assert told == [
        {
            "between": [b, c],
            "direct": False,
            "left": [a],
            "right": [c],
            "path": [
                {"from": a, "type": "requires", "to": b},
                {"from": b, "type": "contradicts", "to": c},
            ],
        }
    ]
    graph.set_confidence(a, 0.95)
    assert len(told) == 1
    graph.set_confidence(c, 0.1)
    assert graph.contradictions() == []
    graph.set_confidence(c, 0.9)
    assert len(told) == 2
    assert graph.unlink(b, "contradicts", c)
    assert not graph.unlink(b, "contradicts", c)
    assert graph.contradictions() == []


def test_gaps_come_by_weight_and_then_newest_first():
    gaps, told = GapAnalyzer(), []
    gaps.on_gap_filled(lambda g: told.append(g["id"]))
    low, first, second = (
        gaps.add("low", criticality="low"),
        gaps.add("1", criticality="critical"),
        gaps.add("2", criticality="critical"),
    )
    assert [each["id"] for each in gaps.open()] == [second, first, low]
    gaps.fill(first, "it is the driver", by=["ev1"])
    gaps.fill(first, "it is the old driver")
    assert told == [first]
    assert gaps.reopen(first)["status"] == "open"


def test_checks_are_run_again_and_flaky_ones_are_seen(tmp_path):
    runner = VerificationRunner()
    marker = tmp_path / "there"
    first = runner.run("marker", f"test -e {marker}", cwd=tmp_path)
    marker.touch()
    second = runner.run("marker")
    assert (first["passed"], second["passed"]) == (False, True)
    assert runner.flaky() == []
    marker.unlink()
    assert not runner.run("marker")["passed"]
    assert runner.flaky() == ["marker"]
    assert runner.run("says", "echo hello", expect="hello", cwd=tmp_path)["passed"]
    assert not runner.run("says otherwise", "echo hello", expect="goodbye", cwd=tmp_path)["passed"]
    assert not runner.run("slow", "sleep 60", timeout=0.2, cwd=tmp_path)["passed"]
    assert runner.run("fails", "exit 3", exit_code=3, cwd=tmp_path)["passed"]

    def explode():
        raise ZeroDivisionError("by zero")

    assert runner.check("python", lambda: 1 + 1 == 2)["passed"]
    failed = runner.check("python", explode)
    assert (failed["passed"], failed["output"]) == (False, "ZeroDivisionError: by zero")
    assert [each["name"] for each in runner.rerun(failed=True)] == [
        "marker",
        "says otherwise",
        "slow",
        "python",
    ]


def test_experiments_keep_their_record_alone():
    manager = ExperimentManager()
    x = manager.start("skip the norm", purpose="is it needed?")
    assert manager.current_branch == "x1-skip-the-norm"
    manager.abandon(x, "it is needed")
    assert (manager.current_branch, manager.get(x)["lesson"]) == ("main", "it is needed")
    y = manager.start("other")
    manager.merge(y)
    assert manager.get(y)["status"] == "merged"


def test_commands_keep_previews_without_secrets(tmp_path):
    history = CommandHistory()
    token = "ghp_" + "A1b2" * 9
    done = history.run(f"echo {token}; echo oops >&2; exit 3", cwd=tmp_path)
    assert (done["exit_code"], done["working_dir"]) == (3, str(tmp_path))
    assert done["stdout_preview"] == "[redacted:github-token]\n"
    assert done["stderr_preview"] == "oops\n"
    assert token not in str(history.snapshot())
    long = history.run(["seq", "1", "200000"], cwd=tmp_path)
    assert len(long["stdout_preview"]) < 3000
    assert long["stdout_preview"].startswith("1\n2\n")
    assert long["stdout_preview"].endswith("200000\n")
    assert history.run(["no-such-program-here"], cwd=tmp_path)["exit_code"] == 127
    assert history.run("kill -9 $$", cwd=tmp_path)["exit_code"] == 137


def bad_calls():
    board, graph, gaps, notes = HypothesisBoard(), BeliefGraph(), GapAnalyzer(), Notes()
    runner, manager, history = VerificationRunner(), ExperimentManager(), CommandHistory()
    h, b = board.add("h"), graph.add("b")
    x = manager.start("x")
    manager.abandon(x, "no")
    return [
        (lambda: board.add(""), InvalidInputError),
        (lambda: board.add("x" * 30_000), InvalidInputError),
        (lambda: board.add("x", confidence=1.5), InvalidInputError),
        (lambda: board.add("x", confidence=float("nan")), InvalidInputError),
        (lambda: board.add("x", confidence=True), InvalidInputError),
        (lambda: board.add("x", confidence="high"), InvalidInputError),  # type: ignore[arg-type]
        (lambda: board.confirm("h99"), NotFoundError),
        (lambda: board.add_evidence(h, "x", strength=-0.1), InvalidInputError),
        (lambda: board.set_status(h, "maybe"), InvalidInputError),
        (lambda: board.supersede(h, h), InvalidInputError),
        (lambda: graph.link(b, "requires", b), InvalidInputError),
        (lambda: graph.link(b, "requires", "b99"), NotFoundError),
        (lambda: graph.link(b, "likes", graph.add("c")), InvalidInputError),
        (lambda: graph.set_confidence(b, 2), InvalidInputError),
        (lambda: gaps.add("x", criticality="huge"), InvalidInputError),
        (lambda: gaps.fill("g7", "x"), NotFoundError),
        (lambda: notes.add(" "), InvalidInputError),
        (lambda: notes.add("x", kind="song"), InvalidInputError),
        (lambda: runner.run("never"), NotFoundError),
        (lambda: manager.abandon("x9", "x"), NotFoundError),
        (lambda: manager.merge(x), InvalidInputError),
        (lambda: manager.switch("nowhere"), NotFoundError),
        (lambda: history.run("", cwd="."), InvalidInputError),
        (lambda: history.run("true", cwd="/no/such/folder"), InvalidInputError),
    ]


def test_bad_input_ends_in_a_clear_error_and_changes_nothing():
    for call, kind in bad_calls():
        with pytest.raises(HoldfastError) as raised:
            call()
        assert type(raised.value) is kind
        assert raised.value.hint


def test_a_snapshot_brings_a_part_back():
    graph = BeliefGraph()
    a, b = graph.add("a", confidence=0.9), graph.add("b", confidence=0.9)
    graph.link(a, "contradicts", b)
    twin = BeliefGraph()
    twin.restore(graph.snapshot())
    assert twin.snapshot() == graph.snapshot()
    assert len(twin.contradictions()) == 1
    assert twin.add("c") == "b3"
