"""A settings file that is named, with --config or HOLDFAST_CONFIG: YAML and TOML, explained."""

from __future__ import annotations

import json
import os
import tomllib

import apsw
import pytest
from tests.surfaces.cli.json_schema import load, problems

KEPT_IN = ["sqlite"]

YAML = """\
agent:
  checkpoints:
    maxCheckpointsPerSession: 7
    compressState: false
    intervalSeconds: 1.5
session: mine
"""


@pytest.fixture
def agent(home):
    path = home / "agent.yaml"
    path.write_text(YAML, encoding="utf-8")
    return path


def explained(run, *args, **options):
    result = run("config", "--explain", *args, **options)
    assert result.exit_code == 0, result.stderr
    return {row[0]: row[1:] for row in (line.split("\t") for line in result.stdout.splitlines())}


def codecs(path):
    connection = apsw.Connection(str(path), vfs="cksmvfs")
    found = {codec for (codec,) in connection.execute("SELECT codec FROM chunks")}
    connection.close()
    return found


@pytest.mark.usefixtures("agent")
@pytest.mark.parametrize("by", ["option", "variable"])
def test_each_value_of_a_yaml_file_is_explained_with_its_file(run, by):
    named = {"env": {"HOLDFAST_CONFIG": "agent.yaml"}} if by == "variable" else {}
    options = ["--config", "agent.yaml"] if by == "option" else []
    rows = explained(run, *options, **named)

    assert rows["checkpoint.max_count"] == ["7", "agent.yaml"]
    assert rows["checkpoint.compress"] == ["false", "agent.yaml"]
    assert rows["checkpoint.interval_seconds"] == ["1.5", "agent.yaml"]
    assert rows["session"] == ["mine", "agent.yaml"]
    assert rows["checkpoint.interval_beats"] == ["50", "default"]
    stderr = run("config", "--explain", *options, **named).stderr
    assert "read: agent.yaml\n" in stderr


def test_it_stands_between_the_variables_and_the_file_of_the_store(run, agent, home):
    run("init")
    (home / ".holdfast" / "config.toml").write_text("[checkpoint]\nmax_count = 3\nprune_after_days = 4\n")
    env = {"HOLDFAST_CONFIG": "agent.yaml", "HOLDFAST_CHECKPOINT_INTERVAL_SECONDS": "9"}

    rows = explained(run, env=env)

    assert rows["checkpoint.max_count"] == ["7", "agent.yaml"]
    assert rows["checkpoint.prune_after_days"] == ["4", ".holdfast/config.toml"]
    assert rows["checkpoint.interval_seconds"] == ["9", "HOLDFAST_CHECKPOINT_INTERVAL_SECONDS"]


def test_the_json_is_as_its_schema_says(run, agent):
    record = json.loads(run("config", "--json", "--config", "agent.yaml").stdout)

    assert problems(record, load("config.schema.json")) == []
    assert record["files"][0] == {"path": "agent.yaml", "kind": "named", "exists": True}
    assert {
        "key": "checkpoint.interval_seconds",
        "value": 1.5,
        "origin": "agent.yaml",
        "default": None,
    } in (record["settings"])


def test_commands_go_by_it(run, agent):
    run("create", "in mine", "--config", "agent.yaml")

    assert "in mine" in run("list", "--session", "mine").stdout
    assert "in mine" in run("list", env={"HOLDFAST_CONFIG": str(agent)}).stdout


