"""Going on from a checkpoint: everything is decoded before anything is applied.

A plan says, for each source in the order in which they were connected, what is there for it. The sources that can be
restored are then given their state one after the other; who calls `restore`, and whether it is awaited, is up to the
recorder. One that fails is reported and does not stop the others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from typing import TYPE_CHECKING, Any

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.recording.report import ResumeReport, SourceOutcome
from holdfast.recording.sources import Adapter, Source

if TYPE_CHECKING:
    from holdfast.recording.capturing import Sources
    from holdfast.recording.stored import Stored


class Plan:
    """What is to be done with a stored state, and what came of it."""

    def __init__(self, sources: Sources, stored: Stored) -> None:
        self._stored = stored
        self._outcomes: dict[str, SourceOutcome] = {}
        self.ready: list[tuple[str, Source, Any]] = []
        """Sources and the decoded state of each, in the order in which to restore them."""
        for name, source in sources.items():
            # Now, for its place in the report.
            self._outcomes[name] = SourceOutcome("restored")
            if source is None:
                self._outcomes[name] = SourceOutcome("absent")
            elif name in stored.refused:
                self.failed(name, stored.refused[name])
            elif name not in stored.values:
                self._outcomes[name] = SourceOutcome("missing")
            else:
                self._prepare(name, source, stored.values[name])

    def failed(self, name: str, error: Exception | str) -> None:
        """A source could not take its state."""
        message = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        self._outcomes[name] = SourceOutcome("failed", message)

    @property
    def failures(self) -> dict[str, str]:
        """The sources that failed, and why."""
        return {name: each.message for name, each in self._outcomes.items() if each.outcome == "failed"}

    @property
    def left(self) -> frozenset[str]:
        """What has to be carried forward: of those that failed, and of those that are not there."""
        return frozenset(
            name for name, each in self._outcomes.items() if each.outcome in ("failed", "absent")
        )

    def report(self, *, now: int) -> ResumeReport:
        """What came of it; `now` is the store's time in microseconds."""
        stored = self._stored
        checkpoint = stored.checkpoint
        return ResumeReport(
            checkpoint=checkpoint,
            # A clock that went back does not make it younger than new.
            age_seconds=max(0.0, now / 1e6 - checkpoint.created_at.timestamp()),
            steps_recovered=stored.counters.step,
            beats_recovered=stored.counters.beats,
            counted_on=stored.counters.taken_from,
            sources=dict(self._outcomes),
            unclaimed=tuple(name for name in (*stored.values, *stored.refused) if name not in self._outcomes),
            passed_over=stored.passed_over,
            newer_branches=stored.newer,
        )

    def _prepare(self, name: str, source: Source, value: Any) -> None:
        if isinstance(source, Adapter):
            try:
                source.prepare(value)
            except Exception as error:  # noqa: BLE001 - a validator of the application: reported, and no other stops
                self.failed(name, error)
                return
        self.ready.append((name, source, value))


def restore_now(source: Source, value: Any) -> None:
    """Restore a source where nothing can be awaited.

    Raises:
        InvalidInputError: It has to be awaited.
    """
    came = source.restore(value)
    if isinstance(came, Coroutine):
        # Closed, so that nobody is warned of a coroutine that was never awaited: the error says it.
        came.close()
    if isinstance(came, Awaitable):
        raise InvalidInputError(
            "its restore has to be awaited",
            code=ErrorCode.BAD_ARGUMENT,
            hint="use an AsyncRecorder; for one that is connected late, await its bring_back(name)",
        )
