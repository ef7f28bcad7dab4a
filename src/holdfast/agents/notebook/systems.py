"""The systems that a notebook can have, and the events that make it save."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.errors import ErrorCode, InvalidInputError

__all__ = ["BY_EVENT", "SYSTEMS", "TRIGGERS", "check_system"]

SYSTEMS: Final[Mapping[str, tuple[str, ...]]] = {
    "hypothesis_board": ("hypotheses", "evidence"),
    "belief_graph": ("beliefs", "belief_dependencies"),
    "gap_analyzer": ("gaps",),
    "experiment_manager": ("branches", "current_branch"),
    "verification_runner": ("verification_results",),
}
"""The systems that can be connected, and what each keeps in the state."""

TRIGGERS: Final = (
    "HypothesisStatusChange",
    "NewContradictionDetected",
    "VerificationComplete",
    "BranchSwitch",
    "GapFilled",
    "CodeModified",
    "SignificantTimePassed",
    "ContextCompactionWarning",
)
"""When a notebook saves by itself."""

BY_EVENT: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "hypothesis.testing": ("HypothesisStatusChange", ()),
    "hypothesis.open": ("HypothesisStatusChange", ()),
    "hypothesis.superseded": ("HypothesisStatusChange", ()),
    "hypothesis.confirmed": ("HypothesisStatusChange", ("hypothesis_confirmed",)),
    "hypothesis.rejected": ("HypothesisStatusChange", ("hypothesis_rejected",)),
    "contradiction.detected": ("NewContradictionDetected", ("contradiction_detected",)),
    "verification.completed": ("VerificationComplete", ()),
    "experiment.switched": ("BranchSwitch", ()),
    "experiment.merged": ("BranchSwitch", ("branch_merged",)),
    "experiment.abandoned": ("BranchSwitch", ()),
    "gap.filled": ("GapFilled", ()),
}
"""The trigger and the tags of each event."""


def check_system(name: str) -> str:
    """Return the name of a system if there is one of it."""
    if name not in SYSTEMS:
        raise InvalidInputError(
            f"there is no system {name!r}",
            code=ErrorCode.BAD_ARGUMENT,
            hint=f"use one of: {', '.join(SYSTEMS)}",
        )
    return name
