"""What a predicate of a search may answer beside yes and no."""

from __future__ import annotations


class Skip:
    """What a predicate returns where it cannot say whether it holds: `return holdfast.Skip`."""
