"""A notebook as a whole: two writers, experiments, the brief, secrets, recovery of what was not saved."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.workspace.repositories import repository
from tests.workspace.test_secrets import samples

import holdfast
from holdfast import ConflictError, HoldfastWarning, InvalidInputError, NotFoundError
from holdfast.agents import Notebook, Workspace
from holdfast.agents.notebook.brief import estimate_tokens


@pytest.fixture
def store():
    with holdfast.open("memory:") as opened:
        yield opened


def test_a_session_with_another_state_is_refused(store):
    store.session("x").save({"not": "a notebook"})
    with pytest.raises(InvalidInputError):
        Notebook(store.session("x"))
    nb = Notebook(store.session("y"))
    nb.checkpoint("one")
    store.session("y").save([1, 2])
    with pytest.raises(InvalidInputError):
        nb.state("@")


def test_a_notebook_that_lost_a_race_goes_on_with_a_branch_of_its_own_and_says_so(store):
    one, other = Notebook(store.session("x")), Notebook(store.session("x"))
    one.board.add("from one")
    one.checkpoint("one")
    other.board.add("from the other")
    with pytest.warns(HoldfastWarning, match="another writer"):
        made = other.checkpoint("other")
    assert made.branch != "main"
    assert other.session.branch == made.branch
    other.notes.add("goes on")
    assert other.checkpoint("again").branch == made.branch
    assert [each["statement"] for each in one.state("main").hypotheses] == ["from one"]
    assert [each["statement"] for each in other.state("@").hypotheses] == ["from the other"]
    strict = Notebook(store.session("x", branch="main"), on_conflict="raise")
    one.checkpoint("moved")
    strict.notes.add("kept")
    before = strict.state().metrics
    with pytest.raises(ConflictError):
        strict.checkpoint("lost")
    assert strict.state().metrics == before
    assert strict.notes.all()[-1]["text"] == "kept"


def test_two_experiments_meet_without_a_clash_of_ids(store):
    nb = Notebook(store.session("x"))
    shared = nb.board.add("shared")
    first = nb.experiments.start("first")
    in_first = nb.board.add("found in the first")
    nb.experiments.switch("main")
    second = nb.experiments.start("second")
    in_second = nb.board.add("found in the second")
    nb.gaps.fill(nb.gaps.add("why?"), "because")
    assert nb.experiments.merge(second).conflicts == ()
    nb.experiments.switch(first)
    assert [each["id"] for each in nb.board.all()] == [shared, in_first]
    nb.gaps.fill(nb.gaps.add("what?"), "that")
    assert nb.experiments.merge(first).conflicts == ()
    assert nb.session.branch == "main"
    assert {each["id"] for each in nb.board.all()} == {shared, in_first, in_second}
    assert len({shared, in_first, in_second}) == 3
    assert {each["status"] for each in nb.experiments.all()} == {"merged"}
    assert nb.state().metrics["gaps_filled"] == 2
    assert nb.board.add("after") == "h2"


def test_a_conflict_between_experiments_is_data_and_nothing_is_merged(store):
    nb = Notebook(store.session("x"))
    h = nb.board.add("shared")
    x = nb.experiments.start("idea")
    nb.board.set_confidence(h, 0.9)
    nb.experiments.switch("main")
    nb.board.set_confidence(h, 0.1)
    nb.experiments.switch(x)
    report = nb.experiments.merge(x)
    assert any(each.path == f"hypotheses.{h}.confidence" for each in report.conflicts)
    assert nb.experiments.get(x)["status"] == "active"
    assert nb.board.get(h)["confidence"] == 0.9


def test_no_secret_of_any_kind_reaches_the_store_file(tmp_path, monkeypatch):
    folder = repository(tmp_path / "r", {"a": b"a"})
    secrets = {kind: each[0] for kind, each in samples(7).items()}
    secrets["aws-secret-key"] = f"AWS_SECRET_ACCESS_KEY={secrets['aws-secret-key']}"
    for number, text in enumerate(secrets.values()):
        monkeypatch.setenv(f"TEST_VALUE_{number}", text.replace("\n", " "))
    monkeypatch.setenv("PYTHON_PASSWORD", "correct-horse-battery")
    place = tmp_path / "store.db"
    with holdfast.open(str(place), compress=False) as store:
        nb = Notebook(store.session("x"), workspace=Workspace(folder))
        for text in secrets.values():
            nb.notes.add(f"saw {text}")
            nb.board.add_evidence(nb.board.add(f"it is {text}"), text, source=text)
            (tmp_path / "out").write_text(f"log line\n{text}\nlog line\n")
            nb.commands.run(f"cat {tmp_path / 'out'}; cat {tmp_path / 'out'} >&2", cwd=folder)
            nb.checks.run("check", f"cat {tmp_path / 'out'}; false", cwd=folder)
        nb.checkpoint(f"message {secrets['github-token']}")
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("store.db*"))
    assert b"log line" in stored
    for kind, text in secrets.items():
        value = text.partition("=")[2] if kind in ("aws-secret-key", "azure-key") else text
        value = value.split(":")[2].partition("@")[0] if kind == "url-password" else value
        value = value.split('"')[1] if kind == "named-secret" else value
        for line in value.splitlines():
            assert "PRIVATE KEY" in line or line.encode() not in stored, kind
    assert b"correct-horse-battery" not in stored


texts = st.text(min_size=1, max_size=400).filter(lambda text: text.strip())


@settings(max_examples=30)
@given(
    items=st.lists(
        st.tuples(st.sampled_from(["goal", "hypothesis", "rejected", "belief", "gap", "next"]), texts),
        max_size=40,
    ),
    budget=st.integers(60, 2500),
)
def test_a_brief_stays_in_its_budget_is_the_same_each_time_and_says_what_it_leaves_out(items, budget):
    with holdfast.open("memory:") as store:
        nb = Notebook(store.session("x"), auto=False)
        for kind, text in items:
            if kind in ("goal", "next"):
                nb.notes.add(text, kind=kind)
            elif kind == "belief":
                nb.beliefs.add(text, confidence=0.8)
            elif kind == "gap":
                nb.gaps.add(text, criticality="critical")
            else:
                h = nb.board.add(text)
                if kind == "rejected":
                    nb.board.reject(h, evidence="no")
        nb.checkpoint("all")
        brief = nb.brief(budget)
        assert estimate_tokens(brief) <= budget
        assert Notebook(store.session("x")).brief(budget) == brief
        shown = sum(line.startswith("- ") and not line.endswith(" omitted") for line in brief.splitlines())
        left = [
            int(line.split()[1])
            for line in brief.splitlines()
            if line.startswith("- ") and line.endswith(" omitted")
        ]
        if "sections omitted" not in brief:
            assert shown + sum(left) == len(items)


def test_a_brief_puts_the_newest_blockers_first_and_has_a_smallest_size(store):
    nb = Notebook(store.session("x"), auto=False)
    for n in range(50):
        nb.gaps.add(f"critical question {n}", criticality="critical")
    brief = nb.brief(200)
    assert brief.index("question 49") < brief.index("question 48")
    assert "omitted" in brief
    for budget in (0, -1, 59):
        with pytest.raises(InvalidInputError):
            nb.brief(budget)


def test_what_no_checkpoint_has_is_known_and_flushed(store):
    nb = Notebook(store.session("x"), auto=False)
    nb.notes.add("not saved yet")
    assert nb.has_changes()
    assert nb.flush("now") == nb.last
    assert nb.flush() is None
    with pytest.raises(NotFoundError):
        nb.why("b99")


def test_a_capture_that_fails_stops_the_save_and_loses_nothing(store, tmp_path):
    folder = repository(tmp_path / "r", {"a": b"a"})
    nb = Notebook(store.session("x"), workspace=Workspace(folder), auto=False)
    nb.notes.add("kept")
    (folder / ".git" / "HEAD").rename(tmp_path / "HEAD")
    with pytest.raises(holdfast.UnsupportedError):
        nb.checkpoint("no code")
    (tmp_path / "HEAD").rename(folder / ".git" / "HEAD")
    assert [each["text"] for each in nb.state(nb.checkpoint("again")).notes] == ["kept"]


def test_a_clock_that_went_back_takes_no_time_away(store, monkeypatch):
    nb = Notebook(store.session("x"))
    monkeypatch.setattr(time, "time_ns", lambda: 10**18)
    nb.notes.add("when the clock went back")
    nb.checkpoint("back")
    assert nb.state("@").metrics["time_in_debugging"] == 0


def test_a_notebook_that_is_looked_at_shows_the_same_and_cannot_be_saved(store):
    nb = Notebook(store.session("x"))
    h = nb.board.add("it is the cache")
    a, b = nb.beliefs.add("a", confidence=0.9), nb.beliefs.add("b", confidence=0.9)
    nb.beliefs.link(a, "contradicts", b)
    nb.checkpoint("all")
    looked_at = Notebook(store.session("x"), writable=False)
    assert looked_at.brief(500) == nb.brief(500)
    assert looked_at.state() == nb.state()
    assert looked_at.contradictions() == nb.contradictions()
    assert not looked_at.has_changes()
    with pytest.raises(InvalidInputError):
        looked_at.checkpoint("no")
    with pytest.raises(InvalidInputError):
        looked_at.board.confirm(h)
    assert nb.state("@").hypotheses[0]["status"] == "open"
