"""AsyncStore, AsyncSession and AsyncDocument have the methods of their twins: same names and parameters, awaitable."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
import holdfast.aio

ROOT = Path(__file__).parents[2]


def public(cls: type) -> dict[str, object]:
    return {name: member for name, member in inspect.getmembers_static(cls) if not name.startswith("_")}


def parameters(function: object) -> list[tuple[str, str, object]]:
    assert callable(function)
    signature = inspect.signature(function)
    return [(each.name, each.kind.description, each.default) for each in signature.parameters.values()]


def differences(sync: type, twin: type) -> list[str]:
    """Where the two classes disagree, each in one sentence."""
    ours, theirs = public(sync), public(twin)
    found = [f"{twin.__name__} has no {name}" for name in sorted(ours.keys() - theirs.keys())]
    found += [f"{sync.__name__} has no {name}" for name in sorted(theirs.keys() - ours.keys())]
    for name in sorted(ours.keys() & theirs.keys()):
        if inspect.isfunction(ours[name]) != inspect.isfunction(theirs[name]):
            found.append(f"{name} is a method of one and a property of the other")
        elif inspect.isfunction(ours[name]) and parameters(ours[name]) != parameters(theirs[name]):
            found.append(f"{name} takes other parameters")
    return found


@pytest.mark.parametrize("name", ["Store", "Session", "Document", "HeldLease", "Recorder"])
def test_the_async_twin_has_the_same_methods_with_the_same_parameters(name):
    twins = holdfast if name == "Recorder" else holdfast.aio
    assert differences(getattr(holdfast, name), getattr(twins, f"Async{name}")) == []


def test_aopen_takes_what_open_takes():
    assert parameters(holdfast.aopen) == parameters(holdfast.open)


def test_the_stub_says_what_the_twins_have():
    """Type checkers see aio.pyi alone."""
    command = [sys.executable, "tools/async_stub.py", "--check"]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout == ""
    stub = ast.parse((ROOT / "src/holdfast/aio.pyi").read_text("utf-8"))
    for cls in [each for each in stub.body if isinstance(each, ast.ClassDef)]:
        found = [each for each in cls.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
        for method in found:
            member = inspect.getattr_static(getattr(holdfast.aio, cls.name), method.name)
            if isinstance(method, ast.AsyncFunctionDef) and not method.name.startswith("_"):
                assert inspect.iscoroutinefunction(inspect.unwrap(member, stop=inspect.iscoroutinefunction))


def test_a_difference_is_noticed():
    class Sync:
        url = property(lambda _: "")

        def same(self, ref="@", *, limit=None): ...
        def renamed(self, ref): ...
        def default(self, ref="@"): ...
        def order(self, *, one=1, two=2): ...
        def missing(self): ...

    class Twin:
        def url(self): ...
        async def same(self, ref="@", *, limit=None): ...
        async def renamed(self, name): ...
        async def default(self, ref="main"): ...
        async def order(self, *, two=2, one=1): ...
        async def extra(self): ...

    assert [sentence.split(" ")[0] for sentence in differences(Sync, Twin)] == [
        "Twin",
        "Sync",
        "default",
        "order",
        "renamed",
        "url",
    ]
