"""MetricsSnapshot: the numbers of a store at one moment, for programs and for Prometheus.

The names are those of docs/how-to/events-and-metrics.md. In Prometheus they begin with `holdfast_`, and counters end in
`_total`, as its conventions and its own client library want it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import ErrorCode, UnsupportedError
from holdfast.record import Record
from holdfast.store.metrics import BYTES, MILLISECONDS, Histogram, Metrics

if TYPE_CHECKING:
    from prometheus_client.core import Metric


@dataclass(frozen=True, slots=True)
class HistogramSnapshot:
    """How many values there were, what they add up to, and how they lie."""

    count: int
    sum: float
    buckets: tuple[tuple[float, int], ...]
    """(upper bound, how many were at most that); the last bound is infinity, where all are."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; the last bound, which JSON has no number for, is the text `+Inf`."""
        buckets = {_bound(bound): count for bound, count in self.buckets}
        return {"count": self.count, "sum": self.sum, "buckets": buckets}


class MetricsSnapshot(Record):
    """What a store did in this process since it was opened."""

    checkpoint_save_count: int
    """Checkpoints written by `save`, of sessions and documents."""
    checkpoint_save_count_by: Mapping[tuple[str, str], int]
    """The same by (kind of trigger, status)."""
    checkpoint_save_size_bytes: HistogramSnapshot
    """The sizes of their states, encoded."""
    checkpoint_save_stored_bytes: int
    """What they added to the store: shared parts are stored once, and compressed."""
    checkpoint_save_latency_ms: HistogramSnapshot
    """How long each took, encoding and writing together."""
    checkpoint_save_failed_count: int
    """Saves that the store refused or could not write."""
    checkpoint_save_failed_count_by: Mapping[str, int]
    """The same by the code of the error."""
    checkpoint_conflict_count: int
    """Saves that found the branch moved by another writer, refused or put onto a branch of their own."""
    checkpoint_load_count: int
    """States that were read: `load`, `recover` and `document`."""
    checkpoint_load_latency_ms: HistogramSnapshot
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


def snapshot_of(metrics: Metrics) -> MetricsSnapshot:
    """A copy of all numbers, of one moment."""
    with metrics.at_rest():
        return _copy(metrics)


def _copy(metrics: Metrics) -> MetricsSnapshot:
    return MetricsSnapshot(
        checkpoint_save_count=sum(metrics.saves.values()),
        checkpoint_save_count_by=dict(metrics.saves),
        checkpoint_save_size_bytes=_histogram(metrics.save_sizes, BYTES),
        checkpoint_save_stored_bytes=metrics.stored_bytes,
        checkpoint_save_latency_ms=_histogram(metrics.save_times, MILLISECONDS, 1_000_000),
        checkpoint_save_failed_count=sum(metrics.failed_saves.values()),
        checkpoint_save_failed_count_by=dict(metrics.failed_saves),
        checkpoint_conflict_count=metrics.conflicts,
        checkpoint_load_count=sum(metrics.load_times.counts),
        checkpoint_load_latency_ms=_histogram(metrics.load_times, MILLISECONDS, 1_000_000),
        checkpoint_pruned_count=sum(metrics.pruned.values()),
        checkpoint_pruned_count_by=dict(metrics.pruned),
        checkpoint_resume_count=metrics.resumes,
        steps_recovered=metrics.steps_recovered,
    )


def collector(metrics: Metrics) -> Any:
    """What an application registers with its own Prometheus registry; see `Store.collector`.

    Raises:
        UnsupportedError: prometheus-client is not installed.
    """
    _client()
    return _Collector(partial(snapshot_of, metrics))


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
        figures = self._snapshot()
        for name, meaning in _MEANINGS.items():
            value = getattr(figures, name)
            if isinstance(value, HistogramSnapshot):
                yield _histogram_family(name, meaning, value)
            elif name in _LABELS:
                yield _labelled_family(name, meaning, getattr(figures, f"{name}_by"))
            else:
                yield _counter(name, meaning, [((), value)])


def _labelled_family(name: str, meaning: str, values: Mapping[Any, int]) -> Metric:
    pairs = ((key if isinstance(key, tuple) else (key,), value) for key, value in values.items())
    return _counter(name, meaning, sorted(pairs), _LABELS[name])


def _counter(
    name: str, meaning: str, values: Iterable[tuple[tuple[str, ...], int]], labels: tuple[str, ...] = ()
) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(f"holdfast_{name}", meaning, labels=labels)
    for key, value in values:
        family.add_metric(key, value)
    return family


def _histogram_family(name: str, meaning: str, value: HistogramSnapshot) -> Metric:
    from prometheus_client.core import HistogramMetricFamily

    family = HistogramMetricFamily(f"holdfast_{name}", meaning)
    family.add_metric((), [(_bound(bound), count) for bound, count in value.buckets], value.sum)
    return family


def _histogram(histogram: Histogram, bounds: tuple[float, ...], scale: int = 1) -> HistogramSnapshot:
    sums = tuple(accumulate(histogram.counts))
    buckets = tuple(zip((*bounds, float("inf")), sums, strict=True))
    return HistogramSnapshot(sums[-1], histogram.total / scale, buckets)


def _bound(bound: float) -> str:
    return "+Inf" if bound == float("inf") else repr(float(bound))


def _plain(value: Any) -> Any:
    if isinstance(value, HistogramSnapshot):
        return value.to_dict()
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
