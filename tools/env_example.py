"""Write .env.example and docs/reference/settings.md from the table of settings; --check says whether they are current.

python tools/env_example.py [--check]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from holdfast.settings.keys import OTHER_VARIABLES, SETTINGS

ROOT = Path(__file__).parent.parent
FILE = ROOT / ".env.example"
PAGE = ROOT / "docs" / "reference" / "settings.md"
HEAD = """\
# Every variable that holdfast reads, with its default. Copy the lines that you want to change: a variable wins over
# every settings file. One without a default has its line commented out. See docs/how-to/configuration.md.
# Written by tools/env_example.py; change src/holdfast/settings/keys.py instead.
"""
TITLE = """\
# Settings

Every key, its default and its meaning. The variable of `checkpoint.max_count` is `HOLDFAST_CHECKPOINT_MAX_COUNT`; in a
file and in a variable `checkpoints` is as good as `checkpoint`. [Configure holdfast](../how-to/configuration.md) says
where they are set and which place wins. Written by `tools/env_example.py`.

| key | default | value | meaning |
|---|---|---|---|
"""


def content() -> str:
    """The whole example file."""
    others = [f"\n# {about}\n# {name}=\n" for name, about in OTHER_VARIABLES.items()]
    return "".join([HEAD, *others, *(_setting(key) for key in SETTINGS)])


def page() -> str:
    """The whole reference page."""
    rows = [
        f"| `{key}` | {f'`{_text(known.default)}`' if known.default is not None else '-'} | {known.kind.wanted} | "
        f"{known.about} |\n"
        for key, known in SETTINGS.items()
    ]
    others = [f"| `{name}` | {about} |\n" for name, about in OTHER_VARIABLES.items()]
    return "".join([TITLE, *rows, "\n| variable that no file can set | meaning |\n|---|---|\n", *others])


def _setting(key: str) -> str:
    known = SETTINGS[key]
    mark = "# " if known.default is None else ""
    return f"\n# {known.about} ({known.kind.wanted})\n{mark}{known.variable}={_text(known.default)}\n"


def _text(default: Any) -> str:
    if default is None:
        return ""
    return default if isinstance(default, str) else json.dumps(default)


def main() -> int:
    """Write the files, or check them."""
    wrong = 0
    for file, made in ((FILE, content()), (PAGE, page())):
        if "--check" not in sys.argv:
            file.write_text(made, encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != made:
            print(f"{file.name} is not up to date: make docs")
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
