"""States as tagged JSON (`store/tagging.py` has the notation), written so that a terminal can be shown them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.cli._terminal import escape_json


def tagged_json(value: Any, *, depth: int = 0) -> Iterator[str]:
    """The JSON text of a state, in pieces; `depth` is where in a larger document it will stand."""
    # Imported by those who write a state: `--help` needs no store.
    from holdfast.store.tagging import tagged_json as written

    return map(escape_json, written(value, depth=depth))
