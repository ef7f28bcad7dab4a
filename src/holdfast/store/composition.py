"""What a store is made of, shared by the Store and the Sessions it hands out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, cast

from holdfast.history.names import check_label
from holdfast.objects.at_hand import KEPT_BYTES, ChunksAtHand
from holdfast.objects.registry import GLOBAL, TypeRegistry
from holdfast.record import Record
from holdfast.storage.ports import Backend, ReadsAhead
from holdfast.store.metrics import Metrics

if TYPE_CHECKING:
    from holdfast.history.keep import Keep
    from holdfast.objects.cutting import Cuts
    from holdfast.store.place import Place
    from holdfast.store.policies import Coming
    from holdfast.store.retiring import Retirement
    from holdfast.store.upkeep import Upkeep

_AT_HAND_BYTES: Final = KEPT_BYTES


def system_clock() -> int:
    """Microseconds since 1970 UTC."""
    return time.time_ns() // 1000


class LazyUpkeep:
    """The automatic retention of a store, made and imported when a session asks for it."""

    def __init__(self, backend: Backend, metrics: Metrics) -> None:
        self._backend = backend
        self._metrics = metrics
        self._upkeep: Upkeep | None = None
        self._process = 0

    def along(self, place: Place, keep: Keep) -> Callable[[Coming], Retirement | None] | None:
        """See `Upkeep.along`."""
        return self._made().along(place, keep)

    def went(self, with_save: Retirement) -> None:
        """See `Upkeep.went`."""
        self._made().went(with_save)

    def after_save(self, place: Place, keep: Keep, *, is_done: bool) -> None:
        """See `Upkeep.after_save`."""
        self._made().after_save(place, keep, is_done=is_done)

    def _made(self) -> Upkeep:
        # What was under way when the process forked is the parent's.
        if self._upkeep is None or self._process != os.getpid():
            from holdfast.store.upkeep import Upkeep

            self._upkeep, self._process = Upkeep(self._backend, self._metrics), os.getpid()
        return self._upkeep

    def close(self) -> None:
        """See `Upkeep.close`."""
        if self._upkeep is not None:
            self._upkeep.close()


class Composition(Record):
    """A backend, the types states may hold, the application's version, a clock in microseconds, upkeep and metrics."""

    stored_in: Backend
    types: TypeRegistry
    app_version: str | None
    clock: Callable[[], int]
    upkeep: LazyUpkeep
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
    upkeep = LazyUpkeep(backend, metrics)
    at_hand = ChunksAtHand(_AT_HAND_BYTES)
    # Of its class: one that hands on whatever it does not know to another may want to see who reads.
    ahead = cast("ReadsAhead", backend) if hasattr(type(backend), "reader_for") else None
    return Composition(backend, GLOBAL.child(types), version, clock, upkeep, metrics, at_hand, ahead)
