"""The plan of the demo: competitors, their revenue, a report. Three ordinary functions, and how they depend."""

from __future__ import annotations

import time
from typing import Any, Final

from holdfast.agents import Plan, StepContext, action

QUERY: Final = "Find all competitors and their quarterly revenue"
_REVENUE: Final = {"CompanyA": 1300, "CompanyB": 4200, "CompanyC": 2750}
_HANG_SECONDS: Final = 60.0
"""How long the second attempt waits to be killed."""


@action
def competitors() -> list[str]:
    """Identify competitors from industry database."""
    return list(_REVENUE)


@action
def revenue(names: list[str], context: StepContext) -> dict[str, int]:
    """Fetch Q4 revenue for each competitor."""
    if context.attempt == 1:
        raise ConnectionError("API timeout")
    found: dict[str, int] = dict(context.partial or {})
    for name in names:
        if name not in found:
            found[name] = _REVENUE[name]
            context.save_partial(found)
            context.progress(len(found) / len(names), name)
            if context.attempt == 2:
                # Here the process is killed: one of three is fetched, and kept.
                time.sleep(_HANG_SECONDS)
    return found


@action
def report(figures: dict[str, int]) -> dict[str, Any]:
    """Compile comparison report."""
    ranked = sorted(figures, key=lambda name: -figures[name])
    return {"first": ranked[0], "total": sum(figures.values()), "ranking": ranked}


def research_plan() -> Plan:
    """The plan: each step is given the output of the one before."""
    plan = Plan("research", query=QUERY)
    names = plan.step(competitors, id="competitors")
    figures = plan.step(revenue, names, id="revenue")
    plan.step(report, figures, id="report")
    return plan
