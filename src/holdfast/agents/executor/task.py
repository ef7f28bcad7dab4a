"""A step on its way to a worker, and what comes back: plain records, and one function that runs the body.

Only these cross to a pool, as one argument: some pools take keywords for options of their own.
"""

from __future__ import annotations

import asyncio
import inspect
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

from holdfast.agents.executor.action import parameters_of
from holdfast.agents.executor.context import StepContext
from holdfast.agents.journal import described

_LINES = 20
"""Of a traceback: the last so many."""


class Task(NamedTuple):
    """One attempt of one step."""

    function: Callable[..., Any]
    parameters: dict[str, Any]
    context: StepContext
    give_up_on: tuple[type[BaseException], ...] = ()


class Outcome(NamedTuple):
    """What an attempt gave: a value, or an error as data."""

    value: Any = None
    error: dict[str, Any] | None = None
    final: bool = False
    """Whether it is of no use to try again."""
    duration_ms: float = 0.0
    remembered: dict[str, Any] = {}  # noqa: RUF012 - never changed
    tokens: int | None = None
    cost_usd: float | None = None


def perform(task: Task) -> Outcome:
    """Run the body of a step, in a worker. It does not raise: whatever happens comes back as data."""
    began = time.monotonic()
    value, error, final = None, None, False
    try:
        value = _call(task)
    except BaseException as failure:  # noqa: BLE001 - a body that ends the program ends its step
        error = failed(failure)
        final = isinstance(failure, task.give_up_on) if task.give_up_on else False
    remembered, tokens, cost = task.context.told
    return Outcome(value, error, final, (time.monotonic() - began) * 1000, remembered, tokens, cost)


def failed(failure: BaseException) -> dict[str, Any]:
    """A failure as data, with the end of its traceback."""
    lines = traceback.format_exception(failure)[-_LINES:]
    return described(failure) | {"traceback": "".join(lines)[-8000:]}


def _call(task: Task) -> Any:
    takes = parameters_of(task.function)
    given = dict(task.parameters)
    if takes.key is not None:
        given.setdefault(takes.key, task.context.key)
    if takes.context is not None:
        given.setdefault(takes.context, task.context)
    args, kwargs = takes.call(given)
    value = task.function(*args, **kwargs)
    if inspect.isawaitable(value):
        # A body that is awaited can be stopped when its time is over; others are left behind.
        return asyncio.run(_awaited(value, task.context.timeout))
    return value


async def _awaited(value: Any, seconds: float | None) -> Any:
    return await asyncio.wait_for(value, seconds)
