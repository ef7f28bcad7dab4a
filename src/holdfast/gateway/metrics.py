"""What the gateway counts, as the text that Prometheus reads: the store's own numbers, calls, listeners."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from holdfast import Store
from holdfast.operations import Call

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class GatewayMetrics:
    """The numbers of one gateway."""

    def __init__(self, store: Store, listeners: Callable[[], int]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(store.collector())
        self._calls = Counter(
            "holdfast_gateway_calls",
            "Operations by their outcome",
            ["operation", "outcome"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "holdfast_gateway_call_seconds",
            "How long operations took",
            ["operation"],
            registry=self._registry,
        )
        Gauge("holdfast_gateway_listeners", "Who listens to events", registry=self._registry).set_function(
            listeners
        )

    def count(self, call: Call) -> None:
        """Count a call; names are those of the table, so that nobody can make labels up."""
        self._calls.labels(call.operation.name, call.outcome).inc()
        self._seconds.labels(call.operation.name).observe(call.seconds)

    def text(self) -> bytes:
        """All of it."""
        return generate_latest(self._registry)
