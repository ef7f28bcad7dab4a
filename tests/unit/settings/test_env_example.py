"""The example environment file names every variable, and copying it changes nothing."""

from __future__ import annotations

import re
from pathlib import Path

from tools.env_example import FILE, content

from holdfast import Settings
from holdfast.settings.keys import OTHER_VARIABLES, SETTINGS

SOURCES = Path(__file__).resolve().parents[3] / "src"


def variables() -> dict[str, str]:
    lines = [
        line for line in FILE.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")
    ]
    return dict(line.split("=", 1) for line in lines)


def test_the_file_is_what_the_settings_make_of_it():
    assert FILE.read_text(encoding="utf-8") == content(), "make docs"


def test_the_variables_of_the_heartbeat_document_are_there_with_their_defaults():
    assert variables()["HOLDFAST_CHECKPOINT_ENABLED"] == "true"
    assert variables()["HOLDFAST_CHECKPOINT_INTERVAL_BEATS"] == "50"
    assert variables()["HOLDFAST_CHECKPOINT_MAX_COUNT"] == "10"


def test_copied_as_it_is_it_says_the_defaults():
    settings = Settings.load(environ=variables())

    assert settings.to_dict() == {key: known.default for key, known in SETTINGS.items()}
    assert {key for key in SETTINGS if settings.origin(key) != "default"} == {
        key for key, known in SETTINGS.items() if known.default is not None
    }


def test_every_variable_that_the_code_names_is_in_it():
    named = set(re.findall(r"^#? ?(HOLDFAST_\w+)=", FILE.read_text(encoding="utf-8"), re.MULTILINE))
    used = {
        name
        for path in SOURCES.rglob("*.py")
        for name in re.findall(r'"(HOLDFAST_[A-Z_]*[A-Z])"', path.read_text(encoding="utf-8"))
    }

    assert named == {known.variable for known in SETTINGS.values()} | set(OTHER_VARIABLES)
    # Steps are given this one.
    assert used - {"HOLDFAST_STEP_KEY"} <= named
