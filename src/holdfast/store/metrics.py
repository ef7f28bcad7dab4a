"""Metrics: what a store counts about its own work in this process, as numbers for programs and for Prometheus.

Each Store object has one, and counts with each operation. In Prometheus the names begin with `holdfast_`, and counters
end in `_total`, as its conventions and its own client library want it.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import ErrorCode, UnsupportedError
from holdfast.record import Record

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Removed = Callable[[str, str, int, Sequence[str]], None]
"""Told of a session, why checkpoints were removed from it, how many, and their ids."""


@dataclass(frozen=True, slots=True)
class Total:
    """How many values there were, and what they add up to."""

    count: int
    sum: float


class MetricsSnapshot(Record):
    """What a store did in this process since it was opened."""

    checkpoint_save_count: int
    """Checkpoints written by `save`, of sessions and documents."""
    checkpoint_save_count_by: Mapping[tuple[str, str], int]
    """The same by (kind of trigger, status)."""
    checkpoint_save_size_bytes: Total
    """The sizes of their states, encoded."""
    checkpoint_save_stored_bytes: int
    """What they added to the store: shared parts are stored once, and compressed."""
    checkpoint_save_latency_ms: Total
    """How long each took, encoding and writing together."""
    checkpoint_save_failed_count: int
    """Saves that the store refused or could not write."""
    checkpoint_save_failed_count_by: Mapping[str, int]
    """The same by the code of the error."""
    checkpoint_conflict_count: int
    """Saves that found the branch moved by another writer, refused or put onto a branch of their own."""
    checkpoint_load_count: int
    """States that were read: `load`, `recover` and `document`."""
    checkpoint_load_latency_ms: Total
    """How long each took, with decoding."""
    checkpoint_pruned_count: int
    """Checkpoints taken out of history."""
    checkpoint_pruned_count_by: Mapping[str, int]
    """The same by reason: retention, prune, delete, clear or forget."""
    checkpoint_resume_count: int
    """Times that a recorder went on from a checkpoint."""
    steps_recovered: int
    """Steps that did not have to be done again because of that."""

    def to_dict(self) -> dict[str, Any]:
        """The numbers as plain JSON data; those by label have the labels joined by a slash."""
        return {name: _plain(value) for name, value in self._asdict().items()}

    def prometheus(self) -> str:
        """The numbers as the text that Prometheus reads.

        Raises:
            UnsupportedError: prometheus-client is not installed.
        """
        client = _client()
        registry = client.CollectorRegistry()
        registry.register(_Collector(lambda: self))
        text: bytes = client.generate_latest(registry)
        return text.decode()


class Metrics:
    """The counters of one Store object. Safe to use from every thread."""

    def __init__(self) -> None:
        self._observers: tuple[Removed, ...] = ()
        self._begin()
        _ALL.add(self)

    def _begin(self) -> None:
        # Reentrant: a signal handler may save while its own thread counts a save.
        self._lock = threading.RLock()
        self._saves: Counter[tuple[str, str]] = Counter()
        self._failed: Counter[str] = Counter()
        self._pruned: Counter[str] = Counter()
        self._sums: Counter[str] = Counter()

    def saved(
        self, trigger: str, status: str, size: int, stored: int, nanoseconds: int, *, forked: bool
    ) -> None:
        """Count a checkpoint that was written: the size of its state, what that added to the store, and the time."""
        sums = self._sums
        with self._lock:
            # Of `auto:<event>` only the first word: there may be any number of events.
            self._saves[trigger.partition(":")[0], status] += 1
            sums["size"] += size
            sums["stored"] += stored
            sums["save"] += nanoseconds
            sums["conflicts"] += forked

    def save_failed(self, code: str, *, conflict: bool) -> None:
        """Count a save that the store refused or could not write."""
        with self._lock:
            self._failed[code] += 1
            self._sums["conflicts"] += conflict

    def loaded(self, nanoseconds: int) -> None:
        """Count a state that was read, and how long that took."""
        with self._lock:
            self._sums["loads"] += 1
            self._sums["load"] += nanoseconds

    def removed(
        self, session: str, reason: str, ids: Sequence[str] = (), *, count: int | None = None
    ) -> None:
        """Count checkpoints that were taken out of history, and tell the observers; forgotten ones have no ids."""
        count = len(ids) if count is None else count
        if not count:
            return
        with self._lock:
            self._pruned[reason] += count
        for observer in self._observers:
            observer(session, reason, count, ids)

    def resumed(self, steps: int | None = None) -> None:
        """Count an agent that goes on from a checkpoint, and the steps that it did not have to do again."""
        with self._lock:
            self._sums["resumes"] += 1
            self._sums["steps"] += steps or 0

    def observe_removals(self, observer: Removed) -> Callable[[], None]:
        """Have a function told of each removal through this store; what is returned ends that.

        It is called by whoever removes, right after: it must be quick, and must not raise.
        """
        with self._lock:
            self._observers = (*self._observers, observer)

        def stop() -> None:
            with self._lock:
                self._observers = tuple(each for each in self._observers if each is not observer)

        return stop

    def snapshot(self) -> MetricsSnapshot:
        """A copy of all numbers, of one moment."""
        with self._lock:
            sums, saves = self._sums, self._saves.total()
            return MetricsSnapshot(
                checkpoint_save_count=saves,
                checkpoint_save_count_by=dict(self._saves),
                checkpoint_save_size_bytes=Total(saves, sums["size"]),
                checkpoint_save_stored_bytes=sums["stored"],
                checkpoint_save_latency_ms=Total(saves, sums["save"] / 1e6),
                checkpoint_save_failed_count=self._failed.total(),
                checkpoint_save_failed_count_by=dict(self._failed),
                checkpoint_conflict_count=sums["conflicts"],
                checkpoint_load_count=sums["loads"],
                checkpoint_load_latency_ms=Total(sums["loads"], sums["load"] / 1e6),
                checkpoint_pruned_count=self._pruned.total(),
                checkpoint_pruned_count_by=dict(self._pruned),
                checkpoint_resume_count=sums["resumes"],
                steps_recovered=sums["steps"],
            )

    def collector(self) -> Any:
        """What an application registers with its own Prometheus registry; see `Store.collector`."""
        _client()
        return _Collector(self.snapshot)

    def after_fork(self) -> None:
        """Begin at nothing in the child: the numbers so far are the parent's, and so is who holds the lock."""
        self._observers = ()
        self._begin()


