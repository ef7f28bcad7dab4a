"""What a store is made of, shared by the Store and the Sessions it hands out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, cast

from holdfast.history.names import check_label
from holdfast.objects.codec.registry import GLOBAL, TypeRegistry
from holdfast.objects.tree.chunk_cache import KEPT_BYTES, ChunksAtHand
from holdfast.record import Record
from holdfast.storage.ports import Backend, ReadsAhead
from holdfast.store.keep import Retention
from holdfast.store.metrics import Metrics

if TYPE_CHECKING:
    from holdfast.objects.tree.boundaries import Cuts

_AT_HAND_BYTES: Final = KEPT_BYTES


def system_clock() -> int:
    """Microseconds since 1970 UTC."""
    return time.time_ns() // 1000


class Composition(Record):
    """A backend, the types states may hold, the application's version, a clock, retention and metrics."""

    stored_in: Backend
    types: TypeRegistry
    app_version: str | None
    clock: Callable[[], int]
    retention: Retention
    metrics: Metrics
    at_hand: ChunksAtHand
    """For loads: what the last ones read."""
    ahead: ReadsAhead | None
    """The backend, if it can bring along what a load asks first."""
    cuts: Cuts | None = None
    """For tests: other figures to cut states by than those of the format."""

    @property
    def backend(self) -> Backend:
        """The backend, for whoever is about to use the store.

        Every call that reads or writes comes by here. So this is where what is too old at hand goes: a program that
        loads once and only saves from then on does not hold it for ever.
        """
        self.at_hand.let_go()
        return self.stored_in


def compose(
    backend: Backend, types: Iterable[type], app_version: str | None, clock: Callable[[], int]
) -> Composition:
    """The parts of a store around a backend; see `Store`."""
    version = check_label(app_version, "application version")
    metrics = Metrics()
    retention = Retention(backend, metrics)
    at_hand = ChunksAtHand(_AT_HAND_BYTES)
    # Of its class: one that hands on whatever it does not know to another may want to see who reads.
    ahead = cast("ReadsAhead", backend) if hasattr(type(backend), "reader_for") else None
    return Composition(backend, GLOBAL.child(types), version, clock, retention, metrics, at_hand, ahead)
