"""The verbs of the documents this project began with, as they write them, on a terminal and in a pipe.

The transcripts are in `snapshots/`, word for word. Ids, and times that depend on when the test runs, are replaced by
words; ids keep their length, so that columns stay where they are.
"""

from __future__ import annotations

import re
import shlex
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.surfaces.cli.places import place

from holdfast.backends.registry import connect
from holdfast.store import Store

SNAPSHOTS = Path(__file__).with_name("snapshots")

VERBS = [
    'create "After verifying Q4_0 dequant" --tags q4_0,verified',
    "list",
    "list --tag q4_0",
    "restore <id>",
    'at "2 hours ago"',
    'at "2025-01-20 14:30:00"',
    "timeline",
    "prune --keep-last 100 --keep-days 7",
]

CHANGING = [
    (r"\b20(?!25-01-20)[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-9:.]+Z", "TIME"),
    (r" +(AGE\b|now\b|[0-9]+(?:s|m|h|d|w|mo|y) ago\b)", "  AGE"),
    # The days and clocks of a timeline; midnight may lie between two of its rows.
    (r"(?:^[A-Z][a-z]+day (?!2025)[0-9-]+, UTC.*\n)", ""),
    (r"^(. +)(?!14:30:41|14:26:48)[0-9]{2}:[0-9]{2}:[0-9]{2}", r"\1HH:MM:SS"),
    (r" +(\+[0-9]+(?:ms|[smhd])(?: [0-9]+[smh])?|GAP)(?= )", "  GAP"),
    (r"(?<=14:26:48)  +", "  "),
    (r"\t[0-9]+\.[0-9]{6}\t", "\tGAP\t"),
    # A slow machine takes a minute for what a quick one does in a second.
    (r"#3, 1 h(?: [0-9]+ m)? before", "#3, 1 h before"),
    (r"next one 1 h 5[0-9] m after", "next one 1 h 59 m after"),
]
"""What is different each time, and the word for it."""


@pytest.fixture
def verbs(home, monkeypatch):
    """A store with two checkpoints of January 2025 and one of three hours ago; and the commands."""
    monkeypatch.setenv("TZ", "UTC")
    moments = [
        datetime(2025, 1, 20, 14, 26, 48, tzinfo=UTC).timestamp(),
        datetime(2025, 1, 20, 14, 30, 41, tzinfo=UTC).timestamp(),
        time.time() - 3 * 3600,
    ]
    clock = [0.0]
    backend = connect(place(home), durability="power", create=True, timeout=10)
    with Store(backend, clock=lambda: int(clock[0] * 1_000_000)) as store:
        session = store.session()
        saved = []
        for number, clock[0] in enumerate(moments, start=1):
            saved.append(session.save({"step": number}, f"step {number}", step=number))
    return [shlex.split(verb.replace("<id>", saved[0].id[:8])) for verb in VERBS]


def settled(text: str) -> str:
    """`text` without what is different each time."""
    known: dict[str, str] = {}

    def name(found: re.Match[str]) -> str:
        return known.setdefault(found.group()[:8], f"id-{len(known) + 1:05}")

    for pattern, word in CHANGING:
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return re.sub(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{8}\b", name, text)


def transcript(verbs, call) -> str:
    lines = []
    for words in verbs:
        lines += [f"$ holdfast {shlex.join(words)}\n", call(words)]
    return settled("".join(lines))
