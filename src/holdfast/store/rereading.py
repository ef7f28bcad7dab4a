"""Reading once more where the connection to a server was lost in the middle of it.

Reading changes nothing, so that doing it again is always safe; but another view is another moment, and only who knows
everything that was read so far can begin anew. Those are the operations that are worked out from one reading.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from holdfast.errors import BackendError

_T = TypeVar("_T")


def read_again(work: Callable[[], _T]) -> _T:
    """What `work` returns, which only reads; it is asked a second time where its view was lost."""
    try:
        return work()
    except BackendError as failure:
        # A server that cannot be reached at all has been waited for already.
        if failure.details.get("outcome") != "unknown":
            raise
        return work()
