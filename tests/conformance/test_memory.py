"""The memory backend, against every sentence of the contract."""

from __future__ import annotations

from holdfast.backends.memory import MemoryBackend
from holdfast.testing.kit import BackendConformance


class TestMemoryBackend(BackendConformance):
    def make_backend(self):
        return MemoryBackend()
