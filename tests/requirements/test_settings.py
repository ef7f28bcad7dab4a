"""Configuration: where an agent's settings come from, and that a store goes by them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Keep, Settings

EXAMPLE = Path(__file__).resolve().parents[2] / ".env.example"

YAML = """\
# ctx-sys.yaml
agent:
  checkpoints:
    enabled: false
    autoCheckpoint: false
    maxCheckpointsPerSession: 4
    pruneAfterDays: 7
    compressState: false        # Compress large states
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nobody"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *words], capture_output=True, text=True, check=True, env=os.environ
    )
    return done.stdout


@pytest.mark.requirement("P5")
def test_the_five_settings_of_a_plan_have_their_defaults_and_are_read_from_yaml(here: Path) -> None:
    defaults = Settings.load().checkpoint
    assert (defaults.enabled, defaults.auto, defaults.compress) == (True, True, True)
    assert (defaults.max_count, defaults.prune_after_days) == (10, 30)

    (here / "ctx-sys.yaml").write_text(YAML, encoding="utf-8")
    settings = Settings.load("ctx-sys.yaml")

    checkpoint = settings.checkpoint
    assert (checkpoint.enabled, checkpoint.auto, checkpoint.compress) == (False, False, False)
    assert (checkpoint.max_count, checkpoint.prune_after_days) == (4, 7)
    assert settings.origin("checkpoint.max_count") == "ctx-sys.yaml"
    rows = [
        line.split("\t") for line in command("config", "--explain", "--config", "ctx-sys.yaml").splitlines()
    ]
    assert ["checkpoint.auto", "false", "ctx-sys.yaml"] in rows
    assert ["checkpoint.compress", "false", "ctx-sys.yaml"] in rows


@pytest.mark.requirement("P5")
def test_a_store_and_a_session_go_by_what_the_yaml_says(here: Path, place: str) -> None:
    (here / "ctx-sys.yaml").write_text(YAML, encoding="utf-8")
    plan: dict[str, Any] = {
        "query": "Find all competitors",
        "results": [f"{n}: the same words again and again" for n in range(2000)],
    }

    def stored(config: str | None, session: str) -> tuple[int, float]:
        wanted = Settings.load(config).checkpoint
        keep = Keep(last=wanted.max_count, max_age_days=wanted.prune_after_days)
        with holdfast.open(place, compress=wanted.compress) as store:
            writer = store.session(session, keep=keep)
            saved = [writer.save(plan | {"step": step}) for step in range(15)]
            assert writer.load() == plan | {"step": 14}
            return len(list(writer.log())), saved[0].stored_bytes / saved[0].size_bytes

    kept, part = stored("ctx-sys.yaml", "as configured")
    assert kept <= 4
    assert part > 0.9
    plan["results"].reverse()  # so that it shares nothing with what is stored already
    kept, part = stored(None, "by default")
    assert kept <= 10
    assert part < 0.5


@pytest.mark.requirement("P5")
def test_a_mistake_in_the_yaml_names_the_file_the_line_and_what_was_meant(here: Path) -> None:
    (here / "agent.yaml").write_text(YAML.replace("pruneAfterDays", "pruneAftreDays"), encoding="utf-8")

    with pytest.raises(holdfast.InvalidInputError, match=r"unknown key .* in agent\.yaml") as caught:
        Settings.load("agent.yaml")

    assert caught.value.code == "bad-config"
    assert "did you mean agent.checkpoints.pruneAfterDays?" in caught.value.hint


@pytest.mark.requirement("H11")
def test_enabled_interval_and_maximum_come_from_files_and_the_environment(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wanted() -> tuple[bool, int | None, int | None]:
        checkpoint = Settings.load().checkpoint
        return checkpoint.enabled, checkpoint.interval_beats, checkpoint.max_count

    assert wanted() == (True, 50, 10)
    command("init")
    command("config", "checkpoint.interval_beats", "25")
    assert wanted() == (True, 25, 10)
    monkeypatch.setenv("HOLDFAST_CHECKPOINT_ENABLED", "false")
    monkeypatch.setenv("HOLDFAST_CHECKPOINT_INTERVAL_BEATS", "5")
    monkeypatch.setenv("HOLDFAST_CHECKPOINT_MAX_COUNT", "3")
    assert wanted() == (False, 5, 3)
    assert "HOLDFAST_CHECKPOINT_MAX_COUNT" in command("config", "--explain", "checkpoint.max_count")


@pytest.mark.requirement("H11")
def test_the_example_environment_file_has_the_defaults() -> None:
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()

    assert {
        "HOLDFAST_CHECKPOINT_ENABLED=true",
        "HOLDFAST_CHECKPOINT_INTERVAL_BEATS=50",
        "HOLDFAST_CHECKPOINT_MAX_COUNT=10",
    } <= set(lines)
    variables = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert Settings.load(environ=variables) == Settings.load(environ={})
