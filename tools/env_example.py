"""Write .env.example from the settings there are; with --check, say whether it is up to date.

python tools/env_example.py [--check]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from holdfast.settings.keys import OTHER_VARIABLES, SETTINGS

FILE = Path(__file__).parent.parent / ".env.example"
HEAD = """\
# Every variable that holdfast reads, with its default. Copy the lines that you want to change: a variable wins over
# every settings file. One without a default has its line commented out. See docs/how-to/configuration.md.
# Written by tools/env_example.py; change src/holdfast/settings/keys.py instead.
"""


def content() -> str:
    """The whole file."""
    others = [f"\n# {about}\n# {name}=\n" for name, about in OTHER_VARIABLES.items()]
    return "".join([HEAD, *others, *(_setting(key) for key in SETTINGS)])


def _setting(key: str) -> str:
    known = SETTINGS[key]
    mark = "# " if known.default is None else ""
    return f"\n# {known.about} ({known.kind.wanted})\n{mark}{known.variable}={_text(known.default)}\n"


def _text(default: Any) -> str:
    if default is None:
        return ""
    return default if isinstance(default, str) else json.dumps(default)


def main() -> int:
    """Write the file, or check it."""
    made = content()
    if "--check" not in sys.argv:
        FILE.write_text(made, encoding="utf-8")
        return 0
    if FILE.exists() and FILE.read_text(encoding="utf-8") == made:
        return 0
    print(".env.example is not up to date: make docs")
    return 1


if __name__ == "__main__":
    sys.exit(main())
