"""What the source documents ask of files: portable, readable, in git, pruned with their checkpoints."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys

import pytest

import holdfast
from holdfast import IntegrityError, Keep, UnsupportedError

FOREIGN = {
    "version": "0.0.1",
    "id": "ckpt_abc123",
    "timestamp": 1738790400000,
    "execution_id": "exec_xyz",
    "agent_id": "my-agent",
    "snapshot": {
        "thought_chain": [{"id": "thought_001", "type": "reasoning", "content": "look", "confidence": 0.85}],
        "context": {"variables": {"task": "code analysis"}, "state": {}, "history": []},
        "tool_state": {"calls": [], "results": {}},
        "progress": {"step_number": 1, "total_thoughts": 1, "total_tool_calls": 0},
    },
    "metadata": {
        "step_number": 1,
        "tokens_used": 250,
        "duration_ms": 1200,
        "checkpoint_reason": "thought_completed",
    },
}


@pytest.fixture
def store(place):
    with holdfast.open(place, durability="process") as opened:
        yield opened


@pytest.mark.requirement("H12")
def test_a_gzip_file_comes_with_each_save_and_goes_with_its_checkpoint(store, tmp_path):
    session = store.session("agent", export_dir=tmp_path / "backups", keep=Keep(last=3))
    for beat in range(6):
        session.save({"beat": beat})
    files = sorted((tmp_path / "backups").iterdir())
    assert len(files) == 3
    assert all(re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{4,}\.json\.gz", each.name) for each in files)
    assert sorted(json.loads(gzip.decompress(each.read_bytes()))["state"]["beat"] for each in files) == [
        3,
        4,
        5,
    ]
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.requirement("K10")
def test_json_lines_are_written_appended_and_read(store, tmp_path):
    path = tmp_path / "log.jsonl"
    session = store.session("agent")
    for step in range(4):
        session.save({"step": step})
        session.export("@", path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [each["state"]["step"] for each in lines] == [0, 1, 2, 3]
    with holdfast.open(tmp_path / "other.db") as other:
        other.import_(path)
        assert [other.session("agent").load(f"@~{back}")["step"] for back in range(4)] == [3, 2, 1, 0]
    # A torn last line costs that line alone, and the next one that is appended comes after those that are whole.
    path.write_bytes(path.read_bytes()[:-40])
    with (
        holdfast.open("memory:") as other,
        pytest.warns(holdfast.HoldfastWarning, match="line 4 is cut short"),
    ):
        assert other.import_(path).checkpoints == 3
    session.export("@", path)
    assert [json.loads(line)["state"]["step"] for line in path.read_text().splitlines()] == [0, 1, 2, 3]


@pytest.mark.requirement("C2")
def test_one_file_a_checkpoint_in_which_one_changed_value_is_one_changed_line(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = store.session("agent", export_dir=True, export_format="json")
    session.save({"plan": ["a", "b", "c"], "score": 1})
    session.save({"plan": ["a", "x", "c"], "score": 1})
    texts = (each.read_text() for each in (tmp_path / "checkpoints").iterdir())
    first, second = sorted(texts, key=lambda text: '"x"' in text)
    states = [
        text[text.index('\n  "state"') : text.index('\n  "status"')].splitlines() for text in (first, second)
    ]
    changed = [(a, b) for a, b in zip(*states, strict=True) if a != b]
    assert changed == [('      "b",', '      "x",')]
    (tmp_path / "bad.json").write_text(second.replace('"x"', '"y"'))
    with pytest.raises(IntegrityError):
        store.import_(tmp_path / "bad.json")


@pytest.mark.requirement("C9")
def test_files_without_hashes_come_in_by_their_id_and_unknown_versions_are_refused(store, tmp_path):
    (tmp_path / "ckpt_abc123.json").write_text(json.dumps(FOREIGN))
    store.import_(tmp_path / "ckpt_abc123.json")
    session = store.session("exec_xyz")
    assert session.load("key:ckpt_abc123") == FOREIGN["snapshot"]
    assert session.checkpoint("key:ckpt_abc123").tokens == 250
    for version in ("7.0.0", 2):
        (tmp_path / "later.json").write_text(json.dumps(FOREIGN | {"version": version}))
        with pytest.raises(UnsupportedError, match="version"):
            store.import_(tmp_path / "later.json")


@pytest.mark.requirement("C10")
def test_files_that_one_person_commits_to_git_are_restored_by_another(store, tmp_path):
    def git(*words, cwd):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *words], cwd=cwd, check=True, capture_output=True)

    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    mine.mkdir()
    git("init", "-q", cwd=mine)
    session = store.session("agent", export_dir=mine / "checkpoints", export_format="json")
    for step in range(3):
        session.save({"step": step, "seen": {"b", "a"}, "when": (2026, 11)})
    git("add", ".", cwd=mine)
    git("commit", "-q", "-m", "checkpoints", cwd=mine)
    git("clone", "-q", str(mine), str(theirs), cwd=tmp_path)
    with holdfast.open(tmp_path / "theirs.db") as other:
        other.import_(theirs / "checkpoints")
        restored = other.session("agent")
        assert [(each.id, each.root) for each in restored.log()] == [
            (each.id, each.root) for each in session.log()
        ]
        assert restored.load() == session.load()
        changed = next((theirs / "checkpoints").iterdir())
        changed.write_text(changed.read_text().replace("2026,", "2027,"))
        with pytest.raises(IntegrityError):
            other.import_(theirs / "checkpoints")


@pytest.mark.requirement("C5")
def test_work_goes_on_from_an_id_a_file_or_an_object(store, tmp_path):
    session = store.session("agent")
    first = session.save({"step": 1})
    session.save({"step": 2})
    session.export(first, tmp_path / "first.json")
    session.restore(first.id)
    assert session.load() == {"step": 1}
    session.restore(first)
    assert session.save({"step": 3}).parent is not None
    program = (
        "import sys, holdfast\n"
        "with holdfast.open(sys.argv[1]) as store:\n"
        "    store.import_(sys.argv[2])\n"
        "    session = store.session('agent')\n"
        "    state = session.load()\n"
        "    state['step'] += 1\n"
        "    print(session.save(state).parent, session.load())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "new.db"), str(tmp_path / "first.json")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split(" ", 1) == [first.id, "{'step': 2}\n"]
