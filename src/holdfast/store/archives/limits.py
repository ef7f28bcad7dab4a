"""How much of anything an archive may hold; more is refused before room is made for it."""

from __future__ import annotations

from holdfast.record import Record


class ArchiveLimits(Record):
    """What an import takes in; what is refused is not read to its end."""

    checkpoint_bytes: int = 256 << 20
    """The text of one checkpoint, uncompressed."""
    values: int = 2_000_000
    """Values in one checkpoint. Each takes some 100 bytes of memory at least, however short its text is."""
    depth: int = 10_700
    """Values in each other. A state has at most 10,000 levels; tags add some."""
    text: int = 64 << 20
    """Bytes of one text."""
    checkpoints: int = 1_000_000
    """In one import."""
    branches: int = 10_000
    """New branches that one import may make: one for each line whose name is taken, or that follows nothing."""
