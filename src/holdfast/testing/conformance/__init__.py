"""The kit that proves a backend right: one test per sentence of `holdfast.storage.ports` and `records`.

    from holdfast.testing.conformance import BackendConformance

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

# The kit is not a test file, so pytest has to be asked to explain its failed asserts; before they are imported.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{part}"
        for part in (
            "adopting",
            "ahead",
            "changes",
            "chains",
            "collecting",
            "commits",
            "contract",
            "erasing",
            "extension",
            "inspecting",
            "leasing",
            "lifetime",
            "pages",
            "queries",
            "refusals",
            "removals",
            "views",
            "waiting",
        )
    )
)

from holdfast.testing.conformance.adopting import AdoptionContract  # noqa: E402 - see above
from holdfast.testing.conformance.ahead import AheadContract  # noqa: E402
from holdfast.testing.conformance.chains import ChainContract  # noqa: E402
from holdfast.testing.conformance.changes import ChangeContract  # noqa: E402
from holdfast.testing.conformance.collecting import CollectionContract  # noqa: E402
from holdfast.testing.conformance.commits import CommitContract  # noqa: E402
from holdfast.testing.conformance.erasing import ErasureContract  # noqa: E402
from holdfast.testing.conformance.extension import RowContract  # noqa: E402
from holdfast.testing.conformance.inspecting import InspectionContract  # noqa: E402
from holdfast.testing.conformance.leasing import LeaseContract  # noqa: E402
from holdfast.testing.conformance.lifetime import LifetimeContract  # noqa: E402
from holdfast.testing.conformance.pages import PageContract  # noqa: E402
from holdfast.testing.conformance.queries import QueryContract  # noqa: E402
from holdfast.testing.conformance.refusals import RefusalContract  # noqa: E402
from holdfast.testing.conformance.removals import RemovalContract  # noqa: E402
from holdfast.testing.conformance.views import ViewContract  # noqa: E402
from holdfast.testing.conformance.waiting import WaitingContract  # noqa: E402

__all__ = ["BackendConformance"]


class BackendConformance(
    CommitContract,
    RefusalContract,
    ChangeContract,
    RemovalContract,
    ErasureContract,
    QueryContract,
    PageContract,
    ViewContract,
    AheadContract,
    WaitingContract,
    CollectionContract,
    ChainContract,
    InspectionContract,
    AdoptionContract,
    LeaseContract,
    RowContract,
    LifetimeContract,
):
    """Every test of the contract; subclass it with a name that starts with `Test`."""