@pytest.mark.parametrize(
    ("args", "env"),
    [
        (["--config", "agent.yaml"], {}),
        ([], {"HOLDFAST_CHECKPOINT_COMPRESS": "false"}),
        (["--store", "elsewhere"], {"HOLDFAST_CONFIG": "agent.yaml"}),
    ],
)
def test_what_is_saved_is_stored_as_it_is_where_that_is_set(run, agent, home, args, env):
    state = home / "state.json"
    state.write_text(json.dumps({"notes": ["the same words again"] * 200}), encoding="utf-8")
    folder = home / ("elsewhere" if "--store" in args else ".holdfast")

    assert run("create", "a", "--state", str(state), *args, env=env).exit_code == 0
    assert codecs(folder / "store.db") == {0}
    state.write_text(json.dumps({"notes": ["other words again"] * 200}), encoding="utf-8")
    store = ["--store", str(folder)]
    assert run("create", "b", "--state", str(state), *store).exit_code == 0
    assert codecs(folder / "store.db") != {0}


def test_what_is_wrong_stops_a_command_and_is_shown_by_config(run, home):
    (home / "agent.yaml").write_text("agent:\n  checkpoints:\n    autoCheckpiont: true\n", encoding="utf-8")

    result = run("list", "--config", "agent.yaml")

    assert result.exit_code == 2
    assert "error: unknown key 'agent.checkpoints.autoCheckpiont' in agent.yaml\n" in result.stderr
    assert "did you mean agent.checkpoints.autoCheckpoint?" in result.stderr
    assert "code: bad-config" in result.stderr
    shown = run("config", "--explain", "--config", "agent.yaml")
    assert shown.exit_code == 0
    assert "wrong: unknown key 'agent.checkpoints.autoCheckpiont' in agent.yaml\n" in shown.stderr


def test_a_file_that_is_not_there_is_an_error(run):
    result = run("list", "--config", "nowhere.yaml")

    assert result.exit_code == 2
    assert "nowhere.yaml cannot be read: No such file or directory" in result.stderr
    assert run("list", env={"HOLDFAST_CONFIG": ""}).exit_code == 10


def test_a_wrong_variable_is_shown_beside_the_rest(run):
    env = {"HOLDFAST_CHECKPOINT_MAXCOUNT": "5", "HOLDFAST_CHECKPOINT_AUTO": "perhaps"}

    result = run("config", "--explain", env=env)

    assert result.exit_code == 0
    assert "wrong: there is no variable 'HOLDFAST_CHECKPOINT_MAXCOUNT'" in result.stderr
    assert "hint: did you mean HOLDFAST_CHECKPOINT_MAX_COUNT?" in result.stderr
    assert "wrong: HOLDFAST_CHECKPOINT_AUTO: checkpoint.auto has to be true or false" in result.stderr
    assert run("list", env=env).exit_code == 2


def test_without_the_library_it_is_said_what_to_install(process, agent, home):
    blocked = home / "blocked"
    (blocked / "yaml").mkdir(parents=True)
    (blocked / "yaml" / "__init__.py").write_text("raise ImportError('not here', name='yaml')\n")
    path = os.pathsep.join([str(blocked), os.environ.get("PYTHONPATH", "")])

    done = process("list", "--config", "agent.yaml", PYTHONPATH=path)

    assert done.returncode == 6
    assert "hint: pip install 'holdfast[yaml]'" in done.stderr
    shown = process("config", "--explain", "--config", "agent.yaml", PYTHONPATH=path)
    assert shown.returncode == 0
    assert "wrong: agent.yaml is YAML, and PyYAML, which reads it, is not installed" in shown.stderr


def test_numbers_and_words_can_be_set_in_the_file_of_the_store(run, home):
    run("init")
    for key, text in [
        ("checkpoint.interval_seconds", "2.5"),
        ("checkpoint.max_count", "all"),
        ("heartbeat.min_interval", "3"),
        ("checkpoint.enabled", "off"),
    ]:
        assert run("config", key, text).exit_code == 0

    written = tomllib.loads((home / ".holdfast" / "config.toml").read_text(encoding="utf-8"))
    assert written == {
        "checkpoint": {"interval_seconds": 2.5, "max_count": "all", "enabled": False},
        "heartbeat": {"min_interval": 3},
    }
    assert run("config", "checkpoint.max_count").stdout == "all\n"
