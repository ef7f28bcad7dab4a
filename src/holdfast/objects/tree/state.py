"""A state as chunks, and chunks as a state.

A small state is one chunk. A large one is a tree: `splitting` cuts it, `joining` puts it together again, and neither
the codec below nor anything above knows the difference. What a writer remembers of its last save makes the next cheap.
"""

from __future__ import annotations

import gc
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holdfast.objects.codec.decode import decode_pieces
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.tree.read import Read, join_state
from holdfast.record import Record
from holdfast.storage.records import ChunkHash, NewChunk

if TYPE_CHECKING:
    from holdfast.objects.tree.boundaries import Cuts
    from holdfast.objects.tree.build import StateMemo


class EncodedState(Record):
    """A state on its way into a store."""

    root: ChunkHash
    size_bytes: int
    """All of it, before chunks are shared and compressed."""
    chunks: tuple[NewChunk, ...]
    """The chunks that the state in `memo` before this one did not have, children first."""
    memo: StateMemo
    """What to pass to the next `encode_state`, once these chunks are in the store."""
    relies_on: ChunkHash | None = None
    """The root of the state in that memo: where the store does not have it, these chunks are not enough."""
    kept_by: bytes | None = None
    """The id of a checkpoint that has that state, where who encoded it knows one."""
    nanoseconds: int = 0
    """How long it took to encode."""


def encode_state(
    value: Any, types: TypeRegistry, memo: StateMemo | None = None, *, cuts: Cuts | None = None
) -> EncodedState:
    """Turn a state into chunks: CPU only, no I/O.

    Args:
        value: The state.
        types: The classes it may hold.
        memo: Of a state whose chunks are all in the store; they are left out. The root is the same without it.
        cuts: For tests; those of the format by default.

    Raises:
        InvalidInputError: The state holds something that cannot be saved; the message has its path.
    """
    # A program that only loads never imports what saving needs.
    from holdfast.objects.tree.boundaries import FORMAT_0
    from holdfast.objects.tree.build import TreeBuilder

    began = perf_counter_ns()
    builder = TreeBuilder(types, memo, cuts or FORMAT_0)
    new_memo, size = builder.build(value)
    relies_on = memo.root if memo else None
    new = tuple(builder.new.values())
    return EncodedState(new_memo.root, size, new, new_memo, relies_on, None, perf_counter_ns() - began)


class JoinedState:
    """A state that was read and not decoded yet: what it takes from the store is there, whatever becomes of that."""

    __slots__ = ("_pieces",)

    def __init__(self, pieces: list[bytes | memoryview]) -> None:
        self._pieces = pieces

    def decode(self, types: TypeRegistry) -> Any:
        """The state; can be had once. See `decode_state`."""
        if not gc.isenabled():
            return decode_pieces(self._pieces, types)
        # Nothing in a state that is being built can be garbage yet, and looking through it, over and over, takes 40 %
        # of decoding 10 MB. The switch is the process's: a thread that turns it off while another is here may find it
        # on again, which costs time and breaks nothing.
        gc.disable()
        try:
            return decode_pieces(self._pieces, types)
        finally:
            gc.enable()


def read_state(root: ChunkHash, read: Read) -> JoinedState:
    """Read a state to be decoded later, outside of the view that it is read from; see `decode_state`."""
    return JoinedState(join_state(root, read))


def decode_state(root: ChunkHash, read: Read, types: TypeRegistry) -> Any:
    """Read a state back; every chunk is checked against its hash before it is looked into.

    Raises:
        IntegrityError: A chunk is missing or damaged.
        StateError: The state does not fit the program (`type-mismatch`, `upgrade-failed`), or is none
            (`decode-failed`).
        UnsupportedError: A newer version of holdfast wrote it (`format-too-new`).
    """
    return read_state(root, read).decode(types)