_ALL: weakref.WeakSet[Metrics] = weakref.WeakSet()


def _begin_anew() -> None:
    for metrics in list(_ALL):
        metrics.after_fork()


# Windows has no fork, and no hooks for it.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)

_LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    "checkpoint_save_count": ("trigger", "status"),
    "checkpoint_save_failed_count": ("code",),
    "checkpoint_pruned_count": ("reason",),
}
_MEANINGS: Final[Mapping[str, str]] = {
    "checkpoint_save_count": "Checkpoints written by save.",
    "checkpoint_save_size_bytes": "Sizes of saved states, encoded.",
    "checkpoint_save_stored_bytes": "Bytes that saves added to the store.",
    "checkpoint_save_latency_ms": "Milliseconds that a save took, encoding included.",
    "checkpoint_save_failed_count": "Saves that the store refused or could not write.",
    "checkpoint_conflict_count": "Saves that found the branch moved by another writer.",
    "checkpoint_load_count": "States that were read.",
    "checkpoint_load_latency_ms": "Milliseconds that a load took, decoding included.",
    "checkpoint_pruned_count": "Checkpoints taken out of history.",
    "checkpoint_resume_count": "Times that a recorder went on from a checkpoint.",
    "steps_recovered": "Steps that did not have to be done again after a resume.",
}


class _Collector:
    """Numbers in the form that prometheus-client asks for, taken when it asks."""

    def __init__(self, snapshot: Callable[[], MetricsSnapshot]) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, SummaryMetricFamily

        figures = self._snapshot()
        for name, meaning in _MEANINGS.items():
            value, labels = getattr(figures, name), _LABELS.get(name, ())
            if isinstance(value, Total):
                yield SummaryMetricFamily(f"holdfast_{name}", meaning, value.count, value.sum)
                continue
            family = CounterMetricFamily(f"holdfast_{name}", meaning, labels=labels)
            for key, number in sorted(getattr(figures, f"{name}_by").items()) if labels else [((), value)]:
                family.add_metric(key if isinstance(key, tuple) else (key,), number)
            yield family


def _plain(value: Any) -> Any:
    if isinstance(value, Total):
        return asdict(value)
    if isinstance(value, Mapping):
        return {"/".join(key) if isinstance(key, tuple) else key: value for key, value in value.items()}
    return value


def _client() -> Any:
    try:
        import prometheus_client
    except ImportError:
        raise UnsupportedError(
            "numbers in the form of Prometheus need the library prometheus-client",
            code=ErrorCode.NOT_SUPPORTED,
            hint='install it with: pip install "holdfast[metrics]"; store.metrics().to_dict() needs nothing',
        ) from None
    return prometheus_client
