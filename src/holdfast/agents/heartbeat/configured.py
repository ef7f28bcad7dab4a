"""What a heartbeat was told, and what the settings say of the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from holdfast.agents.heartbeat.interval import Interval
from holdfast.history.keep import Keep
from holdfast.record import Record
from holdfast.recording.triggers import AnyOf, Beats, Trigger, every, manual

if TYPE_CHECKING:
    from holdfast.settings.loaded import CheckpointSettings, Settings


SESSION = "heartbeat"
"""Where nobody names one."""


class Configured(Record):
    """Everything that can be configured about a heartbeat, decided."""

    session: str
    trigger: Trigger
    keep: Keep | None
    interval: Interval
    enabled: bool
    every: int | None
    """How many beats there are at most between two checkpoints, where the trigger says so."""

    @classmethod
    def of(
        cls,
        settings: Settings | None,
        session: str | None,
        trigger: Trigger | None,
        keep: Keep | None,
        interval: Interval | float | None,
        *,
        enabled: bool | None,
    ) -> Self:
        """Take what is given; the settings say the rest."""
        if settings is None:
            from holdfast.settings.loaded import Settings

            settings = Settings.load()
        when = _trigger(settings.checkpoint) if trigger is None else trigger
        return cls(
            session=session or settings.heartbeat.session or _session(settings),
            trigger=when,
            keep=_keep(settings.checkpoint) if keep is None else keep,
            interval=_interval(settings, interval),
            enabled=settings.checkpoint.enabled if enabled is None else enabled,
            every=_beats(when),
        )


def _session(settings: Settings) -> str:
    """Not the one that everybody is in who names none: a heartbeat removes older checkpoints of its session."""
    return SESSION if settings.origin("session") == "default" else settings.session


def _trigger(settings: CheckpointSettings) -> Trigger:
    """Steps are no matter of a heartbeat: it counts beats."""
    given: dict[str, Any] = {"beats": settings.interval_beats, "seconds": settings.interval_seconds}
    wanted = {name: value for name, value in given.items() if value is not None}
    return every(**wanted) if wanted and settings.auto else manual


def _keep(settings: CheckpointSettings) -> Keep | None:
    if settings.max_count is None and settings.prune_after_days is None:
        return None
    return Keep(at_most=settings.max_count, max_age_days=settings.prune_after_days)


def _interval(settings: Settings, given: Interval | float | None) -> Interval:
    if isinstance(given, Interval):
        return given
    if given is not None:
        return Interval.fixed(given)
    return Interval(settings.heartbeat.min_interval, settings.heartbeat.max_interval)


def _beats(trigger: Trigger) -> int | None:
    parts = trigger.parts if isinstance(trigger, AnyOf) else (trigger,)
    return min((part.count for part in parts if isinstance(part, Beats)), default=None)
