"""Where a sequence is cut into runs: by content, so that an edit moves only the cuts around it.

After each item its hash is compared with a chance that grows with the third power of what the run holds already. Runs
are therefore rarely much shorter or longer than the aim (a Weibull distribution of shape 4), and which items end a run
depends on the items alone, not on how they came there. Everything is whole numbers: a rounding difference between two
machines would give one state two roots. The figures are part of the format (docs/spec/tree.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from typing import Any, Final

import xxhash

from holdfast.record import Record

_LEAF_CHANCE: Final = 4.000001 * 2.0**64

_FEW_ITEMS: Final = 4
"""They say nothing of others."""
_LEAST_AT_ONCE: Final = 16
_MOST_AT_ONCE: Final = 64
_BYTES_AT_ONCE: Final = 4_096


class Cuts(Record):
    """The figures by which a state is cut. Tests use small ones, so that small states have all there is."""

    item_limit: int
    """Encoded bytes; a larger value becomes a node, a smaller one stays whole where it is."""
    leaf_scale: int
    """Bytes; runs of items have 0.906 of this on average, and never twice this and an item more."""
    index_scale: int
    """Entries; the same for an index."""
    node_weight: int
    """What a node counts for when runs are cut. It has bytes at its own right edge, and counting those would end the
    run of a state with one long list and a few short values half of the time: two chunks a save instead of one."""
    piece_min: int
    piece_mean: int
    piece_max: int
    """Bytes; for values that are cut without regard to what is in them (FastCDC)."""
    node_depth: int
    """Nodes in nodes; what lies deeper is cut as plain bytes. Agents' states have three or four."""
    node_limit: int
    """Bytes; a node that would be larger gives what it keeps of its right edge away (`spilling`)."""

    def canonical(self) -> str:
        """The figures as one line of text, for a store to record: by other figures states have other roots."""
        figures = ",".join(f"{name}={value}" for name, value in self._asdict().items())
        return f"holdfast-tree/0:{figures}"

    def largest_chunk(self) -> int:
        """No chunk of a tree has more bytes, whatever is in the state."""
        # A run ends at twice its scale; the item that ends it may have a key and a value of the largest size.
        run = 2 * self.leaf_scale + 2 * self.item_limit
        in_a_run = 2 * self.leaf_scale // self.node_weight + 1
        # A node that gave away all it can has one entry for each level, of which there are 40 at most.
        node = max(self.node_limit, 40 * 46 + 64)
        # The kind, the header of the array, and a header for each node and each string between two.
        mixed = 1 + 5 + in_a_run * (node + 5) + run + (in_a_run + 1) * 5
        return max(mixed, self.piece_max + 1, 2 * self.index_scale * 44 + 1)

    def ends_leaf(self, number: int, weight: int, total: int) -> bool:
        """Whether an item with that token and weight ends a run that has `total` with it."""
        scale = self.leaf_scale
        # Without the limit, items made for the purpose would never end a run.
        if total >= 2 * scale:
            return True
        # Most can be told without working with numbers of 150 bits. The margin is for the rounding of floats.
        share = total / scale
        if number > _LEAF_CHANCE * weight / scale * share * share * share:
            return False
        return number * scale**4 < (4 * weight * total**3) << 64

    def first_end(self, numbers: list[int], weights: list[int], total: int) -> int | None:
        """The first of several items that ends a run, which has `total` before them; None where none of them does.

        The same as asking `ends_leaf` for each, in a third of the time.
        """
        scale = self.leaf_scale
        chance, most = _LEAF_CHANCE / scale**4, 2 * scale
        totals = list(accumulate(weights, initial=total))[1:]
        likely = [
            place
            for place, (number, weight, held) in enumerate(zip(numbers, weights, totals, strict=True))
            if number <= chance * weight * held * held * held or held >= most
        ]
        ends = (place for place in likely if self.ends_leaf(numbers[place], weights[place], totals[place]))
        return next(ends, None)

    def ends_index(self, name: bytes, count: int) -> bool:
        """Whether an entry ends an index that has `count` with it. Hashes are random enough to decide by."""
        return name < _index_bounds(self.index_scale)[count]

    def index_bounds(self) -> tuple[bytes, ...]:
        """By number of entries: an index ends after an entry whose name is lower than this."""
        return _index_bounds(self.index_scale)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """A long value cut by its bytes, from left to right."""
        # 26 ms to import, and only very long values need it.
        from pyfastcdc import FastCDC

        chunker: Any = FastCDC(
            min_size=self.piece_min,
            avg_size=self.piece_mean,
            max_size=self.piece_max,
            normalized_chunking=1,
            seed=0,
        )
        for cut in chunker.cut_buf(data):
            yield data[cut.offset : cut.offset + cut.length]


FORMAT_0: Final = Cuts(
    item_limit=16_384,
    leaf_scale=18_000,
    index_scale=36,
    node_weight=4_096,
    piece_min=4_096,
    piece_mean=16_384,
    piece_max=65_536,
    node_depth=32,
    node_limit=65_536,
)


@cache
def _index_bounds(scale: int) -> tuple[bytes, ...]:
    """For each number of entries in an index, the lowest name that does not end it.

    Asked for every run of every save: the bytes of a name compare like the number that they are, and need not become
    one.
    """
    numbers = [-((-4 * count**3 << 64) // scale**4) for count in range(2 * scale)]
    numbers[:2] = [0, 0]
    bounds = [number.to_bytes(8, "big") if number < 1 << 64 else _PAST_ALL for number in numbers]
    return (*bounds, _PAST_ALL)


_PAST_ALL: Final = b"\xff" * 33


token = xxhash.xxh3_64_intdigest
"""The number that stands for an item when cuts are decided. Called for each item, so there is no function around it."""


def worth_at_once(count: int, size: int) -> int:
    """How many items to encode at once, where `count` like them take `size` bytes: some small ones, or one.

    What is encoded beyond the end of a run is encoded for nothing, so that there are not too many.
    """
    if count < _FEW_ITEMS:
        return 1
    some = min(_MOST_AT_ONCE, _BYTES_AT_ONCE * count // (size or 1))
    return some if some >= _LEAST_AT_ONCE else 1


def literals(values: list[bytes], names: list[bytes]) -> tuple[list[bytes], list[int]]:
    """The items of a list, or the pairs of a dict, as they stand in a run; and the number of each, see `token`."""
    # Of a pair the name alone decides about the cut: a new value of about the same size moves none.
    parts = [name + value for name, value in zip(names, values, strict=True)] if names else values
    return parts, list(map(token, names or values))
