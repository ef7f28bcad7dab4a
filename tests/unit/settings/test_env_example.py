"""The example environment file names every variable, and copying it changes nothing."""

from __future__ import annotations

import re
from pathlib import Path

from tools.env_example import FILE

from holdfast.settings.keys import OTHER_VARIABLES, SETTINGS

SOURCES = Path(__file__).resolve().parents[3] / "src"


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
