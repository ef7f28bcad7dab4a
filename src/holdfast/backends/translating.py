"""Errors of a driver as holdfast's own: the block around everything that is asked of a database.

Each backend says with `translate` what one of its driver's errors means to a user. Here is only the block that asks it,
so that no call to a driver is left without.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType

from holdfast.errors import HoldfastError


class Translating(ABC):
    """While it lasts, errors of the driver come out as holdfast's. A class, because a generator costs more.

    Args:
        place: The store, as it is shown to people.
    """

    __slots__ = ("_place",)

    def __init__(self, place: str) -> None:
        self._place = place

    @staticmethod
    @abstractmethod
    def translate(error: BaseException, place: str, /) -> HoldfastError | None:
        """The error to raise instead; None where it is not one of the driver's."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            return
        ours = self.translate(error, self._place)
        if ours is not None:
            raise ours from error
