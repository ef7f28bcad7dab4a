"""`holdfast export` and `holdfast import`, as people and programs use them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.surfaces.cli.json_schema import load, problems

import holdfast

PROGRAM = [sys.executable, "-m", "holdfast"]


@pytest.fixture
def home(tmp_path):
    with holdfast.open(tmp_path / "a.db") as store:
        session = store.session(agent="scout")
        for step in range(3):
            session.save({"step": step, "pair": (1, 2)}, f"step {step}", tags=["t"], metadata={"$type": "x"})
        session.fork("#2", "idea").save({"idea": True})
    return tmp_path


def run(home, *words, store="a.db", stdin=None, code=0):
    done = subprocess.run(
        [*PROGRAM, *words, "--store", store], cwd=home, input=stdin, capture_output=True, check=False
    )
    assert done.returncode == code, done.stderr.decode()
    return done


def fields(done):
    return dict(line.split("\t") for line in done.stdout.decode().splitlines())


def test_files_fit_their_schemas_and_go_from_store_to_store(home):
    run(home, "export", "--whole", "-o", "all.jsonl")
    header, *lines = (home / "all.jsonl").read_text().splitlines()
    schema = load("archive-session.schema.json")
    # The names of branches are the person's own.
    schema["properties"]["branches"]["properties"] = {"main": {"type": "string"}, "idea": {"type": "string"}}
    assert problems(json.loads(header), schema) == []
    schema = load("archive-checkpoint.schema.json")
    for field in ("metadata", "state"):
        schema["properties"][field].pop("type", None)
    assert len(lines) == 5
    for line in lines:
        assert problems(json.loads(line), schema) == []
    told = fields(run(home, "import", "all.jsonl", store="b.db"))
    assert told == {
        "sessions": "1",
        "new": "1",
        "updated": "0",
        "unchanged": "0",
        "checkpoints": "5",
        "unchanged_checkpoints": "0",
        "removed": "0",
        "cut_off": "0",
        "branches": "default:idea,default:main",
        "advanced": "",
    }
    listed = [
        run(home, "list", "--limit", "0", store=store).stdout.decode().split("\n")[0]
        for store in ("a.db", "b.db")
    ]
    assert listed[0].split("\t")[0] == listed[1].split("\t")[0]
    assert fields(run(home, "import", "all.jsonl", store="b.db"))["unchanged_checkpoints"] == "5"


def test_stdout_and_stdin_are_a_pipe_between_stores(home):
    text = run(home, "export", "@").stdout
    assert json.loads(text)["message"] == "step 2"
    made = run(home, "import", "-", store="b.db", stdin=text)
    assert fields(made)["checkpoints"] == "1"
    assert b"made a new store" in made.stderr
    whole = run(home, "export", "--whole").stdout
    assert fields(run(home, "import", "-", store="b.db", stdin=whole))["checkpoints"] == "4"


def test_a_changed_file_is_refused_with_its_own_exit_code_and_no_store_is_made(home):
    run(home, "export", "@", "-o", "c.json")
    path = home / "c.json"
    path.write_text(path.read_text().replace("step 2", "step 3"))
    error = run(home, "import", "c.json", store="b.db", code=9).stderr.decode()
    assert "c.json was changed" in error
    assert "archive-damaged" in error
    assert not (home / "b.db").exists()
    run(home, "import", "missing.json", store="b.db", code=4)
    (home / "no.json").write_text("{}")
    run(home, "import", "no.json", store="b.db", code=2)
    assert not (home / "b.db").exists()


def test_a_dry_run_says_the_same_and_writes_nothing(home):
    run(home, "export", "main~1..main", "#1", "-o", "out/", "--format", "json")
    assert len(list((home / "out").iterdir())) == 2
    dry = run(home, "import", "out", "--dry-run", "--json", store="b.db")
    assert not (home / "b.db").exists()
    real = run(home, "import", "out", "--json", store="b.db")
    said = [json.loads(each.stdout) for each in (dry, real)]
    assert said[0] | {"dry_run": False} == said[1] | {"target": said[0]["target"]}


def test_files_of_another_program_go_into_the_session_that_is_named(home):
    (home / "ckpt.json").write_text(
        json.dumps(
            {"version": "0.0.1", "id": "ckpt_abc123", "timestamp": 1738790400000, "snapshot": {"a": 1}}
        )
    )
    run(home, "import", "ckpt.json", "--session", "other", store="b.db")
    shown = run(home, "show", "key:ckpt_abc123", "--session", "other", "--json", store="b.db").stdout
    assert json.loads(shown)["state"] == {"a": 1}


def test_a_file_that_is_there_needs_force(home):
    run(home, "export", "-o", "c.json")
    assert b"--force" in run(home, "export", "-o", "c.json", code=2).stderr
    run(home, "export", "#1", "-o", "c.json", "--force")
    assert json.loads((home / "c.json").read_text())["message"] == "step 0"


def test_lines_are_appended_replaced_by_force_and_never_put_below_a_whole_session(home):
    for words in (["#1"], ["#2"], ["#2"]):
        run(home, "export", *words, "-o", "log.jsonl")
    assert [json.loads(each)["message"] for each in (home / "log.jsonl").read_text().splitlines()] == [
        "step 0",
        "step 1",
    ]
    run(home, "export", "#3", "-o", "log.jsonl", "--force")
    assert [json.loads(each)["message"] for each in (home / "log.jsonl").read_text().splitlines()] == [
        "step 2"
    ]
    run(home, "export", "--whole", "-o", "all.jsonl")
    with holdfast.open(home / "a.db") as store:
        store.session().save({"newer": 1})
    error = run(home, "export", "@", "-o", "all.jsonl", code=2).stderr
    assert b"whole session" in error
    assert b"--whole --force" in error
    told = json.loads(run(home, "--json", "export", "--whole", "--dry-run", "-o", "new.jsonl").stdout)
    assert (told["dry_run"], told["checkpoints"]) == (True, 6)
    assert not (home / "new.jsonl").exists()


def last_lines(done):
    return [each for each in done.stderr.decode().splitlines() if each.startswith("Undo: ")]


def test_what_comes_after_its_children_without_a_branch_can_be_forgotten(home):
    with holdfast.open(home / "plain.db") as store:
        session = store.session()
        for step in range(2):
            session.save({"step": step})
        session.export("@", home / "newest.json")
        session.export(path=home / "all.jsonl", session=True)
    run(home, "import", "newest.json", store="b.db")
    done = run(home, "import", "all.jsonl", store="b.db")
    assert (fields(done)["branches"], fields(done)["cut_off"]) == ("", "0")
    assert last_lines(done)[0].startswith(
        "Undo: holdfast forget --store b.db --session default REF, for each"
    )
