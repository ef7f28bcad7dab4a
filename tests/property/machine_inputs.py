"""What the store machine is fed with: writers, refs, states and what is said with a save."""

from __future__ import annotations

import copy

from hypothesis import strategies as st
from tests.values import identical, values

TAGS = ["golden", "verified", "it's"]
KEYS = ["k1", "k2", "k1 x", "\U0001f600", "\uffee"]
METADATA = [
    {},
    {"model": "m1"},
    {"model": "m2", "run": {"n": 1}},
    {"run": {"n": 1, "deep": [1, {"a": None}]}},
    {"n": 1.0},
]

WRITERS = st.integers(0, 2)
BRANCHES = st.sampled_from(["main", "main", "main-1", "main-1", "idea", "nowhere"])
TAG_LISTS = st.lists(st.sampled_from(TAGS), max_size=3)
# A few states that come again and again, for keys and shared chunks, and any state there can be. The model keeps
# copies, and deepcopy itself changes a few odd values: PureWindowsPath("C:C:C:") comes out as "C:C:".
STATES = st.sampled_from([None, 1, True, 1.0, {"step": 1}, {"step": True}, [1, 2], (1, 2), "x" * 5000]) | (
    values().filter(lambda value: identical(copy.deepcopy(value), value))
)
REF_KINDS = [
    "@",
    "@-",
    "@~2",
    "main",
    "main~1",
    "main-1",
    "main-1~1",
    "idea",
    "tag",
    "seq",
    "id",
    "id~",
    "object",
]
# What was saved lately comes often, so that several calls meet on one checkpoint.
REFS = st.tuples(st.sampled_from([*REF_KINDS, "@", "recent", "recent", "recent"]), st.integers(0, 8))
SAID = st.fixed_dictionaries(
    {},
    optional={
        "message": st.sampled_from(["", "found it", "line\nbreak", "\N{SNOWMAN}"]),
        "tags": TAG_LISTS,
        "step": st.integers(-1, 2),
        "status": st.sampled_from(["running", "paused", "completed", "failed", "interrupted"]),
        "trigger": st.sampled_from(["manual", "auto:x", "auto:y", "scheduled", "error"]),
        "metadata": st.sampled_from(METADATA),
        "tokens": st.integers(0, 9),
        "cost_usd": st.sampled_from([0.0, 0.1]),
        "duration_ms": st.sampled_from([0.5, 20.0]),
        "key": st.sampled_from(KEYS),
        "on_conflict": st.sampled_from(["raise", "fork"]),
    },
)
