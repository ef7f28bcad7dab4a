"""StepContext: what an action can know about its step, and what it can say while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.errors import ErrorCode, UnsupportedError


class Channel:
    """The way from a running action to the executor, where both are in one process."""

    __slots__ = ("progress", "save_partial", "stopped")

    def __init__(
        self, progress: Callable[[float | None, str], None], save_partial: Callable[[Any], None]
    ) -> None:
        self.progress = progress
        self.save_partial = save_partial
        self.stopped = threading.Event()


class StepContext:
    """What an action may ask for: annotate a parameter with it.

    Attributes:
        step: The id of the step.
        execution: The id of the execution.
        attempt: Which attempt this is, from 1; over restarts, too.
        key: The idempotency key: the same over all attempts of this step, and of no other.
        timeout: Seconds that this attempt may take; None: as long as it likes.
        partial: What an earlier attempt saved with `save_partial`; None if nothing.
        memory: The `context` of the plan's state as it was when the step began.
    """

    def __init__(
        self,
        *,
        step: str,
        execution: str,
        attempt: int,
        key: str,
        timeout: float | None = None,
        partial: Any = None,
        memory: Mapping[str, Any] | None = None,
        channel: Channel | None = None,
    ) -> None:
        self.step = step
        self.execution = execution
        self.attempt = attempt
        self.key = key
        self.timeout = timeout
        self.partial = partial
        self.memory = {} if memory is None else memory
        self._channel = channel
        self._remembered: dict[str, Any] = {}
        self._tokens: int | None = None
        self._cost: float | None = None

    def progress(self, fraction: float | None = None, message: str = "") -> None:
        """Say how far it is, for people who watch. Where the step runs in another process, nobody hears it."""
        if self._channel is not None:
            self._channel.progress(fraction, message)

    def save_partial(self, value: Any) -> None:
        """Keep a part of the work durably: the next attempt finds it in `partial`, after a crash, too.

        Raises:
            InvalidInputError: The value cannot be saved.
            UnsupportedError: The step runs in another process than the executor.
            ConflictError: This attempt does not count any more: its time is over (`row-conflict`), or another executor
                has taken over (`lease-lost`).
        """
        if self._channel is None:
            raise UnsupportedError(
                f"step {self.step!r} runs in another process, from which nothing can be saved",
                code=ErrorCode.NOT_SUPPORTED,
                hint="run it on threads, or make several steps of it",
            )
        self._channel.save_partial(value)
        self.partial = value

    def remember(self, **values: Any) -> None:
        """Put values into the `context` of the plan's state, together with the result of this step."""
        self._remembered.update(values)

    def used(self, *, tokens: int = 0, cost_usd: float = 0.0) -> None:
        """Add what this step used of a model."""
        self._tokens = (self._tokens or 0) + tokens
        self._cost = (self._cost or 0.0) + cost_usd

    @property
    def stopping(self) -> bool:
        """Whether the result is no longer waited for: the time is over, or the execution is cancelled."""
        return self._channel is not None and self._channel.stopped.is_set()

    @property
    def told(self) -> tuple[dict[str, Any], int | None, float | None]:
        """What was remembered, and the tokens and cost that were used."""
        return self._remembered, self._tokens, self._cost

    def __getstate__(self) -> dict[str, Any]:
        # What goes to another process has no way back but its result.
        return self.__dict__ | {"_channel": None}
