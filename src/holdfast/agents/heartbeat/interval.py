"""The pause between two beats: short when there is work, longer and longer when there is none, within bounds."""

from __future__ import annotations

from typing import Any

from holdfast.errors import ErrorCode, InvalidInputError

FASTEST = 5.0
SLOWEST = 120.0
"""Seconds, where nobody says otherwise."""


class Interval:
    """Seconds until the next beat.

    Args:
        minimum: The shortest pause: the one while there is work.
        maximum: The longest one: where an idle agent ends up.
        speed_up: What the pause is divided by after a beat with work.
        slow_down: What it is multiplied with after a beat without.
    """

    def __init__(
        self,
        minimum: float = FASTEST,
        maximum: float = SLOWEST,
        *,
        speed_up: float = 4.0,
        slow_down: float = 1.5,
    ) -> None:
        self.minimum = _seconds(minimum, "minimum")
        self.maximum = _seconds(maximum, "maximum")
        if self.maximum < self.minimum:
            raise InvalidInputError(
                f"the longest interval ({maximum:g} s) is shorter than the shortest ({minimum:g} s)",
                code=ErrorCode.BAD_ARGUMENT,
                hint="give minimum <= maximum",
            )
        self._speed_up = _factor(speed_up, "speed_up")
        self._slow_down = _factor(slow_down, "slow_down")
        self._now = self.minimum

    @classmethod
    def fixed(cls, seconds: float) -> Interval:
        """One that never changes."""
        return cls(seconds, seconds)

    @property
    def seconds(self) -> float:
        """The pause as it is now."""
        return self._now

    @seconds.setter
    def seconds(self, value: float) -> None:
        """Set it, as far as the bounds allow: a restored one may be of other bounds."""
        self._now = min(self.maximum, max(self.minimum, _seconds(value, "interval")))

    def after(self, *, worked: bool) -> float:
        """The pause after a beat in which there was work, or none."""
        if worked:
            self.seconds = self._now / self._speed_up
        else:
            # Nothing grows by being multiplied with zero: from there it begins with a hundredth of the longest.
            self.seconds = max(self._now, self.maximum / 100) * self._slow_down
        return self._now


def _seconds(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 86400:
        raise InvalidInputError(
            f"{name} of the heartbeat cannot be {value!r}",
            code=ErrorCode.BAD_ARGUMENT,
            hint="give seconds from 0 to 86400 (a day)",
        )
    return float(value)


def _factor(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= 1000:
        raise InvalidInputError(
            f"{name} cannot be {value!r}", code=ErrorCode.BAD_ARGUMENT, hint="give a factor from 1 to 1000"
        )
    return float(value)
