"""What the settings say about recording, as the arguments of a Recorder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.history.keep import Keep
from holdfast.recording.triggers import Trigger, every

if TYPE_CHECKING:
    from holdfast.settings.loaded import Settings


def trigger_from(settings: Settings) -> Trigger | None:
    """When to save: whichever interval comes first. None where `checkpoint.auto` is off, or no interval is set."""
    wanted = settings.checkpoint
    intervals = {
        "steps": wanted.interval_steps,
        "seconds": wanted.interval_seconds,
        "beats": wanted.interval_beats,
    }
    given: dict[str, Any] = {name: value for name, value in intervals.items() if value is not None}
    return every(**given) if wanted.auto and given else None


def keep_from(settings: Settings) -> Keep | None:
    """What to keep: the rules of `keep.*`, with `checkpoint.max_count` and `checkpoint.prune_after_days` as caps.

    Where a rule is set, a cap that nobody set does not count: who says that a hundred are kept does not mean ten.
    """
    rules = {name: value for name, value in settings.keep._asdict().items() if value is not None}
    caps = {
        "at_most": ("checkpoint.max_count", settings.checkpoint.max_count),
        "max_age_days": ("checkpoint.prune_after_days", settings.checkpoint.prune_after_days),
    }
    has_rules = bool(rules.keys() - {"per"})
    fields: dict[str, Any] = {
        name: value
        for name, (key, value) in caps.items()
        if value is not None and not (has_rules and settings.origin(key) == "default")
    }
    # A cap that is set under its own name says more than one of `checkpoint`.
    fields |= rules
    return Keep(**fields) if fields.keys() - {"per"} else None


def arguments_from(settings: Settings) -> dict[str, Any]:
    """The arguments of a Recorder that the settings decide."""
    return {
        "trigger": trigger_from(settings),
        "keep": keep_from(settings),
        "enabled": settings.checkpoint.enabled,
    }
