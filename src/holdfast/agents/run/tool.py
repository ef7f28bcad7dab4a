"""Tools of the current run: a context variable that says which it is, and a decorator that records calls."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar, overload

P = ParamSpec("P")
T = TypeVar("T")

CURRENT: ContextVar[Any] = ContextVar("holdfast_run", default=None)


def current_run() -> Any:
    """The Run or AsyncRun whose block this code is in, however deep; None outside of one."""
    return CURRENT.get()


@overload
def tool(function: Callable[P, T], /) -> Callable[P, T]: ...
@overload
def tool(
    *, name: str | None = None, hide: Iterable[str] = ()
) -> Callable[[Callable[P, T]], Callable[P, T]]: ...
def tool(
    function: Callable[P, T] | None = None, /, *, name: str | None = None, hide: Iterable[str] = ()
) -> Callable[P, T] | Callable[[Callable[P, T]], Callable[P, T]]:
    """Record each call of a function as a tool call of the current run; outside of one it is a plain function.

    Args:
        function: The function, where it is used without arguments: `@tool`.
        name: What the tool is called; the function's name by default.
        hide: Parameters that are not recorded: clients, secrets. `self` never is.
    """
    if function is None:
        return lambda found: _recorded(found, name or found.__name__, frozenset(hide) | {"self"})
    return _recorded(function, name or function.__name__, frozenset(hide) | {"self"})


def _recorded(function: Callable[P, T], name: str, hidden: frozenset[str]) -> Callable[P, T]:
    signature = inspect.signature(function)

    def arguments(args: Any, named: Any) -> dict[str, Any]:
        bound = signature.bind(*args, **named)
        return {key: value for key, value in bound.arguments.items() if key not in hidden}

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*args: P.args, **named: P.kwargs) -> Any:
            run = current_run()
            if run is None:
                return await function(*args, **named)
            # A run that is not awaited saves right here, as it does for everything else.
            async with run.tool(name, arguments(args, named)) as call:
                call.result = await function(*args, **named)
            return call.result

        return awaited  # type: ignore[return-value]

    @functools.wraps(function)
    def plain(*args: P.args, **named: P.kwargs) -> T:
        run = current_run()
        if run is None:
            return function(*args, **named)
        with run.tool(name, arguments(args, named)) as call:
            call.result = made = function(*args, **named)
        return made

    return plain
