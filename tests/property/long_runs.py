"""How often a state machine runs whose every run is many calls of a whole store.

Such a run costs as much as hundreds of ordinary examples. So there are fewer of them, except in the nightly profile,
which has the time.
"""

from __future__ import annotations

from hypothesis import settings

NIGHTLY = 1000


def long_runs(steps: int, *, share: int = 4) -> settings:
    """Settings of the profile in use, with a quarter of its examples or less, of so many steps each."""
    assert settings.default is not None
    examples = settings.default.max_examples
    return settings(
        max_examples=examples if examples >= NIGHTLY else max(examples // share, 2), stateful_step_count=steps
    )
