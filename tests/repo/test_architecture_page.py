"""docs/architecture.md names files that exist, and leads through each path in at most ten of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
_FILE = re.compile(r"`([\w/]+(?:/|\.py|\.sql))`")


def files(text: str) -> set[str]:
    return {
        name for name in _FILE.findall(text) if "/" in name or (ROOT / "src" / "holdfast" / name).exists()
    }


def test_every_file_that_the_page_names_exists():
    missing = [
        name
        for name in sorted(files(PAGE))
        if not (ROOT / "src" / "holdfast" / name).exists() and not (ROOT / name).exists()
    ]

    assert missing == []


@pytest.mark.parametrize("path", ["A save", "A load", "An undo", "A commit on PostgreSQL"])
def test_a_path_has_at_most_ten_files(path):
    walk = PAGE.split(f"\n## {path}\n")[1].split("\n## ")[0]

    assert 3 <= len(files(walk)) <= 10, sorted(files(walk))
