"""Values of a state in one line: short for people, whole and as JSON for programs."""

from __future__ import annotations

import re
from typing import Any

_SHOWN = 400
"""Characters of a value in a table, before it is cut to the width of the terminal."""


def one_line(value: Any) -> str:
    """A value as people write it, on one line and not too long."""
    from holdfast.cli._notation import Limits, Notation

    lines = Notation(_SHOWN, Limits(items=8, characters=160, depth=3, lines=12)).lines(value)
    return " ".join(line.strip() for line in lines)


def json_line(value: Any) -> str:
    """A value as tagged JSON, on one line and whole."""
    from holdfast.cli._tagged import tagged_json

    # Line ends are only ever between the tokens of JSON, in whatever pieces it comes: those in a text are escaped.
    return re.sub(r"(,?)\n *", lambda found: found[1] and ", ", "".join(tagged_json(value)))


def json_member(name: str, value: Any, *, depth: int = 1) -> str:
    """One member of a larger JSON document, with a value of a state."""
    from holdfast.cli._tagged import tagged_json

    return f'"{name}": {"".join(tagged_json(value, depth=depth))}'
