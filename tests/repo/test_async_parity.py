"""AsyncStore, AsyncSession and AsyncDocument have the methods of their twins: same names and parameters, awaitable."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import holdfast

# These touch no disk, so there is nothing to wait for.
NOT_AWAITED = {
    "encode",
    "json_form",
    "pack",
    "unpack",
    "session",
    "changes",
    "plain",
    "rehearsal",
    "rows",
    "register",
    "on_unknown",
    "metrics",
    "collector",
}
ONLY_ASYNC = {"aclose"}


def public(cls: type) -> dict[str, object]:
    return {name: member for name, member in inspect.getmembers_static(cls) if not name.startswith("_")}


def parameters(function: object) -> list[tuple[str, str, object]]:
    assert callable(function)
    signature = inspect.signature(function)
    return [(each.name, each.kind.description, each.default) for each in signature.parameters.values()]


def awaitable(function: Any) -> bool:
    # A method may do its first half when it is called, and return a coroutine for the second, or give many to await.
    returns = str(inspect.signature(function).return_annotation)
    return inspect.iscoroutinefunction(function) or returns.startswith(
        ("Coroutine[", "AsyncIterator[", "AsyncFindings[", "Claiming")
    )


def differences(sync: type, twin: type) -> list[str]:
    """Where the two classes disagree, each in one sentence."""
    ours, theirs = public(sync), public(twin)
    found = [f"{twin.__name__} has no {name}" for name in sorted(ours.keys() - theirs.keys())]
    found += [f"{sync.__name__} has no {name}" for name in sorted(theirs.keys() - ours.keys() - ONLY_ASYNC)]
    for name in sorted(ours.keys() & theirs.keys()):
        if inspect.isfunction(ours[name]) != inspect.isfunction(theirs[name]):
            found.append(f"{name} is a method of one and a property of the other")
        elif inspect.isfunction(ours[name]):
            if parameters(ours[name]) != parameters(theirs[name]):
                found.append(f"{name} takes other parameters")
            if awaitable(theirs[name]) == (name in NOT_AWAITED):
                found.append(f"{name} is awaitable where it should not be, or the other way round")
    return found


@pytest.mark.parametrize("name", ["Store", "Session", "Document", "HeldLease"])
def test_the_async_twin_has_the_same_methods_with_the_same_parameters(name):
    assert differences(getattr(holdfast, name), getattr(holdfast, f"Async{name}")) == []


def test_aopen_takes_what_open_takes():
    assert parameters(holdfast.aopen) == parameters(holdfast.open)


def test_a_difference_is_noticed():
    class Sync:
        url = property(lambda _: "")

        def same(self, ref="@", *, limit=None): ...
        def renamed(self, ref): ...
        def default(self, ref="@"): ...
        def order(self, *, one=1, two=2): ...
        def missing(self): ...
        def blocking(self): ...

    class Twin:
        def url(self): ...
        async def same(self, ref="@", *, limit=None): ...
        async def renamed(self, name): ...
        async def default(self, ref="main"): ...
        async def order(self, *, two=2, one=1): ...
        async def extra(self): ...
        async def aclose(self): ...
        def blocking(self): ...

    assert [sentence.split(" ")[0] for sentence in differences(Sync, Twin)] == [
        "Twin",
        "Sync",
        "blocking",
        "default",
        "order",
        "renamed",
        "url",
    ]
