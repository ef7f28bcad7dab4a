"""What to call checkpoints that have no message: by what they changed, in brackets, so that nobody takes it for one.

Each label is a comparison of two states. So there are only as many as a page has rows, where somebody asked for them,
and a state that cannot be read costs its label and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast import Checkpoint, Store

PAGE = 50
"""Labels on a terminal, unless more rows were asked for."""


def label_of(store: Store, checkpoint: Checkpoint) -> str | None:
    """Its message, or what it changed; None where that cannot be told."""
    try:
        return store.session(checkpoint.session).label(checkpoint)
    except HoldfastError:
        # Damaged, or gone a moment ago. Who wants to know asks for the state, and is told.
        return None


def labels_of(store: Store, shown: Iterable[Checkpoint], most: int | None = PAGE) -> dict[str, str]:
    """Labels in brackets by id, of the first of those that have no message."""
    unnamed = (each for each in shown if not each.message)
    found = ((each.id, label_of(store, each)) for each in islice(unnamed, most))
    return {name: f"({label})" for name, label in found if label}
