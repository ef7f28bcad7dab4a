"""The kit that proves a backend right: each sentence of `holdfast.storage.ports` and `records` has a case.

    from holdfast.testing.kit import BackendConformance

    class TestMyBackend(BackendConformance):
        def make_backend(self):
            return MyBackend()

        def reopen(self, backend):          # where the store outlives its process
            backend.close()
            return MyBackend()

That is the whole file; pytest runs every test of the kit against it. A test that fails names the sentence of the
contract that does not hold.
"""

from __future__ import annotations

import pytest

_PARTS = ("commit", "contract", "extension", "gc", "lease", "lifetime", "query", "reader", "repair")

# The kit is not a test file, so pytest has to be asked to explain its failed asserts; before they are imported.
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS))

from holdfast.testing.kit.commit import CommitContract  # noqa: E402 - see above
from holdfast.testing.kit.extension import ExtensionContract  # noqa: E402
from holdfast.testing.kit.gc import GcContract  # noqa: E402
from holdfast.testing.kit.lease import LeaseContract  # noqa: E402
from holdfast.testing.kit.lifetime import LifetimeContract  # noqa: E402
from holdfast.testing.kit.query import QueryContract  # noqa: E402
from holdfast.testing.kit.reader import ReaderContract  # noqa: E402
from holdfast.testing.kit.repair import RepairContract  # noqa: E402

__all__ = ["BackendConformance"]


class BackendConformance(
    CommitContract,
    QueryContract,
    ReaderContract,
    GcContract,
    RepairContract,
    LeaseContract,
    ExtensionContract,
    LifetimeContract,
):
    """Every test of the contract; subclass it with a name that starts with `Test`."""
